//! Reads pages from segment files, ahead and in large chunks, and checks each page's header.
//!
//! ```text
//!            at                                             next
//!   ---------+----------------+----------------+-------------+
//!   used     | chunk, read    | in flight      | in flight   |  not requested
//!   ---------+----------------+----------------+-------------+
//!            window.front()                      window.back()
//! ```
//!
//! The first chunk is read alone, because a caller may need only one record. With each chunk that
//! is used up, twice as many are kept in flight, up to the limit. Reading ahead reports no errors:
//! they occur again, and are reported, when the chunk is needed.

use std::collections::VecDeque;
use std::path::PathBuf;

use forebay_aio::{
    Aio, AioError, AlignedBuf, Errno, File, IoBackend, IoContext, IoObject, IoOp, OwnedIo, Target,
    sync::Arc,
};
use forebay_format::{
    Lsn,
    timeline::TimelineHistory,
    wal::{PageHeader, PageHeaderError, page_header::LONG_SIZE},
};

use super::{
    config::{LookAhead, ReaderConfig},
    end::EndReason,
    segment::{OrEnd, Segment, SegmentFinder},
};
use crate::{error::WalReadError, position::WAL_BLOCK};

const BLOCK: usize = WAL_BLOCK as usize;

/// A page with a valid header.
pub(super) struct Page<'a> {
    pub header: PageHeader,
    pub bytes: &'a [u8],
    /// Where the log leaves the timeline of the segment. What the segment has behind that position
    /// is not part of the log.
    pub left_at: Option<Lsn>,
}

/// Reads the pages of a log.
pub(super) struct PageReader {
    pub finder: SegmentFinder,
    pub look_ahead: LookAhead,
    /// The segment requested last.
    segment: Option<Segment>,
    /// Consecutive parts of the log.
    window: VecDeque<Chunk>,
    /// Where the next chunk begins.
    next: Lsn,
    /// Number of chunks to keep in the window now.
    depth: usize,
    /// Buffers for reuse.
    spare: Vec<AlignedBuf>,
    /// The last valid page and its timeline. Later pages have no older timeline.
    newest: (Lsn, u32),
}

/// A part of one segment.
struct Chunk {
    at: Lsn,
    /// Bytes requested.
    len: usize,
    timeline: u32,
    file: File,
    state: ChunkState,
}

enum ChunkState {
    /// The read is in flight.
    Reading(OwnedIo),
    /// The read is done; the buffer has so many valid bytes.
    Read(AlignedBuf, usize),
    /// Only while the state changes, or if that failed.
    Empty,
}

