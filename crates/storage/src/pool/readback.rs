//! Making writes durable and reading them back, before a checkpoint lets go of the log that could
//! redo them.
//!
//! A disk may lose a write that it has acknowledged and synced, or store it elsewhere. The block
//! then contains an older page with a correct checksum. So pages are recorded when their write ends
//! ([`WrittenPages`]). Here they are read back past the kernel's cache, and compared.
//!
//! Pages may be written again meanwhile. If a page differs from its record, it is examined alone.
//! It is lost only if no write of it was in progress during that examination and its record stayed
//! the same. The order matters: first the write in progress is looked for, then the record, because
//! a write changes the record before it ends.

use super::backend::Backend;
use super::buffer_pool::BufferPool;
use super::desc::WRITING;
use crate::error::{StorageError, errno_of};
use crate::smgr::{Smgr, SyncReport, Version, WrittenPages, WrittenRun};
use forebay_aio::sync::Instant;
use forebay_aio::{self as aio, AlignedBuf, Errno, File, HugePages, OwnedIo};
use forebay_format::checksum;
use forebay_format::{BLOCK_SIZE, Fork, PageBytes, PageTag, RelFileLocator};
use std::collections::VecDeque;

/// Reads in flight at once.
const DEPTH: usize = 32;
/// The most descriptors that reading back uses besides those of the cached files.
pub const READ_BACK_FILES: usize = DEPTH + 2;

/// A run in flight.
struct Reading {
    run: WrittenRun,
    io: OwnedIo,
}

/// One pass over all recorded pages.
struct Pass<'a> {
    pool: &'a BufferPool,
    written: &'a WrittenPages,
    io: &'a mut aio::IoBackend,
    spare: Vec<AlignedBuf>,
    in_flight: VecDeque<Reading>,
    /// The segment whose runs are being started.
    open: Option<(RelFileLocator, Fork, u32, File)>,
    pages: u64,
}

impl BufferPool {
    /// Makes earlier writes durable. It syncs each file and directory with pending requests. With
    /// [`SmgrConfig::verify_writes`](crate::SmgrConfig::verify_writes) it then reads back the pages
    /// that were written.
    ///
    /// # Errors
    /// A failed sync or a lost write; both are fatal. Pages that could not be read are read back by
    /// the next call.
    pub fn sync_pending(&self, backend: &mut Backend) -> Result<SyncReport, StorageError> {
        self.core.written.begin_round();
        let synced = self.smgr.sync_pending(&mut backend.io)?;
        let since = Instant::now();
        let read_back = self.verify_written(backend)?;
        Ok(SyncReport { read_back, read_back_time: since.elapsed(), ..synced })
    }

    /// Reads back every page that was written and synced but not confirmed yet, and returns their
    /// number. After an error other than a lost write, the pages that were not read stay recorded.
    pub(super) fn verify_written(&self, backend: &mut Backend) -> Result<u64, StorageError> {
        let written = &self.core.written;
        let forks = written.forks();
        if forks.is_empty() {
            return Ok(0);
        }
        forebay_aio::planted_bug!(self.aio, ReadBackSkipsPages, return Ok(0));
        backend.io.submit();
        let spare = AlignedBuf::several(
            DEPTH,
            self.config.combine_limit as usize * BLOCK_SIZE,
            HugePages::Transparent,
        )?;
        let mut pass = Pass {
            pool: self,
            written,
            io: &mut backend.io,
            spare,
            in_flight: VecDeque::with_capacity(DEPTH),
            open: None,
            pages: 0,
        };
        let result = forks
            .into_iter()
            .try_for_each(|fork| pass.start_fork(fork))
            .and_then(|()| pass.finish_all());
        // After an error the results of the others do not matter.
        for reading in pass.in_flight {
            let _ = pass.io.finish_owned(reading.io);
        }
        result.map(|()| pass.pages)
    }

    /// Waits for a write of the page that is in progress. Returns false if there is none.
    fn await_write(&self, io: &mut aio::IoBackend, tag: &PageTag) -> bool {
        // This may wait for another thread, so nothing stays staged.
        io.submit();
        let Some((buf, _)) = self.pin_if_cached(tag, None) else { return false };
        let desc = self.desc(buf);
        let is_written = || desc.load() & WRITING != 0;
        let found = is_written();
        while is_written() {
            match desc.write_io() {
                Some(wait) => {
                    io.wait_and_keep(wait);
                }
                None => self
                    .core
                    .parking
                    .sleep_until(buf, desc, || !is_written() || desc.write_io().is_some()),
            }
        }
        self.core.unpin(buf);
        found
    }
}

