//! Recovery from an archive: to its end, to targets, along timelines; what an archive that fails
//! does not do; crashes at the end.

use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::archive_fixture::Fixture;
use crate::common::*;
use forebay_engine::{
    ArchiveMode, CheckpointStep, CheckpointWatch, Engine, EngineConfig, EngineError, IoMethod,
    LockMode, Lsn, RecoveryTarget, Session, ShutdownMode, TargetAction, TargetTimeline,
};
use forebay_format::control::DbState;
use forebay_format::wal::rmgr::INFO_SPECIAL_REL_UPDATE;
use forebay_format::wal::{Rmgr, smgr, xlog};
use forebay_testkit::files::copy_tree;
use forebay_wal::Record;

fn small() -> EngineConfig {
    config(IoMethod::Sync, false)
}

/// Where the log stands, once a row has been committed.
fn commit(session: &mut Session, id: i64) -> Lsn {
    insert(session, "t", id..id + 1);
    session.wal_insert_lsn()
}

/// Microseconds since 2000; later than what was asked before, earlier than what is asked later.
fn moment() -> i64 {
    let now = || {
        let since =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time");
        i64::try_from(since.as_micros()).expect("a time") - 946_684_800_000_000
    };
    let (before, mut here) = (now(), now());
    while here < before + 2 {
        here = now();
    }
    let (at, mut later) = (here, now());
    while later < at + 2 {
        later = now();
    }
    at
}

#[test]
fn an_archive_is_recovered_to_its_end_and_a_new_timeline_begins() {
    for (way, config) in ways() {
        let fixture = Fixture::new(config);
        let engine = fixture.open("data");
        let mut session = engine.session().expect("session");
        for first in (100..20_000).step_by(1000) {
            insert(&mut session, "t", first..first + 1000);
        }
        session.switch_wal().expect("switch");
        drop(session);
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        fixture.archive("data");

        let dir = fixture.restore("new");
        let engine = Engine::open(&dir, fixture.recovering(None)).expect("open");
        let mut session = engine.session().expect("session");
        assert_eq!(count(&mut session, "t").expect("count"), 20_100, "{way}");
        let control = log::control(&dir);
        assert_eq!(
            (control.state, control.checkpoint_copy.timeline),
            (DbState::Production, 2),
            "{way}"
        );
        assert_eq!(control.checkpoint_copy.prev_timeline, 1);
        assert!(!dir.join("recovery.signal").exists() && !dir.join("recovery.ending").exists());
        let history =
            std::fs::read_to_string(dir.join("pg_wal/00000002.history")).expect("history");
        assert!(
            history.starts_with("1\t0/") && history.ends_with("\tno recovery target specified\n"),
            "{history}"
        );
        assert!(dir.join("pg_wal/archive_status/00000002.history.ready").exists());
        // What was brought is gone, but for the end; the new timeline's log is a log as any other.
        insert(&mut session, "t", 50_000..50_100);
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        drop((session, engine));
        let engine = Engine::open(&dir, fixture.config.clone()).expect("open");
        let mut session = engine.session().expect("session");
        assert_eq!(count(&mut session, "t").expect("count"), 20_200, "{way}");
    }
}

