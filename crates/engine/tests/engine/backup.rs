//! Base backups: of a cluster at rest and of a running one, and back.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

use crate::common::*;
use forebay_engine::archive::backup::{
    About, BackupObserver, BackupOptions, BackupSource, DamagedPage, RestoreOptions, Silent,
    Stopped,
};
use forebay_engine::checksums::{ChecksumMode, ChecksumObserver, ChecksumOptions, checksums};
use forebay_engine::{
    Engine, EngineConfig, EngineError, IoMethod, Lsn, Session, ShutdownMode, backup,
};
use forebay_format::PageTag;
use forebay_testkit::files::{flip, private_dir};

/// A session as the one who is asked for the begin and the end.
struct OfSession(Session);

impl BackupSource for OfSession {
    fn start(&mut self, label: &str, fast: bool) -> Result<Lsn, String> {
        self.0.start_backup(label, fast).map_err(|error| error.to_string())
    }

    fn stop(&mut self, wait: bool) -> Result<Stopped, String> {
        let end = self.0.stop_backup(wait).map_err(|error| error.to_string())?;
        Ok(Stopped { lsn: end.lsn, label: end.label })
    }

    fn is_archiving(&mut self) -> Result<bool, String> {
        Ok(false)
    }

    fn system_id(&mut self) -> Result<Option<u64>, String> {
        Ok(Some(self.0.engine().system_identifier()))
    }
}

struct Place {
    _scratch: tempfile::TempDir,
    data: PathBuf,
    archive: PathBuf,
    restored: PathBuf,
}

/// A cluster's directory with a small table, and an empty archive.
fn place() -> Place {
    let scratch = scratch();
    let path = |name: &str| scratch.path().join(name);
    let (data, archive, restored) = (path("data"), path("archive"), path("restored"));
    std::fs::create_dir(&archive).expect("an archive");
    init(&data);
    let (engine, mut session) = open_session(&data, &config(IoMethod::Sync, false));
    create(&mut session, "t");
    insert(&mut session, "t", 0..30_000);
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    Place { _scratch: scratch, data, archive, restored }
}

fn options(direct: bool) -> BackupOptions {
    BackupOptions { direct, jobs: 3, ..BackupOptions::default() }
}

/// By the WAL that the backup brought along.
fn alone(direct: bool) -> RestoreOptions {
    RestoreOptions {
        backup: None,
        recovery: None,
        tablespaces: Vec::new(),
        allow_damaged: false,
        jobs: 3,
        direct,
    }
}

fn take(place: &Place, options: &BackupOptions) -> Result<About, EngineError> {
    backup::backup(&place.data, &place.archive, None, options, IoMethod::Sync, &mut Silent)
}

fn restore(place: &Place, options: &RestoreOptions) -> Result<(), EngineError> {
    backup::restore(&place.archive, &place.restored, options, IoMethod::Sync, &mut Silent).map(drop)
}

/// Opens a directory, and counts.
fn rows(dir: &Path, config: &EngineConfig) -> (u64, i64) {
    let (engine, mut session) = open_session(dir, config);
    let found = count_and_sum(&mut session, "t");
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    found
}

fn sum_to(n: i64) -> (u64, i64) {
    (n.unsigned_abs(), n * (n - 1) / 2)
}

/// The largest relation file of a directory.
fn largest(dir: &Path) -> PathBuf {
    let files = std::fs::read_dir(dir.join("base/5"))
        .expect("a database")
        .map(|e| e.expect("an entry").path());
    let size = |path: &PathBuf| std::fs::metadata(path).expect("a file").len();
    files.max_by_key(size).expect("files")
}

