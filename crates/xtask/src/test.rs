//! `cargo xtask test`: everything that must hold, in order of what fails fastest.
//!
//! Style, lints, layering and licences first, while PostgreSQL 18 and moto are fetched; then the
//! crates' tests; then the battery on the simulated disk, beside those tests that shuttle or Miri
//! runs; then the batteries that run an optimized build of the real program beside PostgreSQL 18.
//! Tests that need something this machine can't have print `skipped: NAME needs ...`; they are
//! counted and named at the end, and are an error in CI. Every program runs under watch
//! ([`crate::watch`]), and the last lines tell how long each took.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use clap::Args;

use crate::battery;
use crate::checked;
use crate::heard::{Counts, Running, follow};
use crate::moto;
use crate::packages::{self, Needed};
use crate::peers;
use crate::run::{in_ci, output, run as command, run_within};
use crate::tidy;
use crate::watch::{self, Bounds, steps};

/// For a build from nothing on a machine that is busy.
const BUILD: Bounds = Bounds::minutes(60);
/// For tests: no binary of them takes as long.
pub const TESTS: Bounds = Bounds::minutes(60);

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
    /// How many lives by chance that battery makes; its other parts grow with them
    #[arg(long, default_value_t = battery::SEEDS)]
    seeds: u64,
    /// The battery's first seed: so that a longer run is also another one
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
}

/// Runs the checks and tests.
///
/// # Errors
/// The first check that failed, or the number of failed tests.
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
    // What is fetched comes while the checks compile.
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
    closely_and_simulated(root, options, &mut counts)?;
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

/// The tests of shuttle and Miri, which run one thread at a time, beside the battery on the
/// simulated disk, which does not depend on the clock.
fn closely_and_simulated(
    root: &Path,
    options: &Options,
    counts: &mut Counts,
) -> Result<(), String> {
    let mut closely = Counts::default();
    let looked = thread::scope(|scope| {
        let looked = scope.spawn(|| {
            checked::interleavings(root, &mut closely)?;
            checked::miri(root, &mut closely)
        });
        let simulated = match options.quick {
            true => Ok(()),
            false => battery::run(root, options.seeds, options.first_seed, counts),
        };
        looked
            .join()
            .map_err(|_| "shuttle's and Miri's runs panicked".to_owned())
            .flatten()
            .and(simulated)
    });
    counts.add(closely);
    looked
}

fn quick_checks(root: &Path) -> Result<(), String> {
    command(Command::new("cargo").current_dir(root).args(["fmt", "--all", "--check"]))?;
    tidy::run(root)
}

fn checks(root: &Path) -> Result<(), String> {
    let deny = packages::cargo_deny(root)?;
    command(Command::new(&deny).current_dir(root).args(["check", "licenses", "bans", "sources"]))?;
    advisories(root, &deny)?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    run_within(Command::new("cargo").current_dir(root).args(clippy), &BUILD)?;
    elsewhere(root)
}

/// Compiles the door to the disk for other Unixes, as far as their targets can be installed here.
fn elsewhere(root: &Path) -> Result<(), String> {
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

/// Builds tests and runs them by cargo, in an environment with `set` in it, and counts them.
///
/// # Errors
/// That cargo failed, unless by tests that failed: those are counted; or that one hangs.
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
    // Shown output is where a skipped test says so; only those lines of it are printed.
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

/// Runs the task and leaves nothing of a peer's servers behind.
///
/// # Errors
/// As the first step that failed.
pub fn run(root: &Path, options: &Options) -> Result<(), String> {
    let outcome = run_all(root, options);
    println!("{}", steps::table());
    // Test directories under the peer's shared folder belong to the run that made them.
    let shared = root.join("target/peers/x");
    for entry in fs::read_dir(&shared).into_iter().flatten().flatten() {
        // Best effort: a folder that can't be removed is found again by the next run.
        let _ = fs::remove_dir_all(entry.path());
    }
    outcome
}
