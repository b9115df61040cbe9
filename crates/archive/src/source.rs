//! A file of the log that is archived: it is read once, hashed on the way, and checked.
//!
//! ```text
//!   examine: a regular file with one name, as long as a segment
//!     ──▶ first piece: the header matches the name ──▶ pieces, each hashed
//!     ──▶ end: the file still has its name ──▶ digest
//! ```
//!
//! The last step detects segments that are recycled: a segment that loses its name while it is read
//! may have been overwritten under its new name.

use std::path::{Path, PathBuf};

use forebay_aio::sync::Arc;
use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::{Aio, AlignedBuf, FileKind, IoBackend};
use forebay_format::timeline::{TimelineHistory, history_file_name};
use forebay_format::wal::page_header::{LONG_SIZE, MAGIC, PageHeader, PageHeaderError};
use forebay_format::{Lsn, SegmentSize};

use crate::digest::{Digest, Hasher};
use crate::error::{ArchiveError, Result};
use crate::names::{Kind, WalName};
use crate::pipe::{Buffers, Piece, Reader};

/// Magic numbers of WAL pages, and the versions of PostgreSQL that write them.
pub const MAGICS: [(u16, u32); 4] = [(0xD110, 15), (0xD113, 16), (0xD116, 17), (MAGIC, 18)];

/// Length limit of history and backup files; real ones have a few hundred bytes.
const MOST_TEXT: u64 = 256 << 10;

/// What the files of the log must say. What is None is not checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// The cluster's system identifier.
    pub system_id: Option<u64>,
    /// Length of a segment.
    pub segment_size: Option<SegmentSize>,
    /// The magic number of WAL pages, which tells the version of the format.
    pub magic: Option<u16>,
}

/// How files of the log are read.
#[derive(Clone, Debug, Default)]
pub struct SourceOptions {
    /// What they must say.
    pub expected: Expected,
    /// Use direct I/O, where the file system has it.
    pub direct: bool,
    /// When set to true, transfers end early with [`ArchiveError::Stopped`].
    pub stop: Option<Arc<AtomicBool>>,
    /// The pool of buffers.
    pub buffers: Buffers,
}

/// What the first page of a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFacts {
    /// The cluster's system identifier.
    pub system_id: u64,
    /// The timeline of the first page.
    pub timeline: u32,
    /// Where the segment begins.
    pub start: Lsn,
    /// Length of a segment.
    pub segment_size: SegmentSize,
    /// The magic number of its pages.
    pub magic: u16,
}

/// A file of the log on its way to the archive.
pub struct Source {
    aio: Arc<Aio>,
    dir: PathBuf,
    path: PathBuf,
    name: WalName,
    len: u64,
    options: SourceOptions,
    reader: Option<Reader>,
    hasher: Hasher,
    digest: Option<Digest>,
    facts: Option<SegmentFacts>,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("path", &self.path)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl Source {
    /// Examines the file `name` in the directory `dir`. The file is opened when it is first read.
    pub fn open(
        aio: &Arc<Aio>,
        dir: &Path,
        name: &WalName,
        options: &SourceOptions,
    ) -> Result<Source> {
        Source::open_as(aio, dir, &dir.join(name.as_str()), name, options)
    }

    /// Like [`Source::open`], for a file with any path. History files are looked for in `dir`.
    pub(crate) fn open_as(
        aio: &Arc<Aio>,
        dir: &Path,
        path: &Path,
        name: &WalName,
        options: &SourceOptions,
    ) -> Result<Source> {
        let len = examine(aio, path)?;
        let expected = match options.expected.segment_size {
            Some(size) if name.is_whole() => size.bytes(),
            _ => len,
        };
        if len != expected {
            return Err(ArchiveError::Length { file: path.to_path_buf(), expected, found: len });
        }
        if !name.is_whole() && len > MOST_TEXT {
            let reason = "it is too long for a file of that kind";
            return Err(ArchiveError::Contents { file: path.to_path_buf(), reason });
        }
        Ok(Source {
            aio: Arc::clone(aio),
            dir: dir.to_path_buf(),
            path: path.to_path_buf(),
            name: name.clone(),
            len,
            options: options.clone(),
            reader: None,
            hasher: Hasher::new(),
            digest: None,
            facts: None,
        })
    }

    /// The file's name.
    pub fn name(&self) -> &WalName {
        &self.name
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's length in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// What a segment's first page says, once the first piece has been read.
    pub fn facts(&self) -> Option<&SegmentFacts> {
        self.facts.as_ref()
    }

    /// Hash of the contents, once the file has been read to its end.
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    pub(crate) fn buffers(&self) -> &Buffers {
        &self.options.buffers
    }

    /// [`ArchiveError::Stopped`] once a stop was requested.
    pub fn check_stop(&self) -> Result<()> {
        match &self.options.stop {
            Some(stop) if stop.load(Ordering::Relaxed) => Err(ArchiveError::stopped(&self.path)),
            _ => Ok(()),
        }
    }

    /// The next piece; None at the end, when the digest is known. Return the piece's buffer with
    /// [`Source::give_back`].
    pub fn next(&mut self, io: &mut IoBackend) -> Result<Option<Piece>> {
        self.check_stop()?;
        if self.digest.is_some() {
            return Ok(None);
        }
        let Some(piece) = self.read(io)? else {
            self.finish()?;
            return Ok(None);
        };
        if piece.offset == 0 {
            self.check_first(io, &piece)?;
        }
        self.hasher.update(piece.bytes());
        Ok(Some(piece))
    }

    fn read(&mut self, io: &mut IoBackend) -> Result<Option<Piece>> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None => {
                let SourceOptions { direct, buffers, .. } = &self.options;
                let reader = Reader::open(&self.aio, &self.path, *direct, buffers);
                let reader = reader.map_err(|e| self.refused(e))?;
                self.check_len(reader.len())?;
                self.reader.insert(reader)
            }
        };
        reader.next(io).map_err(ArchiveError::io("archive", &self.path))
    }

