//! Crash recovery: what it makes durable before it trusts it, what it refuses without changing
//! anything, that it can be begun again, and what it reads ahead.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::common::*;
use forebay_aio::fault::{Call, Effect, FaultPlan, Ops, Rule};
use forebay_aio::{Errno, MethodKind};
use forebay_engine::{
    Engine, EngineConfig, EngineError, IoMethod, RecoveryReport, RecoverySettings, ShutdownMode,
};
use forebay_engine::{PrefetchStats, RecoveryProgress};
use forebay_engine::{RedoContext, RedoError, RedoRecord, ResourceManager, ResourceManagers};
use forebay_format::control::PATH;
use forebay_format::relmap::RelMap;
use forebay_format::{Lsn, wal::Rmgr};
use forebay_wal::Record;

#[test]
fn all_of_a_directory_is_synced_before_redo_wherever_it_lies() {
    let (scratch, dir) = new_dir();
    // initdb --waldir makes such a link.
    let elsewhere = scratch.path().join("log");
    std::fs::rename(dir.join("pg_wal"), &elsewhere).expect("rename");
    std::os::unix::fs::symlink(&elsewhere, dir.join("pg_wal")).expect("link");
    std::os::unix::fs::symlink("/nowhere", dir.join("dangling")).expect("link");
    // A tablespace that an administrator has locked away.
    std::os::unix::fs::symlink("/nowhere", dir.join("pg_tblspc/16600")).expect("link");
    let config = config(IoMethod::Sync, false);
    let (engine, mut session) = open_session(&dir, &config);
    create(&mut session, "t");
    insert(&mut session, "t", 0..100);
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, engine));
    // A certificate, say, that belongs to somebody else.
    let foreign = dir.join("server.crt");
    std::fs::write(&foreign, "certificate").expect("write");
    let plan = FaultPlan::new();
    let to_change = |call: &Call| call.write || call.direct;
    plan.add(Rule::on(Ops::OPEN).path("/server.crt").when(to_change), Effect::Fail(Errno(13)));
    let hidden = plan.add(Rule::on(Ops::STAT).path("/16600"), Effect::Fail(Errno(13)));
    plan.record();
    let aio = io::open_faulty(&plan, MethodKind::Sync);
    let engine = Engine::open_on(&dir, config, aio).expect("open");
    let calls = plan.take_calls();
    let has_synced = |path: &std::path::Path| {
        calls.iter().any(|call| (Ops::SYNCS | Ops::SYNC_DIR).contains(call.op) && call.path == path)
    };
    for name in [
        "",
        "base/5",
        "base/5/1259",
        "global/pg_control",
        "pg_wal",
        "pg_wal/000000010000000000000001",
    ] {
        let path = if name.is_empty() { dir.clone() } else { dir.join(name) };
        assert!(has_synced(&path), "{name}");
    }
    assert!(has_synced(&foreign));
    assert!(plan.fired(hidden) > 0);
    // After a failed sync the kernel's cache holds what the disk does not: it is not asked what the
    // log says.
    let segment = dir.join("pg_wal/000000010000000000000001");
    let read_direct = |call: &Call| call.op == Ops::OPEN && call.direct && !call.write;
    assert!(calls.iter().any(|call| read_direct(call) && call.path == segment));
    let mut session = engine.session().expect("session");
    assert_eq!(count(&mut session, "t").expect("count"), 100);
}

/// Opens over a disk that fails as the plan says.
fn open_on(
    dir: &Path,
    plan: &Arc<FaultPlan>,
    config: &EngineConfig,
) -> Result<Arc<Engine>, EngineError> {
    let aio = io::open_faulty(plan, MethodKind::Sync);
    Engine::open_on(dir, config.clone(), aio)
}

