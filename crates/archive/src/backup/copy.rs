//! Copies files: several reads and writes of each under way at a time, each byte summed and each
//! page verified in between.
//!
//! ```text
//!   reads under way ──▶ oldest one: pages verified, bytes summed ──▶ writes under way ──▶ file synced, not waited for
//! ```
//!
//! In a running cluster a page may be read while it is written, one half old and one half new. It
//! is read again until it holds still; what is wrong then is told as suspect, and judged when the
//! copy is through. If it was merely being written its image is in the log behind the backup's
//! start, and recovery puts it in place of what was copied.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::{
    AioError, AlignedBuf, Backend, File, HugePages, IO_ALIGN, Io, Op, OpenOptions, OwnedIo, Target,
    WaitRef,
};
use forebay_format::Lsn;
use forebay_format::checksum::{checksum_pages, page_checksum};
use forebay_format::ids::BLOCK_SIZE;
use forebay_format::page::{Page, PageBytes, is_all_zeros, stored_checksum};

use super::digest::{ChecksumKind, FileDigest};
use super::error::{BackupError, DamagedPage};
use super::walk::Contents;

/// Bytes of one read.
const CHUNK: usize = 1 << 20;
const CHUNK_BLOCKS: usize = CHUNK / BLOCK_SIZE;
/// Reads of one thread under way at a time, and buffers it has: the rest are for writes.
const READS: usize = 6;
const BUFFERS: usize = 12;
/// Syncs of one thread under way at a time.
const SYNCS: usize = 16;
/// Smaller files are written through the kernel's cache: their last bytes would not be aligned.
const DIRECT_FROM: u64 = 256 << 10;
/// How often a page is read that does not hold still.
const ATTEMPTS: usize = 32;

/// How files are copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub direct_read: bool,
    pub direct_write: bool,
    pub checksums: ChecksumKind,
    /// Somebody may write to the files, cut them, or remove them.
    pub live: bool,
    /// Verify pages; the blocks of a relation's segment.
    pub pages: Option<u32>,
    /// Wait until the copies are on disk.
    pub sync: bool,
}

/// What a copy has to be.
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
    /// The path in messages and in the manifest.
    pub name: PathBuf,
    pub contents: Contents,
    pub expected: Option<Expected>,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Copied {
    pub size: u64,
    pub checksum: String,
    /// Pages verified.
    pub pages: u64,
    /// Pages with a wrong checksum that held still.
    pub suspects: Vec<DamagedPage>,
}

/// A read that is under way.
struct Reading {
    offset: u64,
    want: usize,
    io: OwnedIo,
}

/// The file that is being copied.
struct Flow<'j> {
    job: &'j Job,
    from: File,
    to: File,
    /// Where the next read begins.
    next: u64,
    /// Where the last one ends.
    len: u64,
    reads: VecDeque<Reading>,
    writes: VecDeque<OwnedIo>,
    digest: FileDigest,
    copied: Copied,
    /// The file has become shorter.
    ended: bool,
    /// Written beyond the last byte, since direct writes are whole blocks.
    padded: bool,
}

/// One thread's means to copy.
pub(super) struct Copier {
    io: Backend,
    how: How,
    spare: Vec<AlignedBuf>,
    syncs: VecDeque<WaitRef>,
    sums: Vec<u16>,
}

impl Copier {
    pub(super) fn new(io: Backend, how: How) -> Result<Copier, BackupError> {
        let spare = AlignedBuf::several(BUFFERS, CHUNK, HugePages::Transparent)?;
        Ok(Copier { io, how, spare, syncs: VecDeque::new(), sums: vec![0; CHUNK_BLOCKS] })
    }

    /// Copies a file to where there is none. None: it has vanished from a running cluster. `seen`
    /// is told of bytes read.
    pub(super) fn copy(
        &mut self,
        job: &Job,
        seen: &dyn Fn(u64),
    ) -> Result<Option<Copied>, BackupError> {
        let Some(mut flow) = self.open(job)? else { return Ok(None) };
        let result = self.pump(&mut flow, seen);
        if let Err(error) = result {
            self.abandon(flow);
            return Err(error);
        }
        let Flow { to, digest, mut copied, padded, .. } = flow;
        if padded {
            self.io.aio().namespace().set_len(&to, copied.size)?;
        }
        copied.checksum = digest.finish();
        if let Some(expected) = &job.expected {
            compare(job, expected, &copied)?;
        }
        self.sync(to)?;
        Ok(Some(copied))
    }

