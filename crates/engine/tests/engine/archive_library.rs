//! `forebay_archive` as archive_library and restore_library: what an engine archives can be
//! verified and comes back, without a command.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::*;
use forebay_aio::{Aio, AioConfig, BackendType, IoBackend, MethodKind, PosixNamespace};
use forebay_engine::archive::store::codec::Compression;
use forebay_engine::archive::store::layout::LayoutKind;
use forebay_engine::archive::store::seal::Key;
use forebay_engine::archive::store::verify::VerifyOptions;
use forebay_engine::archive::store::{Repository, StoreOptions};
use forebay_engine::archive::{ArchiveError, ArchiveModule, Archived, Source};
use forebay_engine::{
    ArchiveMode, ArchiveModules, ArchiveSettings, ArchiveStore, Background, Engine, EngineConfig,
    EngineError, IoMethod, RecoveryStop, RecoveryTarget, RestoreFrom, RestoreSettings,
    RestoreSource, ShutdownMode, TargetAction,
};
use forebay_format::control::DbState;
use forebay_testkit::files::{copy_tree, names};

const KEY: [u8; 32] = [7; 32];

/// A server's directory, its cold backup with 100 rows in t, and an archive.
struct Fixture {
    scratch: tempfile::TempDir,
    config: EngineConfig,
    store: ArchiveStore,
}

impl Fixture {
    fn new(config: EngineConfig, store: ArchiveStore) -> Fixture {
        let scratch = scratch();
        std::fs::create_dir(scratch.path().join("store")).expect("store");
        let location = scratch.path().join("store").display().to_string();
        let key_file = store.key_file.map(|name| {
            let path = scratch.path().join(name);
            std::fs::write(&path, KEY).expect("key");
            let owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(&path, owner).expect("mode");
            path
        });
        let fixture =
            Fixture { scratch, config, store: ArchiveStore { location, key_file, ..store } };
        init(&fixture.path("data"));
        let (engine, mut session) = open_session(&fixture.path("data"), &fixture.config);
        create(&mut session, "t");
        insert(&mut session, "t", 0..100);
        drop(session);
        engine.shutdown(ShutdownMode::Fast).expect("stop");
        copy_tree(&fixture.path("data"), &fixture.path("base"));
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn archiving(&self) -> EngineConfig {
        let library = "forebay_archive".to_owned();
        let archiving =
            ArchiveSettings { library, store: self.store.clone(), ..ArchiveSettings::default() };
        let archive_mode = ArchiveMode::On;
        EngineConfig { archive_mode, archiving, writing: little_wal(), ..self.config.clone() }
    }

    fn restoring(&self) -> EngineConfig {
        let restore = RestoreSettings {
            library: "forebay_archive".to_owned(),
            store: self.store.clone(),
            action: TargetAction::Promote,
            ..RestoreSettings::default()
        };
        EngineConfig { restore, ..self.config.clone() }
    }

    /// Fills several segments, and stops when all is archived. How many rows there are.
    fn fill(&self, config: &EngineConfig) -> u64 {
        let (engine, mut session) = open_session(&self.path("data"), config);
        for first in (100..150_100).step_by(5000) {
            insert(&mut session, "t", first..first + 5000);
            engine.step().expect("step");
        }
        drop(session);
        engine.shutdown(ShutdownMode::Fast).expect("stop");
        assert_eq!(engine.archiver_stats().failed_count, 0);
        150_100
    }

    /// A copy of the backup that is to be recovered.
    fn restore(&self, name: &str) -> PathBuf {
        let dir = self.path(name);
        copy_tree(&self.path("base"), &dir);
        std::fs::write(dir.join("recovery.signal"), "").expect("signal");
        dir
    }

    /// The archive as its commands see it: whole, with so many files.
    fn verify(&self) -> u64 {
        let aio = Aio::new(Arc::new(PosixNamespace), MethodKind::Sync, AioConfig::default())
            .expect("door");
        let _be = aio.backend(BackendType::Standalone).expect("backend");
        let options = StoreOptions {
            key: self.store.key_file.as_ref().map(|_| Key::from_bytes(KEY)),
            ..StoreOptions::default()
        };
        let repository = Repository::open(&aio, &self.store.location, options).expect("opens");
        let found =
            repository.verify(&aio, &VerifyOptions::default(), &|_, _| ()).expect("verifies");
        assert_eq!(found.problems, []);
        found.files
    }
}

fn sealed() -> ArchiveStore {
    ArchiveStore {
        location: String::new(),
        compression: Compression::Zstd(1),
        layout: Some(LayoutKind::Hashed),
        key_file: Some("key".into()),
        ..ArchiveStore::default()
    }
}

/// What recovery brought is gone, but for the log's end.
fn check_tidy(dir: &Path, way: &str) {
    let left = names(&dir.join("pg_wal"));
    let stray = |name: &&String| name.starts_with("RECOVERY") || name.starts_with("xlogtemp");
    assert_eq!(left.iter().find(stray), None, "{way}: {left:?}");
    let old = left.iter().filter(|name| name.len() == 24 && name.starts_with("00000001")).count();
    assert!(old <= 2, "{way}: {left:?}");
}

#[test]
fn what_an_engine_archives_comes_back_without_a_command() {
    for (way, config) in ways() {
        let fixture = Fixture::new(config, sealed());
        let rows = fixture.fill(&fixture.archiving());
        assert!(fixture.verify() > 4, "{way}");
        let dir = fixture.restore("new");
        let (engine, mut session) = open_session(&dir, &fixture.restoring());
        assert_eq!(count(&mut session, "t").expect("count"), rows, "{way}");
        check_tidy(&dir, &way);
        insert(&mut session, "t", 500_000..500_010);
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        drop((session, engine));
        let engine = open(&dir, &fixture.config);
        assert_eq!(
            count(&mut engine.session().expect("session"), "t").expect("count"),
            rows + 10,
            "{way}"
        );
    }
}

#[test]
fn engines_without_threads_archive_and_recover_as_well() {
    let config = EngineConfig { background: Background::Stepped, ..config(IoMethod::Sync, false) };
    let fixture = Fixture::new(config, sealed());
    let rows = fixture.fill(&fixture.archiving());
    fixture.verify();
    let dir = fixture.restore("new");
    let engine = open(&dir, &fixture.restoring());
    assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), rows);
    check_tidy(&dir, "stepped");
}

