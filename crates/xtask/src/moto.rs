//! moto, an S3 server to test and measure against. It comes from PyPI into `target/tools/moto`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::packages::{self, Needed};
use crate::run::run;

const VERSION: &str = "5.2.5";

/// Installs moto if need be, and returns the Python that has it.
///
/// # Errors
/// When it can't be had: no Python, or no package registry that answers.
pub fn prepare(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join("target/tools/moto");
    let python = folder.join("bin/python");
    let complete = folder.join(format!("complete-{VERSION}"));
    if complete.is_file() {
        return Ok(python);
    }
    packages::ensure(&[Needed { program: "python3", package: "python3" }])?;
    let environment = || run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder));
    if environment().is_err() {
        // Debian's Python has it in a package of its own.
        packages::install(&["python3-venv"])?;
        environment()?;
    }
    let package = format!("moto[s3,server]=={VERSION}");
    run(Command::new(&python).args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        &package,
    ]))?;
    fs::write(&complete, "").map_err(|e| format!("{}: {e}", complete.display()))?;
    Ok(python)
}
