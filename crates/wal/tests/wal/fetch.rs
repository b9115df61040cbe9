//! Fetching segments from an archive, and the first segment of a new timeline.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::common::*;
use forebay_aio::{IoBackend, MethodKind};
use forebay_format::{Lsn, timeline::TimelineHistory};
use forebay_wal::{
    EndReason, Fetch, FetchFailure, ReaderConfig, Resume, WalReadError, WalReader, begin_timeline,
};

/// Copies files from another directory.
struct Store {
    from: PathBuf,
    to: PathBuf,
    asked: Mutex<Vec<String>>,
    /// Fetching this file fails.
    failing: Option<String>,
}

impl Fetch for Store {
    fn fetch(&self, _io: &mut IoBackend, name: &str) -> Result<bool, FetchFailure> {
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

/// A log of several segments, whose files are all in the store.
struct Fixture {
    rig: Rig,
    store: tempfile::TempDir,
    records: usize,
}

impl Fixture {
    fn new() -> Fixture {
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
        Fixture { rig, store, records }
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
fn each_segment_is_fetched_once_and_when_it_is_needed() {
    let mut fixture = Fixture::new();
    let store = fixture.store(None);
    let mut reader = fixture.reader(TimelineHistory::alone(1), &store);
    let mut asked = 0;
    for _ in 0..fixture.records {
        let record = reader.next(&mut fixture.rig.io).expect("readable").expect("a record");
        // No segment is fetched before a record needs it.
        let last = segment_size().number(Lsn(record.end.0 - 1));
        asked = store.asked.lock().unwrap().len();
        assert_eq!(asked as u64, last, "at {}", record.end);
    }
    assert!(asked >= 3);
    assert!(reader.next(&mut fixture.rig.io).expect("readable").is_none());
    let names: Vec<String> = (1..=asked as u64).map(|n| fixture.name(1, n)).collect();
    assert_eq!(store.asked.lock().unwrap()[..asked], names[..]);
    reader.check_end(&mut fixture.rig.io).expect("an end");
}

#[test]
fn a_failed_fetch_is_not_the_end_and_can_be_repeated() {
    let mut fixture = Fixture::new();
    let store = fixture.store(Some(fixture.name(1, 3)));
    let mut reader = fixture.reader(TimelineHistory::alone(1), &store);
    let mut before = 0;
    let error = loop {
        match reader.next(&mut fixture.rig.io) {
            Ok(Some(_)) => before += 1,
            Ok(None) => panic!("the log has ended: {:?}", reader.end()),
            Err(error) => break error,
        }
    };
    let WalReadError::Fetch { file, .. } = &error else { panic!("{error}") };
    assert!(
        file.ends_with(fixture.name(1, 3)) && error.to_string().contains("the store is down"),
        "{error}"
    );
    assert!(!error.is_damage() && before > 20);
    let store = fixture.store(None);
    let reader = fixture.reader(TimelineHistory::alone(1), &store);
    assert_eq!(fixture.rig.drain(reader).expect("readable").0.len(), fixture.records);
}

#[test]
fn the_directory_is_used_if_the_store_lacks_a_segment() {
    let mut fixture = Fixture::new();
    let third = fixture.name(1, 3);
    std::fs::rename(fixture.store.path().join(&third), fixture.rig.dir.path().join(&third))
        .expect("rename");
    // The directory has another second segment, but the store's takes precedence.
    std::fs::write(fixture.rig.dir.path().join(fixture.name(1, 2)), vec![0; SEGMENT as usize])
        .expect("write");
    let store = fixture.store(None);
    let reader = fixture.reader(TimelineHistory::alone(1), &store);
    assert_eq!(fixture.rig.drain(reader).expect("readable").0.len(), fixture.records);
}

#[test]
fn a_missing_segment_before_a_later_one_is_a_gap() {
    let mut fixture = Fixture::new();
    std::fs::remove_file(fixture.store.path().join(fixture.name(1, 2))).expect("remove");
    let store = fixture.store(None);
    let mut reader = fixture.reader(TimelineHistory::alone(1), &store);
    while reader.next(&mut fixture.rig.io).expect("readable").is_some() {}
    assert!(matches!(reader.end().expect("an end").reason, EndReason::MissingSegment(_)));
    let error = reader.check_end(&mut fixture.rig.io).expect_err("a gap");
    let WalReadError::Gap { later, .. } = &error else { panic!("{error}") };
    assert!(later.ends_with(fixture.name(1, 3)));
}

/// A timeline that begins in the middle of a segment has its parent's records before that position,
/// and zeros behind. The parent's own segment is read only up to there.
#[test]
fn a_timeline_begins_with_its_parents_records() {
    for boundary in [false, true] {
        let mut fixture = Fixture::new();
        let store = fixture.store(None);
        let reader = fixture.reader(TimelineHistory::alone(1), &store);
        let (records, _) = fixture.rig.drain(reader).expect("readable");
        let inside =
            |lsn: Lsn| segment_size().offset(lsn) > 100_000 && segment_size().number(lsn) == 2;
        let last = records.iter().position(|r| inside(r.end)).expect("one that ends there");
        let at = if boundary { segment_size().start(3) } else { records[last].end };
        let history = TimelineHistory::alone(1).branch(2, at);
        let (dir, size) = (fixture.rig.dir.path().to_owned(), segment_size());
        begin_timeline(&fixture.rig.aio, &mut fixture.rig.io, &dir, size, &history).expect("begun");
        assert_eq!(dir.join(fixture.name(2, 2)).exists(), !boundary);
        assert!(!dir.join(fixture.name(2, 3)).exists());
        if boundary {
            continue;
        }
        // Again, as after a crash.
        begin_timeline(&fixture.rig.aio, &mut fixture.rig.io, &dir, size, &history).expect("begun");
        let mut config = fixture.rig.config.clone();
        config.timeline = 2;
        let resume =
            Resume { insert_at: at, prev: records[last].start, redo: BEGIN, aborted: None };
        let wal =
            forebay_wal::Wal::start(fixture.rig.aio.clone(), &mut fixture.rig.io, config, resume)
                .expect("start");
        insert(&wal, &mut fixture.rig.io, &vec![9; 2_000_000]);
        wal.flush_all(&mut fixture.rig.io).expect("flush");
        drop(wal);
        let reader = fixture.reader(history.clone(), &store);
        let (found, _) = fixture.rig.drain(reader).expect("readable");
        assert_eq!(found[..=last], records[..=last]);
        assert_eq!(found.len(), last + 2);
        // Without the new timeline's segment the log ends where the old timeline was left, although
        // that one has more records.
        std::fs::remove_file(dir.join(fixture.name(2, 2))).expect("remove");
        let reader = fixture.reader(history, &store);
        let (found, end) = fixture.rig.drain(reader).expect("readable");
        assert_eq!((found.len(), end.end), (last + 1, at));
        let EndReason::Invalid(what) = end.reason else { panic!("{end:?}") };
        assert!(what.contains("timeline that was left"), "{what}");
    }
}

#[test]
fn a_timeline_cannot_begin_without_its_parents_segment() {
    let mut fixture = Fixture::new();
    let history = TimelineHistory::alone(1).branch(2, Lsn(BEGIN.0 + 4096 + 8192));
    let (dir, size) = (fixture.rig.dir.path().to_owned(), segment_size());
    let error = begin_timeline(&fixture.rig.aio, &mut fixture.rig.io, &dir, size, &history)
        .expect_err("nothing there");
    assert!(error.to_string().contains("its segment does not exist"), "{error}");
    assert!(!dir.join(fixture.name(2, 1)).exists());
}