impl std::fmt::Debug for PageReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageReader")
            .field("config", &self.finder.config)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl PageReader {
    pub fn new(aio: Arc<Aio>, config: ReaderConfig) -> PageReader {
        PageReader {
            finder: SegmentFinder::new(aio, config),
            look_ahead: LookAhead::default(),
            segment: None,
            window: VecDeque::new(),
            next: Lsn(0),
            depth: 1,
            spare: Vec::new(),
            newest: (Lsn(0), 0),
        }
    }

    pub fn config(&self) -> &ReaderConfig {
        &self.finder.config
    }

    pub fn aio(&self) -> &Aio {
        &self.finder.aio
    }

    /// Drops what was read, because the log may have grown.
    pub fn forget(&mut self, io: &mut IoBackend) {
        for chunk in self.window.drain(..) {
            if let ChunkState::Reading(read) = chunk.state {
                io.forget(read.wait_ref());
            }
        }
        self.segment = None;
        self.depth = 1;
    }

    /// The page at `at`, a page boundary. Reading is fastest in order.
    pub fn page(&mut self, io: &mut IoBackend, at: Lsn) -> Result<OrEnd<Page<'_>>, WalReadError> {
        if let Err(reason) = self.load(io, at)? {
            return Ok(Err(reason));
        }
        let missing = || EndReason::Invalid(format!("WAL ends before {at}"));
        let Some(Chunk { at: begin, state: ChunkState::Read(buf, got), file, timeline, .. }) =
            self.window.front()
        else {
            return Ok(Err(missing()));
        };
        let offset = at.since(*begin) as usize;
        let page = buf.get(..*got).and_then(|bytes| bytes.get(offset..)?.get(..BLOCK));
        let Some(page) = page else { return Ok(Err(missing())) };
        let header = match check_page(&self.finder.config, page, at) {
            Ok(header) => header,
            Err(invalid) => return invalid.reason(file, at).map(Err),
        };
        if let Err(what) = check_timeline(&self.finder.history, self.newest, at, header.timeline) {
            return Ok(Err(EndReason::Invalid(what)));
        }
        if at > self.newest.0 {
            self.newest = (at, header.timeline);
        }
        let left_at = self.finder.history.switch_point(*timeline);
        Ok(Ok(Page { header, bytes: page, left_at }))
    }

    /// Makes sure that the first chunk of the window has been read and has the page at `at`, and
    /// that the chunks behind it are in flight.
    fn load(&mut self, io: &mut IoBackend, at: Lsn) -> Result<OrEnd<()>, WalReadError> {
        while let Some(front) = self.window.front()
            && at.0 >= front.at.0 + front.len as u64
        {
            self.drop_front(io);
            self.depth = (self.depth * 2).min(self.look_ahead.depth.max(1));
        }
        if self.window.front().is_none_or(|front| at < front.at)
            && (self.window.front().is_some() || self.next != at)
        {
            self.forget(io);
            self.next = at;
        }
        if self.window.is_empty()
            && let Err(reason) = self.enter(io, at)?
        {
            return Ok(Err(reason));
        }
        // The next chunks first, so that the disk is busy while this one is awaited and used.
        self.read_ahead(io);
        self.await_front(io)?;
        Ok(Ok(()))
    }

    fn drop_front(&mut self, io: &mut IoBackend) {
        let Some(chunk) = self.window.pop_front() else { return };
        match chunk.state {
            ChunkState::Read(buf, _) => {
                if self.spare.len() < self.look_ahead.depth {
                    self.spare.push(buf);
                }
            }
            ChunkState::Reading(read) => io.forget(read.wait_ref()),
            ChunkState::Empty => {}
        }
    }

    /// Starts to read the chunk at `at`, the first of the window. Opens its segment if need be.
    fn enter(&mut self, io: &mut IoBackend, at: Lsn) -> Result<OrEnd<()>, WalReadError> {
        let size = self.config().segment_size;
        let number = size.number(at);
        if self.segment.as_ref().is_none_or(|segment| segment.number != number) {
            let segment = match self.finder.open(io, number, at)? {
                Ok(segment) => segment,
                Err(reason) => return Ok(Err(reason)),
            };
            let file = segment.file.clone();
            self.segment = Some(segment);
            // The long header identifies the segment, so it is checked even if reading starts
            // behind it.
            let first = size.start(number);
            if at != first
                && let Err(reason) = self.check_first_page(io, &file, first)?
            {
                self.segment = None;
                return Ok(Err(reason));
            }
        }
        self.next = at;
        match self.start_read(io) {
            Ok(_) => Ok(Ok(())),
            Err(e) => {
                Err(WalReadError::io("read", self.finder.path(number), size.offset(at), at, e))
            }
        }
    }

    /// Reads and checks a segment's first page.
    fn check_first_page(
        &self,
        io: &mut IoBackend,
        file: &File,
        first: Lsn,
    ) -> Result<OrEnd<()>, WalReadError> {
        let failed = |e| WalReadError::io("read", file.path().to_owned(), 0, first, e);
        let mut buf = AlignedBuf::zeroed(BLOCK).map_err(failed)?;
        let got = io.read_at(file, 0, &mut buf).map_err(failed)?;
        self.count(io, got);
        match check_page(self.config(), buf.get(..got).unwrap_or(&[]), first) {
            Ok(_) => Ok(Ok(())),
            Err(invalid) => invalid.reason(file, first).map(Err),
        }
    }

    /// Starts reads behind the window until it has as many chunks as it may have now.
    fn read_ahead(&mut self, io: &mut IoBackend) {
        while self.window.len() < self.depth {
            let number = self.config().segment_size.number(self.next);
            if self.segment.as_ref().is_none_or(|segment| segment.number != number) {
                // A segment in the archive takes precedence, and is fetched when it is needed.
                if self.finder.fetch.is_some() {
                    return;
                }
                match self.finder.open(io, number, self.next) {
                    Ok(Ok(segment)) => self.segment = Some(segment),
                    Ok(Err(_)) | Err(_) => return,
                }
            }
            if !self.start_read(io).is_ok_and(|started| started) {
                return;
            }
        }
    }

    /// Starts to read the chunk at `next`. Returns false if no segment is open.
    fn start_read(&mut self, io: &mut IoBackend) -> Result<bool, AioError> {
        let Some(segment) = &self.segment else { return Ok(false) };
        let size = self.config().segment_size;
        let (at, offset) = (self.next, size.offset(self.next));
        let most = self.look_ahead.chunk.max(BLOCK).next_multiple_of(BLOCK);
        let len = (size.bytes() - offset).min(most as u64) as usize;
        let fits = |buf: &AlignedBuf| buf.len() == len;
        let buf = match self.spare.iter().position(fits) {
            Some(n) => self.spare.swap_remove(n),
            None => AlignedBuf::zeroed(len)?,
        };
        let (file, timeline) = (segment.file.clone(), segment.timeline);
        let target = Target::Wal { start: at.0, end: at.0 + len as u64 };
        let state = ChunkState::Reading(io.start_read(&file, offset, buf, 0..len, target));
        self.window.push_back(Chunk { at, len, timeline, file, state });
        self.next = at.add(len as u64);
        Ok(true)
    }

    /// Waits for the first chunk of the window.
    fn await_front(&mut self, io: &mut IoBackend) -> Result<(), WalReadError> {
        let Some(front) = self.window.front_mut() else { return Ok(()) };
        let read = match std::mem::replace(&mut front.state, ChunkState::Empty) {
            ChunkState::Reading(read) => read,
            other => {
                front.state = other;
                return Ok(());
            }
        };
        let (at, file) = (front.at, front.file.clone());
        let offset = self.finder.config.segment_size.offset(at);
        let failed = |e| WalReadError::io("read", file.path().to_owned(), offset, at, e);
        let (mut buf, mut result) = io.finish_owned(read);
        if matches!(&result, Err(e) if e.errno() == Some(Errno::CANCELED)) {
            // The result is lost, or the read belonged to another backend, which may use the buffer
            // for a while.
            buf = AlignedBuf::zeroed(front.len).map_err(failed)?;
            result = io.read_at(&file, offset, &mut buf);
        }
        let got = match result {
            Ok(got) | Err(AioError::Short { got, .. }) => got,
            Err(e) => {
                self.forget(io);
                return Err(failed(e));
            }
        };
        front.state = ChunkState::Read(buf, got / BLOCK * BLOCK);
        self.count(io, got);
        Ok(())
    }

    fn count(&self, io: &IoBackend, bytes: usize) {
        let (object, context) = (IoObject::Wal, IoContext::Normal);
        self.aio().stats().count(io.backend_type(), object, context, IoOp::Read, 1, bytes as u64);
    }

    /// The first segment behind `number` that was written to, if there is one. Fails if one of them
    /// has the wrong length, or is of another cluster.
    pub fn written_behind(
        &mut self,
        io: &mut IoBackend,
        number: u64,
    ) -> Result<Option<PathBuf>, WalReadError> {
        for (number, timeline) in self.finder.later_than(io, number)? {
            let start = self.config().segment_size.start(number);
            // It may have been removed or renamed meanwhile.
            let Some(segment) = self.finder.open_on(timeline, number, start)? else { continue };
            if self.check_first_page(io, &segment.file, start)?.is_ok() {
                return Ok(Some(self.finder.path_on(timeline, number)));
            }
        }
        Ok(None)
    }
}

