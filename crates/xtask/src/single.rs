//! Single batteries of `cargo xtask test`, in any size: `cargo xtask powercut`, `turns`,
//! `isolation`, `regress`.

use std::path::Path;
use std::process::Command;

use clap::Args;

use crate::peers;
use crate::run::run_within;
use crate::suite::{TESTS, WORKSPACE};

/// Power cuts under both servers.
#[derive(Args)]
pub struct Powercut {
    /// Power cuts on each server
    #[arg(long, default_value_t = 200)]
    rounds: u32,
    /// Repeat the choices of another run
    #[arg(long)]
    seed: Option<u64>,
    /// Only the tests with this in their name
    #[arg(long, default_value = "powercut")]
    only: String,
}

/// Turns of Forebay and PostgreSQL 18 on one directory.
#[derive(Args)]
pub struct Turns {
    /// How often the directory changes hands
    #[arg(long, default_value_t = 20)]
    turns: u32,
    /// Repeat the choices of another run
    #[arg(long)]
    seed: Option<u64>,
}

/// PostgreSQL's isolation specifications.
#[derive(Args)]
pub struct Isolation {
    /// Only the specifications with this in their name; what differs is shown
    #[arg(long, default_value = "")]
    only: String,
}

/// PostgreSQL's regression tests.
#[derive(Args)]
pub struct Regress {
    /// Run all files on Forebay, not only those that pass; each tells how many lines differ
    #[arg(long)]
    all: bool,
}

impl Powercut {
    /// Runs Forebay and PostgreSQL 18 on a file system that loses what was not synced.
    ///
    /// # Errors
    /// When PostgreSQL can't be had, or a test fails.
    pub fn run(&self, root: &Path) -> Result<(), String> {
        let seed = ("FOREBAY_POWERCUT_SEED", self.seed.map(|seed| seed.to_string()));
        let rounds = ("FOREBAY_POWERCUT_ROUNDS", Some(self.rounds.to_string()));
        run(root, &self.only, &[rounds, seed], self.rounds.div_ceil(50))
    }
}

impl Turns {
    /// Lets both servers crash and recover one directory by turns.
    ///
    /// # Errors
    /// As [`Powercut::run`].
    pub fn run(&self, root: &Path) -> Result<(), String> {
        let seed = ("FOREBAY_TURNS_SEED", self.seed.map(|seed| seed.to_string()));
        let turns = ("FOREBAY_TURNS", Some(self.turns.to_string()));
        run(root, "turns::", &[turns, seed], self.turns.div_ceil(50))
    }
}

impl Isolation {
    /// Runs PostgreSQL's isolation specifications, and those of our own, on both servers.
    ///
    /// # Errors
    /// As [`Powercut::run`].
    pub fn run(&self, root: &Path) -> Result<(), String> {
        let part = ("FOREBAY_ISOLATION", Some(self.only.clone()));
        run(root, "isolation::", &[part], 1)
    }
}

impl Regress {
    /// Runs PostgreSQL's regression tests on directories of `forebay init`, and on Forebay.
    ///
    /// # Errors
    /// As [`Powercut::run`].
    pub fn run(&self, root: &Path) -> Result<(), String> {
        run(root, "regress::", &[("FOREBAY_REGRESS", self.all.then(|| "all".to_owned()))], 1)
    }
}

/// Runs the tests with `only` in their name, with these variables and so many bounds of a suite.
fn run(root: &Path, only: &str, set: &[(&str, Option<String>)], bounds: u32) -> Result<(), String> {
    let peer = peers::prepare(root)?;
    let mut tests = Command::new("cargo");
    tests.current_dir(root);
    tests.args(WORKSPACE).args(["--test", "battery", only]);
    tests.args(["--", "--include-ignored", "--nocapture", "--test-threads=1"]);
    let sources = peers::sources::prepare(root, &peer)?;
    tests.env("FOREBAY_PG18_SPECS", &sources.isolation);
    tests.env("FOREBAY_PG18_REGRESS", &sources.regress);
    tests.env("FOREBAY_PG18_RUN", &peer.runner).env("FOREBAY_PG18_ROOT", &peer.tree);
    for (name, value) in set {
        tests.envs(value.iter().map(|value| (name, value)));
    }
    run_within(&mut tests, &TESTS.times(u64::from(bounds)))
}
