//! Copies a file, with several reads and writes in flight. Each byte goes into the checksum, and
//! each page is verified.
//!
//! ```text
//!   reads in flight ──▶ oldest: pages verified, checksum updated
//!     ──▶ writes in flight ──▶ sync of the file in flight
//! ```
//!
//! In a running cluster a page may be read while it is written, half old and half new. It is read
//! again until two reads agree. If it is wrong then, it is a suspect, which is judged after the
//! copy. If the page was only being written, its full image is in the WAL after the backup's start,
//! and recovery replaces the copied page by it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::{
    AioError, AlignedBuf, File, HugePages, IO_ALIGN, Io, IoBackend, Op, OpenOptions, OwnedIo,
    Target, WaitRef,
};
use forebay_format::Lsn;
use forebay_format::checksum::{checksum_pages, page_checksum};
use forebay_format::ids::BLOCK_SIZE;
use forebay_format::page::{Page, PageBytes, is_all_zeros, stored_checksum};

use super::walk::Contents;
use crate::digest::{ChecksumKind, FileChecksum};
use crate::error::{ArchiveError, DamagedPage, Result};

/// Length of a read in bytes.
const CHUNK: usize = 1 << 20;
const CHUNK_BLOCKS: usize = CHUNK / BLOCK_SIZE;
/// Reads in flight of one thread, and its buffers: the rest is for writes.
const READS: usize = 6;
const BUFFERS: usize = 12;
/// Syncs in flight of one thread.
const SYNCS: usize = 16;
/// Smaller files are written without direct I/O, since most of their length would not be aligned.
const DIRECT_FROM: u64 = 256 << 10;
/// How often a page is read that changes all the time.
const ATTEMPTS: usize = 32;

/// How files are copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyOptions {
    pub direct_read: bool,
    pub direct_write: bool,
    pub checksums: ChecksumKind,
    /// A server may write to the files, truncate or remove them.
    pub live: bool,
    /// Verify pages: the number of blocks in a relation's segment.
    pub pages: Option<u32>,
    /// Make the copies durable.
    pub sync: bool,
}

/// Length and checksum that a file must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub size: u64,
    pub kind: ChecksumKind,
    pub checksum: String,
}

/// A file to copy.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub from: PathBuf,
    pub to: PathBuf,
    /// Its path in messages and in the manifest.
    pub name: PathBuf,
    pub contents: Contents,
    pub expected: Option<Expected>,
}

/// The result of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Copied {
    pub size: u64,
    pub checksum: String,
    /// Number of verified pages.
    pub pages: u64,
    /// Pages with a wrong checksum that did not change.
    pub suspects: Vec<DamagedPage>,
}

/// A read in flight.
struct Reading {
    offset: u64,
    want: usize,
    io: OwnedIo,
}

/// A file that is being copied.
struct FileCopy<'j> {
    job: &'j Job,
    from: File,
    to: File,
    /// Where the next read begins.
    next: u64,
    /// Where the last read ends.
    len: u64,
    reads: VecDeque<Reading>,
    writes: VecDeque<OwnedIo>,
    checksum: FileChecksum,
    copied: Copied,
    /// The file was truncated.
    ended: bool,
    /// The last direct write was extended to whole blocks, so the copy must be cut.
    padded: bool,
}

/// Copies one file after another.
pub(super) struct Copier {
    io: IoBackend,
    options: CopyOptions,
    spare: Vec<AlignedBuf>,
    syncs: VecDeque<WaitRef>,
    sums: Vec<u16>,
}

impl Copier {
    pub(super) fn new(io: IoBackend, options: CopyOptions) -> Result<Copier> {
        let spare = AlignedBuf::several(BUFFERS, CHUNK, HugePages::Transparent)?;
        Ok(Copier { io, options, spare, syncs: VecDeque::new(), sums: vec![0; CHUNK_BLOCKS] })
    }

    /// Copies a file, which must not exist at its destination. None: a running server removed it.
    /// `seen` is called with the length of each read.
    pub(super) fn copy(&mut self, job: &Job, seen: &dyn Fn(u64)) -> Result<Option<Copied>> {
        let Some(mut copy) = self.open(job)? else { return Ok(None) };
        let result = self.pump(&mut copy, seen);
        if let Err(error) = result {
            self.abandon(copy);
            return Err(error);
        }
        let FileCopy { to, checksum, mut copied, padded, .. } = copy;
        if padded {
            self.io.aio().namespace().set_len(&to, copied.size)?;
        }
        copied.checksum = checksum.finish();
        if let Some(expected) = &job.expected {
            compare(job, expected, &copied)?;
        }
        self.sync(to)?;
        Ok(Some(copied))
    }

    /// Waits until all copies are durable.
    pub(super) fn finish(mut self) -> Result<()> {
        while let Some(oldest) = self.syncs.pop_front() {
            self.io.wait(oldest).check()?;
        }
        Ok(())
    }

