//! Sequences, with crashes at the calls: no value that a commit has acknowledged comes again.
//!
//! Two sessions take values, commit or roll back, and change the sequences; checkpoints come in
//! between. After a crash each sequence goes on behind all values that were acknowledged.

use forebay_aio::PlantedBug;
use forebay_engine::{
    EngineError, Oid, SequenceAccess, SequenceOptions, SequencePersistence, Session,
};
use forebay_testkit::Dice;

use super::Tally;
use super::cut_short::CutShort;
use crate::disk::SimDisk;
use crate::workload::{Life, Setup, disk_after};

/// Steps of a life.
const STEPS: usize = 40;
/// The sequences: their names, and how many values a session takes at a time.
const SEQUENCES: [(&str, i64); 3] = [("one", 1), ("few", 3), ("many", 40)];

/// The greatest value of each sequence that was acknowledged, and perhaps set.
#[derive(Clone, Debug, Default)]
struct Given {
    acknowledged: [i64; SEQUENCES.len()],
}

/// A disk with a new data directory and sequences, all of it durable.
///
/// # Errors
/// As the engine.
pub fn sequences_disk() -> Result<SimDisk, EngineError> {
    disk_after(|session| {
        SEQUENCES.iter().try_for_each(|(name, cache)| {
            let options = SequenceOptions { cache: Some(*cache), ..SequenceOptions::default() };
            session.create_sequence(None, name, &options, SequencePersistence::Permanent).map(drop)
        })
    })
}

/// A life of a seed on a copy of a disk that [`sequences_disk`] made, crashed at every `stride`-th
/// call. Each time the unsynced changes are lost, kept, and torn.
///
/// # Errors
/// A value that comes twice, with the number of the call and what survived.
pub fn sequences_cut_short(
    template: &SimDisk,
    seed: u64,
    stride: usize,
    bug: Option<PlantedBug>,
) -> Result<Tally, String> {
    let template = template.copy(seed);
    let setup = Setup::random(&mut Dice::new(seed));
    let cut = CutShort { template: &template, setup, seed, stride, bug };
    cut.run(
        |mut life, given| work(&mut life, given, &mut Dice::new(seed), STEPS),
        |left, given| go_on(left, setup, given),
    )
}

/// Does something in a transaction, and commits it, or rolls it back.
fn transaction<T>(
    session: &mut Session,
    commits: bool,
    body: impl FnOnce(&mut Session) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    session.begin()?;
    let done = session.start_command().and_then(|()| body(session));
    session.end_command();
    match (done, commits) {
        (Ok(done), true) => session.commit().map(|()| done),
        (Ok(done), false) => session.abort().map(|()| done),
        (Err(error), _) => {
            session.abort()?;
            Err(error)
        }
    }
}

fn sequence(session: &mut Session, which: usize) -> Result<Oid, EngineError> {
    let found = session.relation_named(None, SEQUENCES[which].0)?;
    found.map(|found| found.oid).ok_or_else(|| EngineError::internal("the sequence is gone"))
}

fn next(session: &mut Session, which: usize) -> Result<i64, EngineError> {
    let oid = sequence(session, which)?;
    session.nextval(oid, SequenceAccess::ReadWrite)
}

/// What is done before a crash, or after one.
fn work(life: &mut Life, given: &mut Given, dice: &mut Dice, steps: usize) -> Result<(), String> {
    let mut other = life.engine().session().map_err(|error| error.to_string())?;
    for _ in 0..steps {
        let session = if dice.chance(500) { life.session() } else { &mut other };
        step(session, given, dice).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn step(session: &mut Session, given: &mut Given, dice: &mut Dice) -> Result<(), EngineError> {
    let which = dice.below(SEQUENCES.len() as u64) as usize;
    match dice.below(20) {
        0..=9 => {
            let value = transaction(session, true, |session| next(session, which))?;
            note(given, which, value);
        }
        // The record of a value that is rolled back may be the only one of values to come.
        10..=13 => transaction(session, false, |session| next(session, which)).map(drop)?,
        14 | 15 => {
            let values = transaction(session, true, |session| {
                session.begin_subtransaction()?;
                let first = next(session, which)?;
                session.abort_subtransaction()?;
                session.start_command()?;
                Ok([first, next(session, which)?])
            })?;
            values.into_iter().for_each(|value| note(given, which, value));
        }
        16 => {
            // Behind what any session has taken.
            let value = given.acknowledged[which] + 200;
            transaction(session, true, |session| {
                let oid = sequence(session, which)?;
                session.setval(oid, (value, true), SequenceAccess::ReadWrite)
            })?;
            note(given, which, value);
        }
        17 => {
            let commits = dice.chance(500);
            let options = SequenceOptions { cycle: Some(false), ..SequenceOptions::default() };
            transaction(session, commits, |session| {
                let oid = sequence(session, which)?;
                session.alter_sequence(oid, &options)
            })?;
        }
        _ => session.checkpoint()?,
    }
    Ok(())
}

/// Notes a value that was acknowledged. Another session may have got a greater one before: values
/// that were taken at a time are handed out later.
fn note(given: &mut Given, which: usize, value: i64) {
    let greatest = &mut given.acknowledged[which];
    *greatest = value.max(*greatest);
}

/// Takes values of what a crash has left, and goes on with it.
fn go_on(disk: &SimDisk, setup: Setup, given: &Given) -> Result<(), String> {
    let mut given = given.clone();
    let mut life = Life::begin(disk, setup).map_err(|error| error.to_string())?;
    for (which, (name, _)) in SEQUENCES.iter().enumerate() {
        let value = transaction(life.session(), true, |session| next(session, which));
        let value = value.map_err(|error| format!("{name}: {error}"))?;
        let before = given.acknowledged[which];
        if value <= before {
            return Err(format!("{name} hands out {value} again: {before} was acknowledged"));
        }
        given.acknowledged[which] = value;
    }
    work(&mut life, &mut given, &mut Dice::new(setup.order), STEPS / 4)
        .map_err(|error| format!("afterwards: {error}"))?;
    life.end().map_err(|error| format!("the stop failed: {error}"))
}
