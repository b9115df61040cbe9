//! The directory of a demonstration, and dropping its files from the kernel's cache.

use rustix::fs::{Advice, fadvise, statfs};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

const TMPFS: i64 = 0x0102_1994;
const RAMFS: i64 = 0x8584_58f6;

/// A directory made for a demonstration.
#[derive(Debug)]
pub(super) struct DemoDir {
    /// Its path.
    pub(super) path: PathBuf,
    /// Why direct I/O is left out, if it is.
    pub(super) no_direct: Option<String>,
}

impl DemoDir {
    /// Makes a directory in `wanted`, or else in the current or the system's temporary directory:
    /// in the first that has room and is on a disk, or in the first that has room.
    pub(super) fn find(wanted: Option<&Path>, megabytes: u64) -> Result<DemoDir, String> {
        let candidates = match wanted {
            Some(dir) => vec![dir.to_owned()],
            None => vec![PathBuf::from("."), std::env::temp_dir()],
        };
        // The table twice, for there is a second load, the log, and something to spare.
        let need = (megabytes << 20) * 5 + (1 << 30);
        let mut reasons = Vec::new();
        let mut in_memory = None;
        for parent in candidates {
            let parent = parent.canonicalize().unwrap_or(parent);
            match look(&parent, need) {
                Ok(true) => return DemoDir::make(&parent, None),
                Ok(false) => in_memory = in_memory.or(Some(parent)),
                Err(why) => reasons.push(why),
            }
        }
        match in_memory {
            Some(parent) => {
                let why = format!(
                    "{} is a file system in memory; name one on a disk with --dir",
                    parent.display()
                );
                DemoDir::make(&parent, Some(why))
            }
            None => Err(reasons.join("; ")),
        }
    }

    fn make(parent: &Path, no_direct: Option<String>) -> Result<DemoDir, String> {
        let path = parent.join(format!("forebay-demo-{}", std::process::id()));
        fs::create_dir(&path).map_err(|e| format!("could not make {}: {e}", path.display()))?;
        Ok(DemoDir { path, no_direct })
    }

    /// The server's data directory.
    pub(super) fn data_dir(&self) -> PathBuf {
        self.path.join("data")
    }

    /// Bytes of the largest relation: the table.
    pub(super) fn table_bytes(&self) -> u64 {
        files(&self.data_dir().join("base"))
            .iter()
            .filter_map(|f| Some(fs::metadata(f).ok()?.len()))
            .max()
            .unwrap_or(0)
    }

    /// Drops the server's files, and no others, from the kernel's cache. The server is down, so
    /// nothing is dirty after a sync.
    pub(super) fn evict(&self) -> std::io::Result<()> {
        for path in files(&self.data_dir()) {
            let file = File::open(path)?;
            file.sync_data()?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
        Ok(())
    }
}

/// Whether a directory is on a disk (true) or in memory; an error if it can't be used.
fn look(dir: &Path, need: u64) -> Result<bool, String> {
    let stat = statfs(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let free = stat.f_bavail.saturating_mul(u64::try_from(stat.f_bsize).unwrap_or(4096));
    if free < need {
        return Err(format!(
            "{} has {} MB free, {} are needed",
            dir.display(),
            free >> 20,
            need >> 20
        ));
    }
    if rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_err() {
        return Err(format!("{} can't be written to", dir.display()));
    }
    Ok(!matches!(stat.f_type, TMPFS | RAMFS))
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_needs_room() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(
            DemoDir::find(Some(dir.path()), 1 << 40).expect_err("no such disk").contains("needed")
        );
        assert!(DemoDir::find(Some(Path::new("/nonexistent")), 8).is_err());
    }
}
