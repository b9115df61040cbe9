//! Tests in instrumented builds: shuttle's, which chooses the interleavings of threads, and Miri's,
//! which checks every access to memory.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::harness::Counts;
use crate::run::output;
use crate::suite::{TESTS, cargo_test};

/// Runs the tests of what threads share, in interleavings that shuttle chooses.
///
/// # Errors
/// As [`cargo_test`].
pub fn interleavings(root: &Path, counts: &mut Counts) -> Result<(), String> {
    let flags = ("RUSTFLAGS", OsString::from("--cfg shuttle"));
    let suite = [
        "test",
        "-p",
        "forebay-aio",
        "-p",
        "forebay-storage",
        "-p",
        "forebay-wal",
        "-p",
        "forebay-archive",
        "--test",
        "interleavings",
        "--target-dir",
        "target/shuttle",
    ];
    cargo_test(root, &[flags], &suite, &TESTS, counts)
}

/// Runs the tests of I/O memory under Miri, where it can be had: it comes with most nightly
/// toolchains and no others.
///
/// # Errors
/// As [`cargo_test`].
pub fn miri(root: &Path, counts: &mut Counts) -> Result<(), String> {
    if !has_miri() && !install_miri() {
        println!("without Miri: rustup has no nightly toolchain with it here");
        return Ok(());
    }
    // Files and the clock are the system's. Miri knows no assembly: system calls go through libc.
    let set = [
        ("MIRIFLAGS", OsString::from("-Zmiri-disable-isolation")),
        ("RUSTFLAGS", OsString::from("--cfg rustix_use_libc")),
    ];
    let suite = [
        "+nightly",
        "miri",
        "test",
        "-p",
        "forebay-aio",
        "--test",
        "memory",
        "--target-dir",
        "target/miri",
    ];
    cargo_test(root, &set, &suite, &TESTS, counts)
}

fn has_miri() -> bool {
    succeeds("cargo", &["+nightly", "miri", "--version"])
}

fn install_miri() -> bool {
    let install =
        ["toolchain", "install", "nightly", "--profile", "minimal", "--component", "miri,rust-src"];
    succeeds("rustup", &install) && has_miri()
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    output(Command::new(program).args(arguments)).is_ok_and(|output| output.status.success())
}
