//! Writes looked for on the disk, before a checkpoint lets go of the log that could make them
//! again.
//!
//! A disk may lose a write that it has acknowledged and synced, or put it elsewhere. What is there
//! instead is an older page, whose checksum is right. So what was noted when its write ended
//! ([`WrittenPages`]) is read back, past the kernel's cache, and compared.
//!
//! Pages may be written again meanwhile. One that is not what was noted when its run was taken is
//! looked at by itself: it is lost only if no write of it was on its way during that look, and none
//! has ended since it began. For that, its write is looked for first and its note second: a write
//! is noted before it is over.

use super::BufferPool;
use super::desc::WRITING;
use crate::Backend;
use crate::error::StorageError;
use crate::smgr::{Smgr, Version, WrittenPages, WrittenRun};
use forebay_aio::{self as aio, AlignedBuf, Errno, File, HugePages, OwnedIo};
use forebay_format::checksum;
use forebay_format::{BLOCK_SIZE, Fork, PageBytes, PageTag, RelFileLocator};
use std::collections::VecDeque;

/// Reads in flight at once.
const DEPTH: usize = 32;
/// Most descriptors that reading back takes beside those of the files that are kept open.
pub const READ_BACK_FILES: usize = DEPTH + 2;

/// A run that is being read.
struct Reading {
    run: WrittenRun,
    io: OwnedIo,
}

/// One pass over all pages that are noted.
struct Pass<'a> {
    pool: &'a BufferPool,
    written: &'a WrittenPages,
    io: &'a mut aio::Backend,
    spare: Vec<AlignedBuf>,
    in_flight: VecDeque<Reading>,
    /// The segment whose runs are being started.
    open: Option<(RelFileLocator, Fork, u32, File)>,
    pages: u64,
}

impl BufferPool {
    /// Reads back every page that was written since it was last seen on the disk, and returns how
    /// many. They are synced. An error other than a lost write leaves those pages noted that were
    /// not read.
    pub(super) fn verify_written(&self, be: &mut Backend) -> Result<u64, StorageError> {
        let written = &self.core.written;
        let forks = written.forks();
        if forks.is_empty() {
            return Ok(0);
        }
        forebay_aio::planted_bug!(self.aio, ReadBackSkipsPages, return Ok(0));
        be.io.submit();
        let spare = AlignedBuf::several(
            DEPTH,
            self.config.combine_limit as usize * BLOCK_SIZE,
            HugePages::Transparent,
        )?;
        let mut pass = Pass {
            pool: self,
            written,
            io: &mut be.io,
            spare,
            in_flight: VecDeque::with_capacity(DEPTH),
            open: None,
            pages: 0,
        };
        let result = forks
            .into_iter()
            .try_for_each(|fork| pass.start_fork(fork))
            .and_then(|()| pass.finish_all());
        // After an error, nobody wants what the others found.
        for reading in pass.in_flight {
            let _ = pass.io.finish_owned(reading.io);
        }
        result.map(|()| pass.pages)
    }

    /// Waits for a page's write, if one is on its way; false if none is.
    fn await_write(&self, io: &mut aio::Backend, tag: &PageTag) -> bool {
        // Who waits for another thread has nothing staged.
        io.submit();
        let Some((buf, _)) = self.pin_if_cached(tag, true) else { return false };
        let desc = self.desc(buf);
        let is_written = || desc.load() & WRITING != 0;
        let found = is_written();
        while is_written() {
            match desc.write_io() {
                Some(wait) => {
                    io.wait(wait);
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
        while let Some(run) = self.written.run(fork, from, |block| self.pool.combinable(block)) {
            from = run.end();
            self.start(run)?;
        }
        Ok(())
    }

    fn start(&mut self, run: WrittenRun) -> Result<(), StorageError> {
        let file = match self.file(&run.first) {
            Ok(file) => file,
            // Dropped just now.
            Err(_) if run.pages().all(|(tag, _)| self.written.version(&tag).is_none()) => {
                return Ok(());
            }
            Err(StorageError::File { errno: Errno::NOENT, .. }) => {
                return run.pages().try_for_each(|(tag, _)| self.look_again(&tag));
            }
            Err(error) => return Err(error),
        };
        let buffer = self.free_buffer()?;
        let PageTag { rel, fork, block } = run.first;
        let len = run.versions.len() * BLOCK_SIZE;
        let target = self.smgr().target(rel, fork, block, run.versions.len() as u32);
        let io =
            self.io.start_read(&file, self.smgr().offset_in_segment(block), buffer, 0..len, target);
        self.in_flight.push_back(Reading { run, io });
        Ok(())
    }

    /// A buffer that no read in flight has.
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
        // Of a read that failed or was short nothing is believed: each page will be read by itself.
        let pages: &[PageBytes] = if result.is_ok() { buffer.as_chunks().0 } else { &[] };
        let mut unlike = Vec::new();
        for (n, (tag, version)) in run.pages().enumerate() {
            if pages.get(n).is_some_and(|page| self.version(&tag, page) == Some(version)) {
                self.written.seen(&tag, version);
            } else {
                unlike.push(tag);
            }
            self.pages += 1;
        }
        self.spare.push(buffer);
        unlike.iter().try_for_each(|tag| self.look_again(tag))
    }

    /// Looks at one page until it is known to be there, gone or lost.
    fn look_again(&mut self, tag: &PageTag) -> Result<(), StorageError> {
        let mut buffer = AlignedBuf::zeroed(BLOCK_SIZE)?;
        while let Some(version) = self.written.version(tag) {
            // Opened anew: another file of the name may have come in place of the one that was
            // read.
            self.open = None;
            let found = match self.read(tag, &mut buffer) {
                Ok(found) if found == Some(version) => {
                    self.written.seen(tag, version);
                    return Ok(());
                }
                // The file is gone, and the page with it.
                Err(StorageError::File { errno: Errno::NOENT, .. }) | Ok(_) => Ok(()),
                Err(error) => Err(error),
            };
            if self.pool.await_write(self.io, tag) || self.written.version(tag) != Some(version) {
                continue;
            }
            let file = self.smgr().file_name(tag.rel, tag.fork, tag.block);
            return found.and(Err(StorageError::LostWrite { file, block: tag.block }));
        }
        Ok(())
    }

    /// The page that is on the disk; none if the file ends before it, or it is no valid one.
    fn read(
        &mut self,
        tag: &PageTag,
        buffer: &mut AlignedBuf,
    ) -> Result<Option<Version>, StorageError> {
        let file = self.file(tag)?;
        let read = self.io.read_at(&file, self.smgr().offset_in_segment(tag.block), buffer);
        let got = read.map_err(|error| StorageError::Read {
            file: self.smgr().file_name(tag.rel, tag.fork, tag.block),
            block: tag.block,
            errno: error.errno().unwrap_or(Errno::IO),
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