    /// Waits until all copies are durable.
    pub(super) fn finish(mut self) -> Result<(), BackupError> {
        while let Some(oldest) = self.syncs.pop_front() {
            self.io.wait(oldest).check()?;
        }
        Ok(())
    }

    fn open<'j>(&self, job: &'j Job) -> Result<Option<Flow<'j>>, BackupError> {
        let names = Arc::clone(self.io.aio().namespace());
        let from = match names.open(&job.from, &OpenOptions::READ.direct(self.how.direct_read)) {
            Ok(file) => file,
            Err(error) if self.how.live && error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut len = names.file_len(&from)?;
        if self.how.live && job.contents != Contents::Bytes {
            // A page that is only partly there is being made.
            len -= len % BLOCK_SIZE as u64;
        }
        let direct = self.how.direct_write && len >= DIRECT_FROM;
        let to = names.open(&job.to, &OpenOptions::READ_WRITE.create_new().direct(direct))?;
        let kind = job.expected.as_ref().map_or(self.how.checksums, |expected| expected.kind);
        Ok(Some(Flow {
            job,
            from,
            to,
            next: 0,
            len,
            reads: VecDeque::with_capacity(READS),
            writes: VecDeque::with_capacity(BUFFERS),
            digest: FileDigest::new(kind),
            copied: Copied::default(),
            ended: false,
            padded: false,
        }))
    }

    fn pump(&mut self, flow: &mut Flow<'_>, seen: &dyn Fn(u64)) -> Result<(), BackupError> {
        loop {
            self.start_reads(flow);
            if let Some(reading) = flow.reads.pop_front() {
                self.take(flow, reading, seen)?;
            } else if flow.writes.is_empty() {
                return Ok(());
            }
            let enough = flow.reads.is_empty() || self.spare.is_empty();
            if enough && let Some(oldest) = flow.writes.pop_front() {
                let (buf, result) = self.io.finish_owned(oldest);
                self.spare.push(buf);
                result?;
            }
        }
    }

    fn start_reads(&mut self, flow: &mut Flow<'_>) {
        while flow.reads.len() < READS && flow.next < flow.len && !flow.ended {
            let Some(buf) = self.spare.pop() else { return };
            let want = usize::try_from(flow.len - flow.next).unwrap_or(CHUNK).min(CHUNK);
            let part = 0..want.next_multiple_of(IO_ALIGN);
            let io = self.io.start_read(&flow.from, flow.next, buf, part, Target::File);
            flow.reads.push_back(Reading { offset: flow.next, want, io });
            flow.next += want as u64;
        }
    }

    /// Takes what the oldest read has brought, and starts to write it.
    fn take(
        &mut self,
        flow: &mut Flow<'_>,
        reading: Reading,
        seen: &dyn Fn(u64),
    ) -> Result<(), BackupError> {
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
        let got = if flow.ended { 0 } else { got };
        flow.ended |= got < want;
        if got == 0 {
            self.spare.push(buf);
            return Ok(());
        }
        if let (Some(segment_blocks), Contents::Pages { segment }) =
            (self.how.pages, flow.job.contents)
        {
            let first = u64::from(segment) * u64::from(segment_blocks) + offset / BLOCK_SIZE as u64;
            // A relation has no more blocks than a u32 counts; beyond that nothing is a page.
            if let Ok(first) = u32::try_from(first) {
                self.verify(flow, offset, first, &mut buf, got)?;
            }
        }
        let data = buf.get(..got).unwrap_or_default();
        flow.digest.update(data);
        flow.copied.size += got as u64;
        let mut end = got;
        if flow.to.is_direct() && !got.is_multiple_of(IO_ALIGN) {
            end = got.next_multiple_of(IO_ALIGN);
            if let Some(rest) = buf.get_mut(got..end) {
                rest.fill(0);
            }
            flow.padded = true;
        }
        flow.writes.push_back(self.io.start_write(&flow.to, offset, buf, 0..end, Target::File));
        Ok(())
    }

    /// Verifies the pages of a chunk, and puts what was read again in place of those that did not
    /// hold still.
    fn verify(
        &mut self,
        flow: &mut Flow<'_>,
        offset: u64,
        first: u32,
        buf: &mut AlignedBuf,
        got: usize,
    ) -> Result<(), BackupError> {
        let (pages, _) = buf.get_mut(..got).unwrap_or_default().as_chunks_mut::<BLOCK_SIZE>();
        let Some(sums) = self.sums.get_mut(..pages.len()) else { return Ok(()) };
        checksum_pages(pages, first, sums);
        flow.copied.pages += pages.len() as u64;
        let judged = pages.iter().zip(sums.iter()).enumerate();
        let wrong: Vec<usize> =
            judged.filter(|(_, (page, sum))| !is_good(page, **sum)).map(|(n, _)| n).collect();
        for n in wrong {
            let Some(page) = pages.get_mut(n) else { continue };
            let at = offset + (n * BLOCK_SIZE) as u64;
            let block = first.saturating_add(u32::try_from(n).unwrap_or(u32::MAX));
            if !self.until_still(&flow.from, at, block, page)? {
                flow.copied.suspects.push(describe(&flow.job.name, block, page));
            }
        }
        Ok(())
    }

    /// Reads a page until it is good (true), or bad and still (false). One that never is still is
    /// being written all the time.
    fn until_still(
        &mut self,
        file: &File,
        offset: u64,
        block: u32,
        page: &mut PageBytes,
    ) -> Result<bool, BackupError> {
        for _ in 0..ATTEMPTS {
            let before = *page;
            if !read_page(&mut self.io, file, offset, page)? {
                // Cut off meanwhile.
                return Ok(self.how.live);
            }
            if is_good(page, page_checksum(page, block)) {
                return Ok(true);
            }
            if *page == before {
                return Ok(false);
            }
        }
        Ok(self.how.live)
    }

    fn sync(&mut self, file: File) -> Result<(), BackupError> {
        if !self.how.sync {
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

    /// Takes the buffers back from what is under way.
    fn abandon(&mut self, flow: Flow<'_>) {
        let reads = flow.reads.into_iter().map(|reading| reading.io);
        for io in reads.chain(flow.writes) {
            let (buf, _) = self.io.finish_owned(io);
            self.spare.push(buf);
        }
    }
}

impl std::fmt::Debug for Copier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copier").field("how", &self.how).finish_non_exhaustive()
    }
}