#[test]
fn recovery_stops_at_each_kind_of_target() {
    let fixture = Fixture::new(small());
    let (engine, mut session) = fixture.session("data");
    let first = commit(&mut session, 100);
    let between = moment();
    transaction(&mut session, |s| {
        let table = s.open_table(None, "t", forebay_engine::LockMode::RowExclusive)?;
        insert_open(s, &table, 101..103)
    })
    .expect("insert");
    start(&mut session);
    let table =
        session.open_table(None, "t", forebay_engine::LockMode::RowExclusive).expect("table");
    insert_open(&mut session, &table, 103..106).expect("insert");
    let xid = session.transaction_id().expect("it has written");
    session.commit().expect("commit");
    session.create_restore_point("here").expect("a point");
    commit(&mut session, 106);
    session.create_restore_point("here").expect("a point of the same name");
    commit(&mut session, 107);
    fixture.crash("data", engine, session);

    for (name, target, inclusive, expected) in [
        ("immediate", RecoveryTarget::Immediate, true, 100),
        ("lsn", RecoveryTarget::Lsn(first), false, 101),
        ("time", RecoveryTarget::Time(between), true, 101),
        ("time-exclusive", RecoveryTarget::Time(between), false, 101),
        ("xid", RecoveryTarget::Xid(xid), true, 106),
        ("xid-exclusive", RecoveryTarget::Xid(xid), false, 103),
        ("name", RecoveryTarget::Name("here".to_owned()), true, 106),
    ] {
        assert_eq!(fixture.count_at(name, target, inclusive), expected, "{name}");
    }
    let reason = |name: &str| {
        let text = std::fs::read_to_string(fixture.path(name).join("pg_wal/00000002.history"))
            .expect("history");
        text.trim_end().rsplit('\t').next().map(str::to_owned).expect("a reason")
    };
    assert_eq!(reason("immediate"), "reached consistency");
    assert_eq!(reason("lsn"), format!("before LSN {first}"));
    assert!(reason("time").starts_with("before 20"));
    assert_eq!(reason("xid"), format!("after transaction {xid}"));
    assert_eq!(reason("xid-exclusive"), format!("before transaction {xid}"));
    assert_eq!(reason("name"), "at restore point \"here\"");
}

#[test]
fn a_target_that_is_never_reached_is_no_end() {
    let fixture = Fixture::new(small());
    let (engine, mut session) = fixture.session("data");
    commit(&mut session, 100);
    fixture.crash("data", engine, session);
    let dir = fixture.restore("new");
    for target in [
        RecoveryTarget::Name("nowhere".to_owned()),
        RecoveryTarget::Xid(4_000_000),
        RecoveryTarget::Lsn(Lsn(1 << 40)),
        RecoveryTarget::Time(moment()),
    ] {
        let error = Engine::open(&dir, fixture.recovering(Some(target))).expect_err("no target");
        assert_eq!(
            error.to_string(),
            "recovery ended before configured recovery target was reached"
        );
        assert_eq!(log::control(&dir).state, DbState::ArchiveRecovery);
    }
    // It has changed its mind.
    let engine = Engine::open(&dir, fixture.recovering(None)).expect("open");
    assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), 101);
}

#[test]
fn recovery_that_was_told_to_stop_goes_on_with_the_next_start() {
    let fixture = Fixture::new(small());
    let (engine, mut session) = fixture.session("data");
    session.create_restore_point("early").expect("a point");
    insert(&mut session, "t", 100..5000);
    session.create_restore_point("late").expect("a point");
    commit(&mut session, 5000);
    fixture.crash("data", engine, session);
    let dir = fixture.restore("new");
    let named = |name: &str| fixture.recovering(Some(RecoveryTarget::Name(name.to_owned())));
    for action in [TargetAction::Shutdown, TargetAction::Pause] {
        for name in ["early", "late"] {
            let mut config = named(name);
            config.restore.action = action;
            let error = Engine::open(&dir, config).expect_err("stopped");
            assert!(matches!(error, EngineError::StoppedAtTarget { .. }), "{error}");
            assert!(dir.join("recovery.signal").exists());
        }
    }
    let engine = Engine::open(&dir, named("late")).expect("open");
    assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), 5000);
}

