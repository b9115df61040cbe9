//! Where an archive lies: a directory, an object store, or whatever else someone writes a [`Depot`]
//! for.
//!
//! Files are named by keys: paths with slashes, relative to the place. None is ever replaced.

use forebay_aio::{AlignedBuf, Backend};

use crate::error::Result;
use crate::place::Placed;

/// Directory of an archive where base backups are kept.
pub(crate) const BACKUPS: &str = "backups";

/// A file that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its key.
    pub key: String,
    /// Its bytes.
    pub size: u64,
}

/// A place for an archive. Absence is told by `None` alone, and only where the place itself says
/// so: whatever else goes wrong is an error.
pub trait Depot: Send + Sync {
    /// How a key is called in messages.
    fn describe(&self, key: &str) -> String;

    /// Begins to store a file.
    fn create<'a>(&'a self, be: &mut Backend, key: &str) -> Result<Box<dyn Upload + 'a>>;

    /// Opens a file.
    fn open<'a>(&'a self, be: &mut Backend, key: &str) -> Result<Option<Box<dyn Download + 'a>>>;

    /// Bytes of a file.
    fn size(&self, be: &mut Backend, key: &str) -> Result<Option<u64>>;

    /// All files whose keys begin with `prefix`, which is empty or ends with a slash; base backups
    /// may be left out. A place that is not there at all is an error; a prefix under which nothing
    /// is, is not.
    fn list(&self, be: &mut Backend, prefix: &str) -> Result<Vec<Object>>;

    /// The names in a directory (empty, or with a slash at its end); a place that is not there at
    /// all is an error.
    fn names(&self, be: &mut Backend, dir: &str) -> Result<Vec<String>>;

    /// The first of these keys, `base` with each ending, under which a file is.
    fn find(&self, be: &mut Backend, base: &str, endings: &[&str]) -> Result<Option<String>> {
        for ending in endings {
            let key = format!("{base}{ending}");
            if self.size(be, &key)?.is_some() {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Makes a file durable that is there: somebody else may have put it there just now. False: it
    /// is not there.
    fn settle(&self, be: &mut Backend, key: &str) -> Result<bool>;

    /// Removes a file; none there is fine.
    fn remove(&self, be: &mut Backend, key: &str) -> Result<()>;

    /// How many files it suits to remove at a time.
    fn removals(&self) -> usize {
        1
    }

    /// Removes files, in any order.
    fn remove_all(&self, be: &mut Backend, keys: &[&str]) -> Result<()> {
        keys.iter().try_for_each(|key| self.remove(be, key))
    }

    /// Makes removals from these directories durable.
    fn settle_removals(&self, be: &mut Backend, dirs: &[String]) -> Result<()>;

    /// Removes from a directory what was being stored when its process ended. How many files.
    fn clean(&self, be: &mut Backend, dir: &str) -> Result<usize>;

    /// The same, from all directories but those of base backups.
    fn clean_all(&self, be: &mut Backend) -> Result<usize> {
        self.clean(be, "")
    }

    /// Called before an archive is made there: whether it keeps what it is given at all.
    fn check_new(&self, _: &mut Backend) -> Result<()> {
        Ok(())
    }

    /// What is under way is to end soon, with an error, if it can. Called from other threads.
    fn interrupt(&self) {}

    /// A whole small file.
    fn read_small(&self, be: &mut Backend, key: &str, most: u64) -> Result<Option<Vec<u8>>> {
        let Some(mut file) = self.open(be, key)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let mut piece = [0; 4096];
        let read = loop {
            match file.read(be, &mut piece) {
                Ok(0) => break Ok(()),
                Ok(got) => bytes.extend_from_slice(piece.get(..got).unwrap_or_default()),
                Err(error) => break Err(error),
            }
            if bytes.len() as u64 > most {
                break Ok(());
            }
        };
        file.close(be);
        read.map(|()| Some(bytes))
    }

    /// Stores a whole small file.
    fn store_small(&self, be: &mut Backend, key: &str, bytes: &[u8]) -> Result<Placed> {
        let mut upload = self.create(be, key)?;
        let written = upload.write(be, bytes);
        upload.finish(be, written)
    }
}

/// A file being stored.
pub trait Upload {
    /// Its next bytes.
    fn write(&mut self, be: &mut Backend, bytes: &[u8]) -> Result<()>;
    /// Its next bytes, in a buffer that goes along.
    fn put(&mut self, be: &mut Backend, buf: AlignedBuf, len: usize) -> Result<()>;
    /// If all went well so far, makes it durable and gives it its name, unless that is taken; else
    /// leaves nothing of it.
    fn finish(self: Box<Self>, be: &mut Backend, so_far: Result<()>) -> Result<Placed>;
}

/// A file being read.
pub trait Download {
    /// Its next bytes; 0 at the end.
    fn read(&mut self, be: &mut Backend, buf: &mut [u8]) -> Result<usize>;
    /// Nothing more will be read.
    fn close(&mut self, be: &mut Backend);
}