/// Reads one page; false if the file ends before it does.
fn read_page(
    io: &mut Backend,
    file: &File,
    offset: u64,
    page: &mut PageBytes,
) -> Result<bool, BackupError> {
    let mut buf = AlignedBuf::zeroed(BLOCK_SIZE)?;
    match io.read_exact_at(file, offset, &mut buf) {
        Ok(()) => {}
        Err(AioError::Short { .. }) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    page.copy_from_slice(&buf);
    Ok(true)
}

/// A page that was never used has no checksum, but then all of it is zero.
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

/// Looks at a suspect page again, when the copy is through: Some, as it is now, if it is still
/// wrong, or is right now but was not written since `start`. A page of a file that is gone or
/// shorter now is of no concern.
pub(super) fn look_again(
    io: &mut Backend,
    data: &Path,
    suspect: &DamagedPage,
    segment_blocks: u32,
    start: Lsn,
) -> Result<Option<DamagedPage>, BackupError> {
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
        // Then the log has it. If not, the copy is wrong, and nothing will put it right.
        let written = Page::new(&page).lsn() >= start;
        return Ok((!written).then(|| suspect.clone()));
    }
    Ok(Some(describe(&suspect.path, suspect.block, &page)))
}

fn compare(job: &Job, expected: &Expected, copied: &Copied) -> Result<(), BackupError> {
    let mismatch = |what, found: String, expected: String| {
        Err(BackupError::Mismatch { path: job.name.clone(), what, found, expected })
    };
    if expected.size != copied.size {
        return mismatch("size", copied.size.to_string(), expected.size.to_string());
    }
    if expected.checksum != copied.checksum {
        return mismatch("checksum", copied.checksum.clone(), expected.checksum.clone());
    }
    Ok(())
}
