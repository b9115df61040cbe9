//! The directories of databases: made, copied, removed.
//!
//! What is made here is durable when the call returns: the caller logs it afterwards, and recovery
//! makes it again. Pages of a database that is removed have left the pool before.

use super::manager::Smgr;
use crate::error::{StorageError, file_error};
use forebay_aio::{self as aio, AlignedBuf, Errno, FileKind, IfFound, Namespace, OpenOptions};
use forebay_format::ids::{DEFAULT_TABLESPACE, TABLESPACE_VERSION_DIR};
use forebay_format::wal::database::DatabasePlace;
use forebay_format::{Fork, Oid, relmap};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The file that names the version of a database's directory.
const VERSION_FILE: &str = "PG_VERSION";
/// What it holds.
const VERSION: &[u8] = b"18\n";
/// Bytes that are copied at a time.
const CHUNK: usize = 1 << 20;

impl Smgr {
    /// Makes an empty directory for a database. With `redo` one that exists is taken.
    pub fn make_database(
        &self,
        io: &mut aio::IoBackend,
        place: DatabasePlace,
        redo: bool,
    ) -> Result<(), StorageError> {
        let dir = self.data_dir().join(place.path());
        let file = dir.join(VERSION_FILE);
        if redo {
            self.make_directories(&file)?;
        } else {
            self.make_parent(&dir)?;
            self.namespace().mkdir(&dir).map_err(Self::failed("create directory", &dir))?;
        }
        let written = match redo {
            true => io.write_file(&file, VERSION),
            false => io.write_new_file(&file, VERSION),
        };
        written.map_err(Self::failed("create", &file))?;
        self.sync_names(&dir)?;
        forebay_aio::planted_bug!(self.aio(), DatabaseDirectoryNotSynced, return Ok(()));
        self.sync_parent(&dir)
    }

    /// Makes the folder of this version in a tablespace, unless it is there.
    fn make_parent(&self, dir: &Path) -> Result<(), StorageError> {
        let Some(parent) = dir.parent().filter(|p| p.ends_with(TABLESPACE_VERSION_DIR)) else {
            return Ok(());
        };
        match self.namespace().mkdir(parent) {
            Ok(()) => self.sync_parent(parent),
            Err(e) if e.errno() == Some(Errno::EXIST) => Ok(()),
            Err(e) => Err(file_error("create directory", parent, &e)),
        }
    }

    /// Writes the relation map of a database, or of the shared catalogs, in place of the one that
    /// is there.
    pub fn write_map(
        &self,
        io: &mut aio::IoBackend,
        place: DatabasePlace,
        map: &relmap::RelMap,
    ) -> Result<(), StorageError> {
        let dir = self.data_dir().join(place.path());
        let (path, new) =
            (dir.join(relmap::FILE_NAME), dir.join(format!("{}.tmp", relmap::FILE_NAME)));
        let file = self.namespace().open(&new, &OpenOptions::READ_WRITE.create().truncate());
        let file = file.map_err(Self::failed("create", &new))?;
        let bytes = AlignedBuf::copy_of(&map.encode()).map_err(Self::failed("write", &new))?;
        io.write_all_at(&file, 0, &bytes).map_err(Self::failed("write", &new))?;
        let mut sync = true;
        forebay_aio::planted_bug!(self.aio(), RelationMapNotSynced, sync = false);
        if sync {
            io.fsync(&file).map_err(Self::failed("sync", &new))?;
        }
        self.namespace().rename(&new, &path).map_err(Self::failed("rename", &new))?;
        self.sync_names(&dir)
    }

    /// The tablespaces in which a database has a directory.
    pub fn tablespaces_of(&self, database: Oid) -> Result<Vec<Oid>, StorageError> {
        let spaces = self.data_dir().join("pg_tblspc");
        let listed = self.namespace().list(&spaces).if_found();
        let listed = listed.map_err(|e| file_error("list", &spaces, &e))?.unwrap_or_default();
        let numbers = listed.iter().filter_map(|entry| entry.name.to_str()?.parse().ok());
        let mut found = Vec::new();
        for spc in [DEFAULT_TABLESPACE].into_iter().chain(numbers) {
            let dir = self.data_dir().join(DatabasePlace { db: database, spc }.path());
            if self.namespace().exists(&dir).map_err(|e| file_error("stat", &dir, &e))? {
                found.push(spc);
            }
        }
        Ok(found)
    }

    /// The tablespaces in which a database has files, and not only an empty directory.
    pub fn tablespaces_used_by(&self, database: Oid) -> Result<Vec<Oid>, StorageError> {
        let mut found = Vec::new();
        for spc in self.tablespaces_of(database)? {
            let dir = self.data_dir().join(DatabasePlace { db: database, spc }.path());
            if !self.namespace().list(&dir).map_err(Self::failed("list", &dir))?.is_empty() {
                found.push(spc);
            }
        }
        Ok(found)
    }

