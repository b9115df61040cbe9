//! Makes the directories and files of a new data directory, and removes them again on failure.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::{
    AlignedBuf, FileKind, IfFound, Io, IoBackend, Namespace, Op, OpenOptions, Target,
};

use crate::directory;
use crate::error::EngineError;

/// Every directory below the data directory but those of databases, parents first.
pub(super) const DIRECTORIES: [&str; 23] = [
    "global",
    "base",
    "pg_wal",
    "pg_wal/archive_status",
    "pg_wal/summaries",
    "pg_xact",
    "pg_multixact",
    "pg_multixact/members",
    "pg_multixact/offsets",
    "pg_subtrans",
    "pg_commit_ts",
    "pg_dynshmem",
    "pg_logical",
    "pg_logical/snapshots",
    "pg_logical/mappings",
    "pg_notify",
    "pg_replslot",
    "pg_serial",
    "pg_snapshots",
    "pg_stat",
    "pg_stat_tmp",
    "pg_tblspc",
    "pg_twophase",
];

/// What was made so far. Dropped without [`Made::keep`], it removes that.
pub(super) struct Made {
    namespace: Arc<dyn Namespace>,
    root: PathBuf,
    files: Vec<PathBuf>,
    /// How many of them are durable, or need not be.
    synced: usize,
    directories: Vec<PathBuf>,
    /// Whether anything is synced.
    sync: bool,
    kept: bool,
}

impl Made {
    /// Makes the data directory, or uses an empty one.
    pub(super) fn start(
        namespace: Arc<dyn Namespace>,
        root: &Path,
        sync: bool,
    ) -> Result<Made, EngineError> {
        let mut made = Made {
            namespace,
            root: root.to_path_buf(),
            files: Vec::new(),
            synced: 0,
            directories: Vec::new(),
            sync,
            kept: false,
        };
        match made.namespace.stat(root)? {
            None => made.make_with_parents(root)?,
            Some(stat) if stat.kind == FileKind::Directory => {
                directory::check_kind_and_owner(root, &stat)?;
                made.take_over_empty(stat.mode)?;
            }
            Some(_) => {
                return Err(EngineError::statement(
                    "58P02",
                    format!("could not access directory \"{}\": Not a directory", root.display()),
                ));
            }
        }
        Ok(made)
    }

    fn make_with_parents(&mut self, dir: &Path) -> Result<(), EngineError> {
        if let Some(parent) = dir.parent().filter(|p| !p.as_os_str().is_empty())
            && !self.namespace.exists(parent)?
        {
            self.make_with_parents(parent)?;
        }
        self.namespace.mkdir(dir)?;
        self.directories.push(dir.to_path_buf());
        Ok(())
    }

    fn take_over_empty(&self, mode: u32) -> Result<(), EngineError> {
        let names: Vec<_> =
            self.namespace.list(&self.root)?.into_iter().map(|entry| entry.name).collect();
        if !names.is_empty() {
            return Err(not_empty(&self.root, names.iter().all(|n| n == "lost+found")));
        }
        if mode & 0o777 != 0o700 {
            // PostgreSQL refuses to start in a directory that others can read.
            rustix::fs::chmod(&self.root, rustix::fs::Mode::RWXU).map_err(|e| {
                EngineError::statement(
                    "42501",
                    format!(
                        "could not change permissions of directory \"{}\": {e}",
                        self.root.display()
                    ),
                )
            })?;
        }
        Ok(())
    }

    /// Makes a directory below the data directory.
    pub(super) fn directory(&mut self, name: &str) -> Result<(), EngineError> {
        let path = self.root.join(name);
        self.namespace.mkdir(&path)?;
        self.directories.push(path);
        Ok(())
    }

    /// Makes a file below the data directory.
    pub(super) fn file(
        &mut self,
        io: &mut IoBackend,
        name: &str,
        bytes: &[u8],
    ) -> Result<(), EngineError> {
        let path = self.root.join(name);
        self.files.push(path.clone());
        let file = self.namespace.open(&path, &OpenOptions::READ_WRITE.create_new())?;
        if !bytes.is_empty() {
            io.write_all_at(&file, 0, &AlignedBuf::copy_of(bytes)?)?;
        }
        Ok(())
    }

