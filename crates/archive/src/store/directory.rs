//! An archive in a directory.

use std::path::{Path, PathBuf};

use forebay_aio::sync::Arc;
use forebay_aio::{Aio, AlignedBuf, Backend, FileKind, OpenOptions};

use super::depot::{BACKUPS, Depot, Download, Object, Upload};
use crate::error::{ArchiveError, Result};
use crate::pipe::{Buffers, Piece, Reader};
use crate::place::{Incoming, Place, Placed};

/// A directory that holds an archive. It must exist: one that is missing may be a file system that
/// is not mounted.
pub struct Directory {
    place: Place,
    aio: Arc<Aio>,
    direct: bool,
    buffers: Buffers,
}

impl Directory {
    /// The directory `dir`; files are read and written past the kernel's cache if `direct`.
    pub fn new(aio: &Arc<Aio>, dir: &Path, direct: bool) -> Directory {
        let place = Place::new(aio, dir, direct);
        Directory { place, aio: Arc::clone(aio), direct, buffers: Buffers::new() }
    }

    fn path(&self, key: &str) -> PathBuf {
        if key.is_empty() { self.place.dir().to_path_buf() } else { self.place.path(key) }
    }

    /// All files below a directory. None: it is not there.
    fn walk(&self, dir: &str, found: &mut Vec<Object>) -> Result<bool> {
        let path = self.path(dir.trim_end_matches('/'));
        let entries = match self.aio.namespace().list(&path) {
            Err(e) if e.is_not_found() => return Ok(false),
            entries => entries.map_err(ArchiveError::io("list", &path))?,
        };
        for entry in entries {
            // No name of an archive's file has other characters than these.
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

    /// Removes what was being stored from a directory and those below it.
    fn clean_tree(&self, dir: &str) -> Result<usize> {
        let path = self.path(dir.trim_end_matches('/'));
        let mut removed = self.place.clean_in(&path)?;
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

    fn create<'a>(&'a self, _: &mut Backend, key: &str) -> Result<Box<dyn Upload + 'a>> {
        let begun = self.place.begin(key, &self.buffers);
        let dir = self.path(key).parent().unwrap_or(self.place.dir()).to_path_buf();
        let incoming = begun.map_err(|error| make_room(&self.place, &dir, error))?;
        Ok(Box::new(Arriving { incoming, place: &self.place, dir }))
    }

    fn open<'a>(&'a self, _: &mut Backend, key: &str) -> Result<Option<Box<dyn Download + 'a>>> {
        let path = self.path(key);
        match Reader::open(&self.aio, &path, self.direct, &self.buffers) {
            Ok(reader) => Ok(Some(Box::new(Leaving {
                path,
                reader,
                piece: None,
                at: 0,
                buffers: &self.buffers,
            }))),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(ArchiveError::io("open", &path)(e)),
        }
    }

    fn size(&self, _: &mut Backend, key: &str) -> Result<Option<u64>> {
        self.length(key)
    }

    fn list(&self, be: &mut Backend, prefix: &str) -> Result<Vec<Object>> {
        let mut found = Vec::new();
        if !self.walk(prefix, &mut found)? {
            // Nothing under the prefix yet; but is the place there?
            self.names(be, "")?;
        }
        Ok(found)
    }

    fn names(&self, _: &mut Backend, dir: &str) -> Result<Vec<String>> {
        let path = self.path(dir.trim_end_matches('/'));
        let entries = self.aio.namespace().list(&path).map_err(ArchiveError::io("list", &path))?;
        Ok(entries.into_iter().filter_map(|entry| entry.name.into_string().ok()).collect())
    }

    fn settle(&self, be: &mut Backend, key: &str) -> Result<bool> {
        let path = self.path(key);
        let file = match self.aio.namespace().open(&path, &OpenOptions::READ) {
            Err(e) if e.is_not_found() => return Ok(false),
            file => file.map_err(ArchiveError::io("settle", &path))?,
        };
        let settled = be.fsync(&file).and_then(|()| {
            // Advice; who reads it now is to read what the medium has.
            let _ = self.aio.namespace().forget_cached(&file);
            self.place.settle_names(path.parent().unwrap_or(self.place.dir()))
        });
        settled.map(|()| true).map_err(ArchiveError::io("settle", &path))
    }

    fn remove(&self, _: &mut Backend, key: &str) -> Result<()> {
        let path = self.path(key);
        match self.aio.namespace().unlink(&path) {
            Err(e) if !e.is_not_found() => Err(ArchiveError::io("remove", &path)(e)),
            _ => Ok(()),
        }
    }

    fn settle_removals(&self, _: &mut Backend, dirs: &[String]) -> Result<()> {
        for dir in dirs {
            let path = self.path(dir.trim_end_matches('/'));
            self.aio.namespace().sync_dir(&path).map_err(ArchiveError::io("settle", &path))?;
        }
        Ok(())
    }

    fn clean(&self, _: &mut Backend, dir: &str) -> Result<usize> {
        self.place.clean_in(&self.path(dir.trim_end_matches('/')))
    }

    fn clean_all(&self, _: &mut Backend) -> Result<usize> {
        self.clean_tree("")
    }
}

/// If there was no room, what dead processes have left may take it.
fn make_room(place: &Place, dir: &Path, error: ArchiveError) -> ArchiveError {
    if error.is_full()
        && let Err(e) = place.clean_in(dir)
    {
        tracing::warn!("could not remove left-over temporary files: {e}");
    }
    error
}

struct Arriving<'a> {
    incoming: Incoming<'a>,
    place: &'a Place,
    dir: PathBuf,
}

impl Upload for Arriving<'_> {
    fn write(&mut self, be: &mut Backend, bytes: &[u8]) -> Result<()> {
        self.incoming.write(be, bytes)
    }

    fn put(&mut self, be: &mut Backend, buf: AlignedBuf, len: usize) -> Result<()> {
        self.incoming.put(be, buf, len)
    }

    fn finish(self: Box<Self>, be: &mut Backend, so_far: Result<()>) -> Result<Placed> {
        let Arriving { incoming, place, dir } = *self;
        incoming.end(be, so_far).map_err(|error| make_room(place, &dir, error))
    }
}

struct Leaving<'a> {
    path: PathBuf,
    reader: Reader,
    /// Being given out, up to `at`.
    piece: Option<Piece>,
    at: usize,
    buffers: &'a Buffers,
}

impl Download for Leaving<'_> {
    fn read(&mut self, be: &mut Backend, buf: &mut [u8]) -> Result<usize> {
        loop {
            if let Some(piece) = &self.piece {
                let rest = piece.bytes().get(self.at..).unwrap_or_default();
                let len = rest.len().min(buf.len());
                if let (Some(to), Some(from)) = (buf.get_mut(..len), rest.get(..len))
                    && len > 0
                {
                    to.copy_from_slice(from);
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
            self.piece = self.reader.next(be).map_err(ArchiveError::io("read", &self.path))?;
            if self.piece.is_none() {
                return Ok(0);
            }
        }
    }

    fn close(&mut self, be: &mut Backend) {
        if let Some(piece) = self.piece.take() {
            self.buffers.give_back(piece.buf);
        }
        self.reader.close(be);
    }
}