/// A small pool writes pages while it recovers: whoever then wants an earlier target would get
/// pages from its future.
#[test]
fn a_target_behind_which_pages_were_written_is_refused() {
    let fixture = Fixture::new(EngineConfig { shared_buffers: 32.into(), ..small() });
    let (engine, mut session) = fixture.session("data");
    session.create_restore_point("early").expect("a point");
    for first in (100..60_000).step_by(1000) {
        insert(&mut session, "t", first..first + 1000);
    }
    session.create_restore_point("late").expect("a point");
    fixture.crash("data", engine, session);
    let dir = fixture.restore("new");
    let named = |name: &str| fixture.recovering(Some(RecoveryTarget::Name(name.to_owned())));
    let mut config = named("late");
    config.restore.action = TargetAction::Shutdown;
    assert!(matches!(Engine::open(&dir, config), Err(EngineError::StoppedAtTarget { .. })));
    let control = log::control(&dir);
    assert!(control.min_recovery_point > control.checkpoint_copy.redo, "{control:?}");
    let error = Engine::open(&dir, named("early")).expect_err("too early");
    assert_eq!(
        error.to_string(),
        "requested recovery stop point is before consistent recovery point"
    );
    let engine = Engine::open(&dir, named("late")).expect("open");
    assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), 60_100);
}

/// Redo of a drop removes files, and no page is written with it: pg_control must know all the same.
#[test]
fn a_target_before_a_drop_that_was_redone_is_refused() {
    let fixture = Fixture::new(small());
    let (engine, mut session) = fixture.session("data");
    session.create_restore_point("early").expect("a point");
    transaction(&mut session, |s| {
        let table = s.open_table(None, "t", LockMode::AccessExclusive)?;
        s.drop_table(&table)
    })
    .expect("drop");
    session.create_restore_point("late").expect("a point");
    create(&mut session, "other");
    fixture.crash("data", engine, session);
    let dir = fixture.restore("new");
    let late = RecoveryTarget::Name("late".to_owned());
    fixture.refuses_early_after(&dir, &late);
    let engine = Engine::open(&dir, fixture.recovering(Some(late))).expect("open");
    let error = count(&mut engine.session().expect("session"), "t").expect_err("dropped");
    assert_eq!(error.sqlstate(), "42P01");
}

/// The same for a file that redo cuts, by a record as PostgreSQL's vacuum leaves it.
#[test]
fn a_target_before_a_cut_that_was_redone_is_refused() {
    let fixture = Fixture::new(small());
    let (engine, mut session) = fixture.session("data");
    session.create_restore_point("early").expect("a point");
    commit(&mut session, 100);
    let open = |s: &mut Session| s.open_table(None, "t", LockMode::AccessShare).map(|t| t.locator);
    let rel = transaction(&mut session, open).expect("table");
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, engine));
    let (log, mut io) = log::resume(&fixture.path("data"));
    let main = smgr::SmgrTruncate { blocks: 0, rel, flags: smgr::TRUNCATE_ALL }.encode();
    let info = smgr::TRUNCATE | INFO_SPECIAL_REL_UPDATE;
    let cut = Record { rmgr: Rmgr::SMGR, info, xid: 0, main: &main, blocks: &[] };
    let cut = log.insert(&mut io, &cut).expect("insert");
    let behind = Record { rmgr: Rmgr::XLOG, info: xlog::NOOP, xid: 0, main: &[], blocks: &[] };
    log.insert(&mut io, &behind).expect("insert");
    log.flush_all(&mut io).expect("flush");
    drop(log);
    let size = log::control(&fixture.path("data")).segment_size;
    let name = size.file_name(1, size.number(cut.start));
    std::fs::copy(fixture.path("data/pg_wal").join(&name), fixture.path("store").join(&name))
        .expect("archive");
    let dir = fixture.restore("new");
    let late = RecoveryTarget::Lsn(cut.start);
    fixture.refuses_early_after(&dir, &late);
    let engine = Engine::open(&dir, fixture.recovering(Some(late))).expect("open");
    assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), 0);
}