    fn open<'j>(&self, job: &'j Job) -> Result<Option<FileCopy<'j>>> {
        let names = Arc::clone(self.io.aio().namespace());
        let from = match names.open(&job.from, &OpenOptions::READ.direct(self.options.direct_read))
        {
            Ok(file) => file,
            Err(error) if self.options.live && error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut len = names.file_len(&from)?;
        if self.options.live && job.contents != Contents::Bytes {
            // The relation is being extended: the last page is not whole yet.
            len -= len % BLOCK_SIZE as u64;
        }
        let direct = self.options.direct_write && len >= DIRECT_FROM;
        let to = names.open(&job.to, &OpenOptions::READ_WRITE.create_new().direct(direct))?;
        let kind = job.expected.as_ref().map_or(self.options.checksums, |expected| expected.kind);
        Ok(Some(FileCopy {
            job,
            from,
            to,
            next: 0,
            len,
            reads: VecDeque::with_capacity(READS),
            writes: VecDeque::with_capacity(BUFFERS),
            checksum: FileChecksum::new(kind),
            copied: Copied::default(),
            ended: false,
            padded: false,
        }))
    }

    fn pump(&mut self, copy: &mut FileCopy<'_>, seen: &dyn Fn(u64)) -> Result<()> {
        loop {
            self.start_reads(copy);
            if let Some(reading) = copy.reads.pop_front() {
                self.take(copy, reading, seen)?;
            } else if copy.writes.is_empty() {
                return Ok(());
            }
            let enough = copy.reads.is_empty() || self.spare.is_empty();
            if enough && let Some(oldest) = copy.writes.pop_front() {
                let (buf, result) = self.io.finish_owned(oldest);
                self.spare.push(buf);
                result?;
            }
        }
    }

    fn start_reads(&mut self, copy: &mut FileCopy<'_>) {
        while copy.reads.len() < READS && copy.next < copy.len && !copy.ended {
            let Some(buf) = self.spare.pop() else { return };
            let want = (copy.len - copy.next).min(CHUNK as u64) as usize;
            let part = 0..want.next_multiple_of(IO_ALIGN);
            let io = self.io.start_read(&copy.from, copy.next, buf, part, Target::File);
            copy.reads.push_back(Reading { offset: copy.next, want, io });
            copy.next += want as u64;
        }
    }

    /// Finishes the oldest read, and starts to write its bytes.
    fn take(
        &mut self,
        copy: &mut FileCopy<'_>,
        reading: Reading,
        seen: &dyn Fn(u64),
    ) -> Result<()> {
        let Reading { offset, want, io } = reading;
        let (mut buf, result) = self.io.finish_owned(io);
        let got = match result {
            Ok(got) | Err(AioError::Short { got, .. }) => got.min(want),
            Err(error) => {
                self.spare.push(buf);
                return Err(error.into());
            }
        };
        seen(want as u64);
        let got = if copy.ended { 0 } else { got };
        copy.ended |= got < want;
        if got == 0 {
            self.spare.push(buf);
            return Ok(());
        }
        if let (Some(segment_blocks), Contents::Pages { segment }) =
            (self.options.pages, copy.job.contents)
        {
            let first = u64::from(segment) * u64::from(segment_blocks) + offset / BLOCK_SIZE as u64;
            // A relation can't be longer than u32 blocks, so anything after that is no page.
            if let Ok(first) = u32::try_from(first) {
                self.verify(copy, offset, first, &mut buf[..got])?;
            }
        }
        let data = &buf[..got];
        copy.checksum.update(data);
        copy.copied.size += got as u64;
        let mut end = got;
        if copy.to.is_direct() && !got.is_multiple_of(IO_ALIGN) {
            end = got.next_multiple_of(IO_ALIGN);
            buf[got..end].fill(0);
            copy.padded = true;
        }
        copy.writes.push_back(self.io.start_write(&copy.to, offset, buf, 0..end, Target::File));
        Ok(())
    }

    /// Verifies the pages in `bytes`, of which `first` is the first. A page that changed meanwhile
    /// is replaced by its last read.
    fn verify(
        &mut self,
        copy: &mut FileCopy<'_>,
        offset: u64,
        first: u32,
        bytes: &mut [u8],
    ) -> Result<()> {
        let (pages, _) = bytes.as_chunks_mut::<BLOCK_SIZE>();
        let sums = &mut self.sums[..pages.len()];
        checksum_pages(pages, first, sums);
        copy.copied.pages += pages.len() as u64;
        let judged = pages.iter().zip(sums.iter()).enumerate();
        let wrong: Vec<usize> =
            judged.filter(|(_, (page, sum))| !is_good(page, **sum)).map(|(n, _)| n).collect();
        for n in wrong {
            let page = &mut pages[n];
            let at = offset + (n * BLOCK_SIZE) as u64;
            let block = first.saturating_add(n as u32);
            if !self.until_still(&copy.from, at, block, page)? {
                copy.copied.suspects.push(describe(&copy.job.name, block, page));
            }
        }
        Ok(())
    }

    /// Reads a page until its checksum is right (true), or wrong in two equal reads (false). In a
    /// running cluster, a page that changes all the time is accepted.
    fn until_still(
        &mut self,
        file: &File,
        offset: u64,
        block: u32,
        page: &mut PageBytes,
    ) -> Result<bool> {
        for _ in 0..ATTEMPTS {
            let before = *page;
            if !read_page(&mut self.io, file, offset, page)? {
                // The file was truncated.
                return Ok(self.options.live);
            }
            if is_good(page, page_checksum(page, block)) {
                return Ok(true);
            }
            if *page == before {
                return Ok(false);
            }
        }
        Ok(self.options.live)
    }

    fn sync(&mut self, file: File) -> Result<()> {
        if !self.options.sync {
            return Ok(());
        }
        if self.syncs.len() >= SYNCS
            && let Some(oldest) = self.syncs.pop_front()
        {
            self.io.wait(oldest).check()?;
        }
        self.syncs.push_back(self.io.start(Io::new(file, Op::Fsync, Target::File)));
        Ok(())
    }

    /// Waits for the transfers in flight.
    fn abandon(&mut self, copy: FileCopy<'_>) {
        let reads = copy.reads.into_iter().map(|reading| reading.io);
        for io in reads.chain(copy.writes) {
            let (buf, _) = self.io.finish_owned(io);
            self.spare.push(buf);
        }
    }
}