impl Pass<'_> {
    fn smgr(&self) -> &Smgr {
        &self.pool.smgr
    }

    fn start_fork(&mut self, fork: (RelFileLocator, Fork)) -> Result<(), StorageError> {
        let mut from = 0;
        while let Some(run) = self.written.next_run(fork, from, |block| self.pool.combinable(block))
        {
            from = run.end();
            self.start(run)?;
        }
        Ok(())
    }

    fn start(&mut self, run: WrittenRun) -> Result<(), StorageError> {
        let file = match self.file(&run.first) {
            Ok(file) => file,
            // The relation was dropped meanwhile.
            Err(_) if run.pages().all(|(tag, _)| self.written.version(&tag).is_none()) => {
                return Ok(());
            }
            Err(StorageError::File { errno: Errno::NOENT, .. }) => {
                return run.pages().try_for_each(|(tag, _)| self.look_again(&tag));
            }
            Err(error) => return Err(error),
        };
        let buffer = self.free_buffer()?;
        let len = run.versions.len() * BLOCK_SIZE;
        let target = self.smgr().target(&run.first, run.versions.len() as u32);
        let offset = self.smgr().offset_in_segment(run.first.block);
        let io = self.io.start_read(&file, offset, buffer, 0..len, target);
        self.in_flight.push_back(Reading { run, io });
        Ok(())
    }

    /// Returns a buffer that no read in flight uses.
    fn free_buffer(&mut self) -> Result<AlignedBuf, StorageError> {
        while self.spare.is_empty() && !self.in_flight.is_empty() {
            self.finish_oldest()?;
        }
        let len = self.pool.config.combine_limit as usize * BLOCK_SIZE;
        self.spare.pop().map_or_else(|| Ok(AlignedBuf::zeroed(len)?), Ok)
    }

    fn file(&mut self, page: &PageTag) -> Result<File, StorageError> {
        let segment = self.smgr().segment_of(page.block);
        if let Some((rel, fork, number, file)) = &self.open
            && (*rel, *fork, *number) == (page.rel, page.fork, segment)
        {
            return Ok(file.clone());
        }
        let file = self.smgr().open_past_cache(page)?;
        self.open = Some((page.rel, page.fork, segment, file.clone()));
        Ok(file)
    }

    fn finish_all(&mut self) -> Result<(), StorageError> {
        while !self.in_flight.is_empty() {
            self.finish_oldest()?;
        }
        Ok(())
    }

    fn finish_oldest(&mut self) -> Result<(), StorageError> {
        let Some(Reading { run, io }) = self.in_flight.pop_front() else { return Ok(()) };
        let (buffer, result) = self.io.finish_owned(io);
        // Nothing of a failed or short read is used: each of its pages is examined alone.
        let pages: &[PageBytes] = if result.is_ok() { buffer.as_chunks().0 } else { &[] };
        let mut mismatched = Vec::new();
        for (n, (tag, version)) in run.pages().enumerate() {
            if pages.get(n).is_some_and(|page| self.version(&tag, page) == Some(version)) {
                self.written.confirm(&tag, version);
            } else {
                mismatched.push(tag);
            }
            self.pages += 1;
        }
        self.spare.push(buffer);
        mismatched.iter().try_for_each(|tag| self.look_again(tag))
    }

    /// Examines one page until it is known to be present, removed or lost.
    fn look_again(&mut self, tag: &PageTag) -> Result<(), StorageError> {
        let mut buffer = AlignedBuf::zeroed(BLOCK_SIZE)?;
        while let Some(version) = self.written.version(tag) {
            // Opened anew: the file may have been replaced by another one of the same name.
            self.open = None;
            let found = match self.read(tag, &mut buffer) {
                Ok(found) if found == Some(version) => {
                    self.written.confirm(tag, version);
                    return Ok(());
                }
                // The page may have been removed together with its file.
                Err(StorageError::File { errno: Errno::NOENT, .. }) | Ok(_) => Ok(()),
                Err(error) => Err(error),
            };
            if self.pool.await_write(self.io, tag) || self.written.version(tag) != Some(version) {
                continue;
            }
            let file = self.smgr().file_name(tag);
            return found.and(Err(StorageError::LostWrite { file, block: tag.block }));
        }
        Ok(())
    }

    /// Reads the page from the disk. None if the file ends before it, or it is not valid.
    fn read(
        &mut self,
        tag: &PageTag,
        buffer: &mut AlignedBuf,
    ) -> Result<Option<Version>, StorageError> {
        let file = self.file(tag)?;
        let read = self.io.read_at(&file, self.smgr().offset_in_segment(tag.block), buffer);
        let got = read.map_err(|error| StorageError::Read {
            file: self.smgr().file_name(tag),
            block: tag.block,
            errno: errno_of(&error),
        })?;
        Ok(buffer[..got].as_chunks().0.first().and_then(|page| self.version(tag, page)))
    }

    fn version(&self, tag: &PageTag, page: &PageBytes) -> Option<Version> {
        let is_page = if self.pool.core.checksums {
            checksum::verify_page(page, tag.block)
        } else {
            checksum::verify_header(page)
        };
        is_page.ok().map(|()| Version::of(page, tag.block, self.pool.core.checksums))
    }
}