/// What is wrong with a page.
enum InvalidPage {
    /// Its segment is of another cluster, which no crash leaves behind.
    Foreign {
        expected: u64,
        found: u64,
    },
    End(EndReason),
}

impl InvalidPage {
    /// The reason why the log ends at this page of `file`, or the error that it is.
    fn reason(self, file: &File, at: Lsn) -> Result<EndReason, WalReadError> {
        match self {
            InvalidPage::End(reason) => Ok(reason),
            InvalidPage::Foreign { expected, found } => {
                let file = file.path().to_owned();
                Err(WalReadError::ForeignSystem { file, expected, found, at })
            }
        }
    }
}

/// The header of the page at `at`, if it is valid there.
fn check_page(config: &ReaderConfig, page: &[u8], at: Lsn) -> Result<PageHeader, InvalidPage> {
    if page.len() == BLOCK && page.iter().take(LONG_SIZE).all(|&byte| byte == 0) {
        return Err(InvalidPage::End(EndReason::Zeros(at)));
    }
    let invalid = |what: String| InvalidPage::End(EndReason::Invalid(format!("{what}, at {at}")));
    let header = PageHeader::decode(page).map_err(|e| invalid(e.to_string()))?;
    let stated = header.long.map_or(0, |long| long.system_id);
    let system_id = config.system_id.unwrap_or(stated);
    if header.long.is_some() && config.segment_size.offset(at) != 0 {
        return Err(invalid("long header in the middle of a WAL segment".to_owned()));
    }
    header.check(at, config.segment_size, system_id).map_err(|e| match e {
        PageHeaderError::OtherSystem { expected, found } => {
            InvalidPage::Foreign { expected, found }
        }
        other => invalid(other.to_string()),
    })?;
    if header.timeline > config.timeline {
        return Err(invalid(format!(
            "WAL page is of timeline {}, beyond {}",
            header.timeline, config.timeline
        )));
    }
    Ok(header)
}

/// Checks that a page's timeline is in the log's history, and no older than those of earlier pages.
fn check_timeline(
    history: &TimelineHistory,
    newest: (Lsn, u32),
    at: Lsn,
    timeline: u32,
) -> Result<(), String> {
    // Without a history file, the ancestors of a timeline are unknown.
    if history.stretches().len() > 1 && !history.contains(timeline) {
        return Err(format!("unexpected timeline {timeline} in WAL page at {at}"));
    }
    if at > newest.0 && timeline < newest.1 {
        let (before, of) = newest;
        return Err(format!(
            "out-of-sequence timeline {timeline} in WAL page at {at}, after {of} at {before}"
        ));
    }
    Ok(())
}
