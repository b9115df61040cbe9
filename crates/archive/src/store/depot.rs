//! [`Depot`]: where an archive lies, a directory or an object store.
//!
//! Files are named by keys: relative paths with slashes. No file is ever replaced.

use forebay_aio::{AlignedBuf, IoBackend};

use crate::durable_dir::StoreOutcome;
use crate::error::Result;

/// Directory of an archive where base backups are kept.
pub(super) const BACKUPS: &str = "backups";

/// A stored file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its key.
    pub key: String,
    /// Its length in bytes.
    pub size: u64,
}

/// Where an archive lies. `None` means that a file is absent, and is returned only if the depot
/// itself says so: every other failure is an error.
pub trait Depot: Send + Sync {
    /// The name of a key in messages: a path or a URL.
    fn describe(&self, key: &str) -> String;

    /// Begins to store a file.
    fn create<'a>(&'a self, io: &mut IoBackend, key: &str) -> Result<Box<dyn Upload + 'a>>;

    /// Opens a file.
    fn open<'a>(&'a self, io: &mut IoBackend, key: &str) -> Result<Option<Box<dyn Download + 'a>>>;

    /// Length of a file in bytes.
    fn size(&self, io: &mut IoBackend, key: &str) -> Result<Option<u64>>;

    /// All files whose keys begin with `prefix`, which is empty or ends with a slash. Base backups
    /// may be left out. It is an error if the depot does not exist, but not if nothing has the
    /// prefix.
    fn list(&self, io: &mut IoBackend, prefix: &str) -> Result<Vec<Object>>;

    /// The names in a directory, which is empty or ends with a slash. It is an error if the depot
    /// does not exist.
    fn names(&self, io: &mut IoBackend, dir: &str) -> Result<Vec<String>>;

    /// The first existing key of those that consist of `base` and one of the endings.
    fn find(&self, io: &mut IoBackend, base: &str, endings: &[&str]) -> Result<Option<String>> {
        for ending in endings {
            let key = format!("{base}{ending}");
            if self.size(io, &key)?.is_some() {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Makes an existing file durable: another process may have stored it just now. False: there is
    /// no such file.
    fn make_durable(&self, io: &mut IoBackend, key: &str) -> Result<bool>;

    /// Removes a file if it exists.
    fn remove(&self, io: &mut IoBackend, key: &str) -> Result<()>;

    /// How many files are best removed at a time.
    fn removals(&self) -> usize {
        1
    }

    /// Removes files, in any order.
    fn remove_all(&self, io: &mut IoBackend, keys: &[&str]) -> Result<()> {
        keys.iter().try_for_each(|key| self.remove(io, key))
    }

    /// Makes removals from these directories durable.
    fn sync_removals(&self, io: &mut IoBackend, dirs: &[String]) -> Result<()>;

    /// Removes temporary files of dead processes from a directory. Returns how many.
    fn clean(&self, io: &mut IoBackend, dir: &str) -> Result<usize>;

    /// Removes them from all directories but those of base backups.
    fn clean_all(&self, io: &mut IoBackend) -> Result<usize> {
        self.clean(io, "")
    }

    /// Called before a new archive is created: checks that the depot never replaces a file.
    fn check_new(&self, _: &mut IoBackend) -> Result<()> {
        Ok(())
    }

    /// Ends operations soon, with an error, if it can. Called from other threads.
    fn interrupt(&self) {}

    /// Reads a small file as a whole; of a longer one somewhat more than `most` bytes.
    fn read_small(&self, io: &mut IoBackend, key: &str, most: u64) -> Result<Option<Vec<u8>>> {
        let Some(mut file) = self.open(io, key)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let mut piece = [0; 4096];
        let read = loop {
            match file.read(io, &mut piece) {
                Ok(0) => break Ok(()),
                Ok(got) => bytes.extend_from_slice(&piece[..got]),
                Err(error) => break Err(error),
            }
            if bytes.len() as u64 > most {
                break Ok(());
            }
        };
        file.close(io);
        read.map(|()| Some(bytes))
    }

    /// Stores a small file as a whole.
    fn store_small(&self, io: &mut IoBackend, key: &str, bytes: &[u8]) -> Result<StoreOutcome> {
        let mut upload = self.create(io, key)?;
        let written = upload.write(io, bytes);
        upload.finish(io, written)
    }
}

/// A file that is being stored.
pub trait Upload {
    /// Appends `bytes`.
    fn write(&mut self, io: &mut IoBackend, bytes: &[u8]) -> Result<()>;
    /// Appends the first `len` bytes of `buf` without copying them.
    fn put(&mut self, io: &mut IoBackend, buf: AlignedBuf, len: usize) -> Result<()>;
    /// If `written` is Ok, makes the file durable and gives it its name, unless that is taken.
    /// Otherwise leaves nothing behind.
    fn finish(self: Box<Self>, io: &mut IoBackend, written: Result<()>) -> Result<StoreOutcome>;
}

/// A file that is being read.
pub trait Download {
    /// Reads the next bytes and returns how many; 0 at the end.
    fn read(&mut self, io: &mut IoBackend, buf: &mut [u8]) -> Result<usize>;
    /// Ends the reading.
    fn close(&mut self, io: &mut IoBackend);
}
