//! All kinds of damage around the end of the log: the reader stops before it, and the log resumes
//! there.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::common::*;
use forebay_aio::MethodKind;
use forebay_format::Lsn;
use forebay_wal::{EndReason, ReaderConfig, WalReadError, WalReader, WalRecord};

/// A log whose last record begins on the second page and ends on the third.
struct Victim {
    rig: Rig,
    records: Vec<WalRecord>,
    file: File,
    image: Vec<u8>,
}

impl Victim {
    fn new() -> Victim {
        let mut rig = Rig::new(MethodKind::Sync);
        let wal = rig.fresh();
        for n in 0..3 {
            insert(&wal, &mut rig.io, &[n; 3900]);
        }
        insert(&wal, &mut rig.io, &[7; 5]);
        fill_up_to(&wal, &mut rig.io, BEGIN.add(2 * 8192 - 104), 8);
        let last = insert(&wal, &mut rig.io, &Dice::new(5).bytes(300));
        assert_eq!((last.start.0 - BEGIN.0) / 8192, 1);
        assert_eq!((last.end.0 - BEGIN.0) / 8192, 2);
        wal.flush_all(&mut rig.io).expect("flush");
        drop(wal);
        let (records, end) = rig.read_all(BEGIN);
        assert_eq!((records.len(), end.end), (6, last.end));
        let path = rig.segment_path(1);
        let file = File::options().write(true).read(true).open(&path).expect("segment");
        let image = std::fs::read(&path).expect("segment");
        Victim { rig, records, file, image }
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        self.file.write_all_at(bytes, at as u64).expect("write");
    }

    fn restore(&self, at: usize, len: usize) {
        self.put(at, &self.image[at..at + len]);
    }

    /// Reads the log, checks that the records are a prefix, and returns their number.
    fn prefix(&mut self) -> usize {
        self.prefix_of_ours().expect("a log of this cluster")
    }

    /// Like `read`, but returns `None` for the error that the segment is of another cluster.
    fn prefix_of_ours(&mut self) -> Option<usize> {
        let (found, end) = match self.rig.try_read_all(BEGIN) {
            Ok(read) => read,
            Err(WalReadError::ForeignSystem { expected: SYSTEM_ID, .. }) => return None,
            Err(other) => panic!("{other}"),
        };
        assert!(found.len() <= self.records.len());
        assert_eq!(found, self.records[..found.len()]);
        assert_eq!(end.end, found.last().map_or(BEGIN, |record| record.end));
        Some(found.len())
    }

    /// The first record that has a byte, or its page's header, at or behind `at`.
    fn first_touched(&self, at: usize, whole_page: bool) -> usize {
        let at = BEGIN.add(at as u64);
        let at = if whole_page { at.page_start() } else { at };
        self.records.iter().position(|record| record.end > at).unwrap_or(self.records.len())
    }

    /// Whether the byte is padding behind a record.
    fn is_padding(&self, at: usize, record: usize) -> bool {
        let record = &self.records[record];
        BEGIN.0 + at as u64
            >= record.end.0 - (record.bytes.len().next_multiple_of(8) - record.bytes.len()) as u64
    }

    /// Resumes the log after the damage, and reads it again.
    fn goes_on(&mut self) {
        let (before, wal) = self.rig.recover();
        insert(&wal, &mut self.rig.io, &[42; 9000]);
        wal.flush_all(&mut self.rig.io).expect("flush");
        drop(wal);
        let (after, end) = self.rig.read_all(BEGIN);
        assert_eq!(after[..before.len()], before);
        let marker = usize::from(after[before.len()].overwrites.is_some());
        assert_eq!(after.len(), before.len() + 1 + marker, "{:?}", end.reason);
        assert_eq!(mains(&after[after.len() - 1..]), [vec![42; 9000]]);
        assert_eq!(end.aborted, None);
        self.put(0, &self.image);
    }
}

