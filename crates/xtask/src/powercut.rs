//! `cargo xtask powercut`: the power cuts of `cargo xtask test`, in any number.

use std::path::Path;
use std::process::Command;

use clap::Args;

use crate::peers;
use crate::run::run_within;
use crate::suite::{TESTS, WORKSPACE};

/// What to run.
#[derive(Args)]
pub struct Options {
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

/// Runs Forebay and PostgreSQL 18 on a file system that loses what was not synced.
///
/// # Errors
/// When PostgreSQL can't be had, or a test fails.
pub fn run(root: &Path, options: &Options) -> Result<(), String> {
    let peer = peers::prepare(root)?;
    let mut tests = Command::new("cargo");
    tests.current_dir(root);
    tests.args(WORKSPACE).args(["--test", "battery", &options.only]);
    tests.args(["--", "--include-ignored", "--nocapture", "--test-threads=1"]);
    tests.env("FOREBAY_PG18_RUN", &peer.runner).env("FOREBAY_PG18_ROOT", &peer.tree);
    tests.env("FOREBAY_POWERCUT_ROUNDS", options.rounds.to_string());
    if let Some(seed) = options.seed {
        tests.env("FOREBAY_POWERCUT_SEED", seed.to_string());
    }
    run_within(&mut tests, &TESTS.times(u64::from(options.rounds).div_ceil(50)))
}
