//! `archive-get`: fetches a WAL file from an archive, as a recovering server's restore_command.
//!
//! The file gets its name only when it is whole and checked. Until then it is called
//! `xlogtemp.PID.NAME`, a name that servers remove when they start.

use std::path::{Path, PathBuf};

use forebay_aio::sync::Arc;
use forebay_aio::{Aio, IfFound, IoBackend, OpenOptions};

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
    io: &mut IoBackend,
    repository: &Repository,
    name: &WalName,
    path: &Path,
) -> Result<bool> {
    let system = system_of(aio, io, path)?;
    let mut file = RestoredFile::begin(aio, path)?;
    let fetched = repository.fetch(io, name, &mut |io, bytes| file.write(io, bytes));
    let checked = fetched.and_then(|fetched| match fetched {
        None => Ok(false),
        Some(fetched) => check(repository, name, &file.head, fetched.size, system).map(|()| true),
    });
    match checked {
        Ok(true) => file.finish(io).map(|()| true),
        other => {
            file.abandon(io);
            other
        }
    }
}

/// Restores a file from its contents.
pub(crate) fn put_bytes(
    aio: &Arc<Aio>,
    io: &mut IoBackend,
    path: &Path,
    bytes: &[u8],
) -> Result<()> {
    let mut file = RestoredFile::begin(aio, path)?;
    match file.write(io, bytes) {
        Ok(()) => file.finish(io),
        Err(error) => {
            file.abandon(io);
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

    fn write(&mut self, io: &mut IoBackend, bytes: &[u8]) -> Result<()> {
        let wanted = bytes.len().min(HEAD - self.head.len());
        self.head.extend_from_slice(&bytes[..wanted]);
        self.writer.write(io, bytes).map_err(ArchiveError::io("restore", self.path))
    }

    fn finish(mut self, io: &mut IoBackend) -> Result<()> {
        let renamed = self
            .writer
            .finish(io)
            .and_then(|()| self.aio.namespace().rename(&self.temporary, self.path));
        renamed.map_err(|error| {
            self.abandon(io);
            ArchiveError::io("restore", self.path)(error)
        })
    }

    fn abandon(&mut self, io: &mut IoBackend) {
        self.writer.abandon(io);
        if let Err(error) = self.aio.namespace().unlink(&self.temporary).if_found() {
            tracing::warn!("could not remove \"{}\": {error}", self.temporary.display());
        }
    }
}
