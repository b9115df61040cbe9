//! What the tasks need from outside: Debian packages and cargo tools, installed on demand.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{is_root, on_path, run};

/// A program and the Debian package that brings it.
pub struct Needed {
    /// The program looked for on the path.
    pub program: &'static str,
    /// The package installed when it is not there.
    pub package: &'static str,
}

/// Installs the packages of those programs that are missing.
///
/// # Errors
/// When something is missing and can't be installed (not Debian, not root, no network).
pub fn ensure(needed: &[Needed]) -> Result<(), String> {
    let missing: Vec<&Needed> = needed.iter().filter(|n| !on_path(n.program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|n| n.package).collect();
    install(&packages)
}

/// Installs these Debian packages.
///
/// # Errors
/// When they can't be installed (not Debian, not root, no network).
pub fn install(packages: &[&str]) -> Result<(), String> {
    println!("installing Debian packages: {}", packages.join(" "));
    if !is_root() || !on_path("apt-get") {
        return Err(format!("missing; install them first: apt-get install {}", packages.join(" ")));
    }
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive").args([
        "install",
        "-y",
        "--no-install-recommends",
    ]);
    install.args(packages);
    if run(&mut install).is_ok() {
        return Ok(());
    }
    run(Command::new("apt-get").arg("update"))?;
    run(&mut install)
}

/// The path of cargo-deny, built into `target/tools` when the machine has none.
///
/// # Errors
/// When it is not there and can't be built.
pub fn cargo_deny(root: &Path) -> Result<PathBuf, String> {
    if on_path("cargo-deny") {
        return Ok(PathBuf::from("cargo-deny"));
    }
    let tools = root.join("target/tools");
    let program = tools.join("bin/cargo-deny");
    if !program.is_file() {
        println!("installing cargo-deny into {}", tools.display());
        // Without optimization and debug information: it runs for a second, and builds in half the
        // time.
        let mut install = Command::new("cargo");
        install.env("CARGO_PROFILE_DEV_DEBUG", "0");
        install.args(["install", "cargo-deny", "--locked", "--debug", "--root"]).arg(&tools);
        run(&mut install)?;
    }
    Ok(program)
}