#[test]
fn a_store_that_is_down_never_ends_recovery() {
    let fixture = Fixture::new(small());
    let (engine, mut session) = fixture.session("data");
    for first in (100..80_000).step_by(1000) {
        insert(&mut session, "t", first..first + 1000);
    }
    fixture.crash("data", engine, session);
    let mut stored: Vec<_> = std::fs::read_dir(fixture.path("store"))
        .expect("store")
        .map(|entry| entry.expect("entry").file_name().into_string().expect("a name"))
        .collect();
    stored.sort();
    assert!(stored.len() >= 3, "{stored:?}");
    let dir = fixture.restore("new");
    let store = fixture.path("store").display().to_string();
    // Whatever is asked for first, last, or never there: a failure is no answer.
    for wanted in [stored[1].as_str(), stored[stored.len() - 1].as_str(), "00000002.history"] {
        for (failure, why) in [
            ("exit 126", "exit code 126"),
            ("exit 255", "exit code 255"),
            ("/no/such/program || exit $?", "exit code 127"),
            ("kill -9 $$", "signal 9"),
            ("kill -15 $$", "signal 15"),
            ("exit 0", "there is no file"),
        ] {
            let mut config = fixture.recovering(None);
            config.restore.restore_command =
                format!("if test %f = {wanted}; then {failure}; fi; cp {store}/%f %p 2>/dev/null");
            let error = Engine::open(&dir, config).expect_err("the store is down");
            assert!(error.to_string().contains(why), "{wanted}, {failure}: {error}");
            assert_eq!(error.sqlstate(), "58030");
            assert!(
                dir.join("recovery.signal").exists()
                    && !dir.join("pg_wal/00000002.history").exists()
            );
        }
    }
    let engine = Engine::open(&dir, fixture.recovering(None)).expect("the store is up again");
    assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), 80_100);
}

#[test]
fn what_is_no_segment_of_this_cluster_is_no_end() {
    let fixture = Fixture::new(small());
    let (engine, mut session) = fixture.session("data");
    for first in (100..80_000).step_by(1000) {
        insert(&mut session, "t", first..first + 1000);
    }
    fixture.crash("data", engine, session);
    let victim = fixture.path("store").join("000000010000000000000003");
    let good = std::fs::read(&victim).expect("segment");
    let foreign = {
        let mut bytes = good.clone();
        bytes[24] ^= 1;
        bytes
    };
    let dir = fixture.restore("new");
    for (bytes, why) in [
        (good[..good.len() - 1].to_vec(), "wrong size: 1048575 instead of 1048576"),
        (Vec::new(), "wrong size: 0 instead of 1048576"),
        (vec![0; good.len()], "but the log goes on in"),
        (foreign, "is from a different database system"),
    ] {
        std::fs::write(&victim, bytes).expect("write");
        let error = Engine::open(&dir, fixture.recovering(None)).expect_err("damaged");
        assert!(error.to_string().contains(why), "{error}");
    }
    // It lacks one that later ones give away.
    std::fs::remove_file(&victim).expect("remove");
    let error = Engine::open(&dir, fixture.recovering(None)).expect_err("a gap");
    assert!(error.to_string().contains("but the log goes on in"), "{error}");
    std::fs::write(&victim, good).expect("write");
    let engine = Engine::open(&dir, fixture.recovering(None)).expect("open");
    assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), 80_100);
}

/// With `always`, what was restored is this server's own to archive: nothing goes before it is.
#[test]
fn what_was_restored_is_archived_again_with_always() {
    let fixture = Fixture::new(small());
    let (engine, mut session) = fixture.session("data");
    for first in (100..80_000).step_by(1000) {
        insert(&mut session, "t", first..first + 1000);
    }
    fixture.crash("data", engine, session);
    let dir = fixture.restore("new");
    let config = EngineConfig { archive_mode: ArchiveMode::Always, ..fixture.recovering(None) };
    let engine = Engine::open(&dir, config).expect("open");
    assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), 80_100);
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    let wal = dir.join("pg_wal");
    let marked =
        |mark: &str, name: &str| wal.join("archive_status").join(format!("{name}.{mark}")).exists();
    let control = log::control(&fixture.path("base"));
    let first = control
        .segment_size
        .file_name(1, control.segment_size.number(control.checkpoint_copy.redo));
    let restored: Vec<String> = std::fs::read_dir(fixture.path("store"))
        .expect("store")
        .map(|entry| entry.expect("entry").file_name().into_string().expect("a name"))
        .filter(|name| *name >= first)
        .collect();
    assert!(restored.len() >= 3, "{restored:?}");
    for name in &restored {
        assert!(
            wal.join(name).exists() && marked("ready", name) && !marked("done", name),
            "{name}"
        );
    }
}

