//! Reading ahead, damage in the middle of the log, and timelines.

use std::path::Path;
use std::sync::Arc;

use crate::common::*;
use forebay_aio::fault::{Effect, Ops, Rule};
use forebay_aio::{Errno, MethodKind};
use forebay_format::{
    Lsn,
    timeline::{TimelineHistory, history_file_name},
};
use forebay_wal::{
    EndReason, LookAhead, ReaderConfig, Resume, Wal, WalConfig, WalReadError, WalReader,
    read_history,
};

/// Writes and flushes records of various sizes over several segments, and returns their main data.
fn fill(rig: &mut Rig, segments: u64) -> Vec<Vec<u8>> {
    let wal = rig.fresh();
    let mut numbers = Dice::new(99);
    let mut written = Vec::new();
    while wal.end_lsn().0 < BEGIN.0 + segments * SEGMENT - 8192 {
        let limit = match numbers.below(40) {
            0 => 700_000,
            1..4 => 40_000,
            4..12 => 3000,
            _ => 60,
        };
        let len = numbers.below(limit) as usize + 1;
        let main = numbers.bytes(len);
        insert(&wal, &mut rig.io, &main);
        written.push(main);
    }
    wal.flush_all(&mut rig.io).expect("flush");
    written
}

#[test]
fn every_look_ahead_reads_the_same_records() {
    let mut rig = Rig::new(MethodKind::Sync);
    let written = fill(&mut rig, 4);
    let end = rig.read_all(BEGIN).1;
    for method in methods() {
        for direct in direct_choices(rig.dir.path()) {
            for (chunk, depth) in
                [(8192, 1), (8192, 3), (24_576, 16), (65_536, 2), (1 << 20, 4), (3 << 20, 0)]
            {
                let aio = forebay_aio::Aio::new(
                    Arc::new(forebay_aio::PosixNamespace),
                    method,
                    forebay_aio::AioConfig {
                        handles_per_backend: 4,
                        ..forebay_aio::AioConfig::default()
                    },
                );
                let aio = aio.expect("aio");
                let mut io = aio.backend(forebay_aio::BackendType::Startup).expect("backend");
                let config = ReaderConfig { direct, ..rig.reader(BEGIN).config().clone() };
                let reader = WalReader::new(Arc::clone(&aio), config, BEGIN);
                let mut reader = reader.with_look_ahead(LookAhead { chunk, depth });
                let mut records = Vec::new();
                while let Some(record) = reader.next(&mut io).expect("readable") {
                    records.push(record);
                }
                let what = format!("{method:?}, direct {direct}, {depth} chunks of {chunk}");
                assert!(mains(&records) == written, "{what}");
                assert_eq!(reader.end(), Some(&end), "{what}");
                reader.check_end(&mut io).expect("no damage");
            }
        }
    }
}

/// Several reads are in flight at the same time, but no more than allowed. Reading one record
/// starts one read.
#[test]
fn several_reads_are_in_flight() {
    let mut rig = Rig::new(MethodKind::Deferred { seed: 3 });
    fill(&mut rig, 3);
    let mut reader = rig.reader(BEGIN).with_look_ahead(LookAhead { chunk: 65_536, depth: 4 });
    reader.next(&mut rig.io).expect("readable").expect("a record");
    assert_eq!(rig.io.in_flight(), 0, "the first read is alone");
    let mut most = 0;
    while reader.next(&mut rig.io).expect("readable").is_some() {
        most = most.max(rig.io.in_flight());
    }
    assert_eq!(most, 3, "beside the chunk in use");
    // Reads that are in flight at the end are dropped.
    let mut other = rig.reader(BEGIN);
    other.next(&mut rig.io).expect("readable").expect("a record");
}

#[test]
fn a_growing_log_is_read_on() {
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    let mut reader = rig.reader(BEGIN).with_look_ahead(LookAhead { chunk: 16_384, depth: 4 });
    let mut numbers = Dice::new(4);
    for _ in 0..300 {
        let main = {
            let len = numbers.below(9000) as usize + 1;
            numbers.bytes(len)
        };
        insert(&wal, &mut rig.io, &main);
        wal.flush_all(&mut rig.io).expect("flush");
        let record = reader.next(&mut rig.io).expect("readable").expect("the new record");
        assert_eq!(mains(&[record]), [main]);
        assert!(reader.next(&mut rig.io).expect("readable").is_none());
    }
    assert!(wal.end_lsn().0 > BEGIN.0 + SEGMENT);
}

