//! [`StoredFiles`]: which files archiverd knows to be stored.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

use forebay_aio::sync::{Duration, SystemTime};
use forebay_aio::{FileKind, FileStat};

/// How many files are remembered.
const MOST: usize = 100_000;
/// The file system's clock has a finer resolution than this. If a file was changed less than this
/// before it was read, a later change may leave its times the same.
const TICK: Duration = Duration::from_millis(50);

/// Identifies the contents of a file, as long as the clock tells changes apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileVersion {
    len: u64,
    modified: SystemTime,
    changed: SystemTime,
}

impl FileVersion {
    /// None: such a file is never archived, as it is not regular or has several names.
    pub fn of(stat: &FileStat) -> Option<FileVersion> {
        let FileStat { len, modified, changed, .. } = *stat;
        let archivable = stat.kind == FileKind::File && stat.links == 1;
        archivable.then_some(FileVersion { len, modified, changed })
    }
}

/// Files that were stored, up to a limit.
#[derive(Debug, Default)]
pub(super) struct StoredFiles {
    files: HashMap<PathBuf, FileVersion>,
    /// The oldest first.
    order: VecDeque<PathBuf>,
}

impl StoredFiles {
    /// Adds a file that was stored. It had the version `before` when its reading began at `begun`.
    pub fn insert(&mut self, path: &Path, before: FileVersion, begun: SystemTime) {
        let is_older = |time: SystemTime| time.checked_add(TICK).is_some_and(|tick| tick < begun);
        if !is_older(before.changed) || !is_older(before.modified) {
            self.files.remove(path);
            return;
        }
        if self.files.insert(path.to_path_buf(), before).is_none() {
            self.order.push_back(path.to_path_buf());
            while self.order.len() > MOST {
                if let Some(oldest) = self.order.pop_front() {
                    self.files.remove(&oldest);
                }
            }
        }
    }

    /// Whether this version of the file was stored.
    pub fn contains(&self, path: &Path, now: FileVersion) -> bool {
        self.files.get(path) == Some(&now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_aio::sync::UNIX_EPOCH;

    fn at(ms: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(ms)
    }

    fn version(len: u64, ms: u64) -> FileVersion {
        FileVersion { len, modified: at(ms), changed: at(ms) }
    }

    #[test]
    fn a_file_is_known_until_it_changes() {
        let mut stored = StoredFiles::default();
        let path = Path::new("/a");
        stored.insert(path, version(5, 1000), at(2000));
        assert!(stored.contains(path, version(5, 1000)));
        assert!(!stored.contains(path, version(6, 1000)));
        assert!(!stored.contains(path, version(5, 1001)));
        assert!(!stored.contains(Path::new("/b"), version(5, 1000)));
    }

    #[test]
    fn a_file_changed_just_before_is_not_remembered() {
        let mut stored = StoredFiles::default();
        let path = Path::new("/a");
        stored.insert(path, version(5, 1000), at(1049));
        assert!(!stored.contains(path, version(5, 1000)));
        stored.insert(path, version(5, 1000), at(1051));
        assert!(stored.contains(path, version(5, 1000)));
        stored.insert(path, version(5, 1051), at(1052));
        assert!(!stored.contains(path, version(5, 1000)));
    }

    #[test]
    fn memory_is_bounded() {
        let mut stored = StoredFiles::default();
        for n in 0..MOST + 10 {
            stored.insert(Path::new(&format!("/{n}")), version(1, 0), at(1000));
        }
        assert_eq!((stored.files.len(), stored.order.len()), (MOST, MOST));
        assert!(!stored.contains(Path::new("/9"), version(1, 0)));
        assert!(stored.contains(Path::new("/10"), version(1, 0)));
    }
}
