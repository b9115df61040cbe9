//! Reads the log back, and finds out where it ends.
//!
//! - `source`: pages out of segment files, read ahead in large chunks and checked
//! - `fetch`: segment files brought out of an archive
//! - `history`: history files of timelines
//!
//! Nothing that a disk may hold makes the reader panic: whatever is not a valid record is the end
//! of the log, with the reason. What is an error instead tells nothing about where the log ends: a
//! failed read, and what no crash leaves behind, a segment of the wrong length or of another
//! cluster.
//!
//! | What comes after the last valid record | End at | Incomplete record |
//! |---|---|---|
//! | zeros, a missing or short segment, a page of another place or cluster | the record's end | - |
//! | a header with a bad length, prev link or resource manager | the record's end | - |
//! | a record in one page with a bad checksum | the record's end | - |
//! | a record that goes on in a page that is missing or does not continue it | the record's end | yes, at that page |
//! | a record over several pages with a bad checksum | the record's end | yes, at its last page |
//! | a record that goes on in a page flagged as overwritten | no end: go on there | - |
//!
//! The end may be a damage in the middle: what comes behind it was durable before any later segment
//! was begun, so a later one that was written to gives it away ([`WalReader::check_end`]). Within
//! one segment the two can't be told apart, since writes of one segment reach the disk in any
//! order.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod fetch;
mod history;
mod source;

use std::path::PathBuf;

use forebay_aio::{Aio, Backend, sync::Arc};
use forebay_format::{
    Lsn, SegmentSize,
    timeline::TimelineHistory,
    wal::{
        DecodedRecord, RecordError, RecordHeader, Rmgr, decode_record,
        page_header::FIRST_IS_OVERWRITTEN_CONTINUATION,
        record::{HEADER_SIZE, MAX_SIZE},
        verify_crc,
        xlog::SWITCH,
    },
};

use crate::{
    config::{AbortedRecord, Resume},
    error::WalReadError,
    position::{WAL_BLOCK, align_record},
};

pub use fetch::{Fetch, FetchFailure};
pub use history::read_history;
use source::{Page, Source};

const BLOCK: usize = WAL_BLOCK as usize;

/// What a reader needs to know about a log.
#[derive(Debug, Clone)]
pub struct ReaderConfig {
    /// The `pg_wal` directory.
    pub dir: PathBuf,
    /// Size of a segment file.
    pub segment_size: SegmentSize,
    /// The timeline to read.
    pub timeline: u32,
    /// System identifier that segments must state; `None` accepts any.
    pub system_id: Option<u64>,
    /// Read past the page cache (`io_direct` has `wal`).
    pub direct: bool,
}

/// How far a reader looks ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookAhead {
    /// Bytes of one read, a multiple of a page.
    pub chunk: usize,
    /// Reads in flight, that of the chunk in use included.
    pub depth: usize,
}

impl Default for LookAhead {
    fn default() -> LookAhead {
        LookAhead { chunk: 256 << 10, depth: 8 }
    }
}

/// A record and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalRecord {
    /// Its first byte.
    pub start: Lsn,
    /// The end of its last byte, rounded up to 8: the LSN of the pages it changes.
    pub end: Lsn,
    /// Its bytes, header included; length, links and checksum are verified.
    pub bytes: Vec<u8>,
    /// The incomplete record that this XLOG_OVERWRITE_CONTRECORD stands in for.
    pub overwrites: Option<Lsn>,
}

impl WalRecord {
    /// Takes the record apart.
    pub fn decode(&self) -> Result<DecodedRecord<'_>, RecordError> {
        decode_record(&self.bytes)
    }
}

/// Why a log ends where it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndReason {
    /// The segment that should hold the next record does not exist.
    MissingSegment(PathBuf),
    /// Nothing was written there: zeros.
    Zeros(Lsn),
    /// What is there is no valid record: the message says what is wrong with it.
    Invalid(String),
}

impl std::fmt::Display for EndReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EndReason::MissingSegment(path) => {
                write!(f, "there is no WAL segment \"{}\"", path.display())
            }
            EndReason::Zeros(at) => write!(f, "nothing was written at {at}"),
            EndReason::Invalid(what) => f.write_str(what),
        }
    }
}

/// Where a log ends, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndOfWal {
    /// End of the last valid record; where the reader was started, if there was none.
    pub end: Lsn,
    /// Start of the last valid record that was read; 0 if there was none.
    pub last_record: Lsn,
    /// The last page that was looked at: nothing valid follows there, or begins there.
    pub page: Lsn,
    /// Why nothing valid follows.
    pub reason: EndReason,
    /// The record that the log ends in the middle of.
    pub aborted: Option<AbortedRecord>,
}

impl EndOfWal {
    /// Where the log goes on after recovery has replayed it up to here, from a checkpoint whose
    /// redo pointer is `redo`.
    pub fn resume(&self, redo: Lsn) -> Resume {
        let insert_at = self.aborted.map_or(self.end, |aborted| aborted.missing_page);
        Resume { insert_at, prev: self.last_record, redo, aborted: self.aborted }
    }
}