impl std::fmt::Debug for Copier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copier").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Reads one page. False: the file ends before the page does.
fn read_page(io: &mut IoBackend, file: &File, offset: u64, page: &mut PageBytes) -> Result<bool> {
    let mut buf = AlignedBuf::zeroed(BLOCK_SIZE)?;
    match io.read_exact_at(file, offset, &mut buf) {
        Ok(()) => {}
        Err(AioError::Short { .. }) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    page.copy_from_slice(&buf);
    Ok(true)
}

/// Whether a page has a right checksum. A page that was never used has none, and must be all zeros.
fn is_good(page: &PageBytes, calculated: u16) -> bool {
    if Page::new(page).is_new() { is_all_zeros(page) } else { calculated == stored_checksum(page) }
}

fn describe(name: &Path, block: u32, page: &PageBytes) -> DamagedPage {
    DamagedPage {
        path: name.to_path_buf(),
        block,
        calculated: page_checksum(page, block),
        found: stored_checksum(page),
        lsn: Page::new(page).lsn(),
    }
}

/// Examines a suspect page again, after the copy. Returns the page if it is damaged: it is still
/// wrong, or it is right now but was not written since `start`. A page that does not exist any more
/// is not damaged.
pub(super) fn look_again(
    io: &mut IoBackend,
    data: &Path,
    suspect: &DamagedPage,
    segment_blocks: u32,
    start: Lsn,
) -> Result<Option<DamagedPage>> {
    let names = Arc::clone(io.aio().namespace());
    let file = match names.open(&data.join(&suspect.path), &OpenOptions::READ) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let offset = u64::from(suspect.block % segment_blocks.max(1)) * BLOCK_SIZE as u64;
    let mut page: PageBytes = [0; BLOCK_SIZE];
    if !read_page(io, &file, offset, &mut page)? || is_all_zeros(&page) {
        return Ok(None);
    }
    if is_good(&page, page_checksum(&page, suspect.block)) {
        // If it was written since `start`, its image is in the WAL. If not, only the copy is wrong,
        // and recovery will not repair it.
        let written = Page::new(&page).lsn() >= start;
        return Ok((!written).then(|| suspect.clone()));
    }
    Ok(Some(describe(&suspect.path, suspect.block, &page)))
}

fn compare(job: &Job, expected: &Expected, copied: &Copied) -> Result<()> {
    if (expected.size, &expected.checksum) == (copied.size, &copied.checksum) {
        return Ok(());
    }
    Err(mismatch(&job.name, (copied.size, &copied.checksum), (expected.size, &expected.checksum)))
}

/// A file of a backup has another length or checksum than its manifest says.
pub(super) fn mismatch(
    name: &Path,
    (size, checksum): (u64, &str),
    (expected_size, expected_checksum): (u64, &str),
) -> ArchiveError {
    let reason = if size == expected_size {
        format!("it has checksum {checksum}, but its manifest says {expected_checksum}")
    } else {
        format!("it has size {size}, but its manifest says {expected_size}")
    };
    ArchiveError::damaged(name.display(), reason)
}