/// Links of PostgreSQL's own are followed, and no other ones: what lies behind those belongs to
/// somebody else.
#[test]
fn links_that_are_not_postgresql_s_are_not_followed() {
    let scratch = scratch();
    let dir = scratch.path().join("data");
    let config = config(IoMethod::Sync, false);
    crashed(&dir, &config, 100);
    let path = |name: &str| scratch.path().join(name);
    for (elsewhere, link) in [
        ("theirs", "base/theirs"),
        ("theirs", "base/5/17000"),
        ("theirs", "linked"),
        ("space", "pg_tblspc/16500"),
    ] {
        std::fs::create_dir_all(path(elsewhere).join("below")).expect("directory");
        std::fs::write(path(elsewhere).join("below/file"), "bytes").expect("file");
        std::os::unix::fs::symlink(path(elsewhere), dir.join(link)).expect("link");
    }
    // A tablespace is PostgreSQL's, and what is linked in it is not.
    std::os::unix::fs::symlink(path("theirs"), path("space/below/linked")).expect("link");
    let plan = FaultPlan::new();
    for link in ["base/theirs", "base/5/17000", "data/linked", "below/linked"] {
        for ops in [Ops::OPEN, Ops::SYNCS, Ops::SYNC_DIR] {
            plan.add(Rule::on(ops).path(link), Effect::Fail(Errno(5)));
        }
    }
    plan.record();
    let engine = open_on(&dir, &plan, &config).expect("open");
    assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), 1000);
    let space = dir.join("pg_tblspc/16500/below/file");
    let calls = plan.take_calls();
    assert!(calls.iter().any(|call| Ops::SYNCS.contains(call.op) && call.path == space));
}

/// A directory that crashed with some segments of 1 MB to recover; `rows` rows in t.
fn crashed(dir: &Path, config: &EngineConfig, rows: i64) {
    init(dir);
    let (engine, mut session) = open_session(dir, config);
    create(&mut session, "t");
    for first in (0..rows).step_by(1000) {
        insert(&mut session, "t", first..first + 1000);
    }
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
}

fn segment(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("pg_wal/00000001{:08X}{number:08X}", 0))
}

/// What befalls a segment, which one, what the error says of it.
type Damage<'a> = (&'static str, u64, &'static str, Box<dyn Fn() + 'a>);

/// Damages of a log that goes on behind them.
fn damages(dir: &Path) -> [Damage<'_>; 7] {
    let flip = move |number: u64, at: usize, len: usize| {
        let path = segment(dir, number);
        let mut bytes = std::fs::read(&path).expect("segment");
        bytes[at..at + len].iter_mut().for_each(|byte| *byte ^= 0x55);
        std::fs::write(path, bytes).expect("segment");
    };
    let resize = move |number: u64, len: u64| {
        let file = std::fs::File::options().write(true).open(segment(dir, number));
        file.expect("segment").set_len(len).expect("resized");
    };
    let zero = move || {
        let mut bytes = std::fs::read(segment(dir, 3)).expect("segment");
        bytes[81_920..90_112].fill(0);
        std::fs::write(segment(dir, 3), bytes).expect("segment");
    };
    let remove = move || std::fs::remove_file(segment(dir, 2)).expect("removed");
    let length = "bytes, expected 1048576";
    let goes_on = "but the log goes on in";
    [
        ("a short segment", 2, length, Box::new(move || resize(2, 500_000))),
        ("a long segment", 3, length, Box::new(move || resize(3, 2 << 20))),
        ("of another cluster", 2, "different database system", Box::new(move || flip(2, 24, 8))),
        ("a missing segment", 2, "there is no WAL segment", Box::new(remove)),
        ("a flipped byte", 2, goes_on, Box::new(move || flip(2, 300_000, 1))),
        ("a page of zeros", 3, goes_on, Box::new(zero)),
        ("a wrong address", 3, goes_on, Box::new(move || flip(3, 8192 + 8, 4))),
    ]
}

#[test]
fn a_damaged_log_is_refused_and_nothing_changes() {
    let scratch = scratch();
    let dir = scratch.path().join("data");
    let config = config(IoMethod::Sync, false);
    crashed(&dir, &config, 120_000);
    let before = contents(&dir);
    let last = (1..).take_while(|&n| segment(&dir, n).exists()).last().expect("segments");
    assert!(last >= 4, "{last} segments");
    for (what, number, told, damage) in damages(&dir) {
        damage();
        let damaged = contents(&dir);
        let error = Engine::open(&dir, config.clone()).expect_err(what);
        let text = error.to_string();
        assert!(text.contains(told), "{what}: {text}");
        let name = segment(&dir, number).display().to_string();
        assert!(text.contains(&name) && text.contains("LSN 0/"), "{what}: {text}");
        assert_unchanged(&damaged, &dir, what);
        let below = segment(&dir, number).strip_prefix(&dir).expect("below").to_owned();
        let bytes = before.get(&below).expect("segment");
        std::fs::write(segment(&dir, number), bytes).expect("restored");
    }
    // One that can't be read.
    let plan = FaultPlan::new();
    plan.add(Rule::on(Ops::READ).path("000000010000000000000003").nth(2), Effect::Fail(Errno::IO));
    let text = open_on(&dir, &plan, &config).expect_err("unreadable").to_string();
    assert!(text.contains("000000010000000000000003") && text.contains("LSN 0/3"), "{text}");
    assert_unchanged(&before, &dir, "an unreadable segment");
    let engine = open(&dir, &config);
    assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), 120_000);
}

