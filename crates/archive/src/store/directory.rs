//! A directory as a depot.

use std::path::{Path, PathBuf};

use forebay_aio::sync::Arc;
use forebay_aio::{Aio, AlignedBuf, FileKind, IfFound, IoBackend, OpenOptions};

use super::depot::{BACKUPS, Depot, Download, Object, Upload};
use crate::durable_dir::{DurableDir, NewFile, StoreOutcome};
use crate::error::{ArchiveError, Result};
use crate::pipe::{Buffers, Piece, Reader};

/// A directory that holds an archive. It must exist: a missing one may be a file system that is not
/// mounted.
pub struct Directory {
    root: DurableDir,
    aio: Arc<Aio>,
    direct: bool,
    buffers: Buffers,
}

impl Directory {
    /// The directory `dir`; with `direct`, files are read and written with direct I/O.
    pub fn new(aio: &Arc<Aio>, dir: &Path, direct: bool) -> Directory {
        let root = DurableDir::new(aio, dir, direct);
        Directory { root, aio: Arc::clone(aio), direct, buffers: Buffers::new() }
    }

    fn path(&self, key: &str) -> PathBuf {
        if key.is_empty() { self.root.dir().to_path_buf() } else { self.root.path(key) }
    }

    /// Appends all files below a directory to `found`. False: the directory does not exist.
    fn walk(&self, dir: &str, found: &mut Vec<Object>) -> Result<bool> {
        let path = self.path(dir.trim_end_matches('/'));
        let listed = self.aio.namespace().list(&path).if_found();
        let Some(entries) = listed.map_err(ArchiveError::io("list", &path))? else {
            return Ok(false);
        };
        for entry in entries {
            // The names of an archive's files are valid UTF-8.
            let Some(name) = entry.name.to_str() else { continue };
            let key = format!("{dir}{name}");
            if key == BACKUPS {
                continue;
            }
            if entry.kind == FileKind::Directory {
                self.walk(&format!("{key}/"), found)?;
            } else if let Some(size) = self.length(&key)? {
                found.push(Object { key, size });
            }
        }
        Ok(true)
    }

    /// Removes temporary files of dead processes from a directory and its subdirectories.
    fn clean_tree(&self, dir: &str) -> Result<usize> {
        let path = self.path(dir.trim_end_matches('/'));
        let mut removed = self.root.clean_in(&path)?;
        for entry in self.aio.namespace().list(&path).map_err(ArchiveError::io("list", &path))? {
            let name = entry.name.to_str().filter(|_| entry.kind == FileKind::Directory);
            if let Some(name) = name.filter(|name| !dir.is_empty() || *name != BACKUPS) {
                removed += self.clean_tree(&format!("{dir}{name}/"))?;
            }
        }
        Ok(removed)
    }

    fn length(&self, key: &str) -> Result<Option<u64>> {
        let path = self.path(key);
        let stat = self.aio.namespace().stat(&path).map_err(ArchiveError::io("look for", &path))?;
        Ok(stat.filter(|stat| stat.kind == FileKind::File).map(|stat| stat.len))
    }
}

impl Depot for Directory {
    fn describe(&self, key: &str) -> String {
        self.path(key).display().to_string()
    }