#[test]
fn timelines_are_followed_and_chosen() {
    let fixture = Fixture::new(small());
    let (engine, mut session) = fixture.session("data");
    commit(&mut session, 100);
    session.create_restore_point("fork").expect("a point");
    insert(&mut session, "t", 101..111);
    fixture.crash("data", engine, session);

    // Timeline 2 leaves the first in the middle of a segment.
    let dir = fixture.restore("second");
    let engine =
        Engine::open(&dir, fixture.recovering(Some(RecoveryTarget::Name("fork".to_owned()))))
            .expect("open");
    let mut session = engine.session().expect("session");
    insert(&mut session, "t", 200..202);
    session.switch_wal().expect("switch");
    insert(&mut session, "t", 202..204);
    session.switch_wal().expect("switch");
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, engine));
    // The first timeline's segment came from the archive: it is not archived as a part.
    fixture.archive("second");
    assert!(fixture.path("store").join("00000002.history").exists());

    let recover = |name: &str, timeline: TargetTimeline| {
        let mut config = fixture.recovering(None);
        config.restore.timeline = timeline;
        let engine = Engine::open(&fixture.restore(name), config)?;
        let counted = count(&mut engine.session().expect("session"), "t").expect("count");
        let now = log::control(&fixture.path(name)).checkpoint_copy.timeline;
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        Ok::<_, EngineError>((counted, now))
    };
    assert_eq!(recover("latest", TargetTimeline::Latest).expect("open"), (105, 3));
    assert_eq!(recover("current", TargetTimeline::Current).expect("open"), (111, 3));
    assert_eq!(recover("one", TargetTimeline::Number(1)).expect("open"), (111, 3));
    assert_eq!(recover("two", TargetTimeline::Number(2)).expect("open"), (105, 3));
    let error = recover("nine", TargetTimeline::Number(9)).expect_err("not there");
    assert_eq!(error.to_string(), "recovery target timeline 9 does not exist");
    let history =
        std::fs::read_to_string(fixture.path("latest/pg_wal/00000003.history")).expect("history");
    assert_eq!(history.lines().count(), 2, "{history}");
    assert!(
        history.starts_with("1\t") && history.contains("at restore point \"fork\"\n2\t"),
        "{history}"
    );

    // A backup that was taken behind the fork is no past of the other timeline.
    let late = fixture.path("late");
    copy_tree(&fixture.path("data"), &late);
    std::fs::write(late.join("recovery.signal"), "").expect("signal");
    let error = Engine::open(&late, fixture.recovering(None)).expect_err("another past");
    let said = error.to_string();
    assert!(
        said.contains("requested timeline 2 does not contain minimum recovery point"),
        "{said}"
    );
}

