//! `archive-get`: fetches a WAL file from an archive, as a recovering server's restore_command.
//!
//! The file gets its name only when it is whole and checked. Until then it is called
//! `xlogtemp.PID.NAME`, a name that servers remove when they start.

use std::path::{Path, PathBuf};

use forebay_aio::sync::Arc;
use forebay_aio::{Aio, Backend, OpenOptions};

use crate::error::{ArchiveError, Result};
use crate::names::WalName;
use crate::pipe::{Buffers, Writer};
use crate::push::system_of;
use crate::source::check_stored;
use crate::store::Repository;

/// Bytes at the beginning of a file that are checked.
const HEAD: usize = 64;

/// Restores the file `name` as `path`. False: the archive exists and does not have the file.
pub fn get(
    aio: &Arc<Aio>,
    be: &mut Backend,
    repository: &Repository,
    name: &WalName,
    path: &Path,
) -> Result<bool> {
    let system = system_of(aio, be, path)?;
    let mut file = RestoredFile::begin(aio, path)?;
    let fetched = repository.fetch(be, name, &mut |be, bytes| file.write(be, bytes));
    let checked = fetched.and_then(|fetched| match fetched {
        None => Ok(false),
        Some(fetched) => check(repository, name, &file.head, fetched.size, system).map(|()| true),
    });
    match checked {
        Ok(true) => file.finish(be).map(|()| true),
        other => {
            file.abandon(be);
            other
        }
    }
}

/// Restores a file from its contents.
pub(crate) fn put_bytes(aio: &Arc<Aio>, be: &mut Backend, path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = RestoredFile::begin(aio, path)?;
    match file.write(be, bytes) {
        Ok(()) => file.finish(be),
        Err(error) => {
            file.abandon(be);
            Err(error)
        }
    }
}

/// Checks that a file matches its name and belongs to this cluster. `head` is its beginning.
pub(crate) fn check(
    repository: &Repository,
    name: &WalName,
    head: &[u8],
    size: u64,
    system: Option<u64>,
) -> Result<()> {
    check_stored(name, head, size, system)
        .map_err(|reason| ArchiveError::damaged(repository.depot().describe(name.as_str()), reason))
}

/// A file that is being restored.
struct RestoredFile<'a> {
    aio: &'a Arc<Aio>,
    path: &'a Path,
    temporary: PathBuf,
    writer: Writer,
    head: Vec<u8>,
}

impl<'a> RestoredFile<'a> {
    fn begin(aio: &'a Arc<Aio>, path: &'a Path) -> Result<RestoredFile<'a>> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = path.with_file_name(format!("xlogtemp.{}.{name}", std::process::id()));
        let options = OpenOptions::READ_WRITE.create().truncate();
        let opened = aio.namespace().open(&temporary, &options);
        let file = opened.map_err(ArchiveError::io("restore", path))?;
        let (writer, head) = (Writer::new(file, &Buffers::new()), Vec::with_capacity(HEAD));
        Ok(RestoredFile { aio, path, temporary, writer, head })
    }

    fn write(&mut self, be: &mut Backend, bytes: &[u8]) -> Result<()> {
        let wanted = bytes.len().min(HEAD - self.head.len());
        self.head.extend_from_slice(&bytes[..wanted]);
        self.writer.write(be, bytes).map_err(ArchiveError::io("restore", self.path))
    }

    fn finish(mut self, be: &mut Backend) -> Result<()> {
        let renamed = self
            .writer
            .finish(be)
            .and_then(|()| self.aio.namespace().rename(&self.temporary, self.path));
        renamed.map_err(|error| {
            self.abandon(be);
            ArchiveError::io("restore", self.path)(error)
        })
    }

    fn abandon(&mut self, be: &mut Backend) {
        self.writer.abandon(be);
        if let Err(error) = self.aio.namespace().unlink(&self.temporary)
            && !error.is_not_found()
        {
            tracing::warn!("could not remove \"{}\": {error}", self.temporary.display());
        }
    }
}
