//! `cargo xtask watch`: runs one program of tests under watch, as `cargo xtask test` runs all of
//! them. If it hangs, its tests and processes are named and it is killed.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;

use crate::harness::{Running, follow};
use crate::watch::{self, Bounds};

/// What to run, and how long it may take.
#[derive(Args)]
pub struct Options {
    /// Seconds it may take in all
    #[arg(long, default_value_t = 3600)]
    total: u64,
    /// Seconds it may print nothing
    #[arg(long, default_value_t = 1200)]
    silent: u64,
    /// Seconds it may print nothing and use no processor
    #[arg(long, default_value_t = 900)]
    idle: u64,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    words: Vec<OsString>,
}

/// Runs the program.
///
/// # Errors
/// When it fails, can't be started or hangs.
pub fn run(options: &Options) -> Result<(), String> {
    let [total, silent, idle] =
        [options.total, options.silent, options.idle].map(Duration::from_secs);
    let bounds = Bounds { total, silent, idle };
    let (program, arguments) = options.words.split_first().ok_or("no program is given")?;
    let mut command = Command::new(program);
    let running = Running::default();
    let listen = |output| follow(output, &mut std::io::stdout(), &running);
    command.args(arguments).stdin(Stdio::null());
    let (status, counts) = watch::follow(&mut command, &bounds, &running, listen)?;
    println!("{} passed, {} failed", counts.passed, counts.failed);
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", watch::show(&command))) }
}