#[test]
fn the_last_segment_of_a_server_that_is_lost_counts_too() {
    let fixture = Fixture::new(small());
    let (engine, mut session) = fixture.session("data");
    commit(&mut session, 100);
    session.switch_wal().expect("switch");
    commit(&mut session, 101);
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, engine));
    fixture.archive("data");
    let dir = fixture.restore("new");
    // As PostgreSQL's manual says: what was not archived goes into pg_wal.
    for entry in std::fs::read_dir(fixture.path("data/pg_wal")).expect("pg_wal") {
        let path = entry.expect("entry").path();
        if path.is_file() && !fixture.path("store").join(path.file_name().expect("name")).exists() {
            std::fs::copy(&path, dir.join("pg_wal").join(path.file_name().expect("name")))
                .expect("copy");
        }
    }
    let engine = Engine::open(&dir, fixture.recovering(None)).expect("open");
    let mut session = engine.session().expect("session");
    assert_eq!(count(&mut session, "t").expect("count"), 102);
    // The old timeline ended in the middle of a segment that nobody has archived: that is told to
    // the archive as what it is.
    let partial = std::fs::read_dir(dir.join("pg_wal"))
        .expect("pg_wal")
        .filter_map(|entry| entry.expect("entry").file_name().into_string().ok())
        .find(|name| name.ends_with(".partial"))
        .expect("a part");
    assert!(partial.starts_with("00000001"));
    assert!(dir.join("pg_wal/archive_status").join(format!("{partial}.ready")).exists());
    fixture.archive("new");
}

/// Crashes at each step of the checkpoint that ends recovery.
#[test]
fn a_crash_at_the_end_of_recovery_leads_to_the_same_timeline() {
    let fixture = Fixture::new(small());
    let (engine, mut session) = fixture.session("data");
    insert(&mut session, "t", 100..5000);
    start(&mut session);
    let table =
        session.open_table(None, "t", forebay_engine::LockMode::RowExclusive).expect("table");
    insert_open(&mut session, &table, 5000..5010).expect("insert");
    let xid = session.transaction_id().expect("it has written");
    session.commit().expect("commit");
    fixture.crash("data", engine, session);

    let dir = fixture.restore("new");
    let copies = Arc::new(Mutex::new(Vec::new()));
    // A target that lies behind the end of what is kept: it could not be reached once more.
    let mut config = fixture.recovering(Some(RecoveryTarget::Xid(xid)));
    config.restore.inclusive = false;
    let crashing = {
        let (dir, copies, base) = (dir.clone(), Arc::clone(&copies), fixture.path("crash"));
        let watch = CheckpointWatch(Arc::new(move |step: CheckpointStep| {
            let mut copies = copies.lock().expect("no panic");
            let copy = base.with_extension(copies.len().to_string());
            copy_tree(&dir, &copy);
            copies.push((step, copy));
        }));
        EngineConfig { on_checkpoint: Some(watch), ..config.clone() }
    };
    let engine = Engine::open(&dir, crashing).expect("open");
    assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), 5000);
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop(engine);
    let copies = std::mem::take(&mut *copies.lock().expect("no panic"));
    assert!(copies.len() >= 4, "{copies:?}");
    for (step, copy) in copies.into_iter().take(4) {
        assert!(copy.join("recovery.ending").exists() && !copy.join("recovery.signal").exists());
        let engine =
            Engine::open(&copy, config.clone()).unwrap_or_else(|e| panic!("{step:?}: {e}"));
        let mut session = engine.session().expect("session");
        assert_eq!(count(&mut session, "t").expect("count"), 5000, "{step:?}");
        assert_eq!(log::control(&copy).checkpoint_copy.timeline, 2, "{step:?}");
        assert!(!copy.join("recovery.ending").exists());
        insert(&mut session, "t", 9000..9001);
        drop(session);
        engine.shutdown(ShutdownMode::Fast).expect("stop");
        drop(engine);
        let engine = Engine::open(&copy, config.clone()).expect("open");
        assert_eq!(
            count(&mut engine.session().expect("session"), "t").expect("count"),
            5001,
            "{step:?}"
        );
    }
    // And behind it, before the last file has gone.
    drop(Engine::open(&dir, config.clone()).expect("open"));
    std::fs::write(dir.join("recovery.ending"), "2\t0/1000028\twhy\n").expect("write");
    let engine = Engine::open(&dir, config).expect("open");
    assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), 5000);
    assert!(!dir.join("recovery.ending").exists());
    assert_eq!(log::control(&dir).checkpoint_copy.timeline, 2);
}