    /// Checks that the file has the same length as before.
    fn check_len(&self, found: u64) -> Result<()> {
        if found == self.len {
            return Ok(());
        }
        Err(ArchiveError::Length { file: self.path.clone(), expected: self.len, found })
    }

    fn refused(&self, error: forebay_aio::AioError) -> ArchiveError {
        if error.is_not_found() {
            ArchiveError::Vanished { file: self.path.clone() }
        } else {
            ArchiveError::io("archive", &self.path)(error)
        }
    }

    /// Returns the buffer of a piece to the pool.
    pub fn give_back(&mut self, buf: AlignedBuf) {
        self.options.buffers.give_back(buf);
    }

    /// Reads and checks the rest of the file. Returns the hash of the whole file.
    pub fn read_to_end(&mut self, io: &mut IoBackend) -> Result<Digest> {
        while let Some(piece) = self.next(io)? {
            self.give_back(piece.buf);
        }
        self.digest.ok_or_else(|| ArchiveError::Vanished { file: self.path.clone() })
    }

    /// Checks only the beginning, for a module that lets another program read the file.
    pub(crate) fn check_first_piece(&mut self, io: &mut IoBackend) -> Result<()> {
        if let Some(piece) = self.next(io)? {
            self.give_back(piece.buf);
        }
        let facts = self.facts.take();
        self.rewind(io);
        self.facts = facts;
        Ok(())
    }

    /// The next read begins at the beginning again, for another attempt.
    pub fn rewind(&mut self, io: &mut IoBackend) {
        self.close(io);
        (self.hasher, self.digest, self.facts) = (Hasher::new(), None, None);
    }

    /// Waits for the reads in flight, and closes the file.
    pub fn close(&mut self, io: &mut IoBackend) {
        if let Some(mut reader) = self.reader.take() {
            reader.close(io);
            if !reader.file().is_direct() {
                // Nobody will read it again soon. This is only advice to the kernel.
                let _ = self.aio.namespace().forget_cached(reader.file());
            }
        }
    }

    /// Everything was read: checks that the file was not recycled meanwhile.
    fn finish(&mut self) -> Result<()> {
        self.check_len(examine(&self.aio, &self.path)?)?;
        if self.len == 0 {
            return Err(ArchiveError::Contents { file: self.path.clone(), reason: "it is empty" });
        }
        self.digest = Some(std::mem::take(&mut self.hasher).finish());
        Ok(())
    }

    fn header(&self, source: PageHeaderError) -> ArchiveError {
        ArchiveError::Header { file: self.path.clone(), source }
    }

    /// Checks that the first piece matches the file's name.
    fn check_first(&mut self, io: &mut IoBackend, piece: &Piece) -> Result<()> {
        let contents = |reason| ArchiveError::Contents { file: self.path.clone(), reason };
        match self.name.kind() {
            Kind::History => {
                let text =
                    std::str::from_utf8(piece.bytes()).map_err(|_| contents("it is no text"))?;
                let parsed = TimelineHistory::parse(self.name.timeline(), text);
                parsed
                    .map_err(|source| ArchiveError::History { file: self.path.clone(), source })?;
            }
            Kind::Backup => {
                if !piece.bytes().starts_with(b"START WAL LOCATION: ") {
                    return Err(contents("it does not say where a backup began"));
                }
            }
            Kind::Segment | Kind::Partial => {
                let facts = self.check_header(piece.bytes())?;
                if facts.timeline != self.name.timeline() {
                    self.check_ancestor(io, &facts)?;
                }
                self.facts = Some(facts);
            }
        }
        Ok(())
    }

