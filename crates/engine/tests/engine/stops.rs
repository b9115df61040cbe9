//! Checkpoints, crashes, refusals and limits.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::common::*;
use forebay_engine::{
    Engine, EngineConfig, EngineError, InitOptions, InterruptKind, IoMethod, LockMode,
    RecoveryReport, ShutdownMode, WritingSettings,
};
use forebay_testkit::files::private_dir;

fn refusal(dir: &Path) -> EngineError {
    Engine::open(dir, config(IoMethod::Sync, false)).expect_err("refused")
}

#[test]
fn checkpoints_beside_writers_lose_nothing_in_a_crash() {
    for (way, config) in ways() {
        let config = EngineConfig { shared_buffers: 128.into(), writing: little_wal(), ..config };
        let (_scratch, dir) = new_dir();
        let (engine, mut session) = open_session(&dir, &config);
        create(&mut session, "t");
        let committed = Arc::new(AtomicU64::new(0));
        let writers: Vec<_> = (0..3_i64)
            .map(|writer| {
                let (engine, committed) = (Arc::clone(&engine), Arc::clone(&committed));
                thread::spawn(move || {
                    let mut session = engine.session().expect("session");
                    for round in 0..20 {
                        let first = writer * 1_000_000 + round * 1_000;
                        insert(&mut session, "t", first..first + 300);
                        committed.fetch_add(300, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for _ in 0..4 {
            session.checkpoint().expect("checkpoint");
        }
        writers.into_iter().for_each(|w| w.join().expect("writer"));
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        let done = engine.checkpointer_stats().num_done;
        assert!(done >= 4, "{way}: {done} checkpoints");
        drop((session, engine));
        let (_engine, mut session) = open_session(&dir, &config);
        let (rows, _) = count_and_sum(&mut session, "t");
        assert_eq!(rows, committed.load(Ordering::SeqCst), "{way}");
    }
}

#[test]
fn the_log_stays_near_its_size_and_old_segments_go() {
    let (_scratch, dir) = new_dir();
    let config = EngineConfig { writing: little_wal(), ..config(IoMethod::Worker, false) };
    let (engine, mut session) = open_session(&dir, &config);
    create(&mut session, "t");
    for round in 0..40 {
        insert(&mut session, "t", round * 10_000..(round + 1) * 10_000);
    }
    session.checkpoint().expect("checkpoint");
    let segments = std::fs::read_dir(dir.join("pg_wal"))
        .expect("pg_wal")
        .filter(|e| e.as_ref().is_ok_and(|e| e.file_name().len() == 24))
        .count();
    assert!(segments <= 8, "{segments} segments of 1 MB");
    let stats = engine.checkpointer_stats();
    assert!(stats.num_done >= 2 && stats.buffers_written > 0, "{stats:?}");
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    let (_engine, mut session) = open_session(&dir, &config);
    assert_eq!(count(&mut session, "t").expect("count"), 400_000);
}

#[test]
fn checkpoints_come_by_time_and_not_when_nothing_happens() {
    let (_scratch, dir) = new_dir();
    let config = EngineConfig {
        writing: WritingSettings {
            checkpoint_timeout: std::time::Duration::from_millis(20),
            ..WritingSettings::default()
        },
        ..config(IoMethod::Worker, false)
    };
    let (engine, mut session) = open_session(&dir, &config);
    create(&mut session, "t");
    let mut next = 0;
    while engine.checkpointer_stats().num_done < 3 {
        insert(&mut session, "t", next..next + 10);
        next += 10;
    }
    let stats = engine.checkpointer_stats();
    assert!(stats.num_timed >= 3 && stats.num_requested == 0, "{stats:?}");
    drop(session);
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop(engine);
    let (_engine, mut session) = open_session(&dir, &config);
    assert_eq!(count(&mut session, "t").expect("count"), u64::try_from(next).expect("rows"));
}

#[test]
fn a_crash_right_after_recovery_and_again() {
    let (_scratch, dir) = new_dir();
    let config = config(IoMethod::Sync, true);
    let mut expected = 0;
    for round in 0..6 {
        let (engine, mut session) = open_session(&dir, &config);
        if round == 0 {
            create(&mut session, "t");
        }
        assert_eq!(count(&mut session, "t").expect("count"), expected);
        if round % 2 == 0 {
            insert(&mut session, "t", round * 1000..round * 1000 + 137);
            expected += 137;
        }
        drop(session);
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
    }
}

#[test]
fn one_engine_for_one_directory() {
    let (_scratch, dir) = new_dir();
    let engine = open(&dir, &config(IoMethod::Sync, false));
    let error = refusal(&dir);
    assert_eq!(error.to_string(), "lock file \"postmaster.pid\" already exists");
    assert!(
        error.hint().is_some_and(|h| h.contains(&format!("(PID {})", std::process::id()))),
        "{error:?}"
    );
    let text = std::fs::read_to_string(dir.join("postmaster.pid")).expect("postmaster.pid");
    assert_eq!(text.lines().count(), 8);
    assert_eq!(text.lines().next(), Some(std::process::id().to_string().as_str()));
    assert_eq!(text.lines().nth(7), Some("ready   "));
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    assert!(!dir.join("postmaster.pid").exists());
    // What a dead process left behind is no lock.
    let mut child = std::process::Command::new("true").spawn().expect("spawn");
    let dead = child.id();
    child.wait().expect("wait");
    std::fs::write(dir.join("postmaster.pid"), format!("{dead}\n{}\n", dir.display()))
        .expect("write");
    open(&dir, &config(IoMethod::Sync, false)).shutdown(ShutdownMode::Fast).expect("shutdown");
    // A living one's is.
    std::fs::write(dir.join("postmaster.pid"), "1\n").expect("write");
    assert_eq!(refusal(&dir).to_string(), "lock file \"postmaster.pid\" already exists");
}

#[test]
fn a_directory_that_others_own_or_can_get_at_is_refused() {
    let (scratch, dir) = new_dir();
    let mode =
        |bits| std::fs::set_permissions(&dir, PermissionsExt::from_mode(bits)).expect("mode");
    for bits in [0o755, 0o701, 0o770, 0o720, 0o777] {
        mode(bits);
        let error = refusal(&dir);
        assert_eq!(error.sqlstate(), "55000");
        let message = format!("data directory \"{}\" has invalid permissions", dir.display());
        assert_eq!(error.to_string(), message, "{bits:o}");
        let detail = "Permissions should be u=rwx (0700) or u=rwx,g=rx (0750).";
        assert_eq!(error.detail().as_deref(), Some(detail));
        assert!(!dir.join("postmaster.pid").exists(), "nothing has changed");
    }
    for bits in [0o750, 0o700] {
        mode(bits);
        open(&dir, &config(IoMethod::Sync, false)).shutdown(ShutdownMode::Fast).expect("shutdown");
    }
    // Only root can give files away.
    if std::os::unix::fs::chown(&dir, Some(65_534), None).is_err() {
        return;
    }
    let error = refusal(&dir);
    assert_eq!(error.sqlstate(), "55000");
    let message = format!("data directory \"{}\" has wrong ownership", dir.display());
    assert_eq!(error.to_string(), message);
    let hint = "The server must be started by the user that owns the data directory.";
    assert_eq!(error.hint().as_deref(), Some(hint));

    let empty = scratch.path().join("empty");
    private_dir(&empty);
    std::os::unix::fs::chown(&empty, Some(65_534), None).expect("by root");
    let error = Engine::init(&empty, &InitOptions::default()).expect_err("another's");
    assert!(error.to_string().ends_with("has wrong ownership"), "{error}");
}

#[test]
fn directories_of_others_are_refused_with_the_file_named() {
    let scratch = scratch();
    let dir = scratch.path().join("data");
    let nowhere = refusal(&dir);
    assert_eq!(nowhere.sqlstate(), "58P01");
    private_dir(&dir);
    assert!(refusal(&dir).detail().is_some_and(|d| d.contains("PG_VERSION")));
    std::fs::remove_dir(&dir).expect("rmdir");
    init(&dir);
    let version = dir.join("PG_VERSION");
    std::fs::write(&version, "17\n").expect("write");
    let error = refusal(&dir);
    assert_eq!(error.to_string(), "database files are incompatible with server");
    assert!(error.detail().is_some_and(|d| d.contains("version 17")), "{error:?}");
    std::fs::write(&version, "18\n").expect("write");

    let control = dir.join("global/pg_control");
    let good = std::fs::read(&control).expect("read");
    let damaged = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        std::fs::write(&control, bytes).expect("write");
        refusal(&dir)
    };
    for at in [0, 16, 40, 200] {
        let error = damaged(at);
        assert_eq!(error.to_string(), "incorrect checksum in control file", "byte {at}");
        assert!(error.detail().is_some_and(|d| d.contains("global/pg_control")), "{error:?}");
    }
    assert_eq!(damaged(8).to_string(), "database files are incompatible with server");
    std::fs::remove_file(&control).expect("remove");
    assert!(refusal(&dir).detail().is_some_and(|d| d.contains("global/pg_control")));
    std::fs::write(&control, &good).expect("write");
    for (name, text, sqlstate, why) in [
        ("backup_label", "", "55000", "invalid data in file \"backup_label\""),
        ("standby.signal", "", "0A000", "standby mode is not supported"),
        (
            "tablespace_map",
            "16384 /elsewhere\n",
            "0A000",
            "backup with tablespaces is not supported",
        ),
        ("recovery.signal", "", "22023", "must specify \"restore_command\""),
    ] {
        std::fs::write(dir.join(name), text).expect("write");
        let error = refusal(&dir);
        assert!(error.sqlstate() == sqlstate && error.to_string().contains(why), "{name}: {error}");
        std::fs::remove_file(dir.join(name)).expect("remove");
    }
    std::fs::remove_file(dir.join("pg_wal/000000010000000000000001")).expect("remove");
    assert!(
        refusal(&dir)
            .to_string()
            .starts_with("could not locate a valid checkpoint record at 0/100028")
    );
}

#[test]
fn init_refuses_what_is_not_empty_and_leaves_no_half_directory() {
    let scratch = scratch();
    let dir = scratch.path().join("deep/data");
    init(&dir);
    let again = Engine::init(&dir, &InitOptions::default()).expect_err("not empty");
    assert!(again.to_string().ends_with("exists but is not empty"), "{again}");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(&dir).expect("stat").permissions(),
    );
    assert_eq!(mode & 0o777, 0o700);
    let bad = InitOptions { wal_segment_size: 3 << 20, ..InitOptions::default() };
    let other = scratch.path().join("other");
    assert_eq!(Engine::init(&other, &bad).expect_err("size").sqlstate(), "22023");
    assert!(!other.exists());
    let empty = scratch.path().join("empty");
    std::fs::create_dir(&empty).expect("mkdir");
    init(&empty);
    open(&empty, &config(IoMethod::Sync, false)).shutdown(ShutdownMode::Fast).expect("shutdown");
}

#[test]
fn a_damaged_page_is_an_error_that_names_it() {
    let (_scratch, dir) = new_dir();
    let small = config(IoMethod::Sync, false);
    let (engine, mut session) = open_session(&dir, &small);
    create(&mut session, "t");
    insert(&mut session, "t", 0..10_000);
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    let file = dir.join("base/5/16384");
    let mut bytes = std::fs::read(&file).expect("read");
    bytes[3 * 8192 + 5000] ^= 0x10;
    std::fs::write(&file, bytes).expect("write");
    for (way, config) in ways() {
        let (_engine, mut session) = open_session(&dir, &config);
        let error = count(&mut session, "t").expect_err("damaged");
        assert_eq!(error.sqlstate(), "XX001", "{way}");
        assert_eq!(
            error.to_string(),
            "invalid page in block 3 of relation \"base/5/16384\"",
            "{way}"
        );
        // The session goes on.
        assert!(count(&mut session, "pg_class").is_ok(), "{way}");
    }
}

#[test]
fn two_engines_with_two_methods_in_one_process() {
    let scratch = scratch();
    let (one, two) = (scratch.path().join("one"), scratch.path().join("two"));
    init(&one);
    init(&two);
    let first = open(&one, &config(IoMethod::IoUring, true));
    let second = open(&two, &config(IoMethod::Worker, false));
    assert_eq!((first.io_method_name(), second.io_method_name()), ("io_uring", "worker"));
    let mut a = first.session().expect("session");
    let mut b = second.session().expect("session");
    create(&mut a, "t");
    create(&mut b, "t");
    insert(&mut a, "t", 0..500);
    insert(&mut b, "t", 0..700);
    assert_eq!((count(&mut a, "t").expect("a"), count(&mut b, "t").expect("b")), (500, 700));
    assert_ne!(first.system_identifier(), second.system_identifier());
}

#[test]
fn sessions_are_counted_and_cancelled_and_ended() {
    let (_scratch, dir) = new_dir();
    let (engine, mut session) =
        open_session(&dir, &EngineConfig { max_connections: 2, ..config(IoMethod::Sync, false) });
    let other = engine.session().expect("session");
    let error = engine.session().expect_err("full");
    assert_eq!(
        (error.sqlstate(), error.to_string().as_str()),
        ("53300", "sorry, too many clients already")
    );
    drop(other);
    drop(engine.session().expect("room again"));

    create(&mut session, "t");
    insert(&mut session, "t", 0..5_000);
    assert!(engine.interrupt_session(session.id(), InterruptKind::Cancel));
    assert_eq!(count(&mut session, "t").expect_err("cancelled").sqlstate(), "57014");
    session.interrupt().clear_cancel();
    assert_eq!(count(&mut session, "t").expect("count"), 5_000);

    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    assert_eq!(count(&mut session, "t").expect_err("stopped").sqlstate(), "57P01");
    assert_eq!(engine.session().expect_err("stopped").sqlstate(), "57P01");
}

#[test]
fn a_dropped_session_aborts_and_a_stop_waits_for_it() {
    let (_scratch, dir) = new_dir();
    let config = config(IoMethod::Worker, false);
    let (engine, mut session) = open_session(&dir, &config);
    create(&mut session, "t");
    start(&mut session);
    let table = session.open_table(None, "t", LockMode::RowExclusive).expect("table");
    insert_open(&mut session, &table, 0..100).expect("insert");
    let stopping = Arc::new(AtomicBool::new(false));
    let stopper = thread::spawn({
        let (engine, stopping) = (Arc::clone(&engine), Arc::clone(&stopping));
        move || {
            stopping.store(true, Ordering::SeqCst);
            engine.shutdown(ShutdownMode::Fast)
        }
    });
    while session.interrupt().pending().is_none() {
        thread::yield_now();
    }
    assert!(stopping.load(Ordering::SeqCst));
    drop(session);
    stopper.join().expect("join").expect("shutdown");
    drop(engine);
    let (_engine, mut session) = open_session(&dir, &config);
    assert_eq!(count(&mut session, "t").expect("count"), 0);
}

#[test]
fn a_checkpoint_that_cannot_open_pg_xact_is_made_later() {
    let (_scratch, dir) = new_dir();
    let (action, reasons) = noting();
    let config = EngineConfig { on_fatal: Some(action), ..config(IoMethod::Sync, false) };
    let (engine, mut session) = open_session(&dir, &config);
    create(&mut session, "t");
    insert(&mut session, "t", 0..100);
    assert!(reasons.lock().expect("lock").is_empty());
    // pg_xact cannot be opened: its directory is gone. Nothing of it was written, and nothing is
    // lost.
    std::fs::rename(dir.join("pg_xact"), dir.join("elsewhere")).expect("rename");
    std::fs::write(dir.join("pg_xact"), "no directory").expect("write");
    let error = session.checkpoint().expect_err("failed");
    assert_eq!(error.sqlstate(), "XX000", "{error}");
    assert!(error.detail().is_some_and(|detail| detail.contains("pg_xact")), "{error:?}");
    assert_eq!(*reasons.lock().expect("lock"), Vec::<String>::new());
    assert_eq!(count(&mut session, "t").expect("count"), 100);
    std::fs::remove_file(dir.join("pg_xact")).expect("remove");
    std::fs::rename(dir.join("elsewhere"), dir.join("pg_xact")).expect("rename");
    session.checkpoint().expect("its directory is back");
    insert(&mut session, "t", 100..110);
    drop(session);
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    let (_engine, mut session) = open_session(&dir, &config);
    assert_eq!(count(&mut session, "t").expect("count"), 110);
}

#[test]
fn a_fast_stop_rolls_back_what_idle_sessions_left_open() {
    for (way, config) in ways() {
        let (_scratch, dir) = new_dir();
        let (engine, mut session) = open_session(&dir, &config);
        create(&mut session, "kept");
        start(&mut session);
        session.create_table(None, "t", &columns()).expect("create");
        session.start_command().expect("command");
        let table = session.open_table(None, "t", LockMode::RowExclusive).expect("table");
        insert_open(&mut session, &table, 0..5_000).expect("insert");
        session.start_command().expect("command");
        // The scan keeps a page of the new table.
        let mut scan = session.scan(&table).expect("scan");
        assert!(scan.next(&mut session).expect("next").is_some());
        let file = dir.join("base/5").join(table.oid.to_string());
        assert!(file.exists(), "{way}");
        engine.shutdown(ShutdownMode::Fast).expect("shutdown");
        assert!(!file.exists(), "{way}: the file of a table that never was");
        assert_eq!(session.commit().expect_err("stopped").sqlstate(), "57P01");
        drop((scan, session, engine));
        assert!(!file.exists(), "{way}");
        let (_engine, mut session) = open_session(&dir, &config);
        assert_eq!(count(&mut session, "t").expect_err("rolled back").sqlstate(), "42P01", "{way}");
        insert(&mut session, "kept", 0..10);
        assert_eq!(count(&mut session, "kept").expect("count"), 10);
    }
}

#[test]
fn files_of_an_aborted_creation_go_only_once_the_log_says_so() {
    let (_scratch, dir) = new_dir();
    // Without images redo needs the pages, or a record that explains why they are gone.
    let config = EngineConfig { full_page_writes: false, ..config(IoMethod::Sync, false) };
    let engine = open(&dir, &config);
    let mut other = engine.session().expect("session");
    create(&mut other, "kept");
    let mut session = engine.session().expect("session");
    start(&mut session);
    session.create_table(None, "t", &columns()).expect("create");
    session.start_command().expect("command");
    let table = session.open_table(None, "t", LockMode::RowExclusive).expect("table");
    insert_open(&mut session, &table, 0..10).expect("insert");
    other.checkpoint().expect("checkpoint");
    insert_open(&mut session, &table, 10..20).expect("insert");
    insert(&mut other, "kept", 0..10);
    session.abort().expect("abort");
    assert!(!dir.join("base/5").join(table.oid.to_string()).exists());
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, other, engine));
    let (_engine, mut session) = open_session(&dir, &config);
    assert_eq!(count(&mut session, "kept").expect("count"), 10);
    assert_eq!(count(&mut session, "t").expect_err("aborted").sqlstate(), "42P01");
}

#[test]
fn a_stop_goes_through_without_its_lock_file() {
    let (_scratch, dir) = new_dir();
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Worker, false));
    create(&mut session, "t");
    insert(&mut session, "t", 0..100);
    // Somebody tidied up; the server cannot tell there that it is stopping.
    std::fs::remove_file(dir.join("postmaster.pid")).expect("remove");
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    drop((session, engine));
    let recovered = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&recovered);
    let report = RecoveryReport(Arc::new(move |_| seen.store(true, Ordering::SeqCst)));
    let config = EngineConfig { on_recovery: Some(report), ..config(IoMethod::Sync, false) };
    let engine = open(&dir, &config);
    assert!(!recovered.load(Ordering::SeqCst), "it was shut down");
    let mut session = engine.session().expect("session");
    assert_eq!(count(&mut session, "t").expect("count"), 100);
}
