//! What VACUUM and ANALYZE show while they run, and what pages cost them.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::common::*;
use crate::full_disk::Life;
use crate::parallel_vacuum::{ROWS, make, table};
use forebay_aio::fault::{Call, Held, Ops, Rule};
use forebay_aio::sync::Duration;
use forebay_engine::views::{Command, RunningCommand, analyze, cluster, vacuum};
use forebay_engine::{
    AnalyzeOptions, Engine, EngineError, InterruptKind, LockMode, Oid, Session, Table,
    VacuumOptions,
};

type Ended = (Session, Result<(), EngineError>);

/// Writes all pages, and leaves none of these relations in memory.
fn evict(life: &mut Life, relations: &[u32]) {
    life.session.checkpoint().expect("checkpoint");
    let of = |rel: u32| relations.contains(&rel);
    let held = life.engine.buffers();
    let held = held.filter(|held| held.page.is_some_and(|page| of(page.tag.rel.rel)));
    for buffer in held.map(|held| held.buffer).collect::<Vec<_>>() {
        life.session.evict_buffer(buffer).expect("evict");
    }
}

/// Holds reads of the main fork of a relation.
fn hold_reads(life: &Life, relation: u32) -> Held {
    let name = relation.to_string();
    let of = move |call: &Call| call.path.file_name().is_some_and(|of| *of == *name);
    life.plan.hold(Rule::on(Ops::READ).when(of))
}

/// The session, for a thread of its own.
fn replace_session(life: &mut Life) -> Session {
    let another = life.engine.session().expect("session");
    std::mem::replace(&mut life.session, another)
}

/// Runs something in a thread of its own.
fn start(
    mut session: Session,
    body: impl FnOnce(&mut Session) -> Result<(), EngineError> + Send + 'static,
) -> JoinHandle<Ended> {
    thread::spawn(move || {
        let result = body(&mut session);
        (session, result)
    })
}

/// What a command shows once that is so.
fn shown(
    engine: &Engine,
    (command, of): (Command, Oid),
    is_there: impl Fn(&RunningCommand) -> bool,
    thread: &JoinHandle<Ended>,
) -> RunningCommand {
    loop {
        let rows = engine.progress(command);
        if let [row] = rows[..]
            && is_there(&row.running)
        {
            assert_eq!(row.running.relation, of);
            return row.running;
        }
        assert!(!thread.is_finished(), "it has ended: {rows:?}");
        thread::yield_now();
    }
}

fn in_vacuum(
    engine: &Engine,
    of: Oid,
    phase: vacuum::Phase,
    thread: &JoinHandle<Ended>,
) -> RunningCommand {
    let is_there = |running: &RunningCommand| running.get(vacuum::PHASE) == phase as u64;
    shown(engine, (Command::Vacuum, of), is_there, thread)
}

/// Visits all pages.
fn vacuumed(session: &mut Session, table: &Arc<Table>) -> Result<(), EngineError> {
    let options = VacuumOptions { disable_page_skipping: true, ..VacuumOptions::default() };
    session.vacuum(table, &options, &mut Vec::new())
}

#[test]
fn a_vacuum_shows_its_phases() {
    let mut life = Life::new();
    make(&mut life.session);
    let table = table(&mut life.session);
    let indexes: Vec<u32> = table.indexes.iter().map(|index| index.locator.rel).collect();
    let heap = table.locator.rel;
    evict(&mut life, &[&indexes[..], &[heap]].concat());
    let (session, engine) = (replace_session(&mut life), Arc::clone(&life.engine));
    let (of_heap, of_index) = (hold_reads(&life, heap), hold_reads(&life, indexes[2]));
    let of = Arc::clone(&table);
    let thread = start(session, move |session| vacuumed(session, &of));
    let first = in_vacuum(&engine, table.oid, vacuum::Phase::ScanTable, &thread);
    let pages = first.get(vacuum::BLOCKS_TOTAL);
    assert!(pages > 100, "{pages} pages");
    assert_eq!((first.get(vacuum::BLOCKS_SCANNED), first.get(vacuum::DEAD_ITEMS)), (0, 0));
    assert_eq!(first.get(vacuum::MAX_DEAD_BYTES), 64 << 20);
    of_heap.release();
    let two_done = |running: &RunningCommand| running.get(vacuum::INDEXES_DONE) == 2;
    let second = shown(&engine, (Command::Vacuum, table.oid), two_done, &thread);
    assert_eq!(second.get(vacuum::PHASE), vacuum::Phase::VacuumIndexes as u64);
    assert_eq!(second.get(vacuum::INDEXES_TOTAL), 4);
    assert_eq!(second.get(vacuum::BLOCKS_SCANNED), pages);
    assert_eq!((second.get(vacuum::BLOCKS_VACUUMED), second.get(vacuum::INDEX_VACUUMS)), (0, 0));
    assert_eq!(second.get(vacuum::DEAD_ITEMS), ROWS / 2);
    assert!((1..=64 << 20).contains(&second.get(vacuum::DEAD_BYTES)));
    of_index.release();
    let (session, result) = thread.join().expect("joined");
    result.expect("vacuumed");
    assert!(engine.progress(Command::Vacuum).is_empty());
    drop(session);
}

