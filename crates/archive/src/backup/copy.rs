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
    AioError, AlignedBuf, File, IfFound, Io, IoBackend, Op, OpenOptions, Target, WaitRef,
};
use forebay_format::Lsn;
use forebay_format::checksum::{checksum_pages, page_checksum};
use forebay_format::ids::BLOCK_SIZE;
use forebay_format::page::{Page, PageBytes, is_all_zeros, stored_checksum};

use super::walk::Contents;
use crate::digest::{ChecksumKind, FileChecksum};
use crate::error::{ArchiveError, DamagedPage, Result};
use crate::pipe::{Buffers, CHUNK, Piece, Reader, Writer};

/// Reads in flight of one thread, and writes.
const DEPTH: usize = 12;
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

/// Copies one file after another.
pub(super) struct Copier {
    io: IoBackend,
    options: CopyOptions,
    buffers: Buffers,
    syncs: VecDeque<WaitRef>,
    sums: Vec<u16>,
}

impl Copier {
    pub(super) fn new(io: IoBackend, options: CopyOptions) -> Copier {
        let (buffers, sums) = (Buffers::with_depth(DEPTH), vec![0; CHUNK / BLOCK_SIZE]);
        Copier { io, options, buffers, syncs: VecDeque::new(), sums }
    }

    /// Copies a file, which must not exist at its destination. None: a running server removed it.
    /// `seen` is called with the length of each read.
    pub(super) fn copy(&mut self, job: &Job, seen: &dyn Fn(u64)) -> Result<Option<Copied>> {
        let Some((mut reader, mut writer)) = self.open(job)? else { return Ok(None) };
        let copied = self.pump(job, &mut reader, &mut writer, seen);
        reader.close(&mut self.io);
        let copied = copied.inspect_err(|_| writer.abandon(&mut self.io))?;
        if let Some(expected) = &job.expected {
            compare(job, expected, &copied)?;
        }
        self.sync(writer.file().clone())?;
        Ok(Some(copied))
    }

    /// Waits until all copies are durable.
    pub(super) fn finish(mut self) -> Result<()> {
        while let Some(oldest) = self.syncs.pop_front() {
            self.io.wait(oldest).check()?;
        }
        Ok(())
    }

    fn open(&self, job: &Job) -> Result<Option<(Reader, Writer)>> {
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
        let reader = Reader::of_changing(from, len, &self.buffers);
        Ok(Some((reader, Writer::new(to, &self.buffers))))
    }

    fn pump(
        &mut self,
        job: &Job,
        reader: &mut Reader,
        writer: &mut Writer,
        seen: &dyn Fn(u64),
    ) -> Result<Copied> {
        let kind = job.expected.as_ref().map_or(self.options.checksums, |expected| expected.kind);
        let (mut copied, mut checksum) = (Copied::default(), FileChecksum::new(kind));
        while let Some(mut piece) = reader.next(&mut self.io)? {
            seen(piece.len as u64);
            if let (Some(segment_blocks), Contents::Pages { segment }) =
                (self.options.pages, job.contents)
            {
                let before = u64::from(segment) * u64::from(segment_blocks);
                // A relation can't be longer than u32 blocks, so anything after that is no page.
                if let Ok(first) = u32::try_from(before + piece.offset / BLOCK_SIZE as u64) {
                    self.verify(job, reader.file(), first, &mut piece, &mut copied)?;
                }
            }
            checksum.update(piece.bytes());
            copied.size += piece.len as u64;
            writer.put(&mut self.io, piece.buf, piece.len)?;
        }
        writer.finish(&mut self.io)?;
        copied.checksum = checksum.finish();
        Ok(copied)
    }

    /// Verifies the pages of a piece, of which `first` is the first. A page that changed meanwhile
    /// is replaced by its last read.
    fn verify(
        &mut self,
        job: &Job,
        from: &File,
        first: u32,
        piece: &mut Piece,
        copied: &mut Copied,
    ) -> Result<()> {
        let (pages, _) = piece.buf[..piece.len].as_chunks_mut::<BLOCK_SIZE>();
        let sums = &mut self.sums[..pages.len()];
        checksum_pages(pages, first, sums);
        copied.pages += pages.len() as u64;
        let judged = pages.iter().zip(sums.iter()).enumerate();
        let wrong: Vec<usize> =
            judged.filter(|(_, (page, sum))| !is_good(page, **sum)).map(|(n, _)| n).collect();
        for n in wrong {
            let page = &mut pages[n];
            let at = piece.offset + (n * BLOCK_SIZE) as u64;
            let block = first.saturating_add(n as u32);
            if !self.until_still(from, at, block, page)? {
                copied.suspects.push(describe(&job.name, block, page));
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
    let opened = names.open(&data.join(&suspect.path), &OpenOptions::READ).if_found()?;
    let Some(file) = opened else { return Ok(None) };
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