#[test]
fn an_archive_that_is_down_or_damaged_ends_no_recovery() {
    let fixture = Fixture::new(config(IoMethod::Sync, false), ArchiveStore::default());
    let rows = fixture.fill(&fixture.archiving());
    let (dir, store) = (fixture.restore("new"), fixture.path("store"));
    let refused = |why: &str| {
        let error = Engine::open(&dir, fixture.restoring()).expect_err(why);
        assert!(error.to_string().contains("could not restore file"), "{why}: {error}");
        assert_eq!(error.sqlstate(), "58030", "{why}");
        assert!(dir.join("recovery.signal").exists());
    };
    std::fs::rename(&store, fixture.path("away")).expect("rename");
    refused("nothing there");
    std::fs::create_dir(&store).expect("store");
    refused("an empty directory");
    std::fs::remove_dir(&store).expect("remove");
    std::fs::rename(fixture.path("away"), &store).expect("rename");
    let segments: Vec<String> = names(&store).into_iter().filter(|name| name.len() == 24).collect();
    let victim = store.join(&segments[segments.len() - 2]);
    let good = std::fs::read(&victim).expect("segment");
    std::fs::write(&victim, &good[..good.len() / 2]).expect("damage");
    let error = Engine::open(&dir, fixture.restoring()).expect_err("damage");
    assert!(error.to_string().contains("could not restore file"), "{error}");
    assert_eq!(log::control(&dir).state, DbState::ArchiveRecovery);
    std::fs::write(&victim, good).expect("mended");
    let engine = open(&dir, &fixture.restoring());
    assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), rows);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let fixture = Fixture::new(config(IoMethod::Sync, false), ArchiveStore::default());
    let dir = fixture.restore("new");
    let refused = |change: &dyn Fn(&mut RestoreSettings), text: &str| {
        let mut config = fixture.restoring();
        change(&mut config.restore);
        let error = Engine::open(&dir, config).expect_err(text).to_string();
        assert!(error.contains(text), "{error}");
    };
    refused(&|restore| restore.restore_command = "false".to_owned(), "both set");
    refused(&|restore| restore.library = "basic_archive".to_owned(), "there is no restore library");
    refused(&|restore| restore.store.location = String::new(), "is not set");
    refused(&|restore| restore.store.location = "ftp://x/y".to_owned(), "ftp");
    refused(&|restore| restore.store.key_file = Some("/nowhere/key".into()), "/nowhere/key");
}

/// Copies what a plain archive has, and asks recovery to end when it is asked for the third
/// segment.
struct Stopping {
    store: PathBuf,
    asked: AtomicU64,
    stop: RecoveryStop,
}