#[test]
fn a_relation_map_without_pg_class_is_refused_and_nothing_changes() {
    let scratch = scratch();
    let dir = scratch.path().join("data");
    let config = config(IoMethod::Sync, false);
    crashed(&dir, &config, 1000);
    let path = dir.join("base/5/pg_filenode.map");
    let whole = RelMap::decode(&std::fs::read(&path).expect("map")).expect("valid");
    let mut map = RelMap::new();
    for &(oid, file) in whole.mappings().iter().filter(|(oid, _)| *oid != 1259) {
        map.set(oid, file).expect("room");
    }
    std::fs::write(&path, map.encode()).expect("written");
    let before = contents(&dir);
    let error = Engine::open(&dir, config).expect_err("refused").to_string();
    assert_eq!(error, "could not find relation mapping for relation \"pg_class\"");
    assert_unchanged(&before, &dir, "a map without pg_class");
}

#[test]
fn a_damaged_control_file_is_refused_and_nothing_changes() {
    let scratch = scratch();
    let dir = scratch.path().join("data");
    let config = config(IoMethod::Sync, false);
    crashed(&dir, &config, 1000);
    let path = dir.join(PATH);
    let good = std::fs::read(&path).expect("pg_control");
    let mut damaged: Vec<(String, Vec<u8>)> = (0..296)
        .filter(|at| at % 7 == 0 || *at > 280)
        .map(|at| {
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            (format!("byte {at}"), bytes)
        })
        .collect();
    for len in [0, 1, 295, 296 / 2] {
        damaged.push((format!("{len} bytes"), good[..len].to_vec()));
    }
    damaged.push(("zeros".to_owned(), vec![0; 8192]));
    for (what, bytes) in damaged {
        std::fs::write(&path, bytes).expect("pg_control");
        let before = contents(&dir);
        let error = Engine::open(&dir, config.clone()).expect_err(&what);
        assert!(matches!(error.sqlstate(), "XX001" | "F0001"), "{what}: {error}");
        let detail = error.detail().expect("a detail");
        assert!(detail.contains(&path.display().to_string()), "{what}: {detail}");
        if error.sqlstate() == "XX001" {
            assert!(error.hint().is_some_and(|hint| hint.contains("backup")), "{what}");
        }
        assert_unchanged(&before, &dir, &what);
    }
    std::fs::write(&path, &good).expect("pg_control");
    let plan = FaultPlan::new();
    plan.add(Rule::on(Ops::READ).path(PATH), Effect::Fail(Errno::IO));
    let text = open_on(&dir, &plan, &config).expect_err("unreadable").to_string();
    assert!(text.contains("pg_control"), "{text}");
    let engine = open(&dir, &config);
    assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), 1000);
}

/// The i-th write, sync or change of a name fails, and the next start begins recovery again; until
/// one gets through.
#[test]
fn a_recovery_that_fails_anywhere_is_begun_again() {
    let scratch = scratch();
    let dir = scratch.path().join("data");
    let config = EngineConfig { shared_buffers: 64.into(), ..config(IoMethod::Sync, false) };
    let config =
        EngineConfig { on_fatal: Some(forebay_engine::FatalAction(Arc::new(|_| {}))), ..config };
    crashed(&dir, &config, 5000);
    let mut failures = 0;
    for n in 1.. {
        let plan = FaultPlan::new();
        let ops = Ops::WRITE | Ops::SYNCS | Ops::SYNC_DIR | Ops::RENAME | Ops::UNLINK;
        plan.add(Rule::on(ops).nth(n), Effect::Fail(Errno::IO));
        match open_on(&dir, &plan, &config) {
            Err(_) => failures += 1,
            Ok(engine) => {
                let mut session = engine.session().expect("session");
                assert_eq!(
                    count(&mut session, "t").expect("count"),
                    5000,
                    "after {failures} failures"
                );
                drop(session);
                let struck = !plan.take_struck().is_empty();
                engine.shutdown(ShutdownMode::Immediate).expect("stop");
                // A fault that nobody minded is one of housekeeping; without any, all were tried.
                if !struck {
                    break;
                }
            }
        }
        assert!(n < 2000, "recovery never gets through");
    }
    assert!(failures > 20, "{failures}");
    let engine = open(&dir, &config);
    assert_eq!(
        count_and_sum(&mut engine.session().expect("session"), "t"),
        (5000, (0..5000).sum())
    );
}

