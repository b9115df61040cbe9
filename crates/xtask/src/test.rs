//! `cargo xtask test`: everything that must hold, in order of what fails fastest.
//!
//! 1. Style, layering, lints and licences, while PostgreSQL 18 and moto are fetched
//! 2. The crates' tests
//! 3. The battery on the simulated disk, beside the tests that shuttle or Miri runs
//! 4. The batteries that run an optimized build of the real program beside PostgreSQL 18
//!
//! A test that needs something this machine can't have prints `skipped: NAME needs ...`. Skipped
//! tests are counted and named at the end, and are an error in CI. Every program runs under watch
//! ([`crate::watch`]), and the last lines tell how long each took.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use clap::Args;

use crate::battery;
use crate::harness::Counts;
use crate::instrumented;
use crate::moto;
use crate::packages::{self, Needed};
use crate::peers;
use crate::run::{in_ci, output, run as command, run_within};
use crate::suite::{BUILD, TESTS, cargo_test};
use crate::tidy;
use crate::watch::steps;

/// What to leave out of a run.
#[derive(Args)]
pub struct Options {
    /// Skip style checks and run the tests alone
    #[arg(long)]
    only_tests: bool,
    /// Skip the batteries on optimized builds
    #[arg(long)]
    quick: bool,
    /// Run nothing but the battery on the simulated disk
    #[arg(long)]
    only_battery: bool,
    /// How many random lives that battery runs; its other parts grow with them
    #[arg(long, default_value_t = battery::SEEDS)]
    seeds: u64,
    /// The battery's first seed: so that a longer run is also another one
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
}

fn run_all(root: &Path, options: &Options) -> Result<(), String> {
    let mut counts = Counts::default();
    if options.only_battery {
        battery::run(root, options.seeds, options.first_seed, &mut counts)?;
        return report(&counts);
    }
    packages::ensure(&[
        Needed { program: "psql", package: "postgresql-client" },
        Needed { program: "strace", package: "strace" },
        Needed { program: "kill", package: "procps" },
    ])?;
    if let Err(why) = packages::ensure(&[Needed { program: "gdb", package: "gdb" }]) {
        println!("without stacks of what hangs: {why}");
    }
    if !options.only_tests {
        quick_checks(root)?;
    }
    // Downloads run while the checks compile.
    let (peer, moto) = thread::scope(|scope| {
        let fetched = scope.spawn(|| (peers::prepare(root), moto::prepare(root)));
        let checked = if options.only_tests { Ok(()) } else { checks(root) };
        let fetched =
            fetched.join().map_err(|_| "preparing PostgreSQL 18 and moto panicked".to_owned());
        checked.and(fetched)
    })?;
    let peer = match peer {
        Ok(peer) => Some(peer),
        Err(why) if in_ci() => return Err(format!("PostgreSQL 18 must be there in CI: {why}")),
        Err(why) => {
            println!("PostgreSQL 18 can't be had here ({why}); the tests that need it are skipped");
            None
        }
    };
    let paths = |peer: &peers::Peer| {
        let known = [("FOREBAY_PG18_RUN", &peer.runner), ("FOREBAY_PG18_ROOT", &peer.tree)];
        known.map(|(name, path)| (name, path.clone().into_os_string())).to_vec()
    };
    let mut environment = peer.as_ref().map(paths).unwrap_or_default();
    match moto {
        Ok(python) => environment.push(("FOREBAY_MOTO", python.into_os_string())),
        Err(why) if in_ci() => return Err(format!("moto must be there in CI: {why}")),
        Err(why) => {
            println!("moto can't be had here ({why}); the tests that need an S3 server are skipped")
        }
    }
    cargo_test(
        root,
        &environment,
        &["test", "--workspace", "--no-fail-fast"],
        &TESTS,
        &mut counts,
    )?;
    instrumented_and_simulated(root, options, &mut counts)?;
    if !options.quick {
        let batteries = [
            "test",
            "--profile",
            "battery",
            "-p",
            "forebay-server",
            "--test",
            "battery",
            "--no-fail-fast",
        ];
        let arguments = [&batteries[..], &["--", "--include-ignored"]].concat();
        cargo_test(root, &environment, &arguments, &TESTS, &mut counts)?;
    }
    report(&counts)
}

