//! Autovacuum: which tables it takes, what it counts, who may cancel it, and that it follows its
//! settings.

use std::sync::Arc;
use std::thread;

use crate::common::*;
use forebay_aio::sync::{Duration, Instant};
use forebay_engine::views::{Command, CountedRelation, LockTag, RelationStats, vacuum};
use forebay_engine::{
    AutovacuumSettings, ChangedParameters, Datum, Engine, EngineConfig, IoMethod, LockMode, Oid,
    RowBatch, Session, ShutdownMode, StorageParameter,
};

/// Autovacuum that runs when the test says so.
const BY_HAND: Duration = Duration::from_secs(3600);

fn settings() -> AutovacuumSettings {
    AutovacuumSettings { naptime: BY_HAND, ..AutovacuumSettings::default() }
}

fn opened(autovacuum: AutovacuumSettings) -> (tempfile::TempDir, Arc<Engine>, Session) {
    let (scratch, dir) = new_dir();
    let config = EngineConfig { autovacuum, ..config(IoMethod::Sync, false) };
    let (engine, session) = open_session(&dir, &config);
    (scratch, engine, session)
}

/// Makes a table with storage parameters; its OID.
fn make(session: &mut Session, name: &str, parameters: &[&str]) -> Oid {
    let parameters: Vec<String> = parameters.iter().map(|text| (*text).to_owned()).collect();
    let made = transaction(session, |s| s.create_table_with(None, name, &columns(), &parameters));
    made.expect("table")
}

/// Inserts rows with the ids 0 to `rows`, and deletes those below `deleted`.
fn fill(session: &mut Session, name: &str, rows: i64, deleted: i64) {
    insert(session, name, 0..rows);
    transaction(session, |s| {
        let table = s.open_table(None, name, LockMode::RowExclusive)?;
        let mut scan = s.scan(&table)?;
        let mut places = Vec::new();
        while let Some(row) = scan.next(s)? {
            if matches!(row.decode()?[0], Datum::Int8(id) if id < deleted) {
                places.push(row.place());
            }
        }
        for place in places {
            s.delete_row(&table, place)?;
        }
        Ok(())
    })
    .expect("delete");
}

fn stats(engine: &Engine, rel: Oid) -> RelationStats {
    engine.relation_stats().get(&CountedRelation { db: 5, rel }).copied().unwrap_or_default()
}

/// How often autovacuum has vacuumed and analyzed a table.
fn runs(engine: &Engine, rel: Oid) -> (u64, u64) {
    let stats = stats(engine, rel);
    (stats.autovacuums.count, stats.autoanalyzes.count)
}

/// Until a vacuum has its lock.
fn wait_for_vacuum(engine: &Engine, rel: Oid) {
    let is_it = |tag| matches!(tag, LockTag::Relation { relation, .. } if relation == rel);
    let held = || {
        let locks = engine.locks();
        locks.iter().any(|lock| is_it(lock.tag) && lock.mode == LockMode::ShareUpdateExclusive)
    };
    while !held() {
        thread::yield_now();
    }
}

/// Until a vacuum has left pages of a table behind.
fn wait_for_pages(engine: &Engine, rel: Oid) {
    loop {
        let rows = engine.progress(Command::Vacuum);
        if let [row] = &rows[..]
            && row.running.get(vacuum::BLOCKS_SCANNED) > 0
        {
            assert_eq!(row.running.relation, rel);
            return;
        }
        thread::yield_now();
    }
}

#[test]
fn tables_that_need_it_are_vacuumed_and_analyzed() {
    let (_scratch, engine, mut session) = opened(settings());
    let table = make(&mut session, "t", &[]);
    fill(&mut session, "t", 300, 0);
    assert_eq!(runs(&engine, table), (0, 0));
    engine.run_autovacuum().expect("a round");
    // 300 rows are new, of which 50 are enough for ANALYZE, but 1000 are needed for VACUUM.
    assert_eq!(runs(&engine, table), (0, 1));
    assert_eq!(stats(&engine, table).changed_since_analyze, 0);
    engine.run_autovacuum().expect("a round");
    assert_eq!(runs(&engine, table), (0, 1));
    // 110 dead rows are left alone, 111 are not.
    fill(&mut session, "t", 0, 110);
    engine.run_autovacuum().expect("a round");
    assert_eq!((stats(&engine, table).dead, runs(&engine, table)), (110, (0, 2)));
    fill(&mut session, "t", 0, 111);
    let round = engine.run_autovacuum().expect("a round");
    assert_eq!((round.vacuumed, round.analyzed, round.failures.len()), (1, 0, 0));
    let now = stats(&engine, table);
    assert_eq!((now.live, now.dead, now.inserted_since_vacuum), (189, 0, 0));
    assert_eq!(runs(&engine, table), (1, 2));
    assert_eq!((now.vacuums.count, now.analyzes.count), (0, 0));
    assert!(now.autovacuums.last.is_some() && now.vacuums.last.is_none());
    assert_eq!(count(&mut session, "t").expect("count"), 189);
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
}

