//! Segments that are brought when they are wanted, and the first segment of a new timeline.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::common::*;
use forebay_aio::{Backend, MethodKind};
use forebay_format::{Lsn, timeline::TimelineHistory};
use forebay_wal::{
    EndReason, Fetch, FetchFailure, ReaderConfig, Resume, WalReadError, WalReader, begin_timeline,
};

/// Copies files from another directory.
struct Store {
    from: PathBuf,
    to: PathBuf,
    asked: Mutex<Vec<String>>,
    /// This one is not to be had.
    failing: Option<String>,
}

impl Fetch for Store {
    fn fetch(&self, _io: &mut Backend, name: &str) -> Result<bool, FetchFailure> {
        self.asked.lock().unwrap().push(name.to_owned());
        if self.failing.as_deref() == Some(name) {
            return Err("the store is down".into());
        }
        match std::fs::copy(self.from.join(name), self.to.join(name)) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

/// A log of some segments, whose files are all in the store.
struct Bed {
    rig: Rig,
    store: tempfile::TempDir,
    records: usize,
}

impl Bed {
    fn new() -> Bed {
        let mut rig = Rig::new(MethodKind::Sync);
        let wal = rig.fresh();
        for n in 0..90 {
            insert(&wal, &mut rig.io, &vec![n; 40_000]);
        }
        wal.flush_all(&mut rig.io).expect("flush");
        drop(wal);
        let records = rig.read_all(BEGIN).0.len();
        let store = tempfile::tempdir().expect("a store");
        for entry in std::fs::read_dir(rig.dir.path()).expect("directory") {
            let path = entry.expect("entry").path();
            std::fs::rename(&path, store.path().join(path.file_name().expect("name")))
                .expect("rename");
        }
        Bed { rig, store, records }
    }

    fn name(&self, timeline: u32, number: u64) -> String {
        segment_size().file_name(timeline, number)
    }

    fn store(&self, failing: Option<String>) -> Arc<Store> {
        let (from, to) = (self.store.path().to_owned(), self.rig.dir.path().to_owned());
        Arc::new(Store { from, to, asked: Mutex::default(), failing })
    }

    fn reader(&self, history: TimelineHistory, store: &Arc<Store>) -> WalReader {
        let config = ReaderConfig {
            timeline: history.timeline(),
            ..self.rig.reader(BEGIN).config().clone()
        };
        WalReader::new(self.rig.aio.clone(), config, BEGIN)
            .with_history(history)
            .with_fetch(store.clone())
    }
}

#[test]
fn each_segment_is_asked_for_once_when_it_is_wanted() {
    let mut bed = Bed::new();
    let store = bed.store(None);
    let mut reader = bed.reader(TimelineHistory::alone(1), &store);
    let mut asked = 0;
    for _ in 0..bed.records {
        let record = reader.next(&mut bed.rig.io).expect("readable").expect("a record");
        // Nothing is asked for before the record needs it.
        let last = segment_size().number(Lsn(record.end.0 - 1));
        asked = store.asked.lock().unwrap().len();
        assert_eq!(asked as u64, last, "at {}", record.end);
    }
    assert!(asked >= 3);
    assert!(reader.next(&mut bed.rig.io).expect("readable").is_none());
    let names: Vec<String> = (1..=asked as u64).map(|n| bed.name(1, n)).collect();
    assert_eq!(store.asked.lock().unwrap()[..asked], names[..]);
    reader.check_end(&mut bed.rig.io).expect("an end");
}

#[test]
fn a_failure_is_no_end_and_the_reader_goes_on_when_it_is_over() {
    let mut bed = Bed::new();
    let store = bed.store(Some(bed.name(1, 3)));
    let mut reader = bed.reader(TimelineHistory::alone(1), &store);
    let mut before = 0;
    let error = loop {
        match reader.next(&mut bed.rig.io) {
            Ok(Some(_)) => before += 1,
            Ok(None) => panic!("the log has ended: {:?}", reader.end()),
            Err(error) => break error,
        }
    };
    let WalReadError::Fetch { file, .. } = &error else { panic!("{error}") };
    assert!(
        file.ends_with(bed.name(1, 3)) && error.to_string().contains("the store is down"),
        "{error}"
    );
    assert!(!error.is_damage() && before > 20);
    let store = bed.store(None);
    let reader = bed.reader(TimelineHistory::alone(1), &store);
    assert_eq!(bed.rig.drain(reader).expect("readable").0.len(), bed.records);
}

#[test]
fn the_directorys_own_segment_counts_where_the_store_has_none() {
    let mut bed = Bed::new();
    let third = bed.name(1, 3);
    std::fs::rename(bed.store.path().join(&third), bed.rig.dir.path().join(&third))
        .expect("rename");
    // Of the second there is another one: the store's counts.
    std::fs::write(bed.rig.dir.path().join(bed.name(1, 2)), vec![0; SEGMENT as usize])
        .expect("write");
    let store = bed.store(None);
    let reader = bed.reader(TimelineHistory::alone(1), &store);
    assert_eq!(bed.rig.drain(reader).expect("readable").0.len(), bed.records);
}

#[test]
fn a_segment_that_the_store_lacks_is_given_away_by_a_later_one() {
    let mut bed = Bed::new();
    std::fs::remove_file(bed.store.path().join(bed.name(1, 2))).expect("remove");
    let store = bed.store(None);
    let mut reader = bed.reader(TimelineHistory::alone(1), &store);
    while reader.next(&mut bed.rig.io).expect("readable").is_some() {}
    assert!(matches!(reader.end().expect("an end").reason, EndReason::MissingSegment(_)));
    let error = reader.check_end(&mut bed.rig.io).expect_err("a gap");
    let WalReadError::Gap { later, .. } = &error else { panic!("{error}") };
    assert!(later.ends_with(bed.name(1, 3)));
}

/// A timeline that begins in the middle of a segment has what its parent wrote before, and nothing
/// behind; the parent's own segment is read no further than that.
#[test]
fn a_timeline_begins_where_it_left_its_parent() {
    for boundary in [false, true] {
        let mut bed = Bed::new();
        let store = bed.store(None);
        let reader = bed.reader(TimelineHistory::alone(1), &store);
        let (records, _) = bed.rig.drain(reader).expect("readable");
        let inside =
            |lsn: Lsn| segment_size().offset(lsn) > 100_000 && segment_size().number(lsn) == 2;
        let last = records.iter().position(|r| inside(r.end)).expect("one that ends there");
        let at = if boundary { segment_size().start(3) } else { records[last].end };
        let history = TimelineHistory::alone(1).branch(2, at);
        let (dir, size) = (bed.rig.dir.path().to_owned(), segment_size());
        begin_timeline(&bed.rig.aio, &mut bed.rig.io, &dir, size, &history).expect("begun");
        assert_eq!(dir.join(bed.name(2, 2)).exists(), !boundary);
        assert!(!dir.join(bed.name(2, 3)).exists());
        if boundary {
            continue;
        }
        // Once more, as after a crash.
        begin_timeline(&bed.rig.aio, &mut bed.rig.io, &dir, size, &history).expect("begun");
        let mut config = bed.rig.config.clone();
        config.timeline = 2;
        let resume =
            Resume { insert_at: at, prev: records[last].start, redo: BEGIN, aborted: None };
        let wal = forebay_wal::Wal::start(bed.rig.aio.clone(), &mut bed.rig.io, config, resume)
            .expect("start");
        insert(&wal, &mut bed.rig.io, &vec![9; 2_000_000]);
        wal.flush_all(&mut bed.rig.io).expect("flush");
        drop(wal);
        let reader = bed.reader(history.clone(), &store);
        let (found, _) = bed.rig.drain(reader).expect("readable");
        assert_eq!(found[..=last], records[..=last]);
        assert_eq!(found.len(), last + 2);
        // Without the new timeline's segment the log ends where the old one was left, though that
        // goes on.
        std::fs::remove_file(dir.join(bed.name(2, 2))).expect("remove");
        let reader = bed.reader(history, &store);
        let (found, end) = bed.rig.drain(reader).expect("readable");
        assert_eq!((found.len(), end.end), (last + 1, at));
        let EndReason::Invalid(what) = end.reason else { panic!("{end:?}") };
        assert!(what.contains("timeline that was left"), "{what}");
    }
}

#[test]
fn there_is_nothing_to_begin_with_where_the_parent_has_no_segment() {
    let mut bed = Bed::new();
    let history = TimelineHistory::alone(1).branch(2, Lsn(BEGIN.0 + 4096 + 8192));
    let (dir, size) = (bed.rig.dir.path().to_owned(), segment_size());
    let error = begin_timeline(&bed.rig.aio, &mut bed.rig.io, &dir, size, &history)
        .expect_err("nothing there");
    assert!(error.to_string().contains("its segment does not exist"), "{error}");
    assert!(!dir.join(bed.name(2, 1)).exists());
}