/// Reads records from a given position on.
#[derive(Debug)]
pub struct WalReader {
    source: Source,
    /// End of the record read last.
    at: Lsn,
    /// Start of the record read last.
    last: Option<Lsn>,
    /// The last page that was looked at.
    page: Lsn,
    end: Option<EndOfWal>,
}

/// What became of an attempt to read a record.
enum Attempt {
    Record(WalRecord),
    /// The record goes on in this page, which says that the rest was lost and other records follow.
    Overwritten {
        start: Lsn,
        page: Lsn,
    },
    Stop(EndReason, Option<AbortedRecord>),
}

impl WalReader {
    /// Will read from `start`: the start of a record, or a page boundary before one.
    pub fn new(aio: Arc<Aio>, config: ReaderConfig, start: Lsn) -> WalReader {
        WalReader {
            source: Source::new(aio, config),
            at: start,
            last: None,
            page: start,
            end: None,
        }
    }

    /// Follows a timeline's past: segments of its ancestors are read where it has none of its own.
    pub fn with_history(mut self, history: TimelineHistory) -> WalReader {
        self.source.set_history(history);
        self
    }

    /// Has segments brought before they are looked for in the directory.
    pub fn with_fetch(mut self, fetch: Arc<dyn Fetch>) -> WalReader {
        self.source.set_fetch(fetch);
        self
    }

    /// Looks ahead as far as this.
    pub fn with_look_ahead(mut self, look_ahead: LookAhead) -> WalReader {
        self.source.set_look_ahead(look_ahead);
        self
    }

    /// The next record, or `None` at the end of the log, of which [`WalReader::end`] then tells
    /// more. Asking again at the end looks again.
    pub fn next(&mut self, io: &mut Backend) -> Result<Option<WalRecord>, WalReadError> {
        let (mut from, mut overwrites) = (self.at, None);
        loop {
            match self.attempt(io, from)? {
                Attempt::Record(mut record) => {
                    record.overwrites = overwrites.map(|(start, _)| start);
                    self.at = record.end;
                    self.last = Some(record.start);
                    self.end = None;
                    return Ok(Some(record));
                }
                Attempt::Overwritten { start, page } => {
                    overwrites = Some((start, page));
                    from = page;
                }
                Attempt::Stop(reason, aborted) => {
                    let skipped = overwrites
                        .map(|(start, missing_page)| AbortedRecord { start, missing_page });
                    self.end = Some(EndOfWal {
                        end: self.at,
                        last_record: self.last.unwrap_or(Lsn(0)),
                        page: self.page,
                        reason,
                        aborted: aborted.or(skipped),
                    });
                    self.source.forget(io);
                    return Ok(None);
                }
            }
        }
    }

    /// Where the log ended, once [`WalReader::next`] has returned `None`.
    pub fn end(&self) -> Option<&EndOfWal> {
        self.end.as_ref()
    }

    /// Once [`WalReader::next`] has returned `None`: fails if the log does not end there, but is
    /// damaged, or lacks a segment. One is complete and durable before the next one is begun, so if
    /// one behind the end was written to, what should come in between was there once.
    pub fn check_end(&mut self, io: &mut Backend) -> Result<(), WalReadError> {
        let Some(end) = &self.end else { return Ok(()) };
        let number = self.config().segment_size.number(end.page);
        match self.source.written_behind(io, number)? {
            None => Ok(()),
            Some(later) => Err(WalReadError::Gap {
                at: end.end,
                file: match &end.reason {
                    EndReason::MissingSegment(file) => file.clone(),
                    _ => self.source.path(number),
                },
                reason: end.reason.to_string(),
                later,
            }),
        }
    }

    /// The timeline on which the byte at `lsn` was written, as far as is known.
    pub fn timeline_at(&self, lsn: Lsn) -> u32 {
        self.source.history().at(lsn)
    }

    /// The end of the record read last: where the next one is looked for.
    pub fn position(&self) -> Lsn {
        self.at
    }

    /// What the reader was made with.
    pub fn config(&self) -> &ReaderConfig {
        self.source.config()
    }

