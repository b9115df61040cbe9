//! Which files are known to be stored.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

use forebay_aio::sync::{Duration, SystemTime};
use forebay_aio::{FileKind, FileStat};

/// Most files remembered.
const MOST: usize = 100_000;
/// The file system's clock ticks more seldom than this. A file changed within it before it was read
/// may have been changed once more after, and have the same times.
const TICK: Duration = Duration::from_millis(50);

/// A file as it was when it was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    len: u64,
    modified: SystemTime,
    changed: SystemTime,
}

impl Shape {
    /// None for what is never archived: no file, or one that has more than one name.
    pub fn of(stat: &FileStat) -> Option<Shape> {
        let fit = stat.kind == FileKind::File && stat.links == 1;
        fit.then_some(Shape { len: stat.len, modified: stat.modified, changed: stat.changed })
    }
}

/// Files that were stored.
#[derive(Debug, Default)]
pub(super) struct Memory {
    files: HashMap<PathBuf, Shape>,
    /// The oldest first.
    order: VecDeque<PathBuf>,
}

impl Memory {
    /// The file of this path, which had this shape before it was read, from `begun` on, was stored.
    pub fn remember(&mut self, path: &Path, before: Shape, begun: SystemTime) {
        let settled =
            |time: SystemTime| time.checked_add(TICK).is_some_and(|settled| settled < begun);
        if !settled(before.changed) || !settled(before.modified) {
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

    /// Is this the file that was stored?
    pub fn knows(&self, path: &Path, now: Shape) -> bool {
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

    fn shape(len: u64, ms: u64) -> Shape {
        Shape { len, modified: at(ms), changed: at(ms) }
    }

    #[test]
    fn a_file_is_known_while_it_is_the_same() {
        let mut memory = Memory::default();
        let path = Path::new("/a");
        memory.remember(path, shape(5, 1000), at(2000));
        assert!(memory.knows(path, shape(5, 1000)));
        assert!(!memory.knows(path, shape(6, 1000)));
        assert!(!memory.knows(path, shape(5, 1001)));
        assert!(!memory.knows(Path::new("/b"), shape(5, 1000)));
    }

    #[test]
    fn a_file_changed_just_before_is_not_trusted() {
        let mut memory = Memory::default();
        let path = Path::new("/a");
        memory.remember(path, shape(5, 1000), at(1049));
        assert!(!memory.knows(path, shape(5, 1000)));
        memory.remember(path, shape(5, 1000), at(1051));
        assert!(memory.knows(path, shape(5, 1000)));
        memory.remember(path, shape(5, 1051), at(1052));
        assert!(!memory.knows(path, shape(5, 1000)));
    }

    #[test]
    fn memory_is_bounded() {
        let mut memory = Memory::default();
        for n in 0..MOST + 10 {
            memory.remember(Path::new(&format!("/{n}")), shape(1, 0), at(1000));
        }
        assert_eq!((memory.files.len(), memory.order.len()), (MOST, MOST));
        assert!(!memory.knows(Path::new("/9"), shape(1, 0)));
        assert!(memory.knows(Path::new("/10"), shape(1, 0)));
    }
}
