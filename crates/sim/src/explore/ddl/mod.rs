//! Crashes within DDL in SQL: tables with all that comes with them, rewrites, keys, schemas, roles,
//! sequences, tablespaces.
//!
//! A life without a crash tells what the catalogs and tables show after each step. Whatever a crash
//! leaves, it is what was shown before the step or after it: all of the DDL, or nothing. No row of
//! the catalogs refers to what is gone, the check of all relations finds nothing, no file is there
//! that no relation has, and DDL works again. So it is after recoveries that were crashed
//! themselves.

mod catalogs;
mod steps;

use std::collections::BTreeSet;

use forebay_aio::{IfFound, PlantedBug};
use forebay_engine::{EngineError, Oid};
use forebay_testkit::Dice;

use super::Tally;
use super::at_rest::check_all_at_rest;
use super::cut_short::CutShort;
use super::random::{survival, with_or_without_images};
use crate::disk::SimDisk;
use crate::sql::{Sql, begin};
use crate::survival::Survival;
use crate::workload::{Life, Setup, data_dir, fresh_disk};
use catalogs::{Picture, check_indexed, check_references, check_unlogged, picture};
use steps::{BEFORE, Group, IN_A_BLOCK};

pub use steps::GROUPS;

/// How many steps were acknowledged.
#[derive(Debug, Default)]
struct Done(usize);

/// A disk with some tables on it, all of it durable.
///
/// # Errors
/// As init, and of statements.
pub fn ddl_disk() -> Result<SimDisk, String> {
    let disk = fresh_disk().map_err(|error| error.to_string())?;
    let setup = Setup { buffers: 256, ..Setup::random(&mut Dice::new(0)) };
    let life = begin(&disk, setup)?;
    let mut sql = Sql::connect(&life)?;
    for statement in BEFORE {
        sql.run(statement)?;
    }
    drop(sql);
    life.end().map_err(|error| error.to_string())?;
    Ok(disk.restart(Survival::none(), 0))
}

/// The steps of a seed on a copy of a disk that [`ddl_disk`] made, crashed at every `stride`-th
/// call. Each time the unsynced changes are lost, kept, and torn.
///
/// # Errors
/// What is neither all nor nothing, what is damaged or left over, with the number of the call and
/// what survived.
pub fn ddl_cut_short(
    template: &SimDisk,
    seed: u64,
    stride: usize,
    bug: Option<PlantedBug>,
) -> Result<Tally, String> {
    let template = template.copy(seed);
    let mut dice = Dice::new(seed);
    let setup = with_or_without_images(&template, &mut dice, 500);
    let group = &GROUPS[seed as usize % GROUPS.len()];
    let named = |error: String| format!("{}: {error}", group.name);
    let shown = shown(&template.copy(seed), setup, group).map_err(named)?;
    let cut = CutShort { template: &template, setup, seed, stride, bug };
    let run = cut.run(
        |life, done: &mut Done| work(life, done, group),
        |left, done| look(left, setup, &shown[done.0..shown.len().min(done.0 + 2)]),
    );
    run.map_err(named)
}

/// Some steps of a seed on a copy of a disk that [`ddl_disk`] made, then a crash, perhaps within a
/// transaction, whose recovery is crashed at every `stride`-th call. Each time the unsynced changes
/// are lost, kept, and torn, and the next recovery has to come to all or nothing.
///
/// # Errors
/// As [`ddl_cut_short`].
pub fn ddl_recovery_cut_short(
    template: &SimDisk,
    seed: u64,
    stride: usize,
    bug: Option<PlantedBug>,
) -> Result<Tally, String> {
    let disk = template.copy(seed);
    let mut dice = Dice::new(seed);
    let setup = with_or_without_images(&disk, &mut dice, 500);
    let (group, steps) = match dice.chance(300) {
        true => IN_A_BLOCK,
        false => {
            let group = &GROUPS[dice.below(GROUPS.len() as u64) as usize];
            (group, 1 + dice.below(group.steps.len() as u64) as usize)
        }
    };
    let named = |error: String| format!("{}, {steps} steps: {error}", group.name);
    let shown = shown(&disk.copy(seed), setup, group).map_err(named)?;
    bug.into_iter().for_each(|bug| disk.plant(bug));
    some_steps(&disk, setup, &group.steps[..steps]).map_err(named)?;
    let (left, mut tally) = (disk.restart(survival(&mut dice), seed), Tally::one());
    for call in (seed % stride as u64..).step_by(stride) {
        let disk = left.copy(seed);
        bug.into_iter().for_each(|bug| disk.plant(bug));
        disk.crash_after(call);
        let opened = begin(&disk, setup);
        let over = !disk.is_off();
        if let (Err(error), true) = (opened, over) {
            return Err(named(format!("recovery without a crash: {error}")));
        }
        disk.cut_power();
        tally.add_fired(&disk);
        for survival in [Survival::none(), Survival::all(), Survival::random(seed ^ call)] {
            let what = format!("recovery crashed at call {call}, survival {survival:?}");
            let again = disk.restart(survival, seed);
            look(&again, setup, &shown[steps..=steps])
                .map_err(|reason| named(format!("{what}: {reason}")))?;
            tally.compared += 1;
        }
        if over {
            break;
        }
    }
    Ok(tally)
}