#[test]
fn tables_have_settings_of_their_own() {
    let (_scratch, engine, mut session) = opened(settings());
    let off = make(&mut session, "off", &["autovacuum_enabled=false"]);
    let eager = make(
        &mut session,
        "eager",
        &["autovacuum_vacuum_threshold=0", "autovacuum_vacuum_scale_factor=0", "fillfactor=90"],
    );
    fill(&mut session, "off", 2000, 1000);
    fill(&mut session, "eager", 10, 1);
    engine.run_autovacuum().expect("a round");
    assert_eq!((runs(&engine, off), stats(&engine, off).dead), ((0, 0), 1000));
    assert_eq!((runs(&engine, eager), stats(&engine, eager).dead), ((1, 0), 0));
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
}

#[test]
fn catalogs_and_toast_tables_are_vacuumed() {
    let (_scratch, engine, mut session) = opened(settings());
    for number in 0..60 {
        let name = format!("t{number}");
        make(&mut session, &name, &[]);
        transaction(&mut session, |s| {
            let table = s.open_table(None, &name, LockMode::AccessExclusive)?;
            s.drop_table(&table)
        })
        .expect("drop");
    }
    let own = make(&mut session, "w", &["toast.autovacuum_enabled=off"]);
    let mut noise = 1_u64;
    let mut letter = |_| {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'a' + (noise >> 40) as u8 % 26)
    };
    let long: String = (0..200_000).map(&mut letter).collect();
    transaction(&mut session, |s| {
        let table = s.open_table(None, "w", LockMode::RowExclusive)?;
        let mut rows = RowBatch::new(&table);
        rows.push(&[Datum::Int8(1), Datum::text(&long)])?;
        s.insert_batch(&table, &mut rows)
    })
    .expect("insert");
    fill(&mut session, "w", 0, 2);
    let tables = transaction(&mut session, |s| s.tables()).expect("tables");
    let toast = tables.iter().find(|table| table.name == format!("pg_toast_{own}"));
    let toast = toast.expect("there is one").oid;
    assert!(stats(&engine, toast).dead > 60, "{:?}", stats(&engine, toast));
    engine.run_autovacuum().expect("a round");
    const PG_ATTRIBUTE: Oid = 1249;
    assert_eq!(runs(&engine, PG_ATTRIBUTE), (1, 1));
    assert_eq!(runs(&engine, toast), (0, 0), "it is switched off");
    let namespace = Some("toast".to_owned());
    let name = "autovacuum_enabled".to_owned();
    let given = [StorageParameter { namespace, name, value: None }];
    transaction(&mut session, |s| {
        let table = s.open_table(None, "w", LockMode::ShareUpdateExclusive)?;
        s.change_parameters(&table, ChangedParameters { given: &given, reset: true })
    })
    .expect("reset");
    engine.run_autovacuum().expect("a round");
    assert_eq!((runs(&engine, toast), stats(&engine, toast).dead), ((1, 0), 0));
    // One row is too little for the table itself.
    assert_eq!(runs(&engine, own), (0, 0));
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
}

#[test]
fn a_worker_gives_way_to_who_needs_its_lock() {
    // It would rest for an hour once a page is dirty.
    let slow = AutovacuumSettings { cost_delay: Some(BY_HAND), cost_limit: Some(1), ..settings() };
    let (_scratch, engine, mut session) = opened(slow);
    let table = make(&mut session, "t", &["autovacuum_analyze_threshold=1000000"]);
    let other = make(&mut session, "u", &["autovacuum_analyze_threshold=1000000"]);
    fill(&mut session, "t", 1000, 900);
    insert(&mut session, "u", 0..10);
    let worker = {
        let engine = Arc::clone(&engine);
        thread::spawn(move || engine.run_autovacuum())
    };
    wait_for_vacuum(&engine, table);
    session.settings_mut().deadlock_timeout = Duration::from_millis(1);
    transaction(&mut session, |s| s.open_table(None, "t", LockMode::AccessExclusive).map(drop))
        .expect("the worker gives way");
    let round = worker.join().expect("joined").expect("a cancel concerns one table alone");
    let context = "CONTEXT:  automatic vacuum of table \"postgres.public.t\"";
    let given_way = format!("canceling autovacuum task\n{context}");
    assert_eq!((round.vacuumed, &round.failures[..]), (0, &[given_way][..]));
    assert_eq!((runs(&engine, table), runs(&engine, other)), ((0, 0), (0, 0)));
    // It comes back.
    let quick = AutovacuumSettings { cost_delay: None, ..settings() };
    engine.change_autovacuum(&quick, session.settings());
    engine.run_autovacuum().expect("a round");
    assert_eq!(runs(&engine, table), (1, 0));
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
}

