//! `archive-get`: a WAL file out of an archive, for the restore_command of a server that recovers.
//!
//! The file appears under its path only when it is whole and has been checked. Until then it is
//! called `xlogtemp.PID.NAME`, a name that servers remove when they start.

use std::path::{Path, PathBuf};

use forebay_aio::sync::Arc;
use forebay_aio::{Aio, AioError, AlignedBuf, Backend, File, OpenOptions, OwnedIo, Target};

use crate::error::{ArchiveError, Result};
use crate::names::WalName;
use crate::pipe::CHUNK;
use crate::push::system_of;
use crate::source::check_stored;
use crate::store::{Repository, StoreError};

/// Bytes of a file that tell what it is.
const HEAD: usize = 64;

/// Restores a file under `path`. False: the archive is there and does not have it.
pub fn get(
    aio: &Arc<Aio>,
    be: &mut Backend,
    repository: &Repository,
    name: &WalName,
    path: &Path,
) -> Result<bool> {
    let system = system_of(aio, be, path)?;
    let mut writing = Writing::begin(aio, path)?;
    let fetched = repository.fetch(be, name, &mut |be, bytes| writing.write(be, bytes));
    let checked = fetched.and_then(|fetched| match fetched {
        None => Ok(false),
        Some(fetched) => {
            check(repository, name, &writing.head, fetched.size, system).map(|()| true)
        }
    });
    match checked {
        Ok(true) => writing.finish(be).map(|()| true),
        other => {
            writing.abandon(be);
            other
        }
    }
}

/// Restores a file whose bytes are at hand.
pub(crate) fn put_bytes(aio: &Arc<Aio>, be: &mut Backend, path: &Path, bytes: &[u8]) -> Result<()> {
    let mut writing = Writing::begin(aio, path)?;
    match writing.write(be, bytes) {
        Ok(()) => writing.finish(be),
        Err(error) => {
            writing.abandon(be);
            Err(error)
        }
    }
}

/// Is it what its name says, and of this cluster?
pub(crate) fn check(
    repository: &Repository,
    name: &WalName,
    head: &[u8],
    size: u64,
    system: Option<u64>,
) -> Result<()> {
    check_stored(name, head, size, system).map_err(|reason| {
        StoreError::Damaged { file: repository.depot().describe(name.as_str()), reason }.into()
    })
}

/// A file being restored.
struct Writing<'a> {
    aio: &'a Arc<Aio>,
    path: &'a Path,
    temporary: PathBuf,
    file: File,
    /// Bytes given to the system, and those that wait.
    written: u64,
    fill: Option<(AlignedBuf, usize)>,
    flying: Option<OwnedIo>,
    head: Vec<u8>,
}

impl<'a> Writing<'a> {
    fn begin(aio: &'a Arc<Aio>, path: &'a Path) -> Result<Writing<'a>> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = path.with_file_name(format!("xlogtemp.{}.{name}", std::process::id()));
        let options = OpenOptions::READ_WRITE.create().truncate();
        let file = aio
            .namespace()
            .open(&temporary, &options)
            .map_err(ArchiveError::io("restore", path))?;
        let head = Vec::with_capacity(HEAD);
        Ok(Writing { aio, path, temporary, file, written: 0, fill: None, flying: None, head })
    }

    fn write(&mut self, be: &mut Backend, bytes: &[u8]) -> Result<()> {
        let wanted = HEAD - self.head.len();
        self.head.extend_from_slice(bytes.get(..wanted.min(bytes.len())).unwrap_or_default());
        self.write_some(be, bytes).map_err(ArchiveError::io("restore", self.path))
    }

    fn write_some(&mut self, be: &mut Backend, mut bytes: &[u8]) -> Result<(), AioError> {
        while !bytes.is_empty() {
            let (mut buf, used) = match self.fill.take() {
                Some(fill) => fill,
                None => (AlignedBuf::zeroed(CHUNK)?, 0),
            };
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - used));
            if let Some(room) = buf.get_mut(used..used + now.len()) {
                room.copy_from_slice(now);
            }
            (bytes, self.fill) = (later, Some((buf, used + now.len())));
            if used + now.len() == CHUNK {
                self.write_out(be)?;
            }
        }
        Ok(())
    }

    /// Starts to write what waits, when the write before has ended.
    fn write_out(&mut self, be: &mut Backend) -> Result<(), AioError> {
        let Some((buf, used)) = self.fill.take() else { return Ok(()) };
        let spare = self.settle(be)?;
        let write = be.start_write(&self.file, self.written, buf, 0..used, Target::File);
        self.flying = Some(write);
        self.written += used as u64;
        self.fill = spare.map(|buf| (buf, 0));
        Ok(())
    }

    fn settle(&mut self, be: &mut Backend) -> Result<Option<AlignedBuf>, AioError> {
        let Some(write) = self.flying.take() else { return Ok(None) };
        let (buf, written) = be.finish_owned(write);
        written.map(|_| Some(buf))
    }

    fn finish(mut self, be: &mut Backend) -> Result<()> {
        if self.fill.as_ref().is_some_and(|(_, used)| *used == 0) {
            self.fill = None;
        }
        let done = self
            .write_out(be)
            .and_then(|()| self.settle(be))
            .and_then(|_| self.aio.namespace().rename(&self.temporary, self.path));
        done.map_err(|error| {
            self.abandon(be);
            ArchiveError::io("restore", self.path)(error)
        })
    }

    fn abandon(&mut self, be: &mut Backend) {
        let _ = self.settle(be);
        if let Err(error) = self.aio.namespace().unlink(&self.temporary)
            && !error.is_not_found()
        {
            tracing::warn!("could not remove \"{}\": {error}", self.temporary.display());
        }
    }
}