#[test]
fn a_vacuum_shows_that_it_waits_to_cut_the_tail() {
    let mut life = Life::new();
    create(&mut life.session, "t");
    insert(&mut life.session, "t", 0..2000);
    let table = table(&mut life.session);
    transaction(&mut life.session, |s| {
        let opened = s.open_table(None, "t", LockMode::RowExclusive)?;
        let mut scan = s.scan(&opened)?;
        let mut places = Vec::new();
        while let Some(row) = scan.next(s)? {
            places.push(row.place());
        }
        places.into_iter().try_for_each(|place| s.delete_row(&opened, place).map(drop))
    })
    .expect("deleted");
    // Its lock is in the way.
    let mut other = life.engine.session().expect("session");
    crate::common::start(&mut other);
    other.open_table(None, "t", LockMode::AccessShare).expect("lock");
    let session = replace_session(&mut life);
    let of = Arc::clone(&table);
    let thread = start(session, move |session| vacuumed(session, &of));
    let cutting = in_vacuum(&life.engine, table.oid, vacuum::Phase::Truncate, &thread);
    // No second pass is needed without indexes.
    let pages = cutting.get(vacuum::BLOCKS_TOTAL);
    assert_eq!(cutting.get(vacuum::BLOCKS_VACUUMED), pages);
    assert_eq!(cutting.get(vacuum::MAX_DEAD_BYTES), 64 << 20);
    other.commit().expect("commit");
    let (session, result) = thread.join().expect("joined");
    result.expect("vacuumed");
    drop(session);
}

#[test]
fn analyze_and_vacuum_full_show_their_blocks() {
    let mut life = Life::new();
    create(&mut life.session, "t");
    insert(&mut life.session, "t", 0..2000);
    let table = table(&mut life.session);
    for command in [Command::Analyze, Command::Cluster] {
        evict(&mut life, &[table.locator.rel]);
        let session = replace_session(&mut life);
        let held = hold_reads(&life, table.locator.rel);
        let of = Arc::clone(&table);
        let thread = start(session, move |session| match command {
            Command::Analyze => {
                session.analyze_alone(&of, None, &AnalyzeOptions::default(), &mut Vec::new())
            }
            _ => session.vacuum_full(&of, &VacuumOptions::default(), &mut Vec::new()),
        });
        let (blocks, phase) = match command {
            Command::Analyze => (analyze::BLOCKS_TOTAL, analyze::PHASE),
            _ => (cluster::BLOCKS_TOTAL, cluster::PHASE),
        };
        let begun = |running: &RunningCommand| running.get(phase) == 1;
        let running = shown(&life.engine, (command, table.oid), begun, &thread);
        assert!((10..100).contains(&running.get(blocks)), "{running:?}");
        held.release();
        let (session, result) = thread.join().expect("joined");
        result.expect("done");
        drop(session);
        assert!(life.engine.progress(command).is_empty());
    }
}

/// Milliseconds of rests, by what VERBOSE tells.
fn delay(told: &str) -> Option<f64> {
    let time = told.lines().find_map(|line| line.strip_prefix("delay time: "))?;
    Some(time.trim_end_matches(" ms").parse().expect("a number"))
}

