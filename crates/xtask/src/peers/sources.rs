//! PostgreSQL's own tests, from the source package of the version that is installed in the tree.
//! apt downloads and verifies it there.
//!
//! - `target/peers/isolation`: the isolation specifications
//! - `target/peers/regress`: the regression tests, with their library of C functions, `regress.so`

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Peer, SUITE, debian_mirror};
use crate::packages::{Needed, ensure};
use crate::run::{output, run};

/// The tests' folders in the source package, below its one folder and `src/test`.
const FOLDERS: [&str; 2] = ["isolation", "regress"];
/// Where packages are downloaded to, inside the tree.
const DOWNLOADS: &str = "var/cache/forebay";
/// PostgreSQL's headers in the package for developers.
const HEADERS: &str = "usr/include/postgresql/18/server";

/// PostgreSQL's own tests.
pub struct Sources {
    /// Isolation specifications: specs, expected, isolation_schedule.
    pub isolation: PathBuf,
    /// Regression tests: sql, expected, data, parallel_schedule, lib/regress.so.
    pub regress: PathBuf,
}

/// The tests, fetched and built if need be.
///
/// # Errors
/// When they can't be had: no mirror that answers, or none that still has the installed version.
pub fn prepare(root: &Path, peer: &Peer) -> Result<Sources, String> {
    let peers = root.join("target/peers");
    let [isolation, regress] = FOLDERS.map(|name| peers.join(name));
    let version = installed_version(peer)?;
    let complete = regress.join(format!("complete-{version}"));
    if !complete.is_file() {
        let downloads = peer.tree.join(DOWNLOADS);
        let text = |e: std::io::Error| format!("{}: {e}", peers.display());
        for folder in [&isolation, &regress, &downloads] {
            if folder.exists() {
                fs::remove_dir_all(folder).map_err(text)?;
            }
        }
        fs::create_dir_all(&downloads).map_err(text)?;
        download(peer, &version)?;
        unpack(&peers, &downloads)?;
        build_library(peer, &regress)?;
        fs::remove_dir_all(&downloads).map_err(text)?;
        fs::write(&complete, "").map_err(text)?;
    }
    Ok(Sources { isolation, regress })
}

/// Downloads the source package, and the package with the headers.
fn download(peer: &Peer, version: &str) -> Result<(), String> {
    let mirror = debian_mirror()?;
    let list = peer.tree.join("etc/apt/sources.list.d/sources.list");
    let sources = format!("deb-src {mirror} {SUITE} main\n");
    fs::write(&list, sources).map_err(|e| format!("{}: {e}", list.display()))?;
    // As debootstrap, which does not ask how old the signed lists are.
    let options = ["Acquire::Check-Valid-Until=false", "Acquire::Languages=none"];
    let update = ["-q", "-o", options[0], "-o", options[1], "update"];
    run(Command::new(&peer.runner).args(["root", "/usr/bin/apt-get"]).args(update))?;
    let fetch = format!(
        "cd /{DOWNLOADS} && apt-get -q source --download-only postgresql-18={version} \
         && apt-get -q download postgresql-server-dev-18={version} \
         && dpkg-deb -x postgresql-server-dev-18_*.deb headers"
    );
    run(Command::new(&peer.runner).args(["root", "/bin/sh", "-c", &fetch]))
}

/// Unpacks the tests' folders into `peers`.
fn unpack(peers: &Path, downloads: &Path) -> Result<(), String> {
    ensure(&[Needed { program: "bzip2", package: "bzip2" }])?;
    let entries = fs::read_dir(downloads).map_err(|e| format!("{}: {e}", downloads.display()))?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    let archive = paths.find(|path| path.to_string_lossy().contains(".orig.tar."));
    let archive = archive.ok_or("the source package has no .orig.tar")?;
    let mut unpack = Command::new("tar");
    unpack.arg("-xf").arg(&archive).arg("-C").arg(peers);
    unpack.args(["--strip-components=3", "--wildcards"]);
    unpack.args(FOLDERS.map(|folder| format!("*/src/test/{folder}/*")));
    run(&mut unpack)
}

/// Builds the regression tests' functions in C. The machine's own compiler does: a library that it
/// links needs no newer C library than the tree has.
fn build_library(peer: &Peer, regress: &Path) -> Result<(), String> {
    let library = regress.join("lib");
    fs::create_dir_all(&library).map_err(|e| format!("{}: {e}", library.display()))?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-fPIC", "-shared", "-w", "-I"]);
    compiler.arg(peer.tree.join(DOWNLOADS).join("headers").join(HEADERS));
    compiler.arg("-o").arg(library.join("regress.so")).arg(regress.join("regress.c"));
    run(&mut compiler)
}

/// The version of the package in the tree.
fn installed_version(peer: &Peer) -> Result<String, String> {
    let mut query = Command::new(&peer.runner);
    query.args(["root", "/usr/bin/dpkg-query", "-f", "${Version}", "-W", "postgresql-18"]);
    let output = output(&mut query)?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && !version.is_empty() {
        return Ok(version);
    }
    Err(format!("dpkg-query: {}", output.status))
}
