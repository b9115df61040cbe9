//! Runs commands: each is printed first and runs under watch ([`crate::watch`]), and a failure
//! names it.

use std::fs::File;
use std::process::{Command, Output, Stdio};

use crate::watch::{self, Bounds, USUAL};

/// Runs `command` with inherited output.
///
/// # Errors
/// A line naming the command, when it can't be started, hangs or does not exit with success.
pub fn run(command: &mut Command) -> Result<(), String> {
    run_within(command, &USUAL)
}

/// As [`run`], with bounds of its own.
///
/// # Errors
/// As [`run`].
pub fn run_within(command: &mut Command, bounds: &Bounds) -> Result<(), String> {
    let shown = watch::show(command);
    println!("$ {shown}");
    let status = watch::status(command.stdin(Stdio::null()), bounds)?;
    if status.success() { Ok(()) } else { Err(format!("{shown}: {status}")) }
}

/// Runs `command`, and returns its output and status.
///
/// # Errors
/// A line naming the command, when it can't be started or hangs.
pub fn output(command: &mut Command) -> Result<Output, String> {
    watch::output(command.stdin(Stdio::null()), &USUAL)
}

/// As [`output`], with a file to read from.
///
/// # Errors
/// As [`output`].
pub fn fed(command: &mut Command, input: File) -> Result<Output, String> {
    watch::output(command.stdin(input), &USUAL)
}

/// Whether `program` can be found on the path.
pub fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
        || ["/usr/sbin", "/sbin"]
            .iter()
            .any(|folder| std::path::Path::new(folder).join(program).is_file())
}

/// Whether this process runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this is a continuous-integration run, in which nothing may be skipped.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}