    /// Makes the contents of all files durable, several at once. All are written before the first
    /// is synced, so that one transaction of the file system's journal has them all.
    pub(super) fn sync_files(&mut self, io: &mut IoBackend) -> Result<(), EngineError> {
        const DEPTH: usize = 32;
        let unsynced = self.files.get(self.synced..).unwrap_or_default();
        if self.sync {
            for paths in unsynced.chunks(DEPTH) {
                let mut started = Vec::with_capacity(paths.len());
                for path in paths {
                    let file = self.namespace.open(path, &OpenOptions::READ_WRITE)?;
                    started.push(io.start(Io::new(file, Op::Fsync, Target::File)));
                }
                let ends: Vec<_> = started.into_iter().map(|sync| io.wait(sync)).collect();
                ends.into_iter().try_for_each(|end| end.check().map(drop))?;
            }
        }
        self.synced = self.files.len();
        Ok(())
    }

    /// Extends a file from `from` to `to` bytes with zeros, so that its blocks are written and not
    /// merely allocated.
    pub(super) fn fill(
        &mut self,
        io: &mut IoBackend,
        name: &str,
        from: u64,
        to: u64,
    ) -> Result<(), EngineError> {
        const CHUNK: usize = 1 << 20;
        let file = self.namespace.open(&self.root.join(name), &OpenOptions::READ_WRITE)?;
        let zeros = AlignedBuf::zeroed(CHUNK)?;
        let mut at = from;
        while at < to {
            let left = usize::try_from(to - at).unwrap_or(CHUNK).min(CHUNK);
            if left == CHUNK {
                io.write_all_at(&file, at, &zeros)?;
            } else {
                io.write_all_at(&file, at, &AlignedBuf::zeroed(left)?)?;
            }
            at += left as u64;
        }
        Ok(())
    }

    /// Makes every name durable, innermost first, and keeps what was made.
    pub(super) fn keep(mut self) -> Result<(), EngineError> {
        if self.sync {
            self.sync_directories()?;
        }
        self.kept = true;
        Ok(())
    }

    fn sync_directories(&self) -> Result<(), EngineError> {
        let (below, above): (Vec<&PathBuf>, Vec<&PathBuf>) =
            self.directories.iter().partition(|dir| !self.root.starts_with(dir));
        for directory in below.into_iter().rev() {
            self.namespace.sync_dir(directory)?;
        }
        self.namespace.sync_dir(&self.root)?;
        for made in above {
            if let Some(parent) = made.parent() {
                let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
                self.namespace.sync_dir(parent)?;
            }
        }
        Ok(())
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        for path in self.files.drain(..).rev() {
            if let Err(error) = self.namespace.unlink(&path).if_found() {
                tracing::warn!("{error}");
            }
        }
        for path in self.directories.drain(..).rev() {
            if let Err(error) = self.namespace.rmdir(&path) {
                tracing::warn!("{error}");
            }
        }
    }
}

fn not_empty(root: &Path, only_lost_found: bool) -> EngineError {
    let shown = root.display();
    let error =
        EngineError::statement("58P02", format!("directory \"{shown}\" exists but is not empty"));
    if only_lost_found {
        return error
            .with_detail(
                "It contains a lost+found directory, perhaps due to it being a mount point.",
            )
            .with_hint(
                "Using a mount point directly as the data directory is not recommended.\n\
                 Create a subdirectory under the mount point.",
            );
    }
    error.with_hint(format!(
        "If you want to create a new database system, either remove or empty the directory \
         \"{shown}\" or run forebay init with an argument other than \"{shown}\"."
    ))
}

/// Unpredictable bytes for the nonce in pg_control: a hash with random keys from the system.
pub(super) fn random_bytes() -> [u8; 32] {
    let mut bytes = [0; 32];
    for (number, chunk) in (0_u64..).zip(bytes.chunks_exact_mut(8)) {
        chunk.copy_from_slice(&RandomState::new().hash_one(number).to_le_bytes());
    }
    bytes
}
