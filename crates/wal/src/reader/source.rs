//! Pages out of segment files: read ahead in large chunks, several in flight, each page's header
//! checked.
//!
//! ```text
//!            at                                             next
//!   ---------+----------------+----------------+-------------+
//!   taken    | chunk, here    | being read     | being read  |  not asked for
//!   ---------+----------------+----------------+-------------+
//!            window.front()                      window.back()
//! ```
//!
//! The first chunk is read alone, since who looks at one record wants no more. With each chunk that
//! is used up twice as many are kept in flight, up to the limit. Looking ahead never fails: what
//! can't be opened or read is met again, and told, when it is its turn.

use std::collections::VecDeque;
use std::path::PathBuf;

use forebay_aio::{
    Aio, AioError, AlignedBuf, Backend, Errno, File, IoContext, IoObject, IoOp, OpenOptions,
    OwnedIo, Target, sync::Arc,
};
use forebay_format::{
    Lsn,
    timeline::{TimelineHistory, TimelineStretch},
    wal::{PageHeader, PageHeaderError},
};

use super::{EndReason, Fetch, LookAhead, ReaderConfig};
use crate::{error::WalReadError, position::WAL_BLOCK};

const BLOCK: usize = WAL_BLOCK as usize;

/// A page; or why there is none.
pub(super) type PageOrEnd<'a> = Result<Page<'a>, EndReason>;

/// A page that is right.
pub(super) struct Page<'a> {
    pub header: PageHeader,
    pub bytes: &'a [u8],
    /// Where the log leaves the timeline that the segment is of: what the segment has from there on
    /// is no part of it.
    pub left_at: Option<Lsn>,
}

/// The pages of a log.
pub(super) struct Source {
    aio: Arc<Aio>,
    config: ReaderConfig,
    history: TimelineHistory,
    look_ahead: LookAhead,
    /// The segment asked for last.
    segment: Option<Segment>,
    /// Stretches of the log that follow one another.
    window: VecDeque<Chunk>,
    /// Where the next chunk begins.
    next: Lsn,
    /// Chunks to have in the window now.
    depth: usize,
    /// Memory to be used again.
    spare: Vec<AlignedBuf>,
    /// The last page that was right, and its timeline: it never goes back.
    newest: (Lsn, u32),
    /// Brings segments from elsewhere.
    fetch: Option<Arc<dyn Fetch>>,
    /// What it brought last.
    fetched: Option<String>,
}

/// An open segment file.
#[derive(Clone)]
struct Segment {
    number: u64,
    /// The timeline that its name tells.
    timeline: u32,
    file: File,
}

/// A stretch of one segment.
struct Chunk {
    at: Lsn,
    /// Bytes asked for.
    len: usize,
    timeline: u32,
    file: File,
    state: State,
}