    /// Tries to read the record at `from`.
    fn attempt(&mut self, io: &mut Backend, from: Lsn) -> Result<Attempt, WalReadError> {
        if from.0 > i64::MAX as u64 {
            return Ok(stop(format!("{from} is no position in a log")));
        }
        self.page = from.page_start();
        let Page { header, bytes: page, left_at } = match self.source.page(io, from.page_start())? {
            Ok(found) => found,
            Err(reason) => return Ok(Attempt::Stop(reason, None)),
        };
        let begin = header.size();
        let start = match from.page_offset() {
            0 => from.add(begin as u64),
            offset if offset >= begin && offset % 8 == 0 => from,
            _ => return Ok(stop(format!("no record can start at {from}"))),
        };
        let offset = start.page_offset();
        if let Some(left) = left_at.filter(|&left| left <= start) {
            return Ok(stop(format!(
                "the segment is of a timeline that was left at {left}, before {start}"
            )));
        }
        if header.is_continuation() && offset == begin {
            return Ok(stop(format!(
                "the page at {} begins with the rest of another record",
                from.page_start()
            )));
        }
        let rest = page.get(offset..).unwrap_or(&[]);
        let total_len = match rest.first_chunk::<4>() {
            Some(bytes) => u32::from_le_bytes(*bytes) as usize,
            None => 0,
        };
        if total_len == 0 && rest.iter().take(HEADER_SIZE).all(|&byte| byte == 0) {
            return Ok(Attempt::Stop(EndReason::Zeros(start), None));
        }
        if !(HEADER_SIZE..=MAX_SIZE).contains(&total_len) {
            return Ok(stop(format!("invalid record length at {start}: {total_len}")));
        }
        if rest.len() >= HEADER_SIZE
            && let Err(what) = check_header(rest, start, self.last)
        {
            return Ok(stop(what));
        }
        match rest.get(..total_len) {
            Some(bytes) => {
                let (bytes, end) = (bytes.to_vec(), start.add(total_len as u64));
                Ok(self.finish(start, end, bytes, None))
            }
            None => {
                let begun = rest.to_vec();
                self.reassemble(io, start, total_len, begun)
            }
        }
    }

    /// Collects the parts of a record that goes on in further pages.
    fn reassemble(
        &mut self,
        io: &mut Backend,
        start: Lsn,
        total_len: usize,
        mut bytes: Vec<u8>,
    ) -> Result<Attempt, WalReadError> {
        let mut header_checked = bytes.len() >= HEADER_SIZE;
        let mut missing_page = start.page_start();
        loop {
            missing_page = missing_page.add(WAL_BLOCK);
            let aborted = Some(AbortedRecord { start, missing_page });
            let incomplete = |what: String| Ok(Attempt::Stop(EndReason::Invalid(what), aborted));
            self.page = missing_page;
            let Page { header, bytes: page, .. } = match self.source.page(io, missing_page)? {
                Ok(found) => found,
                Err(reason) => return Ok(Attempt::Stop(reason, aborted)),
            };
            if header.info & FIRST_IS_OVERWRITTEN_CONTINUATION != 0 {
                return Ok(Attempt::Overwritten { start, page: missing_page });
            }
            if !header.is_continuation() {
                return incomplete(format!("there is no contrecord flag at {missing_page}"));
            }
            let left = total_len.saturating_sub(bytes.len());
            if header.rem_len as usize != left || left == 0 {
                return incomplete(format!(
                    "invalid contrecord length {} at {missing_page}",
                    header.rem_len
                ));
            }
            let begin = header.size();
            let take = left.min(BLOCK.saturating_sub(begin));
            bytes.extend_from_slice(
                page.get(begin..).and_then(|rest| rest.get(..take)).unwrap_or(&[]),
            );
            if !header_checked && bytes.len() >= HEADER_SIZE {
                if let Err(what) = check_header(&bytes, start, self.last) {
                    return incomplete(what);
                }
                header_checked = true;
            }
            if bytes.len() >= total_len {
                let end = missing_page.add((begin + take) as u64);
                return Ok(self.finish(start, end, bytes, aborted));
            }
        }
    }

    /// Checks the checksum of a record whose last byte is before `end`.
    fn finish(
        &self,
        start: Lsn,
        end: Lsn,
        bytes: Vec<u8>,
        aborted: Option<AbortedRecord>,
    ) -> Attempt {
        let mut verified = verify_crc(&bytes);
        forebay_aio::planted_bug!(self.source.aio(), ReaderIgnoresChecksums, verified = Ok(()));
        if let Err(e) = verified {
            return Attempt::Stop(EndReason::Invalid(format!("{e}, at {start}")), aborted);
        }
        let mut end = Lsn(align_record(end.0));
        if RecordHeader::decode(&bytes).is_some_and(|h| h.rmgr == Rmgr::XLOG && h.kind() == SWITCH)
        {
            end = Lsn(end.0.next_multiple_of(self.config().segment_size.bytes()));
        }
        Attempt::Record(WalRecord { start, end, bytes, overwrites: None })
    }
}

fn stop(what: String) -> Attempt {
    Attempt::Stop(EndReason::Invalid(what), None)
}

/// Checks the fields of a record's header, but for its length.
fn check_header(bytes: &[u8], start: Lsn, last: Option<Lsn>) -> Result<(), String> {
    let header = RecordHeader::decode(bytes)
        .ok_or_else(|| format!("record header is cut off at {start}"))?;
    if !header.rmgr.is_valid() {
        return Err(format!("invalid resource manager ID {} at {start}", header.rmgr.0));
    }
    let linked = match last {
        Some(last) => header.prev == last,
        // At the first record there is nothing to compare with, but a link always leads back.
        None => header.prev < start,
    };
    if linked {
        Ok(())
    } else {
        Err(format!("record with incorrect prev-link {} at {start}", header.prev))
    }
}
