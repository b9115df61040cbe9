//! An engine's archiver: what it stores before segments may go, whose module it takes, what a stop
//! leaves.

use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::common::*;
use forebay_engine::archive::{ArchiveError, ArchiveModule, Archived, Source};
use forebay_engine::{
    ArchiveMode, ArchiveModules, ArchiveSettings, Background, EngineConfig, IoMethod, ShutdownMode,
};
use forebay_format::SegmentSize;
use forebay_testkit::files::names;

fn archiving(store: &Path, config: EngineConfig) -> EngineConfig {
    EngineConfig {
        archive_mode: ArchiveMode::On,
        archiving: ArchiveSettings {
            library: "basic_archive".to_owned(),
            directory: store.display().to_string(),
            ..ArchiveSettings::default()
        },
        writing: little_wal(),
        ..config
    }
}

fn first_segments(count: usize) -> Vec<String> {
    let size = SegmentSize::new(1 << 20).expect("a size");
    (1..=count as u64).map(|number| size.file_name(1, number)).collect()
}

#[test]
fn a_fast_stop_leaves_nothing_to_archive() {
    for (way, config) in ways() {
        let scratch = scratch();
        let (dir, store) = (scratch.path().join("data"), scratch.path().join("store"));
        std::fs::create_dir(&store).expect("store");
        init(&dir);
        let config = archiving(&store, config);
        let (engine, mut session) = open_session(&dir, &config);
        create(&mut session, "t");
        for first in (0..200_000).step_by(5000) {
            insert(&mut session, "t", first..first + 5000);
        }
        drop(session);
        engine.shutdown(ShutdownMode::Fast).expect("stop");
        let stored = names(&store);
        assert!(stored.len() > 4, "{way}: {stored:?}");
        // Without a gap, and whole.
        assert_eq!(stored, first_segments(stored.len()), "{way}");
        let stats = engine.archiver_stats();
        assert_eq!((stats.archived_count, stats.failed_count), (stored.len() as u64, 0), "{way}");
        assert_eq!(stats.last_archived_wal, stored.last().cloned());
        drop(engine);
        // What is still here is the same, and has been taken note of.
        for name in names(&dir.join("pg_wal/archive_status")) {
            let file = name.strip_suffix(".done").unwrap_or_else(|| panic!("{way}: {name}"));
            let ours = std::fs::read(dir.join("pg_wal").join(file)).expect("segment");
            assert!(ours == std::fs::read(store.join(file)).expect("stored"), "{way}: {file}");
        }
        // A stop without anything to archive archives nothing.
        open(&dir, &config).shutdown(ShutdownMode::Fast).expect("stop");
        let again = names(&store);
        assert!(again.len() <= stored.len() + 1, "{again:?}");
    }
}

#[test]
fn nothing_goes_that_the_archive_does_not_have() {
    let scratch = scratch();
    let (dir, store) = (scratch.path().join("data"), scratch.path().join("store"));
    init(&dir);
    // There is no such directory: nothing can be archived.
    let config = archiving(&store, config(IoMethod::Sync, false));
    let (engine, mut session) = open_session(&dir, &config);
    create(&mut session, "t");
    for first in (0..200_000).step_by(5000) {
        insert(&mut session, "t", first..first + 5000);
    }
    session.checkpoint().expect("checkpoint");
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, engine));
    let waiting = names(&dir.join("pg_wal/archive_status"));
    assert!(
        waiting.len() > 3 && waiting.iter().all(|name| name.ends_with(".ready")),
        "{waiting:?}"
    );
    std::fs::create_dir(&store).expect("store");
    let (engine, mut session) = open_session(&dir, &config);
    assert_eq!(count(&mut session, "t").expect("count"), 200_000);
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    let stored = names(&store);
    assert_eq!(stored, first_segments(stored.len()));
    assert!(stored.len() >= waiting.len(), "{stored:?}");
}

/// Remembers names.
#[derive(Default)]
struct Diary(Mutex<Vec<String>>);

impl ArchiveModule for Diary {
    fn name(&self) -> &'static str {
        "diary"
    }

    fn archive(
        &self,
        _io: &mut forebay_aio::IoBackend,
        file: &mut Source,
    ) -> Result<Archived, ArchiveError> {
        self.0.lock().expect("no panic").push(file.name().to_string());
        Ok(Archived::Stored)
    }

    fn transfers(&self) -> usize {
        1
    }
}

#[test]
fn an_embedders_module_archives_also_without_threads() {
    for background in [Background::Threads, Background::Stepped] {
        let (_scratch, dir) = new_dir();
        let diary = Arc::new(Diary::default());
        let mut config = archiving(Path::new(""), config(IoMethod::Sync, false));
        config.archiving.library = "diary".to_owned();
        config.archive_modules = ArchiveModules(vec![diary.clone()]);
        config.background = background;
        let (engine, mut session) = open_session(&dir, &config);
        create(&mut session, "t");
        for first in (0..100_000).step_by(5000) {
            insert(&mut session, "t", first..first + 5000);
            engine.step().expect("step");
        }
        drop(session);
        engine.shutdown(ShutdownMode::Fast).expect("stop");
        let told = diary.0.lock().expect("no panic").clone();
        assert!(told.len() >= 2, "{told:?}");
        assert_eq!(told, first_segments(told.len()), "{background:?}");
    }
}