#[test]
fn each_damaged_byte_of_the_last_pages() {
    let mut victim = Victim::new();
    let last = victim.records.len() - 1;
    let used = (victim.records[last].end.0 - BEGIN.0) as usize;
    for at in 8192..3 * 8192 {
        for damaged in [victim.image[at] ^ 1, victim.image[at] ^ 0x80, !victim.image[at]] {
            victim.put(at, &[damaged]);
            let found = victim.prefix();
            let in_header = at % 8192 < 24;
            let touched = victim.first_touched(at, in_header);
            if in_header && at < used {
                // The damage is detected, or hit a bit that readers ignore.
                assert!(
                    found == touched || found == last + 1,
                    "{found} records with byte {at} damaged"
                );
            } else if at >= used || victim.is_padding(at, touched) {
                assert_eq!(found, last + 1, "byte {at} belongs to no record");
            } else {
                assert_eq!(found, touched, "byte {at} belongs to a record");
            }
        }
        if at % 61 == 0 {
            victim.goes_on();
        }
        victim.restore(at, 1);
    }
    assert_eq!(victim.prefix(), last + 1);
}

#[test]
fn an_unwritten_tail() {
    let mut victim = Victim::new();
    let used = (victim.records[5].end.0 - BEGIN.0) as usize;
    for from in (8192..used).rev() {
        victim.put(from, &[0]);
        let found = victim.prefix();
        let touched = victim.first_touched(from, from % 8192 < 24);
        assert!(found >= touched, "{found} of {touched} records survive zeros from {from} on");
        if from % 8 == 0 {
            let image = victim.image.clone();
            if from % 488 == 0 {
                victim.goes_on();
                let mut zeroed = image;
                zeroed[from..].fill(0);
                victim.put(0, &zeroed);
            }
        }
    }
}

/// A segment has its full length before it gets its name, so no crash leaves one of another length.
/// That is therefore an error, and not the end of the log.
#[test]
fn a_segment_of_another_length_is_an_error() {
    let mut victim = Victim::new();
    let path = victim.rig.segment_path(1);
    for len in [0, 1, 8191, 8192, 3 * 8192, SEGMENT - 1, SEGMENT + 1, 2 * SEGMENT] {
        victim.file.set_len(len).expect("other length");
        match victim.rig.try_read_all(BEGIN) {
            Err(WalReadError::Length { file, expected: SEGMENT, found, at: BEGIN }) => {
                assert_eq!((&file, found), (&path, len));
            }
            other => panic!("{len} bytes: {other:?}"),
        }
        victim.file.set_len(SEGMENT).expect("the full length");
        victim.put(0, &victim.image);
    }
    assert_eq!(victim.prefix(), 6);
}

/// Damages one field of a page header at a time, as PostgreSQL's own tests do.
#[test]
fn page_headers_of_other_pages() {
    let page = 2 * 8192;
    let cases: [(usize, Vec<u8>, &str); 8] = [
        (0, vec![0xff, 0xff], "magic"),
        (2, vec![0xff, 0xff], "info bits"),
        (2, vec![0x04, 0], "contrecord flag"),
        (4, 9u32.to_le_bytes().to_vec(), "timeline"),
        (8, (BEGIN.0 - SEGMENT).to_le_bytes().to_vec(), "address"),
        (16, 0u32.to_le_bytes().to_vec(), "contrecord length"),
        (16, 77u32.to_le_bytes().to_vec(), "contrecord length"),
        (0, vec![0; 8192], "nothing was written"),
    ];
    let mut victim = Victim::new();
    for (offset, bytes, reason) in cases {
        victim.put(page + offset, &bytes);
        assert_eq!(victim.prefix(), 5);
        let (_, end) = victim.rig.read_all(BEGIN);
        assert!(end.reason.to_string().contains(reason), "{}", end.reason);
        let aborted = end.aborted.expect("incomplete");
        assert_eq!(
            (aborted.start, aborted.missing_page),
            (victim.records[5].start, BEGIN.add(page as u64))
        );
        victim.goes_on();
    }
    // Another size in the long header is detected even if reading starts behind it.
    for (offset, len) in [(32, 4), (36, 4)] {
        victim.put(offset, &[7; 8][..len]);
        for start in [BEGIN, BEGIN.add(8192)] {
            let (records, end) = victim.rig.read_all(start);
            assert!(records.is_empty() && matches!(end.reason, EndReason::Invalid(_)), "{end:?}");
        }
        victim.restore(offset, len);
    }
}