impl RestoreSource for Stopping {
    fn bring(&self, _io: &mut IoBackend, name: &str, to: &Path) -> Result<bool, String> {
        if name.len() == 24 && self.asked.fetch_add(1, Ordering::SeqCst) == 3 {
            self.stop.ask();
        }
        match std::fs::copy(self.store.join(name), to) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[test]
fn a_recovery_that_is_told_to_end_goes_on_with_the_next_start() {
    let fixture = Fixture::new(config(IoMethod::Sync, false), ArchiveStore::default());
    let rows = fixture.fill(&fixture.archiving());
    let dir = fixture.restore("new");
    let stop = RecoveryStop::default();
    let source =
        Stopping { store: fixture.path("store"), asked: AtomicU64::new(0), stop: stop.clone() };
    let mut stopped = EngineConfig { recovery_stop: stop, ..fixture.restoring() };
    stopped.restore_from = Some(RestoreFrom(Arc::new(source)));
    assert!(matches!(Engine::open(&dir, stopped.clone()), Err(EngineError::ShuttingDown)));
    assert_eq!(log::control(&dir).state, DbState::ArchiveRecovery);
    assert!(dir.join("recovery.signal").exists() && !dir.join("postmaster.pid").exists());
    // What is wrong in itself is not put down to the stop.
    let mut undecided = stopped.clone();
    undecided.restore.targets =
        vec![RecoveryTarget::Immediate, RecoveryTarget::Name("there".to_owned())];
    let error = Engine::open(&dir, undecided).expect_err("two targets").to_string();
    assert!(error.contains("multiple recovery targets"), "{error}");
    // Told so before it begins, it does not begin.
    assert!(matches!(Engine::open(&dir, stopped), Err(EngineError::ShuttingDown)));
    let engine = open(&dir, &fixture.restoring());
    assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), rows);
    check_tidy(&dir, "after a stop");
    // The recovery of a crash ends as well.
    let mut session = engine.session().expect("session");
    insert(&mut session, "t", 500_000..500_010);
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, engine));
    let stop = RecoveryStop::default();
    stop.ask();
    let crashed = EngineConfig { recovery_stop: stop, ..fixture.config.clone() };
    assert!(matches!(Engine::open(&dir, crashed), Err(EngineError::ShuttingDown)));
    let engine = open(&dir, &fixture.config);
    assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), rows + 10);
}

/// Waits in each transfer until so many have begun, since it was told how many.
#[derive(Default)]
struct Together {
    /// Begun, and to be begun before any ends.
    transfers: Mutex<(u64, u64)>,
    more: std::sync::Condvar,
}

impl Together {
    fn expect(&self, count: u64) {
        let mut transfers = self.transfers.lock().expect("no panic");
        transfers.1 = transfers.0 + count;
    }
}

impl ArchiveModule for Together {
    fn name(&self) -> &'static str {
        "together"
    }

    fn archive(&self, _io: &mut IoBackend, _file: &mut Source) -> Result<Archived, ArchiveError> {
        let mut transfers = self.transfers.lock().expect("no panic");
        transfers.0 += 1;
        self.more.notify_all();
        let limit = std::time::Duration::from_secs(60);
        let waited =
            self.more.wait_timeout_while(transfers, limit, |(begun, wanted)| begun < wanted);
        assert!(!waited.expect("no panic").1.timed_out(), "so many are never under way");
        Ok(Archived::Stored)
    }

    fn transfers(&self) -> usize {
        1
    }
}

#[test]
fn so_many_are_archived_at_a_time_as_the_settings_say() {
    let (_scratch, dir) = new_dir();
    let module = Arc::new(Together::default());
    let mut config = config(IoMethod::Sync, false);
    config.archive_mode = ArchiveMode::On;
    config.archiving.library = "together".to_owned();
    config.archiving.transfers = 6;
    config.archive_modules = ArchiveModules(vec![module.clone()]);
    module.expect(6);
    let engine = open(&dir, &config);
    let archived = |n: u64| {
        let started = std::time::Instant::now();
        while engine.archiver_stats().archived_count < n {
            assert!(started.elapsed().as_secs() < 60, "{:?}", engine.archiver_stats());
            std::thread::yield_now();
        }
    };
    let mut session = engine.session().expect("session");
    create(&mut session, "t");
    let mut complete = |count: i64| {
        for n in 0..count {
            insert(&mut session, "t", n..n + 1);
            session.switch_wal().expect("switch");
        }
    };
    complete(6);
    archived(6);
    // More, while it runs.
    module.expect(12);
    engine.change_archiving(&ArchiveSettings { transfers: 12, ..config.archiving.clone() });
    complete(12);
    archived(18);
    // As many as suit the module: one.
    module.expect(0);
    engine.change_archiving(&ArchiveSettings { transfers: 0, ..config.archiving.clone() });
    complete(2);
    archived(20);
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
}
