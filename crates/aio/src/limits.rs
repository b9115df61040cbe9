//! The process's limits on descriptors and locked memory: what they are, how much is in use, and
//! raising the soft one.
//!
//! PostgreSQL opens a ring for each possible backend and leaves the limits alone. This crate
//! compares the limits with what it needs before it sets anything up, and names them in its
//! messages.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The limits at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of descriptors: the soft RLIMIT_NOFILE.
    pub descriptors: u64,
    /// How far the process may raise it: the hard RLIMIT_NOFILE.
    pub descriptors_hard: u64,
    /// The maximum locked memory in bytes: the soft RLIMIT_MEMLOCK. None if no limit applies (none
    /// is set, or the process has CAP_IPC_LOCK).
    pub locked_memory: Option<u64>,
}

impl Limits {
    /// The limits now.
    pub fn now() -> Limits {
        use rustix::process::{Resource, getrlimit};
        let nofile = getrlimit(Resource::Nofile);
        Limits {
            descriptors: nofile.current.unwrap_or(u64::MAX),
            descriptors_hard: nofile.maximum.unwrap_or(u64::MAX),
            locked_memory: if may_lock_any_memory() {
                None
            } else {
                getrlimit(Resource::Memlock).current
            },
        }
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "descriptors (RLIMIT_NOFILE): {} of at most {}",
            self.descriptors, self.descriptors_hard
        )?;
        match self.locked_memory {
            Some(n) => write!(f, "; locked memory (RLIMIT_MEMLOCK): {n} bytes"),
            None => f.write_str("; locked memory: unlimited"),
        }
    }
}

/// Raises the soft limit on descriptors to `wanted`, or as far as the hard limit allows; never
/// lowers it. Returns the limits afterwards.
pub fn raise_descriptor_limit(wanted: u64) -> Limits {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|soft| soft < wanted) {
        let target = limit.maximum.map_or(wanted, |hard| hard.min(wanted));
        if limit.current.is_some_and(|soft| soft < target) {
            limit.current = Some(target);
            if let Err(e) = setrlimit(Resource::Nofile, limit) {
                // Some systems have a maximum below an unlimited hard limit.
                tracing::debug!("could not raise the limit on descriptors to {target}: {e}");
            }
        }
    }
    Limits::now()
}

/// The text of a file in which the system tells of itself, as those in /proc; None if there is
/// none.
pub fn system_text(path: &Path) -> Option<String> {
    SystemFile::open(path)?.text()
}

/// A file in which the system tells of itself, to be read again and again. It stays open: opening
/// one needs memory of the kernel's, for which a process at its limit waits.
#[derive(Debug)]
pub struct SystemFile(File);

impl SystemFile {
    /// Opens it; None if there is none.
    pub fn open(path: &Path) -> Option<SystemFile> {
        File::open(path).ok().map(SystemFile)
    }

    /// What the file says now; None if it is no longer there.
    pub fn text(&self) -> Option<String> {
        let (mut text, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            match self.0.read_at(&mut piece, text.len() as u64).ok()? {
                0 => return String::from_utf8(text).ok(),
                read => text.extend_from_slice(&piece[..read]),
            }
        }
    }
}

/// How many descriptors this process has open; None if the system does not tell.
pub fn descriptors_in_use() -> Option<u64> {
    let dir = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    let names = std::fs::read_dir(dir).ok()?.count() as u64;
    Some(names.saturating_sub(1)) // without the one that lists them
}

/// Whether the process has CAP_IPC_LOCK, so that RLIMIT_MEMLOCK does not apply.
fn may_lock_any_memory() -> bool {
    const CAP_IPC_LOCK: u32 = 14;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|l| l.strip_prefix("CapEff:")).map_or("0", str::trim);
    u64::from_str_radix(effective, 16).is_ok_and(|set| set >> CAP_IPC_LOCK & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_descriptors_are_counted() {
        // Other tests of this process open and close theirs meanwhile, so only a lower bound is
        // certain.
        let held: Vec<_> = (0..50).map(|_| std::io::pipe().expect("pipe")).collect();
        assert!(descriptors_in_use().expect("known here") >= 2 * held.len() as u64);
    }

    #[test]
    fn a_limit_is_never_lowered() {
        let before = Limits::now();
        assert_eq!(raise_descriptor_limit(1), before);
        assert!(before.descriptors <= before.descriptors_hard);
        assert!(before.to_string().contains("RLIMIT_NOFILE"));
    }
}