/// A backup_label.
fn label(redo: Lsn, segment: &str, checkpoint: Lsn) -> String {
    format!(
        "START WAL LOCATION: {redo} (file {segment})\nCHECKPOINT LOCATION: {checkpoint}\n\
         BACKUP METHOD: streamed\nBACKUP FROM: primary\n\
         START TIME: 2026-11-21 17:00:00 UTC\nLABEL: test\nSTART TIMELINE: 1\n"
    )
}

/// Logs the end of a backup in a stopped directory.
fn log_backup_end(dir: &Path, start: Lsn) {
    let (log, mut io) = log::resume(dir);
    let main = xlog::encode_backup_end(start);
    let end = Record { rmgr: Rmgr::XLOG, info: xlog::BACKUP_END, xid: 0, main: &main, blocks: &[] };
    log.insert(&mut io, &end).expect("insert");
    log.flush_all(&mut io).expect("flush");
}

/// Copies the files of a directory, without those below it.
fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("directory") {
        let path = entry.expect("entry").path();
        if path.is_file() {
            std::fs::copy(&path, to.join(path.file_name().expect("name"))).expect("copy");
        }
    }
}

/// A backup taken while the server ran: the label says where to begin, a record where it ended.
#[test]
fn a_base_backup_is_recovered_from_where_it_began() {
    let fixture = Fixture::new(small());
    let (engine, mut session) = fixture.session("data");
    insert(&mut session, "t", 100..3000);
    session.checkpoint().expect("checkpoint");
    let began = log::control(&fixture.path("data"));
    insert(&mut session, "t", 3000..6000);
    // pg_control, which is copied with the rest, knows a later checkpoint.
    session.checkpoint().expect("checkpoint");
    copy_tree(&fixture.path("data"), &fixture.path("backup"));
    insert(&mut session, "t", 6000..7000);
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, engine));
    let size = began.segment_size;
    let redo = began.checkpoint_copy.redo;
    let label = label(redo, &size.file_name(1, size.number(redo)), began.checkpoint);
    let backup = fixture.path("backup");
    std::fs::write(backup.join("backup_label"), &label).expect("label");
    let wal = fixture.path("data/pg_wal");
    let restore = |name: &str, archive: bool| {
        let dir = fixture.path(name);
        copy_tree(&backup, &dir);
        copy_files(&wal, &if archive { fixture.path("store") } else { dir.join("pg_wal") });
        if archive {
            std::fs::write(dir.join("recovery.signal"), "").expect("signal");
        }
        dir
    };
    // The log does not tell yet that the backup has ended.
    for (name, archive) in [("early-archive", true), ("early-log", false)] {
        let dir = restore(name, archive);
        let error = Engine::open(&dir, fixture.recovering(None)).expect_err("not ended");
        assert_eq!(error.to_string(), "WAL ends before end of online backup");
        let control = log::control(&dir);
        assert_eq!((control.state, control.backup_start), (DbState::ArchiveRecovery, redo));
        assert!(dir.join("backup_label.old").exists() && !dir.join("backup_label").exists());
    }
    log_backup_end(&fixture.path("data"), redo);
    for (name, archive) in [("archive", true), ("log", false)] {
        let dir = restore(name, archive);
        let engine = Engine::open(&dir, fixture.recovering(None)).expect(name);
        assert_eq!(
            count(&mut engine.session().expect("session"), "t").expect("count"),
            7000,
            "{name}"
        );
        let control = log::control(&dir);
        assert_eq!((control.state, control.backup_start), (DbState::Production, Lsn(0)));
        // Without the archive nothing branches off.
        assert_eq!(control.checkpoint_copy.timeline, if archive { 2 } else { 1 });
    }
    // One that was interrupted goes on where the label said, though the label is gone.
    let dir = fixture.path("early-archive");
    let engine = Engine::open(&dir, fixture.recovering(None)).expect("open");
    assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), 7000);
    drop(engine);
    // Without its label the backup would be one of the later checkpoint, and its log is not all
    // there.
    let dir = restore("unlabelled", true);
    std::fs::remove_file(dir.join("backup_label")).expect("remove");
    std::fs::write(
        dir.join("backup_label"),
        label.replace(&began.checkpoint.to_string(), "0/7000028"),
    )
    .expect("label");
    let error = Engine::open(&dir, fixture.recovering(None)).expect_err("no such checkpoint");
    assert_eq!(error.to_string(), "could not locate required checkpoint record at 0/7000028");
    assert!(error.hint().is_some_and(|hint| hint.contains("backup_label")));
}

