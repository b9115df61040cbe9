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

/// How all tests are built, but Miri's: in one build, since a test of a single package would have
/// other features of its dependencies.
pub const WORKSPACE: [&str; 5] = ["test", "--profile", "battery", "--workspace", "--no-fail-fast"];

/// Tests that one cargo command builds and runs.
pub struct Suite<'a> {
    /// Variables in the environment of cargo and the tests.
    pub set: Vec<(&'static str, OsString)>,
    /// cargo's arguments.
    pub of_cargo: Vec<&'a str>,
    /// The test programs' arguments.
    pub of_tests: Vec<&'a str>,
}

impl Suite<'_> {
    fn cargo(&self, root: &Path) -> Command {
        let mut command = Command::new("cargo");
        command.current_dir(root).args(&self.of_cargo);
        command.envs(self.set.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Builds the tests. A build is silent for longer than a test may be, so it comes first.
    ///
    /// # Errors
    /// When cargo fails or hangs.
    pub fn build(&self, root: &Path) -> Result<(), String> {
        run_within(self.cargo(root).arg("--no-run"), &BUILD)
    }

    /// Runs the tests, which were built, and counts them.
    ///
    /// # Errors
    /// When cargo fails, unless tests failed (they are counted), or when a program hangs.
    pub fn run(&self, root: &Path, bounds: &Bounds, counts: &mut Counts) -> Result<(), String> {
        let mut command = self.cargo(root);
        // A skipped test says so in its output, which cargo shows only if it is asked to.
        command.arg("--").args(&self.of_tests).arg("--show-output");
        let shown = watch::show(&command);
        println!("$ {shown}");
        let running = Running::default();
        let listen = |output| follow(output, &mut std::io::stdout(), &running);
        let (status, found) =
            watch::follow(command.stdin(Stdio::null()), bounds, &running, listen)?;
        let failed = found.failed > 0;
        counts.add(found);
        if status.success() || failed { Ok(()) } else { Err(format!("{shown}: {status}")) }
    }
}
