//! Removing the temporary files that a crash left behind, before new ones are made.

use super::files::{DIRECTORY, PREFIX, TempFiles};
use forebay_aio::{AioError, FileKind, Namespace};
use forebay_format::ids::TABLESPACE_VERSION_DIR;
use std::path::{Path, PathBuf};

/// The result of removing leftovers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftoverReport {
    /// Files removed, including those in directories.
    pub removed: u64,
    /// Files and directories with unexpected names, which were left alone.
    pub unexpected: u64,
    /// Files and directories that could not be removed or listed; the log has the reasons.
    pub failed: u64,
}

impl TempFiles {
    /// Removes leftover temporary files of all tablespaces, also PostgreSQL's: everything in a
    /// `pgsql_tmp` directory whose name begins in that way. Only for the start, before there are
    /// sessions. Failures are logged and do no harm.
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

    /// Removes all files, even those in use, and makes no new ones, as the engine stops. Files that
    /// are dropped later touch nothing on disk.
    pub fn close(&self) -> LeftoverReport {
        let mut closed = self.closed.write();
        if std::mem::replace(&mut *closed, true) {
            return LeftoverReport::default();
        }
        self.remove_leftovers()
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

    /// Removes a file, or a directory with its contents: PostgreSQL's parallel workers share files
    /// in directories.
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

    /// Lists a directory; a missing one is empty.
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
        if let Err(error) = done
            && !error.is_not_found()
        {
            self.report.failed += 1;
            tracing::warn!("{error}");
        }
    }
}