/// The long header identifies the cluster, even if reading starts behind it. A segment of another
/// cluster is an error, and not the end of the log.
#[test]
fn a_segment_of_another_cluster_is_an_error() {
    let mut victim = Victim::new();
    let path = victim.rig.segment_path(1);
    victim.put(24, &[7; 8]);
    for start in [BEGIN, BEGIN.add(8192)] {
        match victim.rig.try_read_all(start) {
            Err(WalReadError::ForeignSystem {
                file,
                expected: SYSTEM_ID,
                found: 0x0707_0707_0707_0707,
                at: BEGIN,
            }) => {
                assert_eq!(file, path);
            }
            other => panic!("{other:?}"),
        }
    }
    // A reader without an expected system identifier accepts it.
    let config = ReaderConfig { system_id: None, ..victim.rig.reader(BEGIN).config().clone() };
    let reader = WalReader::new(victim.rig.aio.clone(), config, BEGIN);
    assert_eq!(victim.rig.drain(reader).expect("readable").0.len(), 6);
}

#[test]
fn a_reader_that_starts_at_an_invalid_position_ends() {
    let mut victim = Victim::new();
    for start in [
        0,
        1,
        SEGMENT + 3,
        SEGMENT + 8192 + 8,
        SEGMENT + 8192,
        99 * SEGMENT,
        u64::MAX,
        u64::MAX - 8191,
    ] {
        let (records, end) = victim.rig.read_all(Lsn(start));
        assert!(records.is_empty(), "{start:X}");
        assert_eq!(end.end, Lsn(start));
    }
    for n in 0..6 {
        let start = victim.records[n].start;
        assert_eq!(victim.rig.read_all(start).0, victim.records[n..]);
    }
}

/// After random damage, also without damage to headers, the reader returns a prefix and never
/// panics.
#[test]
fn random_damage() {
    let mut victim = Victim::new();
    let mut numbers = Dice::new(1234);
    for round in 0..2000 {
        for _ in 0..numbers.below(12) + 1 {
            let at = numbers.below(4 * 8192) as usize;
            let len = [1, 4, 8, 512, 4096][numbers.below(5) as usize];
            let bytes = match numbers.below(3) {
                0 => vec![0; len],
                1 => numbers.bytes(len),
                _ => {
                    let from = numbers.below(3 * 8192) as usize;
                    victim.image[from..from + len].to_vec()
                }
            };
            victim.put(at, &bytes);
        }
        if victim.prefix_of_ours().is_some() && round % 50 == 0 {
            victim.goes_on();
        }
        victim.restore(0, 5 * 8192);
    }
}

/// An old record from before a segment was recycled, which only its prev link reveals.
#[test]
fn a_record_with_a_wrong_prev_link() {
    let log = |lens: &[usize]| {
        let mut rig = Rig::new(MethodKind::Sync);
        let wal = rig.fresh();
        for &len in lens {
            insert(&wal, &mut rig.io, &main_for(len, 1));
        }
        wal.flush_all(&mut rig.io).expect("flush");
        rig
    };
    let (mut ours, other) = (log(&[104, 104]), log(&[208, 200]));
    let at = 40 + 208;
    let stale = std::fs::read(other.segment_path(1)).expect("segment")[at..at + 200].to_vec();
    ours.patch(BEGIN.add(at as u64), |bytes| bytes[..200].copy_from_slice(&stale));
    let (records, end) = ours.read_all(BEGIN);
    assert_eq!((records.len(), end.end), (2, BEGIN.add(at as u64)));
    assert!(end.reason.to_string().contains("prev-link"), "{}", end.reason);
    // As the first record that is read, it cannot be detected.
    assert_eq!(ours.read_all(end.end).0.len(), 1);
}
