//! What a crash has left of temporary files, removed before anyone makes new ones.

use super::{DIRECTORY, PREFIX, TempFiles};
use forebay_aio::{AioError, FileKind, Namespace};
use forebay_format::ids::TABLESPACE_VERSION_DIR;
use std::path::{Path, PathBuf};

/// What was found at the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftoverReport {
    /// Files that are gone, those in directories included.
    pub removed: u64,
    /// Files and directories of other names, which stay.
    pub unexpected: u64,
    /// What could not be removed or looked at; the log says why.
    pub failed: u64,
}

impl TempFiles {
    /// Removes what is left of temporary files, in all tablespaces, also of PostgreSQL's:
    /// everything in the directories `pgsql_tmp` whose name begins so. For the start, when there
    /// are no sessions. What can't be removed is logged and in nobody's way.
    pub fn remove_leftovers(&self) -> LeftoverReport {
        let names = self.aio.namespace().as_ref();
        let mut sweep = Sweep { names, report: LeftoverReport::default() };
        let spaces = self.data_dir.join("pg_tblspc");
        let mut dirs = vec![self.data_dir.join("base").join(DIRECTORY)];
        for (name, _) in sweep.list(&spaces) {
            dirs.push(spaces.join(name).join(TABLESPACE_VERSION_DIR).join(DIRECTORY));
        }
        for dir in dirs {
            sweep.directory(&dir);
        }
        sweep.report
    }
}

struct Sweep<'a> {
    names: &'a dyn Namespace,
    report: LeftoverReport,
}

impl Sweep<'_> {
    fn directory(&mut self, dir: &Path) {
        for (name, kind) in self.list(dir) {
            let path = dir.join(&name);
            if name.to_string_lossy().starts_with(PREFIX) {
                self.remove(&path, kind);
            } else {
                self.report.unexpected += 1;
                tracing::info!(
                    "unexpected file found in temporary-files directory: \"{}\"",
                    path.display()
                );
            }
        }
    }

    /// A file, or a directory with all that is in it (PostgreSQL's parallel workers share files in
    /// such).
    fn remove(&mut self, path: &Path, kind: FileKind) {
        let removed = if kind == FileKind::Directory {
            for (name, kind) in self.list(path) {
                self.remove(&path.join(name), kind);
            }
            self.names.rmdir(path)
        } else {
            let unlinked = self.names.unlink(path);
            self.report.removed += u64::from(unlinked.is_ok());
            unlinked
        };
        self.note(removed);
    }

    /// The names in a directory; none if it is not there.
    fn list(&mut self, dir: &Path) -> Vec<(PathBuf, FileKind)> {
        match self.names.list(dir) {
            Ok(entries) => {
                entries.into_iter().map(|entry| (entry.name.into(), entry.kind)).collect()
            }
            Err(error) => {
                self.note(Err(error));
                Vec::new()
            }
        }
    }

    fn note(&mut self, done: Result<(), AioError>) {
        match done {
            Err(error) if !error.is_not_found() => {
                self.report.failed += 1;
                tracing::warn!("{error}");
            }
            _ => {}
        }
    }
}