/// How far a chunk has come.
enum State {
    /// On its way.
    Reading(OwnedIo),
    /// There, with so many bytes.
    Here(AlignedBuf, usize),
    /// Between two of the others.
    Nothing,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("config", &self.config)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl Source {
    pub fn new(aio: Arc<Aio>, config: ReaderConfig) -> Source {
        Source {
            aio,
            history: TimelineHistory::alone(config.timeline),
            config,
            look_ahead: LookAhead::default(),
            segment: None,
            window: VecDeque::new(),
            next: Lsn(0),
            depth: 1,
            spare: Vec::new(),
            newest: (Lsn(0), 0),
            fetch: None,
            fetched: None,
        }
    }

    pub fn config(&self) -> &ReaderConfig {
        &self.config
    }

    pub fn aio(&self) -> &Aio {
        &self.aio
    }

    pub fn history(&self) -> &TimelineHistory {
        &self.history
    }

    pub fn set_history(&mut self, history: TimelineHistory) {
        self.history = history;
    }

    pub fn set_fetch(&mut self, fetch: Arc<dyn Fetch>) {
        self.fetch = Some(fetch);
    }

    pub fn set_look_ahead(&mut self, look_ahead: LookAhead) {
        self.look_ahead = look_ahead;
    }

    /// Forgets what was read: the log may have grown.
    pub fn forget(&mut self, io: &mut Backend) {
        for chunk in self.window.drain(..) {
            if let State::Reading(read) = chunk.state {
                io.forget(read.wait_ref());
            }
        }
        self.segment = None;
        self.depth = 1;
    }

    /// The page at `at`, a page boundary. Pages are best asked for in their order.
    pub fn page(&mut self, io: &mut Backend, at: Lsn) -> Result<PageOrEnd<'_>, WalReadError> {
        if let Err(reason) = self.load(io, at)? {
            return Ok(Err(reason));
        }
        let missing = || EndReason::Invalid(format!("WAL ends before {at}"));
        let Some(Chunk { at: begin, state: State::Here(buf, got), file, timeline, .. }) =
            self.window.front()
        else {
            return Ok(Err(missing()));
        };
        let offset = usize::try_from(at.since(*begin)).unwrap_or(usize::MAX);
        let page = buf.get(..*got).and_then(|bytes| bytes.get(offset..)?.get(..BLOCK));
        let Some(page) = page else { return Ok(Err(missing())) };
        let header = match check_page(&self.config, page, at) {
            Ok(header) => header,
            Err(Wrong::Foreign { expected, found }) => {
                let file = file.path().to_owned();
                return Err(WalReadError::ForeignSystem { file, expected, found, at });
            }
            Err(Wrong::Page(reason)) => return Ok(Err(reason)),
        };
        if let Err(what) = check_timeline(&self.history, self.newest, at, header.timeline) {
            return Ok(Err(EndReason::Invalid(what)));
        }
        if at > self.newest.0 {
            self.newest = (at, header.timeline);
        }
        let left_at = self.history.switch_point(*timeline);
        Ok(Ok(Page { header, bytes: page, left_at }))
    }

    /// Makes sure that the first chunk of the window is there and has the page at `at`, and that
    /// others are on their way.
    fn load(&mut self, io: &mut Backend, at: Lsn) -> Result<Result<(), EndReason>, WalReadError> {
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
        // First what comes next, so that the disk is busy while this one is waited for and used.
        self.ask_ahead(io);
        self.await_front(io)?;
        Ok(Ok(()))
    }

    fn drop_front(&mut self, io: &mut Backend) {
        match self.window.pop_front().map(|chunk| chunk.state) {
            Some(State::Here(buf, _)) if self.spare.len() < self.look_ahead.depth => {
                self.spare.push(buf)
            }
            Some(State::Reading(read)) => io.forget(read.wait_ref()),
            _ => {}
        }
    }

    /// Asks for the chunk at `at`, the first of the window, whose segment may have to be opened.
    fn enter(&mut self, io: &mut Backend, at: Lsn) -> Result<Result<(), EndReason>, WalReadError> {
        let size = self.config.segment_size;
        let number = size.number(at);
        if self.segment.as_ref().is_none_or(|segment| segment.number != number) {
            let segment = match self.bring(io, number, at)? {
                Ok(segment) => segment,
                Err(reason) => return Ok(Err(reason)),
            };
            let file = segment.file.clone();
            self.segment = Some(segment);
            // The long header tells whose segment this is, so it is looked at even by one who
            // starts behind it.
            let first = size.start(number);
            if at != first
                && let Err(reason) = self.check_first_page(io, &file, first)?
            {
                self.segment = None;
                return Ok(Err(reason));
            }
        }
        self.next = at;
        match self.ask(io) {
            Ok(_) => Ok(Ok(())),
            Err(e) => Err(self.failed("read", at, e)),
        }
    }

