//! A suite of tests: built by cargo, run under watch, and counted.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{Counts, Running, follow};
use crate::run::run_within;
use crate::watch::{self, Bounds};

/// For a build from nothing on a busy machine.
pub const BUILD: Bounds = Bounds::minutes(60);
/// For tests: no program of them takes as long.
pub const TESTS: Bounds = Bounds::minutes(60);

/// Builds tests and runs them by cargo, with the variables `set` in their environment, and counts
/// them.
///
/// # Errors
/// When cargo fails, unless tests failed (they are counted), or when a program hangs.
pub fn cargo_test(
    root: &Path,
    set: &[(&str, OsString)],
    arguments: &[&str],
    bounds: &Bounds,
    counts: &mut Counts,
) -> Result<(), String> {
    let own = arguments.iter().position(|word| *word == "--").unwrap_or(arguments.len());
    let (of_cargo, of_tests) = arguments.split_at(own);
    let cargo = |words: &[&str]| {
        let mut command = Command::new("cargo");
        command.current_dir(root).args(words).envs(set.iter().map(|(name, value)| (name, value)));
        command
    };
    // Built first: a build is silent for longer than a test may be.
    run_within(&mut cargo(&[of_cargo, &["--no-run"]].concat()), &BUILD)?;
    // A skipped test says so in its output, which cargo shows only if it is asked to.
    let own = if of_tests.is_empty() { &["--"][..] } else { of_tests };
    let mut command = cargo(&[of_cargo, own, &["--show-output"]].concat());
    let shown = watch::show(&command);
    println!("$ {shown}");
    let running = Running::default();
    let listen = |output| follow(output, &mut std::io::stdout(), &running);
    let (status, found) = watch::follow(command.stdin(Stdio::null()), bounds, &running, listen)?;
    let failed = found.failed > 0;
    counts.add(found);
    if status.success() || failed { Ok(()) } else { Err(format!("{shown}: {status}")) }
}