// ---- resource managers of the embedder

/// Puts records with these main data at the end of a stopped directory's log.
fn append(dir: &Path, rmgr: Rmgr, mains: &[&[u8]]) {
    let (wal, mut io) = log::resume(dir);
    for main in mains {
        wal.insert(&mut io, &Record { rmgr, info: 0x10, xid: 0, main, blocks: &[] })
            .expect("insert");
    }
    wal.flush_all(&mut io).expect("flush");
}

/// Ends of records, and their data.
type Noted = Vec<(Lsn, Vec<u8>)>;

/// Takes down what it is given.
struct Notes(Arc<Mutex<Noted>>);

const NOTES: Rmgr = Rmgr(200);

impl ResourceManager for Notes {
    fn id(&self) -> Rmgr {
        NOTES
    }

    fn knows(&self, info: u8) -> bool {
        info == 0x10
    }

    fn redo(&self, record: &RedoRecord<'_>, _: &mut RedoContext<'_>) -> Result<(), RedoError> {
        self.0.lock().expect("notes").push((record.end, record.record.main.to_vec()));
        Ok(())
    }
}

#[test]
fn records_of_others_are_redone_by_their_manager_or_refused() {
    let scratch = scratch();
    let dir = scratch.path().join("data");
    let config = config(IoMethod::Sync, false);
    crashed(&dir, &config, 1000);
    let mains: [&[u8]; 3] = [b"one", b"two", &[3; 20_000]];
    append(&dir, NOTES, &mains);
    let before = contents(&dir);
    let error = Engine::open(&dir, config.clone()).expect_err("nobody knows it");
    assert_eq!(error.sqlstate(), "0A000");
    assert!(error.to_string().contains("resource manager 200"), "{error}");
    assert_unchanged(&before, &dir, "an unknown resource manager");
    let notes = Arc::new(Mutex::new(Noted::new()));
    let managers = ResourceManagers(vec![Arc::new(Notes(Arc::clone(&notes)))]);
    let config = EngineConfig { resource_managers: managers, ..config };
    let engine = open(&dir, &config);
    let seen = std::mem::take(&mut *notes.lock().expect("notes"));
    assert_eq!(seen.iter().map(|(_, main)| &main[..]).collect::<Vec<_>>(), mains);
    assert!(seen.is_sorted_by_key(|(end, _)| *end));
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop(engine);
    // Behind the checkpoint that recovery made they are not seen again.
    let engine = open(&dir, &config);
    assert!(notes.lock().expect("notes").is_empty());
    assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), 1000);
}

// ---- read ahead

/// Recovers a copy of a crashed directory; what was read ahead, and the rows.
fn recovered(
    dir: &Path,
    config: &EngineConfig,
    settings: RecoverySettings,
) -> (PrefetchStats, (u64, i64)) {
    let scratch = scratch();
    let copy = scratch.path().join("data");
    let status = std::process::Command::new("cp").arg("-r").arg(dir).arg(&copy).status();
    assert!(status.expect("cp").success());
    let seen: Arc<Mutex<Option<RecoveryProgress>>> = Arc::default();
    let told = Arc::clone(&seen);
    let report = RecoveryReport(Arc::new(move |progress: &RecoveryProgress| {
        *told.lock().expect("progress") = Some(*progress);
    }));
    let config = EngineConfig { recovery: settings, on_recovery: Some(report), ..config.clone() };
    let engine = open(&copy, &config);
    let rows = count_and_sum(&mut engine.session().expect("session"), "t");
    let progress = seen.lock().expect("progress").expect("a report");
    assert!(progress.done && progress.at == progress.end);
    (progress.prefetch, rows)
}