/// Recovery that is begun again begins at a restart point, and older files of the archive may go
/// then.
#[test]
fn recovery_goes_on_from_a_restart_point() {
    let fixture = Fixture::new(small());
    let (engine, mut session) = fixture.session("data");
    for first in (100..40_000).step_by(5000) {
        insert(&mut session, "t", first..first + 5000);
        session.checkpoint().expect("checkpoint");
    }
    session.create_restore_point("here").expect("a point");
    fixture.crash("data", engine, session);
    let dir = fixture.restore("new");
    let mut config = fixture.recovering(Some(RecoveryTarget::Name("here".to_owned())));
    config.writing.max_wal_size = 1 << 20;
    config.restore.archive_cleanup_command = "echo %r >> cleaned".to_owned();
    config.restore.action = TargetAction::Shutdown;
    let began = log::control(&dir).checkpoint_copy.redo;
    assert!(matches!(Engine::open(&dir, config.clone()), Err(EngineError::StoppedAtTarget { .. })));
    let control = log::control(&dir);
    assert_eq!(control.state, DbState::ArchiveRecovery);
    assert!(
        control.checkpoint_copy.redo > began && control.min_recovery_point > control.checkpoint
    );
    let cleaned = std::fs::read_to_string(dir.join("cleaned")).expect("cleaned");
    let oldest = cleaned.lines().last().expect("a name");
    let size = control.segment_size;
    assert_eq!(oldest, size.file_name(1, size.number(control.checkpoint_copy.redo)));
    for entry in std::fs::read_dir(fixture.path("store")).expect("store") {
        let path = entry.expect("entry").path();
        if path.file_name().is_some_and(|name| name.to_str().is_some_and(|name| name < oldest)) {
            std::fs::remove_file(path).expect("remove");
        }
    }
    config.restore.action = TargetAction::Promote;
    let engine = Engine::open(&dir, config).expect("open");
    assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), 40_100);
}

#[test]
fn settings_that_contradict_are_refused() {
    let fixture = Fixture::new(small());
    let dir = fixture.restore("new");
    let mut config = fixture.recovering(Some(RecoveryTarget::Immediate));
    config.restore.targets.push(RecoveryTarget::Xid(700));
    let error = Engine::open(&dir, config).expect_err("two targets");
    assert_eq!(error.to_string(), "multiple recovery targets specified");
    let mut config = fixture.recovering(None);
    config.restore.restore_command = "cp %x %p".to_owned();
    let error = Engine::open(&dir, config).expect_err("a placeholder");
    assert!(error.to_string().contains("cp %x %p"), "{error}");
    assert_eq!(log::control(&dir).state, DbState::ShutDown, "nothing has changed");
}

#[test]
fn the_end_command_is_run_once() {
    let fixture = Fixture::new(small());
    let dir = fixture.restore("new");
    let mut config = fixture.recovering(None);
    config.restore.recovery_end_command = "echo %r >> ended".to_owned();
    let engine = Engine::open(&dir, config.clone()).expect("open");
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    drop(engine);
    Engine::open(&dir, config).expect("open").shutdown(ShutdownMode::Fast).expect("stop");
    let told = std::fs::read_to_string(dir.join("ended")).expect("told");
    assert!(told.lines().count() == 1 && told.starts_with("00000002"), "{told}");
}
