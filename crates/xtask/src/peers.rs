//! A real PostgreSQL 18 to test and measure against: Debian's unstable suite, bootstrapped into
//! `target/peers/sid`. The machine's own package sources are only read, never changed.
//!
//! Programs run in it through `target/peers/run USER PROGRAM ARGUMENT...`. That script enters a
//! mount namespace of its own, binds /proc, /dev, /sys and the folder `target/peers/x` (as `/x`)
//! into the tree and changes its root to it; the binds vanish with the process, so removing
//! `target` is always safe.
//!
//! - [`sources`]: PostgreSQL's own tests, from the source package of the same version

pub mod sources;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::packages::{Needed, ensure};
use crate::run::{is_root, run};

const SUITE: &str = "unstable";
const PACKAGES: &str = "postgresql-18,postgresql-client-18";

/// A prepared peer.
pub struct Peer {
    /// Runs a program inside: `runner USER PROGRAM ARGUMENT...`.
    pub runner: PathBuf,
    /// The root of the tree.
    pub tree: PathBuf,
}

/// Prepares the peer if need be.
///
/// # Errors
/// When it can't be had: not root, no debootstrap, or no mirror that answers.
pub fn prepare(root: &Path) -> Result<Peer, String> {
    let peers = root.join("target/peers");
    let peer = Peer { runner: peers.join("run"), tree: peers.join("sid") };
    let complete = peers.join("complete");
    let text = |e: std::io::Error| format!("{}: {e}", peers.display());
    fs::create_dir_all(peers.join("x")).map_err(text)?;
    fs::set_permissions(peers.join("x"), fs::Permissions::from_mode(0o755)).map_err(text)?;
    if !complete.is_file() {
        bootstrap(&peer)?;
        fs::write(&complete, "").map_err(text)?;
    }
    fs::write(&peer.runner, RUNNER_SCRIPT).map_err(text)?;
    fs::set_permissions(&peer.runner, fs::Permissions::from_mode(0o755)).map_err(text)?;
    let mut version = Command::new(&peer.runner);
    run(version.args(["postgres", "/usr/lib/postgresql/18/bin/postgres", "--version"]))?;
    Ok(peer)
}

fn bootstrap(peer: &Peer) -> Result<(), String> {
    if !is_root() {
        return Err("debootstrap needs root".into());
    }
    ensure(&[Needed { program: "debootstrap", package: "debootstrap" }])?;
    if peer.tree.exists() {
        println!("removing an unfinished bootstrap in {}", peer.tree.display());
        fs::remove_dir_all(&peer.tree).map_err(|e| format!("{}: {e}", peer.tree.display()))?;
    }
    let mirror = debian_mirror()?;
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.args(["--variant=minbase", &format!("--include={PACKAGES}"), SUITE]);
    debootstrap.arg(&peer.tree).arg(&mirror);
    run(&mut debootstrap)
}

/// The mirror of Debian's main archive that this machine's own apt uses.
fn debian_mirror() -> Result<String, String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(folder) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(folder.flatten().map(|entry| entry.path()));
    }
    files.sort();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        if let Some(mirror) = text.lines().find_map(mirror_of_line) {
            return Ok(mirror);
        }
    }
    Err("no Debian mirror in /etc/apt/sources.list or /etc/apt/sources.list.d".into())
}

/// The mirror named by a line of either apt source format, if it is one of Debian's main archive.
fn mirror_of_line(line: &str) -> Option<String> {
    let line = line.trim();
    if !line.starts_with("URIs:") && !line.starts_with("deb ") {
        return None;
    }
    line.split_whitespace()
        .find(|word| word.trim_end_matches('/').ends_with("/debian") && word.contains("://"))
        .map(|word| word.trim_end_matches('/').to_string())
}

/// The script finds its folder by itself, so that the checkout may be moved or linked to.
const RUNNER_SCRIPT: &str = r#"#!/bin/sh
# Runs a program inside the PostgreSQL 18 tree beside this file: run USER PROGRAM ARGUMENT...
# The folder x beside it is /x in there.
peers=$(dirname "$(readlink -f "$0")") || exit 125
exec unshare --mount --propagation private sh -c '
  peers=$1 tree=$1/sid user=$2; shift 2
  mount --rbind /proc "$tree/proc" && mount --rbind /dev "$tree/dev" || exit 125
  mount --rbind /sys "$tree/sys" || exit 125
  mkdir -p "$tree/x" && mount --bind "$peers/x" "$tree/x" || exit 125
  exec chroot --userspec="$user:$user" "$tree" "$@"
' sh "$peers" "$@"
"#;

#[cfg(test)]
mod tests {
    use super::mirror_of_line;

    #[test]
    fn finds_the_main_archive_in_both_formats() {
        let url = "http://mirror.example/debian";
        assert_eq!(mirror_of_line(&format!("URIs: {url}/")).as_deref(), Some(url));
        assert_eq!(mirror_of_line(&format!("deb {url} bookworm main")).as_deref(), Some(url));
        assert_eq!(mirror_of_line("URIs: http://mirror.example/debian-security"), None);
        assert_eq!(mirror_of_line("# deb http://mirror.example/debian x main"), None);
    }
}