    /// Reads a segment's first page and checks that it is.
    fn check_first_page(
        &self,
        io: &mut Backend,
        file: &File,
        first: Lsn,
    ) -> Result<Result<(), EndReason>, WalReadError> {
        let mut buf = AlignedBuf::zeroed(BLOCK)
            .map_err(|e| io_error("read", file.path().to_owned(), 0, first, e))?;
        let got = io
            .read_at(file, 0, &mut buf)
            .map_err(|e| io_error("read", file.path().to_owned(), 0, first, e))?;
        self.count(io, got);
        match check_page(&self.config, buf.get(..got).unwrap_or(&[]), first) {
            Ok(_) => Ok(Ok(())),
            Err(Wrong::Page(reason)) => Ok(Err(reason)),
            Err(Wrong::Foreign { expected, found }) => Err(WalReadError::ForeignSystem {
                file: file.path().to_owned(),
                expected,
                found,
                at: first,
            }),
        }
    }

    /// Asks for chunks behind the window until it has as many as it may now.
    fn ask_ahead(&mut self, io: &mut Backend) {
        while self.window.len() < self.depth {
            let number = self.config.segment_size.number(self.next);
            if self.segment.as_ref().is_none_or(|segment| segment.number != number) {
                // What the archive has counts for more, and is asked for when it is its turn.
                if self.fetch.is_some() {
                    return;
                }
                match self.open(number, self.next) {
                    Ok(Ok(segment)) => self.segment = Some(segment),
                    _ => return,
                }
            }
            if !self.ask(io).is_ok_and(|asked| asked) {
                return;
            }
        }
    }

    /// Starts to read the chunk at `next`, which is in the open segment. False if it isn't.
    fn ask(&mut self, io: &mut Backend) -> Result<bool, AioError> {
        let Some(segment) = &self.segment else { return Ok(false) };
        let size = self.config.segment_size;
        let (at, offset) = (self.next, size.offset(self.next));
        let most = self.look_ahead.chunk.max(BLOCK).next_multiple_of(BLOCK);
        let len = usize::try_from(size.bytes() - offset).unwrap_or(most).min(most);
        let fits = |buf: &AlignedBuf| buf.len() == len;
        let buf = match self.spare.iter().position(fits) {
            Some(n) => self.spare.swap_remove(n),
            None => AlignedBuf::zeroed(len)?,
        };
        let (file, timeline) = (segment.file.clone(), segment.timeline);
        let target = Target::Wal { start: at.0, end: at.0 + len as u64 };
        let state = State::Reading(io.start_read(&file, offset, buf, 0..len, target));
        self.window.push_back(Chunk { at, len, timeline, file, state });
        self.next = at.add(len as u64);
        Ok(true)
    }

    /// Waits for the first chunk of the window.
    fn await_front(&mut self, io: &mut Backend) -> Result<(), WalReadError> {
        let Some(front) = self.window.front_mut() else { return Ok(()) };
        let read = match std::mem::replace(&mut front.state, State::Nothing) {
            State::Reading(read) => read,
            other => {
                front.state = other;
                return Ok(());
            }
        };
        let (at, file) = (front.at, front.file.clone());
        let offset = self.config.segment_size.offset(at);
        let (mut buf, mut result) = io.finish_owned(read);
        if matches!(&result, Err(e) if e.errno() == Some(Errno::CANCELED)) {
            // How it ended was not kept for us, or it was another backend's, which may keep its
            // memory for a while.
            let again = AlignedBuf::zeroed(front.len)
                .map_err(|e| io_error("read", file.path().to_owned(), offset, at, e))?;
            buf = again;
            result = io.read_at(&file, offset, &mut buf);
        }
        let got = match result {
            Ok(got) | Err(AioError::Short { got, .. }) => got,
            Err(e) => {
                self.forget(io);
                return Err(io_error("read", file.path().to_owned(), offset, at, e));
            }
        };
        front.state = State::Here(buf, got / BLOCK * BLOCK);
        self.count(io, got);
        Ok(())
    }