/// A reader can continue with another backend, although reads of the first one are in flight.
#[test]
fn another_backend_can_continue() {
    let mut rig = Rig::new(MethodKind::Deferred { seed: 8 });
    let written = fill(&mut rig, 2);
    let mut other = rig.backend();
    let mut reader = rig.reader(BEGIN).with_look_ahead(LookAhead { chunk: 16_384, depth: 4 });
    let mut records = Vec::new();
    for n in 0.. {
        let io = if n % 7 < 4 { &mut rig.io } else { &mut other };
        match reader.next(io).expect("readable") {
            Some(record) => records.push(record),
            None => break,
        }
    }
    assert!(mains(&records) == written);
}

#[test]
fn a_failed_read_names_file_and_position() {
    let (mut rig, plan) = Rig::faulty(MethodKind::Sync);
    let written = fill(&mut rig, 3);
    plan.add(Rule::on(Ops::READ).path("000000010000000000000002"), Effect::Fail(Errno::IO));
    let mut reader = rig.reader(BEGIN);
    let mut read = 0;
    let error = loop {
        match reader.next(&mut rig.io) {
            Ok(Some(_)) => read += 1,
            Ok(None) => panic!("the log goes on"),
            Err(error) => break error,
        }
    };
    assert!(read > 0, "the records before were read");
    assert!(!error.is_damage());
    let WalReadError::Io { operation: "read", file, offset: 0, at, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!((file, *at), (&rig.segment_path(2), BEGIN.add(SEGMENT)));
    assert!(error.to_string().contains("LSN 0/200000"), "{error}");
    // Once the disk works again, so does the reader.
    plan.mend();
    while reader.next(&mut rig.io).expect("readable").is_some() {
        read += 1;
    }
    assert_eq!(read, written.len());
}

#[test]
fn a_failed_open_names_file_and_position() {
    let (mut rig, plan) = Rig::faulty(MethodKind::Sync);
    fill(&mut rig, 2);
    plan.add(Rule::on(Ops::OPEN).path("000000010000000000000002"), Effect::Fail(Errno(13)));
    let error = rig.try_read_all(BEGIN).expect_err("denied");
    let WalReadError::Io { operation: "open", file, at, .. } = error else { panic!("{error}") };
    assert_eq!((file, at), (rig.segment_path(2), BEGIN.add(SEGMENT)));
}

/// Reads to the end, and checks that it is the end.
fn end_of(rig: &mut Rig) -> Result<usize, WalReadError> {
    let mut reader = rig.reader(BEGIN);
    let mut read = 0;
    while reader.next(&mut rig.io)?.is_some() {
        read += 1;
    }
    reader.check_end(&mut rig.io).map(|()| read)
}

#[test]
fn damage_in_the_middle_is_distinguished_from_the_end() {
    let mut rig = Rig::new(MethodKind::Sync);
    let written = fill(&mut rig, 4);
    assert_eq!(end_of(&mut rig).expect("an end"), written.len());
    let (records, end) = rig.read_all(BEGIN);
    let newest = segment_size().number_before(end.end);
    let keep: Vec<Vec<u8>> =
        (1..=newest).map(|n| std::fs::read(rig.segment_path(n)).expect("segment")).collect();
    let restore = |rig: &Rig| {
        for (n, bytes) in (1..).zip(&keep) {
            std::fs::write(rig.segment_path(n), bytes).expect("segment");
        }
    };
    // A flipped bit in segments before the last one, page after page.
    let mut told = 0;
    for number in 1..=3_u64 {
        for page in [0, 1, 17, 60, 127] {
            let at = Lsn(number * SEGMENT + page * 8192 + 4000);
            rig.patch(at, |bytes| bytes[0] ^= 4);
            let hit = records.iter().find(|record| record.end > at).expect("a record there");
            let last = segment_size().number_before(hit.end);
            if last == newest || hit.end.since(at) < 8 {
                // The record reaches into the last segment, or the bit is in padding.
                restore(&rig);
                continue;
            }
            told += 1;
            let error = end_of(&mut rig).expect_err("damaged");
            let WalReadError::Gap { at, file, later, .. } = &error else { panic!("{error}") };
            assert!(*at <= hit.start && error.is_damage(), "{error}");
            let behind = (number..=last)
                .find(|&n| *file == rig.segment_path(n))
                .expect("the damaged segment")
                + 1;
            assert_eq!(later, &rig.segment_path(behind), "{error}");
            restore(&rig);
        }
    }
    assert!(told >= 10, "{told}");
    // In the last segment it cannot be distinguished.
    rig.patch(Lsn(newest * SEGMENT + 9 * 8192 + 4000), |bytes| bytes[0] ^= 4);
    assert!(end_of(&mut rig).expect("an end") < written.len());
    restore(&rig);
    // A page that was never written, and a missing segment.
    rig.patch(Lsn(2 * SEGMENT + 8192), |bytes| bytes[..8192].fill(0));
    assert!(matches!(end_of(&mut rig), Err(WalReadError::Gap { .. })));
    restore(&rig);
    std::fs::remove_file(rig.segment_path(2)).expect("removed");
    let error = end_of(&mut rig).expect_err("missing");
    let WalReadError::Gap { file, later, .. } = &error else { panic!("{error}") };
    assert_eq!((file, later), (&rig.segment_path(2), &rig.segment_path(3)), "{error}");
    for number in 3..=newest {
        std::fs::remove_file(rig.segment_path(number)).expect("removed");
    }
    end_of(&mut rig).expect("nothing tells of more");
}

/// Segments that were made ahead or recycled do not count as later parts of the log. One with a
/// wrong length is an error.
#[test]
fn segments_made_ahead_are_not_damage() {
    let mut rig = Rig::new(MethodKind::Sync);
    fill(&mut rig, 2);
    std::fs::copy(rig.segment_path(1), rig.segment_path(3)).expect("an old one");
    std::fs::write(rig.segment_path(4), vec![0; SEGMENT as usize]).expect("a new one");
    end_of(&mut rig).expect("an end");
    std::fs::write(rig.segment_path(5), vec![0; 12_345]).expect("a short one");
    match end_of(&mut rig) {
        Err(WalReadError::Length { file, found: 12_345, .. }) => {
            assert_eq!(file, rig.segment_path(5))
        }
        other => panic!("{other:?}"),
    }
    // Of another timeline.
    std::fs::rename(rig.segment_path(5), rig.dir.path().join("000000070000000000000005"))
        .expect("renamed");
    end_of(&mut rig).expect("an end");
}

// ---- timelines

/// Continues the log of `rig` on another timeline, which branches off at `at`. As in PostgreSQL,
/// the first segment of the new timeline begins with a copy of the old one's.
fn branch(rig: &mut Rig, timeline: u32, resume: Resume) -> Wal {
    let size = segment_size();
    let number = size.number(resume.insert_at);
    let old = std::fs::read(rig.config.dir.join(size.file_name(rig.config.timeline, number)))
        .expect("segment");
    let mut bytes = vec![0; SEGMENT as usize];
    let upto = size.offset(resume.insert_at) as usize;
    bytes[..upto].copy_from_slice(&old[..upto]);
    std::fs::write(rig.config.dir.join(size.file_name(timeline, number)), bytes).expect("segment");
    rig.config.timeline = timeline;
    let config: WalConfig = rig.config.clone();
    Wal::start(rig.aio.clone(), &mut rig.io, config, resume).expect("start")
}

fn reader_on(rig: &Rig, history: TimelineHistory) -> WalReader {
    let config =
        ReaderConfig { timeline: history.timeline(), ..rig.reader(BEGIN).config().clone() };
    WalReader::new(rig.aio.clone(), config, BEGIN).with_history(history)
}

#[test]
fn a_reader_follows_timelines() {
    let mut rig = Rig::new(MethodKind::Sync);
    fill(&mut rig, 2);
    let records = rig.read_all(BEGIN).0;
    // Timeline 2 branches off in the second segment, and timeline 5 from there in the third.
    let mut history = TimelineHistory::alone(1);
    let mut expected = Vec::new();
    let mut resume_at = records[records.len() - 20].clone();
    expected.extend(records[..records.len() - 19].iter().cloned());
    for (timeline, fill) in [(2, 20), (5, 50)] {
        history = history.branch(timeline, resume_at.end);
        let resume =
            Resume { insert_at: resume_at.end, prev: resume_at.start, redo: BEGIN, aborted: None };
        let wal = branch(&mut rig, timeline, resume);
        for n in 0..60 {
            insert(&wal, &mut rig.io, &vec![fill + n; 30_000]);
        }
        wal.flush_all(&mut rig.io).expect("flush");
        drop(wal);
        let reader = reader_on(&rig, history.clone());
        let (found, end) = rig.drain(reader).expect("readable");
        assert_eq!(found[..expected.len()], expected[..]);
        assert_eq!(found.len(), expected.len() + 60, "{}", end.reason);
        expected = found[..found.len() - 20].to_vec();
        resume_at = found[found.len() - 21].clone();
    }
    assert_eq!(history.timeline(), 5);
    // Each timeline without its history is read to its own end.
    let alone = rig.reader(BEGIN);
    assert_eq!(rig.drain(alone).expect("readable").0, records);
    // With a different history, reading ends at the switch.
    let wrong = TimelineHistory::alone(3).branch(5, history.switch_point(2).expect("a switch"));
    let reader = reader_on(&rig, wrong);
    assert!(rig.drain(reader).expect("readable").0.len() < expected.len());
}

#[test]
fn pages_of_an_older_timeline_end_the_log() {
    let mut rig = Rig::new(MethodKind::Sync);
    fill(&mut rig, 2);
    let records = rig.read_all(BEGIN).0;
    let history = TimelineHistory::alone(1).branch(2, Lsn(0x10));
    let set_timeline = |rig: &Rig, page: u64, timeline: u32| {
        rig.patch(BEGIN.add(page * 8192), |bytes| {
            bytes[4..8].copy_from_slice(&timeline.to_le_bytes())
        });
    };
    for page in 0..40 {
        set_timeline(&rig, page, if page < 20 { 2 } else { 1 });
    }
    for number in 1.. {
        let name = |timeline| rig.config.dir.join(segment_size().file_name(timeline, number));
        if std::fs::rename(name(1), name(2)).is_err() {
            break;
        }
    }
    let reader = reader_on(&rig, history);
    let (found, end) = rig.drain(reader).expect("readable");
    assert!(found.len() < records.len());
    assert_eq!(end.page, BEGIN.add(20 * 8192));
    let EndReason::Invalid(what) = end.reason else { panic!("{end:?}") };
    assert!(what.contains("out-of-sequence timeline 1"), "{what}");
}

#[test]
fn history_files_are_read() {
    let mut rig = Rig::new(MethodKind::Sync);
    let dir = rig.config.dir.clone();
    let read = |rig: &mut Rig, timeline| read_history(&mut rig.io, &dir, timeline);
    assert_eq!(read(&mut rig, 1).expect("no file"), TimelineHistory::alone(1));
    assert_eq!(read(&mut rig, 4).expect("no file"), TimelineHistory::alone(4));
    let history =
        TimelineHistory::alone(1).branch(3, Lsn(0x500_0060)).branch(4, Lsn(0x1_0000_0028));
    let path = dir.join(history_file_name(4));
    std::fs::write(&path, history.to_text("why")).expect("file");
    assert_eq!(read(&mut rig, 4).expect("good"), history);
    std::fs::write(&path, "3\t0/5000060\tx\n1\t0/6000000\ty\n").expect("file");
    let error = read(&mut rig, 4).expect_err("bad");
    let WalReadError::History { file, .. } = &error else { panic!("{error}") };
    assert_eq!(file.as_path(), Path::new(&path));
    assert!(error.to_string().contains("line 2"), "{error}");
}