/// Runs the tests of shuttle and Miri, which use one processor, beside the battery on the simulated
/// disk, which does not depend on the clock.
fn instrumented_and_simulated(
    root: &Path,
    options: &Options,
    counts: &mut Counts,
) -> Result<(), String> {
    let mut beside = Counts::default();
    let outcome = thread::scope(|scope| {
        let instrumented = scope.spawn(|| {
            instrumented::interleavings(root, &mut beside)?;
            instrumented::miri(root, &mut beside)
        });
        let simulated = match options.quick {
            true => Ok(()),
            false => battery::run(root, options.seeds, options.first_seed, counts),
        };
        instrumented
            .join()
            .map_err(|_| "shuttle's and Miri's runs panicked".to_owned())
            .flatten()
            .and(simulated)
    });
    counts.add(beside);
    outcome
}

fn quick_checks(root: &Path) -> Result<(), String> {
    command(Command::new("cargo").current_dir(root).args(["fmt", "--all", "--check"]))?;
    tidy::run(root, &tidy::Options::default())
}

fn checks(root: &Path) -> Result<(), String> {
    let deny = packages::cargo_deny(root)?;
    command(Command::new(&deny).current_dir(root).args(["check", "licenses", "bans", "sources"]))?;
    advisories(root, &deny)?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    run_within(Command::new("cargo").current_dir(root).args(clippy), &BUILD)?;
    other_systems(root)
}

/// Compiles the file layer for other Unixes, as far as their targets can be installed here.
fn other_systems(root: &Path) -> Result<(), String> {
    for target in ["x86_64-unknown-freebsd", "aarch64-apple-darwin"] {
        let added =
            output(Command::new("rustup").current_dir(root).args(["target", "add", target]));
        if !added.is_ok_and(|output| output.status.success()) {
            println!("forebay-aio not checked for {target}: rustup can't install it here");
            continue;
        }
        let check = ["check", "--package", "forebay-aio", "--quiet", "--target", target];
        command(Command::new("cargo").current_dir(root).args(check))?;
    }
    Ok(())
}

/// Checks the dependencies against the RustSec database, where it can be fetched.
fn advisories(root: &Path, deny: &Path) -> Result<(), String> {
    let mut check = Command::new(deny);
    let output = output(check.current_dir(root).args(["check", "advisories"]))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        println!("advisories ok");
    } else if said.contains("failed to fetch advisory database") {
        println!("advisories not checked: the RustSec database can't be fetched from here");
    } else {
        return Err(format!("cargo deny check advisories: {}\n{said}", output.status));
    }
    Ok(())
}

fn report(counts: &Counts) -> Result<(), String> {
    for skipped in &counts.skipped {
        println!("skipped: {skipped}");
    }
    let skipped = counts.skipped.len();
    println!(
        "{} passed, {} failed, {skipped} skipped",
        counts.passed.saturating_sub(skipped),
        counts.failed
    );
    if counts.failed > 0 {
        return Err(format!("{} tests failed", counts.failed));
    }
    if in_ci() && skipped > 0 {
        return Err("no test may be skipped in CI".into());
    }
    Ok(())
}

/// Runs the checks and tests, and removes what they left in the peer's shared folder.
///
/// # Errors
/// The first check that failed, or the number of failed tests.
pub fn run(root: &Path, options: &Options) -> Result<(), String> {
    let outcome = run_all(root, options);
    println!("{}", steps::table());
    let shared = root.join("target/peers/x");
    for entry in fs::read_dir(&shared).into_iter().flatten().flatten() {
        // The next run tries again.
        let _ = fs::remove_dir_all(entry.path());
    }
    outcome
}