    fn count(&self, io: &Backend, bytes: usize) {
        let (object, context) = (IoObject::Wal, IoContext::Normal);
        self.aio.stats().count(io.backend_type(), object, context, IoOp::Read, 1, bytes as u64);
    }

    /// The timelines that may have a segment, the newest first. A timeline's first segment is where
    /// it branched off, and has what its parent wrote there before.
    fn timelines(&self, number: u64) -> Vec<u32> {
        let size = self.config.segment_size;
        let holds = |stretch: &&TimelineStretch| {
            let ended = stretch.end.is_some_and(|end| end <= size.start(number));
            size.number(stretch.begin) <= number && !ended
        };
        self.history
            .stretches()
            .iter()
            .rev()
            .filter(holds)
            .map(|stretch| stretch.timeline)
            .collect()
    }

    /// Opens a segment, which may have to be brought first: the one of the newest timeline that has
    /// it.
    fn bring(
        &mut self,
        io: &mut Backend,
        number: u64,
        at: Lsn,
    ) -> Result<Result<Segment, EndReason>, WalReadError> {
        let mut missing = EndReason::MissingSegment(self.path(number));
        for (n, timeline) in self.timelines(number).into_iter().enumerate() {
            self.fetch(io, timeline, number, at)?;
            match self.open_on(timeline, number, at)? {
                Ok(segment) => return Ok(Ok(segment)),
                Err(reason) if n == 0 => missing = reason,
                Err(_) => {}
            }
        }
        Ok(Err(missing))
    }

    /// Has a segment brought, if somebody brings any. True if it has come.
    fn fetch(
        &mut self,
        io: &mut Backend,
        timeline: u32,
        number: u64,
        at: Lsn,
    ) -> Result<bool, WalReadError> {
        let Some(fetch) = &self.fetch else { return Ok(false) };
        let name = self.config.segment_size.file_name(timeline, number);
        if self.fetched.as_ref() == Some(&name) {
            return Ok(true);
        }
        let come = fetch.fetch(io, &name).map_err(|source| WalReadError::Fetch {
            file: self.config.dir.join(&name),
            at,
            source,
        })?;
        if come {
            self.fetched = Some(name);
        }
        Ok(come)
    }

    /// Opens a segment that is in the directory: the one of the newest timeline that has it.
    fn open(&self, number: u64, at: Lsn) -> Result<Result<Segment, EndReason>, WalReadError> {
        let mut missing = None;
        for timeline in self.timelines(number) {
            match self.open_on(timeline, number, at)? {
                Ok(segment) => return Ok(Ok(segment)),
                Err(reason) => _ = missing.get_or_insert(reason),
            }
        }
        Ok(Err(missing.unwrap_or_else(|| EndReason::MissingSegment(self.path(number)))))
    }

    /// Opens a timeline's segment in the directory.
    fn open_on(
        &self,
        timeline: u32,
        number: u64,
        at: Lsn,
    ) -> Result<Result<Segment, EndReason>, WalReadError> {
        let path = self.config.dir.join(self.config.segment_size.file_name(timeline, number));
        let options = OpenOptions::READ.direct(self.config.direct);
        match self.aio.namespace().open(&path, &options) {
            Ok(file) => {
                self.check_length(&file, at)?;
                Ok(Ok(Segment { number, timeline, file }))
            }
            Err(e) if e.is_not_found() => Ok(Err(EndReason::MissingSegment(path))),
            Err(e) => Err(io_error("open", path, 0, at, e)),
        }
    }

    /// A segment gets its name when it has its full length, so any other is a damage.
    fn check_length(&self, file: &File, at: Lsn) -> Result<(), WalReadError> {
        let expected = self.config.segment_size.bytes();
        let found = self.aio.namespace().file_len(file);
        let found = found.map_err(|e| io_error("examine", file.path().to_owned(), 0, at, e))?;
        if found == expected {
            return Ok(());
        }
        Err(WalReadError::Length { file: file.path().to_owned(), expected, found, at })
    }

