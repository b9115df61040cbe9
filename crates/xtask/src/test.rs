//! `cargo xtask test`: everything that must hold, in order of what fails fastest.
//!
//! 1. Style, layering, lints and licences, while PostgreSQL 18 and moto are fetched
//! 2. One optimized build of all tests, beside Miri
//! 3. The crates' tests, then the batteries that run the real program beside PostgreSQL 18
//! 4. Beside 3: the tests that shuttle runs, the battery on the simulated disk and the planted bugs
//!
//! 3 waits for disks and processes much of the time, and 4 does not depend on the clock.
//!
//! A test that needs something this machine can't have prints `skipped: NAME needs ...`. Skipped
//! tests are counted and named at the end, and are an error in CI. Every program runs under watch
//! ([`crate::watch`]), and the last lines tell how long each took, and each stage.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use clap::Args;

use crate::battery::{self, Battery};
use crate::harness::Counts;
use crate::instrumented;
use crate::moto;
use crate::packages::{self, Needed};
use crate::peers;
use crate::run::{in_ci, output, run as command, run_within};
use crate::suite::{BUILD, Suite, TESTS, WORKSPACE};
use crate::tidy;
use crate::watch::steps::{self, stage};

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
    let battery = Battery::new(options.seeds, options.first_seed);
    if options.only_battery {
        stage("build", || battery.build(root))?;
        battery.run(root, &mut counts)?;
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
        stage("formatting, tidy", || quick_checks(root))?;
    }
    let environment = checks_and_downloads(root, options)?;
    let suites = Suites {
        crates: Suite {
            set: environment.clone(),
            of_cargo: WORKSPACE.to_vec(),
            of_tests: Vec::new(),
        },
        server: Suite {
            set: environment,
            of_cargo: [&WORKSPACE[..], &["--test", "battery"]].concat(),
            of_tests: vec!["--include-ignored"],
        },
        interleavings: instrumented::interleavings(root),
        simulated: battery,
    };
    suites.build(root, options, &mut counts)?;
    suites.run(root, options, &mut counts)?;
    report(&counts)
}

/// Runs `work` while another thread runs `other`, to the end of both.
fn beside<T: Send, U>(
    other: impl FnOnce() -> T + Send,
    work: impl FnOnce() -> U,
) -> Result<(T, U), String> {
    thread::scope(|scope| {
        let other = scope.spawn(other);
        let result = work();
        let other = other.join().map_err(|_| "a stage panicked".to_owned())?;
        Ok((other, result))
    })
}

/// Checks while PostgreSQL 18 and moto are fetched; the variables by which tests find both.
fn checks_and_downloads(
    root: &Path,
    options: &Options,
) -> Result<Vec<(&'static str, OsString)>, String> {
    let fetch = || {
        stage("PostgreSQL 18, moto", || {
            let peer = peers::prepare(root);
            let sources = peer.as_ref().map_err(String::clone);
            let sources = sources.and_then(|peer| peers::sources::prepare(root, peer));
            (peer, sources, moto::prepare(root))
        })
    };
    let check = || match options.only_tests {
        true => Ok(()),
        false => checks(root),
    };
    let ((peer, sources, moto), checked) = beside(fetch, check)?;
    checked?;
    let found = [
        (
            "PostgreSQL 18",
            peer.map(|peer| {
                vec![
                    ("FOREBAY_PG18_RUN", peer.runner.into_os_string()),
                    ("FOREBAY_PG18_ROOT", peer.tree.into_os_string()),
                ]
            }),
        ),
        (
            "PostgreSQL's own tests",
            sources.map(|sources| {
                vec![
                    ("FOREBAY_PG18_SPECS", sources.isolation.into_os_string()),
                    ("FOREBAY_PG18_REGRESS", sources.regress.into_os_string()),
                ]
            }),
        ),
        ("moto", moto.map(|python| vec![("FOREBAY_MOTO", python.into_os_string())])),
    ];
    let mut environment = Vec::new();
    for (what, variables) in found {
        match variables {
            Ok(variables) => environment.extend(variables),
            Err(why) if in_ci() => return Err(format!("{what} must be there in CI: {why}")),
            Err(why) => println!("without {what} ({why}); tests that need it are skipped"),
        }
    }
    Ok(environment)
}

/// All tests but Miri's.
struct Suites {
    crates: Suite<'static>,
    server: Suite<'static>,
    interleavings: Suite<'static>,
    simulated: Battery,
}

impl Suites {
    /// Builds the tests, one suite at a time: cargo locks the directory. Miri has its own.
    fn build(&self, root: &Path, options: &Options, counts: &mut Counts) -> Result<(), String> {
        let miri = || stage("Miri", || instrumented::miri(root, counts));
        let builds = || {
            self.crates.build(root)?;
            if !options.quick {
                self.simulated.build(root)?;
            }
            self.interleavings.build(root)
        };
        let (miri, built) = beside(miri, || stage("build", builds))?;
        miri.and(built)
    }

    /// Runs the tests, in two threads.
    fn run(&self, root: &Path, options: &Options, counts: &mut Counts) -> Result<(), String> {
        let mut second = Counts::default();
        let simulated = || {
            let interleavings = || self.interleavings.run(root, &TESTS, &mut second);
            stage("shuttle", interleavings)?;
            if options.quick { Ok(()) } else { self.simulated.run(root, &mut second) }
        };
        let real = || {
            stage("the crates' tests", || self.crates.run(root, &TESTS, counts))?;
            if options.quick {
                return Ok(());
            }
            stage("the server's batteries", || self.server.run(root, &TESTS, counts))
        };
        let (simulated, real) = beside(simulated, real)?;
        counts.add(second);
        real.and(simulated)
    }
}

fn quick_checks(root: &Path) -> Result<(), String> {
    command(Command::new("cargo").current_dir(root).args(["fmt", "--all", "--check"]))?;
    tidy::run(root, &tidy::Options::default())
}

/// Lints, while cargo-deny is built and run.
fn checks(root: &Path) -> Result<(), String> {
    let allowed = || stage("licences", || licences(root));
    let (allowed, linted) = beside(allowed, || {
        stage("clippy", || {
            let mut clippy = Command::new("cargo");
            clippy.current_dir(root).args(["clippy", "--profile", "battery", "--workspace"]);
            clippy.args(["--all-targets", "--quiet", "--", "-D", "warnings"]);
            run_within(&mut clippy, &BUILD)
        })?;
        stage("other systems", || other_systems(root))
    })?;
    linted.and(allowed)
}

fn licences(root: &Path) -> Result<(), String> {
    let deny = packages::cargo_deny(root)?;
    command(Command::new(&deny).current_dir(root).args(["check", "licenses", "bans", "sources"]))?;
    advisories(root, &deny)
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
    for failure in &counts.failures {
        println!("failed: {failure}");
    }
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
    let begun = Instant::now();
    let outcome = run_all(root, options);
    println!("{}", steps::table(begun.elapsed()));
    let shared = root.join("target/peers/x");
    for entry in fs::read_dir(&shared).into_iter().flatten().flatten() {
        // The next run tries again.
        let _ = fs::remove_dir_all(entry.path());
    }
    outcome
}