/// What pages cost: those found in memory, those read, those dirtied. There is a rest after each
/// that costs something.
fn set_costs(session: &mut Session, delay: Duration, [hit, miss, dirty]: [u32; 3]) {
    let settings = &mut session.settings_mut().vacuum;
    (settings.cost_delay, settings.cost_limit) = (delay, 1);
    (settings.cost_page_hit, settings.cost_page_miss) = (hit, miss);
    (settings.cost_page_dirty, settings.track_delays) = (dirty, true);
}

/// Whether a vacuum rests at these costs.
fn rests(session: &mut Session, table: &Arc<Table>, costs: [u32; 3]) -> bool {
    set_costs(session, Duration::from_millis(1), costs);
    let (disable_page_skipping, verbose) = (true, true);
    let options = VacuumOptions { disable_page_skipping, verbose, ..VacuumOptions::default() };
    let mut told = Vec::new();
    session.vacuum(table, &options, &mut told).expect("vacuum");
    let millis = delay(&told.join("\n")).expect("it is timed");
    assert!(millis == 0.0 || millis >= 1.0, "{millis}");
    millis > 0.0
}

#[test]
fn pages_cost_what_happened_to_them() {
    let mut life = Life::new();
    create(&mut life.session, "t");
    insert(&mut life.session, "t", 0..2000);
    let table = table(&mut life.session);
    let dirty = |life: &mut Life, costs| {
        life.session.checkpoint().expect("checkpoint");
        rests(&mut life.session, &table, costs)
    };
    assert!(dirty(&mut life, [0, 0, 1]), "it marks the pages");
    // From now on a vacuum changes no page.
    assert!(!dirty(&mut life, [0, 1, 1]), "all pages are in memory, and clean");
    assert!(rests(&mut life.session, &table, [1, 0, 0]));
    evict(&mut life, &[table.locator.rel]);
    assert!(rests(&mut life.session, &table, [0, 1, 0]));
    insert(&mut life.session, "t", 2000..2010);
    assert!(!dirty(&mut life, [0, 1, 0]));
    insert(&mut life.session, "t", 2010..2020);
    assert!(dirty(&mut life, [0, 1, 1]));
}

#[test]
fn the_first_page_costs_something() {
    let mut life = Life::new();
    create(&mut life.session, "t");
    insert(&mut life.session, "t", 0..1);
    let table = table(&mut life.session);
    vacuumed(&mut life.session, &table).expect("vacuumed");
    evict(&mut life, &[table.locator.rel]);
    assert!(rests(&mut life.session, &table, [0, 1, 0]));
}

#[test]
fn a_rest_ends_with_a_cancel() {
    let mut life = Life::new();
    create(&mut life.session, "t");
    insert(&mut life.session, "t", 0..2000);
    let table = table(&mut life.session);
    // Without the cancel it would take a second at least.
    set_costs(&mut life.session, Duration::from_millis(100), [1, 0, 0]);
    let session = replace_session(&mut life);
    let interrupt = session.interrupt().clone();
    let of = Arc::clone(&table);
    let thread = start(session, move |session| vacuumed(session, &of));
    let has_rested = |running: &RunningCommand| running.get(vacuum::DELAY) > 0;
    let first = shown(&life.engine, (Command::Vacuum, table.oid), has_rested, &thread);
    assert!(first.get(vacuum::BLOCKS_TOTAL) > 10);
    interrupt.request(InterruptKind::Cancel);
    let (session, result) = thread.join().expect("joined");
    assert_eq!(state(result), "57014");
    session.interrupt().clear_cancel();
    life.session = session;
}

#[test]
fn rests_are_timed_if_that_is_wanted() {
    let mut life = Life::new();
    create(&mut life.session, "t");
    insert(&mut life.session, "t", 0..2000);
    let table = table(&mut life.session);
    let options = VacuumOptions { verbose: true, ..VacuumOptions::default() };
    for timed in [false, true] {
        let settings = &mut life.session.settings_mut().vacuum;
        (settings.cost_delay, settings.cost_limit) = (Duration::from_millis(1), 1);
        settings.track_delays = timed;
        let mut told = Vec::new();
        life.session.vacuum(&table, &options, &mut told).expect("vacuum");
        let told = told.join("\n");
        let millis = delay(&told);
        assert_eq!(millis.is_some_and(|millis| millis >= 1.0), timed, "{told}");
        // There is work again.
        insert(&mut life.session, "t", 0..2000);
    }
}