#[test]
fn a_cluster_at_rest_comes_back_as_it_was() {
    let place = place();
    for (way, config) in ways() {
        let direct = is_direct(&config);
        let named = BackupOptions {
            name: Some(format!("{:?}-{direct}", config.io_method)),
            ..options(direct)
        };
        let about = backup::backup(
            &place.data,
            &place.archive,
            None,
            &named,
            config.io_method,
            &mut Silent,
        )
        .unwrap_or_else(|error| panic!("{way}: {error}"));
        assert!(
            about.pages > 100 && about.damaged == 0 && about.has_wal && !about.live,
            "{way}: {about:?}"
        );
        let back = RestoreOptions { backup: named.name.clone(), ..alone(direct) };
        backup::restore(&place.archive, &place.restored, &back, config.io_method, &mut Silent)
            .unwrap_or_else(|error| panic!("{way}: {error}"));
        assert_eq!(rows(&place.restored, &config), sum_to(30_000), "{way}");
        std::fs::remove_dir_all(&place.restored).expect("removed");
    }
    let all = backup::list(&place.archive).expect("a list");
    assert_eq!(all.len(), ways().len());
}

#[test]
fn a_backup_never_takes_the_name_of_another() {
    let place = place();
    let named = BackupOptions { name: Some("weekly".to_owned()), ..options(false) };
    let first = take(&place, &named).expect("a backup");
    let error = take(&place, &named).expect_err("its name is taken");
    assert!(error.to_string().contains("\"weekly\""), "{error}");
    let all = backup::list(&place.archive).expect("a list");
    assert_eq!(all.into_iter().filter_map(|backup| backup.about).collect::<Vec<_>>(), [first]);
}

#[test]
fn a_damaged_page_makes_no_backup_unless_it_is_wanted() {
    #[derive(Default)]
    struct Seen(Vec<DamagedPage>);
    impl BackupObserver for Seen {
        fn damaged(&mut self, page: &DamagedPage) {
            self.0.push(page.clone());
        }
    }
    let place = place();
    let file = largest(&place.data);
    // In the third and the fifth page.
    flip(&file, 2 * 8192 + 5000);
    flip(&file, 4 * 8192 + 100);
    let mut seen = Seen::default();
    let result = backup::backup(
        &place.data,
        &place.archive,
        None,
        &options(true),
        IoMethod::Worker,
        &mut seen,
    );
    let error = result.expect_err("pages are damaged");
    assert_eq!(error.sqlstate(), "XX001");
    assert!(error.to_string().contains("2 damaged pages"), "{error}");
    let blocks: Vec<u32> = seen.0.iter().map(|page| page.block).collect();
    assert_eq!(blocks, [2, 4]);
    assert!(seen.0.iter().all(|page| place.data.join(&page.path) == file), "{:?}", seen.0);
    assert_eq!(backup::list(&place.archive).expect("a list"), []);

    let wanted = BackupOptions { allow_damaged: true, ..options(true) };
    assert_eq!(take(&place, &wanted).expect("a backup").damaged, 2);
    assert!(restore(&place, &alone(false)).is_err());
    assert!(!place.restored.exists());
    restore(&place, &RestoreOptions { allow_damaged: true, ..alone(false) }).expect("restored");
    // The bytes are those that were there.
    let same = place.restored.join(file.strip_prefix(&place.data).expect("within"));
    assert_eq!(std::fs::read(same).expect("a file"), std::fs::read(file).expect("a file"));
}

#[test]
fn what_was_changed_in_the_archive_is_not_restored() {
    let place = place();
    let named = BackupOptions { name: Some("b".to_owned()), ..options(false) };
    take(&place, &named).expect("a backup");
    let data = place.archive.join("backups/b/data");
    let file = largest(&data);
    flip(&file, 8192);
    let error = restore(&place, &alone(false)).expect_err("it was changed");
    assert!(error.to_string().contains("manifest says"), "{error}");
    assert!(!place.restored.exists(), "nothing is left");
    flip(&file, 8192);

    std::fs::write(data.join("base/5/foreign"), "x").expect("a file");
    let error = restore(&place, &alone(false)).expect_err("there is a file too much");
    assert!(error.to_string().contains("foreign"), "{error}");
    std::fs::remove_file(data.join("base/5/foreign")).expect("removed");

    flip(&data.join("global/pg_control"), 40);
    restore(&place, &alone(false)).expect_err("pg_control was changed");
    assert!(!place.restored.exists(), "nothing is left");
    flip(&data.join("global/pg_control"), 40);

    flip(&data.join("backup_manifest"), 200);
    let error = restore(&place, &alone(false)).expect_err("the manifest was changed");
    assert!(error.to_string().contains("manifest"), "{error}");
    flip(&data.join("backup_manifest"), 200);

    private_dir(&place.restored);
    std::fs::write(place.restored.join("mine"), "x").expect("a file");
    restore(&place, &alone(false)).expect_err("the directory is not empty");
    assert_eq!(std::fs::read(place.restored.join("mine")).expect("still there"), b"x");
    std::fs::remove_file(place.restored.join("mine")).expect("removed");
    restore(&place, &alone(false)).expect("restored");
    assert_eq!(rows(&place.restored, &config(IoMethod::Sync, false)), sum_to(30_000));
}

