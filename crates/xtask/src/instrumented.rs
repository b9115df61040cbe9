//! Builds that look closer: shuttle's, which chooses the interleavings of threads, and Miri's,
//! which watches every access to memory.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::heard::Counts;
use crate::run::output;
use crate::test::{TESTS, cargo_test};

/// Runs what threads share in interleavings of shuttle's choice.
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

/// Runs the tests of I/O memory under Miri, where it can be had. It comes with nightly toolchains
/// only, and not with all.
///
/// # Errors
/// As [`cargo_test`].
pub fn miri(root: &Path, counts: &mut Counts) -> Result<(), String> {
    if !has_miri() && !install_miri() {
        println!("without Miri: rustup has no nightly toolchain with it here");
        return Ok(());
    }
    // Files and the clock of the system; system calls by way of libc, as Miri knows no assembly.
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
