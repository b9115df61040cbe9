//! The directories of tablespaces: a link `pg_tblspc/OID` to a location, or a directory there, and
//! in it one for this version. All is durable when a call returns.

use super::manager::Smgr;
use crate::error::{StorageError, errno_of, file_error};
use forebay_aio::{AioError, DirEntry, Errno, FileKind, IfFound};
use forebay_format::Oid;
use forebay_format::ids::TABLESPACE_VERSION_DIR;
use std::path::{Path, PathBuf};

impl Smgr {
    /// What an error of the file system means for a directory.
    pub(super) fn failed(
        operation: &'static str,
        path: &Path,
    ) -> impl Fn(AioError) -> StorageError {
        move |e| match e.is_failed_sync() {
            true => StorageError::Sync { file: path.to_path_buf(), errno: errno_of(&e) },
            false => file_error(operation, path, &e),
        }
    }

    pub(super) fn sync_names(&self, dir: &Path) -> Result<(), StorageError> {
        self.namespace().sync_dir(dir).map_err(Self::failed("sync", dir))
    }

    pub(super) fn sync_parent(&self, path: &Path) -> Result<(), StorageError> {
        path.parent().map_or(Ok(()), |parent| self.sync_names(parent))
    }

    fn tablespace_path(&self, oid: Oid) -> PathBuf {
        self.data_dir().join("pg_tblspc").join(oid.to_string())
    }

    /// Makes a tablespace at a location, which exists; in the data directory if that is empty. With
    /// `redo` it takes what is there.
    pub fn make_tablespace(
        &self,
        oid: Oid,
        location: &Path,
        redo: bool,
    ) -> Result<(), StorageError> {
        let link = self.tablespace_path(oid);
        let in_place = location.as_os_str().is_empty();
        let place = if in_place { link.clone() } else { location.to_path_buf() };
        if in_place {
            self.make_directory(&link, redo)?;
        }
        self.make_directory(&place.join(TABLESPACE_VERSION_DIR), redo)?;
        if !in_place {
            if redo {
                self.remove_link(&link)?;
            }
            self.namespace().symlink(location, &link).map_err(Self::failed("link", &link))?;
        }
        self.sync_names(&place)?;
        self.sync_parent(&link)
    }

    fn make_directory(&self, dir: &Path, redo: bool) -> Result<(), StorageError> {
        match self.namespace().mkdir(dir) {
            Err(e) if redo && e.errno() == Some(Errno::EXIST) => Ok(()),
            made => made.map_err(Self::failed("create directory", dir)),
        }
    }

    /// Removes the link of a tablespace, or the empty directory in its place.
    fn remove_link(&self, link: &Path) -> Result<(), StorageError> {
        let Some(parent) = link.parent() else { return Ok(()) };
        let listed = self.namespace().list(parent).map_err(Self::failed("list", parent))?;
        let name = link.file_name();
        let Some(entry) = listed.iter().find(|entry| Some(&*entry.name) == name) else {
            return Ok(());
        };
        let removed = match entry.kind {
            FileKind::Directory => self.namespace().rmdir(link),
            _ => self.namespace().unlink(link),
        };
        removed.map_err(Self::failed("remove", link))
    }

    /// Whether there is nothing in a tablespace but empty directories of databases. None: its
    /// directory is gone.
    pub fn is_tablespace_empty(&self, oid: Oid) -> Result<Option<bool>, StorageError> {
        let dir = self.tablespace_path(oid).join(TABLESPACE_VERSION_DIR);
        let listed = self.namespace().list(&dir).if_found();
        let listed = listed.map_err(Self::failed("open directory", &dir))?;
        listed.map(|listed| self.are_empty(&dir, &listed)).transpose()
    }

    fn are_empty(&self, dir: &Path, entries: &[DirEntry]) -> Result<bool, StorageError> {
        for entry in entries {
            let path = dir.join(&entry.name);
            let within = match entry.kind {
                FileKind::Directory => self.namespace().list(&path),
                _ => return Ok(false),
            };
            if !within.map_err(Self::failed("list", &path))?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the link of another tablespace leads to the same location. The creation of one may
    /// have been taken back before the other one came; a recovery makes both links.
    fn shares_location(&self, link: &Path) -> Result<bool, StorageError> {
        let (Ok(target), Some(parent)) = (self.namespace().read_link(link), link.parent()) else {
            return Ok(false);
        };
        let listed = self.namespace().list(parent).map_err(Self::failed("list", parent))?;
        let others = listed.iter().filter(|entry| Some(&*entry.name) != link.file_name());
        let mut targets = others.map(|entry| self.namespace().read_link(&parent.join(&entry.name)));
        Ok(targets.any(|other| other.is_ok_and(|other| other == target)))
    }

    /// Removes the link of a tablespace whose location is another one's. False: it has its own.
    pub fn remove_second_link(&self, oid: Oid) -> Result<bool, StorageError> {
        let link = self.tablespace_path(oid);
        if !self.shares_location(&link)? {
            return Ok(false);
        }
        self.remove_link(&link)?;
        self.sync_parent(&link)?;
        Ok(true)
    }

    /// Removes a tablespace. False, and nothing happens, if there is anything in it but empty
    /// directories of databases. One that is missing is no error.
    pub fn remove_tablespace(&self, oid: Oid) -> Result<bool, StorageError> {
        if self.remove_second_link(oid)? {
            return Ok(true);
        }
        let link = self.tablespace_path(oid);
        let dir = link.join(TABLESPACE_VERSION_DIR);
        let listed = self.namespace().list(&dir).if_found().map_err(Self::failed("list", &dir))?;
        let entries = listed.as_deref().unwrap_or_default();
        if !self.are_empty(&dir, entries)? {
            return Ok(false);
        }
        for entry in entries {
            let path = dir.join(&entry.name);
            self.namespace().rmdir(&path).map_err(Self::failed("remove", &path))?;
        }
        if listed.is_some() {
            self.namespace().rmdir(&dir).map_err(Self::failed("remove", &dir))?;
            self.sync_names(&link)?;
        }
        self.remove_link(&link)?;
        self.sync_parent(&link)?;
        Ok(true)
    }

    /// Removes a tablespace again, as the log says. As in PostgreSQL it stays where that fails, and
    /// recovery goes on.
    pub fn redo_remove_tablespace(&self, oid: Oid) -> Result<(), StorageError> {
        match self.remove_tablespace(oid) {
            Ok(true) => {}
            Ok(false) => tracing::info!("tablespace {oid} is not removed: it is not empty"),
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => tracing::info!("tablespace {oid} is not removed: {error}"),
        }
        Ok(())
    }
}