    /// Path of a segment on the newest timeline.
    pub fn path(&self, number: u64) -> PathBuf {
        self.config.dir.join(self.config.segment_size.file_name(self.config.timeline, number))
    }

    fn failed(&self, operation: &'static str, at: Lsn, e: AioError) -> WalReadError {
        let size = self.config.segment_size;
        io_error(operation, self.path(size.number(at)), size.offset(at), at, e)
    }

    /// The first segment behind `number` that was written to, if there is one. Fails on any that is
    /// not as long as a segment, or of another cluster.
    pub fn written_behind(
        &mut self,
        io: &mut Backend,
        number: u64,
    ) -> Result<Option<PathBuf>, WalReadError> {
        let size = self.config.segment_size;
        for timeline in self.timelines(number + 1) {
            if self.fetch(io, timeline, number + 1, size.start(number + 1))? {
                break;
            }
        }
        let entries = self.aio.namespace().list(&self.config.dir);
        let entries = entries
            .map_err(|e| io_error("list", self.config.dir.clone(), 0, size.start(number), e))?;
        let mut later: Vec<(u64, u32)> = entries
            .iter()
            .filter_map(|entry| size.parse_file_name(entry.name.to_str()?))
            .filter(|&(timeline, other)| other > number && self.history.contains(timeline))
            // What a timeline has behind the point where it was left is another log's.
            .filter(|&(timeline, other)| {
                self.history.switch_point(timeline).is_none_or(|left| size.start(other) < left)
            })
            .map(|(timeline, other)| (other, timeline))
            .collect();
        later.sort_unstable();
        for (number, timeline) in later {
            let (path, start) =
                (self.config.dir.join(size.file_name(timeline, number)), size.start(number));
            let file = match self
                .aio
                .namespace()
                .open(&path, &OpenOptions::READ.direct(self.config.direct))
            {
                Ok(file) => file,
                // Removed or renamed meanwhile.
                Err(e) if e.is_not_found() => continue,
                Err(e) => return Err(io_error("open", path, 0, start, e)),
            };
            self.check_length(&file, start)?;
            if self.check_first_page(io, &file, start)?.is_ok() {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }
}

pub(super) fn io_error(
    operation: &'static str,
    file: PathBuf,
    offset: u64,
    at: Lsn,
    source: AioError,
) -> WalReadError {
    WalReadError::Io { operation, file, offset, at, source: Box::new(source) }
}

/// What is wrong with a page.
enum Wrong {
    /// It is of another cluster: no crash leaves that.
    Foreign {
        expected: u64,
        found: u64,
    },
    Page(EndReason),
}

/// The header of the page at `at`, if it is that page's.
fn check_page(config: &ReaderConfig, page: &[u8], at: Lsn) -> Result<PageHeader, Wrong> {
    if page.len() == BLOCK && page.iter().take(40).all(|&byte| byte == 0) {
        return Err(Wrong::Page(EndReason::Zeros(at)));
    }
    let invalid = |what: String| Wrong::Page(EndReason::Invalid(format!("{what}, at {at}")));
    let header = PageHeader::decode(page).map_err(|e| invalid(e.to_string()))?;
    let stated = header.long.map_or(0, |long| long.system_id);
    let system_id = config.system_id.unwrap_or(stated);
    if header.long.is_some() && config.segment_size.offset(at) != 0 {
        return Err(invalid("long header in the middle of a WAL segment".to_owned()));
    }
    header.check(at, config.segment_size, system_id).map_err(|e| match e {
        PageHeaderError::OtherSystem { expected, found } => Wrong::Foreign { expected, found },
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

/// A page's timeline is one that this log came by, and no older than that of the pages before.
fn check_timeline(
    history: &TimelineHistory,
    newest: (Lsn, u32),
    at: Lsn,
    timeline: u32,
) -> Result<(), String> {
    // Without its history file nothing is known of a timeline's past.
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