    fn check_header(&self, page: &[u8]) -> Result<SegmentFacts> {
        let wrong = |source| self.header(source);
        let (magic, header) = decode(page, self.options.expected.magic).map_err(wrong)?;
        let Some(long) = header.long else {
            return Err(wrong(PageHeaderError::WrongKind(header.page_addr)));
        };
        let sizes =
            || PageHeaderError::OtherSizes { segment: long.segment_size, block: long.block_size };
        let size = SegmentSize::new(long.segment_size).ok_or_else(|| wrong(sizes()))?;
        if self.options.expected.segment_size.is_some_and(|expected| expected != size) {
            return Err(wrong(sizes()));
        }
        if self.len != size.bytes() {
            let (file, expected) = (self.path.clone(), size.bytes());
            return Err(ArchiveError::Length { file, expected, found: self.len });
        }
        let name = || ArchiveError::Name { name: self.name.to_string() };
        let start = size.start(self.name.number(size).ok_or_else(name)?);
        let system_id = self.options.expected.system_id.unwrap_or(long.system_id);
        header.check(start, size, system_id).map_err(wrong)?;
        Ok(SegmentFacts { system_id, timeline: header.timeline, start, segment_size: size, magic })
    }

    /// The first segment of a timeline begins as a copy of its parent's segment, with the parent's
    /// page headers. Checks that the timeline's history says so.
    fn check_ancestor(&self, io: &mut IoBackend, facts: &SegmentFacts) -> Result<()> {
        let (expected, found) = (self.name.timeline(), facts.timeline);
        let wrong =
            |note| ArchiveError::Timeline { file: self.path.clone(), expected, found, note };
        if found > expected || found == 0 {
            return Err(wrong(""));
        }
        let path = self.dir.join(history_file_name(expected));
        let read = io.read_file_if_there(&path).map_err(ArchiveError::io("read", &path))?;
        let bytes = read.ok_or_else(|| wrong(", and there is no history file"))?;
        let parsed = TimelineHistory::parse(expected, &String::from_utf8_lossy(&bytes));
        let history = parsed.map_err(|source| ArchiveError::History { file: path, source })?;
        if history.at(facts.start) != found {
            return Err(wrong(", which its history does not tell"));
        }
        Ok(())
    }
}

/// Decodes a page header and tells its magic number, which must be `magic`; None: any known one.
fn decode(page: &[u8], magic: Option<u16>) -> Result<(u16, PageHeader), PageHeaderError> {
    let found = match page {
        [low, high, ..] => u16::from_le_bytes([*low, *high]),
        _ => return Err(PageHeaderError::TooShort),
    };
    let known = MAGICS.iter().any(|(known, _)| *known == found);
    if !known || magic.is_some_and(|magic| magic != found) {
        return Err(PageHeaderError::BadMagic(found));
    }
    // The versions' headers differ in this number alone.
    let mut header = page[..page.len().min(LONG_SIZE)].to_vec();
    header[..2].copy_from_slice(&MAGIC.to_le_bytes());
    Ok((found, PageHeader::decode(&header)?))
}

/// Checks that a file from an archive matches its name. `head` is its beginning, `len` its length.
/// The error is the reason. The first segment of a timeline may begin with its parent's pages.
pub(crate) fn check_stored(
    name: &WalName,
    head: &[u8],
    len: u64,
    system_id: Option<u64>,
) -> Result<(), String> {
    if !name.is_whole() {
        return Ok(());
    }
    let wrong = |e: PageHeaderError| e.to_string();
    let (_, header) = decode(head, None).map_err(wrong)?;
    let long = header.long.ok_or_else(|| wrong(PageHeaderError::WrongKind(header.page_addr)))?;
    let sizes = PageHeaderError::OtherSizes { segment: long.segment_size, block: long.block_size };
    let size = SegmentSize::new(long.segment_size).ok_or_else(|| wrong(sizes))?;
    if len != size.bytes() {
        return Err(format!("it has {len} bytes, not the {} of a segment", size.bytes()));
    }
    let number = name
        .number(size)
        .ok_or_else(|| format!("segments of {} bytes have no such name", size.bytes()))?;
    header.check(size.start(number), size, system_id.unwrap_or(long.system_id)).map_err(wrong)?;
    if header.timeline == 0 || header.timeline > name.timeline() {
        return Err(format!("it is of timeline {}, not {}", header.timeline, name.timeline()));
    }
    Ok(())
}

/// The length of a regular file that has no other name.
fn examine(aio: &Aio, path: &Path) -> Result<u64> {
    let file = || path.to_path_buf();
    let stat = aio.namespace().stat(path).map_err(ArchiveError::io("archive", path))?;
    let Some(stat) = stat else { return Err(ArchiveError::Vanished { file: file() }) };
    match stat.kind {
        FileKind::File if stat.links == 1 => Ok(stat.len),
        FileKind::File => Err(ArchiveError::Links { file: file(), links: stat.links }),
        _ => Err(ArchiveError::NotAFile { file: file() }),
    }
}