/// Takes steps, and cuts the power when what they have logged is durable.
fn some_steps(disk: &SimDisk, setup: Setup, steps: &[&str]) -> Result<(), String> {
    let life = begin(disk, setup)?;
    let mut sql = Sql::connect(&life)?;
    for step in steps {
        do_step(&life, &mut sql, step)?;
    }
    // Its table may be gone.
    let _ = Sql::connect(&life)?.run("update s.t set a = a");
    disk.cut_power();
    Ok(())
}

/// What is shown before the first step, and after each one.
fn shown(disk: &SimDisk, setup: Setup, group: &Group) -> Result<Vec<Picture>, String> {
    let life = begin(disk, setup)?;
    let (mut sql, mut other) = (Sql::connect(&life)?, Sql::connect(&life)?);
    let mut shown = vec![picture(&mut other)?];
    for step in group.steps {
        do_step(&life, &mut sql, step)?;
        let now = match sql.in_block() {
            // It may have locked what is shown, and shows nothing to others.
            true => shown.last().cloned().unwrap_or_default(),
            false => picture(&mut other)?,
        };
        shown.push(now);
    }
    drop((sql, other));
    life.end().map_err(|error| error.to_string())?;
    Ok(shown)
}

fn do_step(life: &Life, sql: &mut Sql, step: &str) -> Result<(), String> {
    if step != "checkpoint" {
        return sql.run(step).map(drop);
    }
    // In a session of its own: there may be a transaction.
    let told = |error: EngineError| error.to_string();
    life.engine().session().map_err(told)?.checkpoint().map_err(told)
}

/// What is done before the crash.
fn work(life: Life, done: &mut Done, group: &Group) -> Result<(), String> {
    let mut sql = Sql::connect(&life)?;
    for step in group.steps {
        do_step(&life, &mut sql, step)?;
        done.0 += 1;
    }
    drop(sql);
    life.end().map_err(|error| error.to_string())
}

/// Compares what a crash has left, and goes on with it.
fn look(disk: &SimDisk, setup: Setup, expected: &[Picture]) -> Result<(), String> {
    let life = begin(disk, setup)?;
    let mut sql = Sql::connect(&life)?;
    let found = picture(&mut sql)?;
    if !expected.contains(&found) {
        let differences: Vec<String> = expected.iter().map(|one| found.minus(one)).collect();
        return Err(format!("neither all nor nothing: {}", differences.join("; or ")));
    }
    check_unlogged(&mut sql)?;
    check_indexed(&mut sql)?;
    check_references(&mut sql)?;
    check_tablespaces(&life, disk, &mut sql)?;
    sql.run("create table afterwards (id serial primary key, t text); drop table afterwards")?;
    drop(sql);
    life.end().map_err(|error| error.to_string())?;
    check_all_at_rest(disk)
}

/// Links and directories of tablespaces are those of rows.
fn check_tablespaces(life: &Life, disk: &SimDisk, sql: &mut Sql) -> Result<(), String> {
    let dir = data_dir(disk).join("pg_tblspc");
    let listed = life.aio().namespace().list(&dir).if_found().map_err(|error| error.to_string())?;
    let number = |text: &str| text.parse::<Oid>().ok();
    let listed = listed.unwrap_or_default();
    let found: BTreeSet<Oid> =
        listed.iter().filter_map(|entry| number(entry.name.to_str()?)).collect();
    let rows = sql.column("select oid from pg_tablespace where oid > 16383")?;
    let known: BTreeSet<Oid> = rows.iter().filter_map(|oid| number(oid)).collect();
    if found == known { Ok(()) } else { Err(format!("tablespaces {known:?}, on disk {found:?}")) }
}