    /// Copies the files of a database again, as the log says. A later record may have removed the
    /// source, or the tablespace that the copy is in: then empty directories stand for them until
    /// that record.
    pub fn redo_copy(
        &self,
        io: &mut aio::IoBackend,
        from: DatabasePlace,
        to: DatabasePlace,
    ) -> Result<(), StorageError> {
        self.remove_database(to)?;
        for place in [from, to] {
            self.make_directories(&self.data_dir().join(place.path()))?;
        }
        let source = self.data_dir().join(from.path());
        match self.namespace().mkdir(&source) {
            Err(e) if e.errno() != Some(Errno::EXIST) => {
                return Err(file_error("create directory", &source, &e));
            }
            _ => {}
        }
        self.copy_database(io, from, to)
    }

    /// Copies the files of a database. Its pages were written before.
    pub fn copy_database(
        &self,
        io: &mut aio::IoBackend,
        from: DatabasePlace,
        to: DatabasePlace,
    ) -> Result<(), StorageError> {
        let [source, target] = [from, to].map(|place| self.data_dir().join(place.path()));
        self.make_parent(&target)?;
        self.namespace().mkdir(&target).map_err(Self::failed("create directory", &target))?;
        let names = self.namespace().list(&source).map_err(Self::failed("list", &source))?;
        for entry in names.iter().filter(|entry| entry.kind == FileKind::File) {
            self.copy_file(io, &source.join(&entry.name), &target.join(&entry.name))?;
        }
        self.sync_names(&target)?;
        self.sync_parent(&target)
    }

    fn copy_file(
        &self,
        io: &mut aio::IoBackend,
        from: &Path,
        to: &Path,
    ) -> Result<(), StorageError> {
        let names = self.aio().namespace();
        let source = names.open(from, &OpenOptions::READ).map_err(Self::failed("open", from))?;
        let target = names.open(to, &OpenOptions::READ_WRITE.create_new());
        let target = target.map_err(Self::failed("create", to))?;
        let len = names.file_len(&source).map_err(Self::failed("stat", from))?;
        let mut done = 0;
        while done < len {
            let part = usize::try_from(len - done).unwrap_or(CHUNK).min(CHUNK);
            let mut buffer = AlignedBuf::zeroed(part).map_err(Self::failed("copy", to))?;
            io.read_exact_at(&source, done, &mut buffer).map_err(Self::failed("read", from))?;
            io.write_all_at(&target, done, &buffer).map_err(Self::failed("write", to))?;
            done += part as u64;
        }
        forebay_aio::planted_bug!(self.aio(), DatabaseCopyNotSynced, return Ok(()));
        io.fsync(&target).map_err(Self::failed("sync", to))
    }

    /// Removes the directory of a database in a tablespace, with all that is in it. Nobody uses its
    /// files. One that is missing is no error.
    pub fn remove_database(&self, place: DatabasePlace) -> Result<(), StorageError> {
        let dir = self.data_dir().join(place.path());
        if !self.namespace().exists(&dir).map_err(|e| file_error("stat", &dir, &e))? {
            return Ok(());
        }
        remove_tree(self.namespace(), &dir)?;
        self.sync_parent(&dir)
    }

    /// Forgets the files of a database, and closes them.
    pub(crate) fn forget_database(&self, database: Oid) {
        self.sync.forget_database(database);
        for shard in &self.forks {
            let mut shard = shard.write();
            let doomed = shard.keys().filter(|(rel, _)| rel.db == database).copied();
            for key in doomed.collect::<Vec<_>>() {
                let Some(entry) = shard.remove(&key) else { continue };
                let _none_in_flight = entry.transfers.close(&self.aio);
                self.written.remove_fork(key.0, key.1);
                entry.remove();
            }
        }
    }
}

impl Smgr {
    /// Forgets what is known of relations whose first files are at these paths, and closes their
    /// files: others have taken their place, but for those of init forks. Nobody uses them.
    pub fn forget_replaced(&self, replaced: &HashSet<PathBuf>) {
        for shard in &self.forks {
            shard.write().retain(|(rel, fork), entry| {
                let kept = *fork == Fork::Init
                    || !replaced.contains(&self.segment_path(*rel, Fork::Main, 0));
                if !kept {
                    let _none_in_flight = entry.transfers.close(&self.aio);
                    entry.remove();
                }
                kept
            });
        }
    }
}

fn remove_tree(names: &dyn Namespace, dir: &Path) -> Result<(), StorageError> {
    for entry in names.list(dir).map_err(Smgr::failed("list", dir))? {
        let path = dir.join(entry.name);
        match entry.kind {
            FileKind::Directory => remove_tree(names, &path)?,
            _ => names.unlink(&path).map_err(Smgr::failed("remove", &path))?,
        }
    }
    names.rmdir(dir).map_err(Smgr::failed("remove", dir))
}