#[test]
fn a_worker_follows_changed_costs_while_it_vacuums() {
    /// With the settings that it begins with, it would rest for a second after each of 140 pages.
    const SOON: Duration = Duration::from_secs(60);
    let slow = AutovacuumSettings {
        cost_delay: Some(Duration::from_millis(250)),
        cost_limit: Some(1),
        ..settings()
    };
    let (_scratch, engine, mut session) = opened(slow);
    let table = make(&mut session, "t", &["autovacuum_analyze_threshold=1000000"]);
    fill(&mut session, "t", 20_000, 18_000);
    let worker = {
        let engine = Arc::clone(&engine);
        thread::spawn(move || engine.run_autovacuum())
    };
    wait_for_pages(&engine, table);
    let begun = Instant::now();
    let quick = AutovacuumSettings { cost_delay: Some(Duration::ZERO), ..slow };
    engine.change_autovacuum(&quick, session.settings());
    worker.join().expect("joined").expect("a round");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert_eq!(runs(&engine, table), (1, 0));
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
}

#[test]
fn a_worker_reads_the_parameters_of_a_table_when_it_comes_to_it() {
    let slow = AutovacuumSettings { cost_delay: Some(BY_HAND), cost_limit: Some(1), ..settings() };
    let quick = AutovacuumSettings { cost_delay: Some(Duration::ZERO), ..slow };
    let (_scratch, engine, mut session) = opened(quick);
    let first = make(&mut session, "t", &["autovacuum_analyze_threshold=1000000"]);
    let changed = make(&mut session, "u", &[]);
    let same = make(&mut session, "v", &[]);
    // The catalogs would come first.
    engine.run_autovacuum().expect("a round");
    engine.change_autovacuum(&slow, session.settings());
    for name in ["t", "u", "v"] {
        fill(&mut session, name, 1000, 900);
    }
    let worker = {
        let engine = Arc::clone(&engine);
        thread::spawn(move || engine.run_autovacuum())
    };
    // By now it knows which tables it will look after.
    wait_for_vacuum(&engine, first);
    let value = Some("off".to_owned());
    let name = "autovacuum_enabled".to_owned();
    let given = [StorageParameter { namespace: None, name, value }];
    transaction(&mut session, |s| {
        let table = s.open_table(None, "u", LockMode::ShareUpdateExclusive)?;
        s.change_parameters(&table, ChangedParameters { given: &given, reset: false })
    })
    .expect("set");
    engine.change_autovacuum(&quick, session.settings());
    // It may rest for an hour in the first table, which it gives up for this lock.
    session.settings_mut().deadlock_timeout = Duration::from_millis(1);
    transaction(&mut session, |s| s.open_table(None, "t", LockMode::AccessExclusive).map(drop))
        .expect("the worker gives way");
    worker.join().expect("joined").expect("a round");
    assert_eq!((runs(&engine, changed), runs(&engine, same)), ((0, 0), (1, 1)));
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
}

#[test]
fn the_launcher_follows_changed_settings_and_a_stop_ends_its_workers() {
    let off = AutovacuumSettings { enabled: false, ..settings() };
    let (_scratch, engine, mut session) = opened(off);
    let table = make(&mut session, "t", &[]);
    fill(&mut session, "t", 1000, 900);
    let at_once = Duration::from_millis(1);
    let on = AutovacuumSettings { naptime: at_once, cost_delay: None, ..settings() };
    engine.change_autovacuum(&on, session.settings());
    while runs(&engine, table) != (1, 1) {
        thread::yield_now();
    }
    let slow = AutovacuumSettings { cost_delay: Some(BY_HAND), cost_limit: Some(1), ..on };
    engine.change_autovacuum(&slow, session.settings());
    fill(&mut session, "t", 1000, 900);
    wait_for_vacuum(&engine, table);
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
}

#[test]
fn without_track_counts_nothing_is_counted() {
    let (_scratch, engine, mut session) = opened(settings());
    session.settings_mut().track_counts = false;
    let table = make(&mut session, "t", &[]);
    fill(&mut session, "t", 1000, 900);
    assert_eq!(stats(&engine, table), RelationStats::default());
    engine.run_autovacuum().expect("a round");
    assert_eq!(runs(&engine, table), (0, 0));
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
}