    fn create<'a>(&'a self, _: &mut IoBackend, key: &str) -> Result<Box<dyn Upload + 'a>> {
        let begun = self.root.begin(key, &self.buffers);
        let dir = self.path(key).parent().unwrap_or(self.root.dir()).to_path_buf();
        let file = begun.map_err(|error| self.root.make_room(&dir, error))?;
        Ok(Box::new(DirUpload { file, root: &self.root, dir }))
    }

    fn open<'a>(&'a self, _: &mut IoBackend, key: &str) -> Result<Option<Box<dyn Download + 'a>>> {
        let path = self.path(key);
        let buffers = &self.buffers;
        let opened = Reader::open(&self.aio, &path, self.direct, buffers).if_found();
        let Some(reader) = opened.map_err(ArchiveError::io("open", &path))? else {
            return Ok(None);
        };
        Ok(Some(Box::new(DirDownload { path, reader, piece: None, at: 0, buffers })))
    }

    fn size(&self, _: &mut IoBackend, key: &str) -> Result<Option<u64>> {
        self.length(key)
    }

    fn list(&self, io: &mut IoBackend, prefix: &str) -> Result<Vec<Object>> {
        let mut found = Vec::new();
        if !self.walk(prefix, &mut found)? {
            // No file has this prefix; an error if the directory itself does not exist.
            self.names(io, "")?;
        }
        Ok(found)
    }

    fn names(&self, _: &mut IoBackend, dir: &str) -> Result<Vec<String>> {
        let path = self.path(dir.trim_end_matches('/'));
        let entries = self.aio.namespace().list(&path).map_err(ArchiveError::io("list", &path))?;
        Ok(entries.into_iter().filter_map(|entry| entry.name.into_string().ok()).collect())
    }

    fn make_durable(&self, io: &mut IoBackend, key: &str) -> Result<bool> {
        let path = self.path(key);
        let opened = self.aio.namespace().open(&path, &OpenOptions::READ).if_found();
        let Some(file) = opened.map_err(ArchiveError::io("sync", &path))? else {
            return Ok(false);
        };
        let synced = io.fsync(&file).and_then(|()| {
            // The next reader should read what the medium has. This is only advice.
            let _ = self.aio.namespace().forget_cached(&file);
            self.root.sync_names(path.parent().unwrap_or(self.root.dir()))
        });
        synced.map(|()| true).map_err(ArchiveError::io("sync", &path))
    }

    fn remove(&self, _: &mut IoBackend, key: &str) -> Result<()> {
        let path = self.path(key);
        let removed = self.aio.namespace().unlink(&path).if_found();
        removed.map(drop).map_err(ArchiveError::io("remove", &path))
    }

    fn sync_removals(&self, _: &mut IoBackend, dirs: &[String]) -> Result<()> {
        for dir in dirs {
            let path = self.path(dir.trim_end_matches('/'));
            self.aio.namespace().sync_dir(&path).map_err(ArchiveError::io("sync", &path))?;
        }
        Ok(())
    }

    fn clean(&self, _: &mut IoBackend, dir: &str) -> Result<usize> {
        self.root.clean_in(&self.path(dir.trim_end_matches('/')))
    }

    fn clean_all(&self, _: &mut IoBackend) -> Result<usize> {
        self.clean_tree("")
    }
}

struct DirUpload<'a> {
    file: NewFile<'a>,
    root: &'a DurableDir,
    dir: PathBuf,
}

impl Upload for DirUpload<'_> {
    fn write(&mut self, io: &mut IoBackend, bytes: &[u8]) -> Result<()> {
        self.file.write(io, bytes)
    }

    fn put(&mut self, io: &mut IoBackend, buf: AlignedBuf, len: usize) -> Result<()> {
        self.file.put(io, buf, len)
    }

    fn finish(self: Box<Self>, io: &mut IoBackend, written: Result<()>) -> Result<StoreOutcome> {
        let DirUpload { file, root, dir } = *self;
        file.end(io, written).map_err(|error| root.make_room(&dir, error))
    }
}

struct DirDownload<'a> {
    path: PathBuf,
    reader: Reader,
    /// The current piece, of which `at` bytes were returned.
    piece: Option<Piece>,
    at: usize,
    buffers: &'a Buffers,
}

impl Download for DirDownload<'_> {
    fn read(&mut self, io: &mut IoBackend, buf: &mut [u8]) -> Result<usize> {
        loop {
            if let Some(piece) = &self.piece {
                let rest = &piece.bytes()[self.at..];
                let len = rest.len().min(buf.len());
                if len > 0 {
                    buf[..len].copy_from_slice(&rest[..len]);
                    self.at += len;
                    return Ok(len);
                }
            }
            if buf.is_empty() {
                return Ok(0);
            }
            if let Some(piece) = self.piece.take() {
                self.buffers.give_back(piece.buf);
            }
            self.at = 0;
            self.piece = self.reader.next(io).map_err(ArchiveError::io("read", &self.path))?;
            if self.piece.is_none() {
                return Ok(0);
            }
        }
    }

    fn close(&mut self, io: &mut IoBackend) {
        if let Some(piece) = self.piece.take() {
            self.buffers.give_back(piece.buf);
        }
        self.reader.close(io);
    }
}