#[test]
fn a_cluster_that_runs_or_crashed_is_not_copied_as_one_at_rest() {
    let place = place();
    let engine = open(&place.data, &config(IoMethod::Sync, false));
    let error = take(&place, &options(false)).expect_err("it runs");
    assert!(error.to_string().contains("postmaster.pid"), "{error}");
    engine.shutdown(ShutdownMode::Immediate).expect("shutdown");
    let error = take(&place, &options(false)).expect_err("it crashed");
    assert!(error.to_string().contains("not shut down cleanly"), "{error}");
    assert_eq!(backup::list(&place.archive).expect("a list"), []);
    let missing = Place { archive: place.archive.join("nowhere"), ..place };
    let error = take(&missing, &options(false)).expect_err("there is no archive");
    assert!(error.to_string().contains("does not exist"), "{error}");
}

/// Every page's checksum.
fn verify(dir: &Path) {
    struct Quiet;
    impl ChecksumObserver for Quiet {}
    let counts =
        checksums(dir, &ChecksumOptions::new(ChecksumMode::Check), &mut Quiet).expect("a check");
    assert_eq!(counts.bad_blocks, 0);
}

#[test]
fn a_running_cluster_is_copied_while_it_is_written_to() {
    for config in [config(IoMethod::Sync, true), config(IoMethod::Worker, false)] {
        // Without full_page_writes: the backup sees to it itself.
        let config = EngineConfig { shared_buffers: 64.into(), full_page_writes: false, ..config };
        let place = place();
        let engine = open(&place.data, &config);
        let stop = Arc::new(AtomicBool::new(false));
        let committed = Arc::new(AtomicI64::new(30_000));
        let writer = {
            let (engine, stop, committed) =
                (Arc::clone(&engine), Arc::clone(&stop), Arc::clone(&committed));
            thread::spawn(move || {
                let mut session = engine.session().expect("session");
                while !stop.load(Ordering::SeqCst) {
                    let next = committed.load(Ordering::SeqCst);
                    insert(&mut session, "t", next..next + 100);
                    committed.store(next + 100, Ordering::SeqCst);
                }
            })
        };
        let mut source = OfSession(engine.session().expect("session"));
        let direct = is_direct(&config);
        let before = committed.load(Ordering::SeqCst);
        let about = backup::backup(
            &place.data,
            &place.archive,
            Some(&mut source),
            &options(direct),
            config.io_method,
            &mut Silent,
        )
        .expect("a backup");
        let after = committed.load(Ordering::SeqCst) + 100;
        stop.store(true, Ordering::SeqCst);
        writer.join().expect("the writer");
        assert!(about.live && about.has_wal && about.stop > Some(about.start), "{about:?}");
        drop(source);
        engine.shutdown(ShutdownMode::Fast).expect("shutdown");

        restore(&place, &alone(direct)).expect("restored");
        let (count, sum) = rows(&place.restored, &config);
        let count = i64::try_from(count).expect("a number");
        assert!((before..=after).contains(&count), "{before} <= {count} <= {after}");
        assert_eq!((count.unsigned_abs(), sum), sum_to(count));
        verify(&place.restored);
    }
}

