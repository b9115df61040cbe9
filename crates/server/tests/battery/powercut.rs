//! Power cuts under load: eight clients, the real server, and a file system that loses what was not
//! synced.
//!
//! A round starts the server on the disk as the last cut left it, compares the rows with what was
//! acknowledged, loads until a moment that the seed chooses, and cuts the power. Some cuts come
//! during recovery. The same rounds run on PostgreSQL 18, which must lose nothing either. On file
//! systems that lie, and with fsync off, losses must be seen.
//!
//! - [`rounds`]: rounds on one directory, cut by cut
//! - [`load`]: the clients, and what they know of their transactions
//! - [`targets`]: the two servers
//!
//! `FOREBAY_POWERCUT_ROUNDS` and `FOREBAY_POWERCUT_SEED` make longer and other runs
//! (`cargo xtask powercut`).

mod load;
mod rounds;
mod targets;

use forebay_powercut::NamesRule;
use rand::RngExt;

use rounds::{Totals, Trial, run};
use targets::{Own, Postgres};

const ROUNDS: u32 = 5;
/// Rounds where losses are expected; each begins with a fresh copy of the directory.
const LYING_ROUNDS: u32 = 3;

fn rounds_wanted() -> u32 {
    number("FOREBAY_POWERCUT_ROUNDS").map_or(ROUNDS, |n| n as u32)
}

fn seed() -> u64 {
    number("FOREBAY_POWERCUT_SEED").unwrap_or_else(|| rand::rng().random())
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|e| panic!("{variable}={text}: {e}")))
}

/// Whether nothing can be mounted here; says that `test` was skipped.
fn cannot_mount(test: &str) -> bool {
    let refusal = forebay_powercut::refusal();
    if let Some(why) = &refusal {
        println!("skipped: {test} needs {why}");
    }
    refusal.is_some()
}

#[test]
#[ignore = "a minute long; run by cargo xtask test"]
fn acknowledged_commits_survive_power_cuts() {
    if cannot_mount("acknowledged_commits_survive_power_cuts") {
        return;
    }
    let own = Own::new("cuts");
    let trial = Trial { names: NamesRule::Directory, lies: false, fsync: true };
    let totals =
        run(&own, trial, seed(), rounds_wanted()).unwrap_or_else(|failed| panic!("{failed}"));
    println!("battery: powercut: forebay: {totals}");
}

#[test]
#[ignore = "a minute long; run by cargo xtask test"]
fn postgresql_loses_nothing_acknowledged_either() {
    let name = "postgresql_loses_nothing_acknowledged_either";
    if cannot_mount(name) {
        return;
    }
    let Some(postgres) = Postgres::find(name) else { return };
    let trial = Trial { names: NamesRule::OneLog, lies: false, fsync: true };
    let totals =
        run(&postgres, trial, seed(), rounds_wanted()).unwrap_or_else(|failed| panic!("{failed}"));
    println!("battery: powercut: postgresql: {totals}");
}

#[test]
#[ignore = "a minute long; run by cargo xtask test"]
fn losses_are_seen_on_a_file_system_that_lies() {
    if cannot_mount("losses_are_seen_on_a_file_system_that_lies") {
        return;
    }
    let own = Own::new("lies");
    let trial = Trial { names: NamesRule::Directory, lies: true, fsync: true };
    assert_losses("forebay on a file system that lies", |seed| run(&own, trial, seed, 1));
}

#[test]
#[ignore = "a minute long; run by cargo xtask test"]
fn losses_of_postgresql_without_fsync_are_seen() {
    let name = "losses_of_postgresql_without_fsync_are_seen";
    if cannot_mount(name) {
        return;
    }
    let Some(postgres) = Postgres::find(name) else { return };
    let trial = Trial { names: NamesRule::OneLog, lies: false, fsync: false };
    assert_losses("postgresql with fsync off", |seed| run(&postgres, trial, seed, 1));
}

/// Every round must lose batches: a server that finds damaged files is not enough.
fn assert_losses(what: &str, run: impl Fn(u64) -> Result<Totals, String>) {
    let first = seed();
    let outcomes = (0..LYING_ROUNDS).map(|n| run(first.wrapping_add(u64::from(n))));
    let failures: Vec<String> = outcomes.filter_map(Result::err).collect();
    println!("{}", failures.join("\n"));
    let seen = failures.iter().filter(|failed| failed.contains("acknowledged batch")).count();
    println!(
        "battery: powercut: {what}: acknowledged commits lost in {seen} of {LYING_ROUNDS} rounds"
    );
    assert_eq!(
        seen, LYING_ROUNDS as usize,
        "nothing was durable, and that was not noticed (seed {first})"
    );
}