#[test]
fn pages_are_read_ahead_of_redo() {
    for (way, config) in ways() {
        let scratch = scratch();
        let dir = scratch.path().join("data");
        // Without images redo has to read what it changes.
        let config = EngineConfig { full_page_writes: false, shared_buffers: 128.into(), ..config };
        init(&dir);
        let (engine, mut session) = open_session(&dir, &config);
        create(&mut session, "t");
        create(&mut session, "gone");
        insert(&mut session, "t", 0..60_000);
        insert(&mut session, "gone", 0..1000);
        session.checkpoint().expect("checkpoint");
        // A page here, a page there.
        transaction(&mut session, |s| {
            let table = s.open_table(None, "gone", forebay_engine::LockMode::AccessExclusive)?;
            s.drop_table(&table)
        })
        .expect("drop");
        for n in 0..400 {
            insert(&mut session, "t", 60_000 + n..60_001 + n);
        }
        create(&mut session, "late");
        insert(&mut session, "late", 0..3000);
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        drop((session, engine));
        let expected = (60_400, (0..60_400).sum());
        let on = RecoverySettings::default();
        let (stats, rows) = recovered(&dir, &config, on);
        assert_eq!(rows, expected, "{way}");
        assert!(
            stats.prefetch > 0 && stats.skip_rep > 0 && stats.skip_init > 0,
            "{way}: {stats:?}"
        );
        let (one, rows) = recovered(
            &dir,
            &config,
            RecoverySettings { io_concurrency: 1, decode_buffer: 65_536, ..on },
        );
        assert_eq!(rows, expected, "{way}");
        assert!(one.prefetch > 0, "{way}: {one:?}");
        for off in [
            RecoverySettings { prefetch: false, ..on },
            RecoverySettings { io_concurrency: 0, ..on },
        ] {
            assert_eq!(
                recovered(&dir, &config, off),
                (PrefetchStats::default(), expected),
                "{way}"
            );
        }
    }
}

/// A page that is torn, and that a record heals before another one changes it, is not read
/// meanwhile: a wrong checksum would be counted that nobody has to care for.
#[test]
fn torn_pages_that_images_heal_are_not_read_ahead() {
    let scratch = scratch();
    let dir = scratch.path().join("data");
    let config = config(IoMethod::Sync, false);
    init(&dir);
    let (engine, mut session) = open_session(&dir, &config);
    create(&mut session, "t");
    insert(&mut session, "t", 0..2000);
    session.checkpoint().expect("checkpoint");
    insert(&mut session, "t", 2000..2001);
    insert(&mut session, "t", 2001..2002);
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, engine));
    // The last page of each relation of the database.
    for entry in std::fs::read_dir(dir.join("base/5")).expect("directory") {
        let path = entry.expect("entry").path();
        let mut bytes = std::fs::read(&path).expect("file");
        let is_user = path
            .file_name()
            .and_then(|n| n.to_str()?.parse::<u32>().ok())
            .is_some_and(|n| n >= 16384);
        if is_user && bytes.len() > 8192 {
            let at = bytes.len() - 2000;
            bytes[at..].fill(0x5a);
            std::fs::write(&path, bytes).expect("file");
        }
    }
    let (engine, mut session) = open_session(&dir, &config);
    assert_eq!(count_and_sum(&mut session, "t"), (2002, (0..2002).sum()));
    let failures: u64 =
        engine.checksum_failures().expect("checksums").iter().map(|row| row.count).sum();
    assert_eq!(failures, 0);
}

/// Several files are synced at a time: while some syncs hang, others have begun.
#[test]
fn files_are_synced_several_at_once() {
    let scratch = scratch();
    let dir = scratch.path().join("data");
    let config = config(IoMethod::Sync, false);
    crashed(&dir, &config, 1000);
    let plan = FaultPlan::new();
    let workers = MethodKind::Worker(forebay_aio::WorkerLimits::fixed(4));
    let aio = io::open_faulty(&plan, workers);
    let held = plan.hold(Rule::on(Ops::FSYNC).path("/base/"));
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| Engine::open_on(&dir, config.clone(), aio));
        held.await_count(4);
        held.release();
        let engine = opening.join().expect("no panic").expect("open");
        assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), 1000);
    });
}