#[test]
fn a_session_ends_what_it_has_begun_and_nobody_else() {
    let place = place();
    let engine = open(&place.data, &config(IoMethod::Sync, false));
    let session = || engine.session().expect("session");
    let (mut one, mut two) = (session(), session());
    assert_eq!(one.stop_backup(true).expect_err("none is under way").sqlstate(), "55000");
    let first = one.start_backup("one", true).expect("begun");
    assert_eq!(one.start_backup("again", true).expect_err("one is under way").sqlstate(), "55000");
    let second = two.start_backup("two", false).expect("begun");
    assert!(second > first, "{first} {second}");
    assert_eq!(
        two.start_backup(&"x".repeat(1025), true).expect_err("too long").sqlstate(),
        "55000"
    );
    let mut three = session();
    assert_eq!(
        three.start_backup(&"x".repeat(1025), true).expect_err("too long").sqlstate(),
        "22023"
    );
    assert_eq!(three.start_backup("two\nlines", true).expect_err("two lines").sqlstate(), "22023");
    drop(two);
    let end = one.stop_backup(true).expect("ended");
    assert!(end.lsn > second && !end.archived, "{end:?}");
    assert!(end.label.starts_with(&format!("START WAL LOCATION: {first} (file ")), "{}", end.label);
    assert!(end.label.contains("\nLABEL: one\nSTART TIMELINE: 1\n"), "{}", end.label);
    let histories = |dir: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(dir.join("pg_wal"))
            .expect("pg_wal")
            .map(|e| e.expect("an entry").path());
        entries.filter(|path| path.extension().is_some_and(|e| e == "backup")).collect()
    };
    let [history] = <[PathBuf; 1]>::try_from(histories(&place.data)).expect("one history file");
    let text = std::fs::read_to_string(history).expect("a history file");
    assert!(text.contains(&format!("\nSTOP WAL LOCATION: {} (file ", end.lsn)), "{text}");
    // The next backup's takes its place.
    three.start_backup("three", true).expect("begun");
    three.stop_backup(false).expect("ended");
    assert_eq!(histories(&place.data).len(), 1);
    drop((one, three));
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    drop(engine);
    assert_eq!(rows(&place.data, &config(IoMethod::Sync, false)), sum_to(30_000));
}

#[test]
fn a_backup_that_fails_leaves_nothing() {
    struct Impatient;
    impl BackupObserver for Impatient {
        fn check(&mut self) -> Result<(), String> {
            Err("enough".to_owned())
        }
    }
    let place = place();
    let result = backup::backup(
        &place.data,
        &place.archive,
        None,
        &options(false),
        IoMethod::Sync,
        &mut Impatient,
    );
    assert!(result.expect_err("stopped").to_string().contains("enough"));
    let entries = std::fs::read_dir(place.archive.join("backups")).expect("the directory");
    assert_eq!(entries.count(), 0);
    // One that was killed left its directory behind; the next one removes it.
    std::fs::create_dir_all(place.archive.join("backups/old.partial/data")).expect("a directory");
    std::fs::write(place.archive.join("backups/old.partial/data/PG_VERSION"), "18\n")
        .expect("a file");
    take(&place, &options(false)).expect("a backup");
    assert!(!place.archive.join("backups/old.partial").exists());
}

/// The pages in memory.
fn in_memory(engine: &Engine) -> BTreeSet<PageTag> {
    engine.buffers().filter_map(|buffer| Some(buffer.page?.tag)).collect()
}

#[test]
fn a_backup_leaves_the_pool_to_those_who_use_it() {
    let place = place();
    let config = EngineConfig { shared_buffers: 256.into(), ..config(IoMethod::Sync, false) };
    let (engine, mut session) = open_session(&place.data, &config);
    for _ in 0..3 {
        assert_eq!(count_and_sum(&mut session, "t"), sum_to(30_000));
    }
    let before = in_memory(&engine);
    let mut source = OfSession(engine.session().expect("session"));
    let (data, archive) = (&place.data, &place.archive);
    let method = config.io_method;
    backup::backup(data, archive, Some(&mut source), &options(false), method, &mut Silent)
        .expect("a backup");
    let after = in_memory(&engine);
    assert!(before.len() > 128, "the table has more than half of the pool");
    assert_eq!(before.difference(&after).count(), 0, "none gave way");
    drop((source, session));
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
}
