//! Tests in instrumented builds: shuttle's, which chooses the interleavings of threads, and Miri's,
//! which checks every access to memory.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::harness::Counts;
use crate::run::output;
use crate::suite::{Suite, TESTS};

/// The tests of what threads share, in interleavings that shuttle chooses.
pub fn interleavings(root: &Path) -> Suite<'static> {
    let compiler = root.join("crates/xtask/shuttle").into_os_string();
    // These packages alone: shuttle gives object stores' dependencies other features.
    let words = "test --profile battery -p forebay-aio -p forebay-storage -p forebay-wal \
                 -p forebay-archive -p forebay-access --test interleavings";
    Suite {
        set: vec![("RUSTC_WORKSPACE_WRAPPER", compiler)],
        of_cargo: words.split(' ').collect(),
        of_tests: Vec::new(),
    }
}

/// Runs the tests of I/O memory under Miri, where it can be had: it comes with most nightly
/// toolchains and no others.
///
/// # Errors
/// As [`Suite::build`] and [`Suite::run`].
pub fn miri(root: &Path, counts: &mut Counts) -> Result<(), String> {
    if !has_miri() && !install_miri() {
        println!("without Miri: rustup has no nightly toolchain with it here");
        return Ok(());
    }
    let words = "+nightly miri test -p forebay-aio --test memory --target-dir target/miri";
    let suite = Suite {
        // Files and the clock are the system's. Miri knows no assembly: system calls go through
        // libc.
        set: vec![
            ("MIRIFLAGS", OsString::from("-Zmiri-disable-isolation")),
            ("RUSTFLAGS", OsString::from("--cfg rustix_use_libc")),
        ],
        of_cargo: words.split(' ').collect(),
        of_tests: Vec::new(),
    };
    suite.build(root)?;
    suite.run(root, &TESTS, counts)
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
