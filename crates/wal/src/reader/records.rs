//! Assembles records from pages, and decides where the log ends.

use forebay_aio::{Aio, IoBackend, sync::Arc};
use forebay_format::{
    Lsn,
    timeline::TimelineHistory,
    wal::{
        DecodedRecord, RecordError, RecordHeader, Rmgr, decode_record,
        page_header::FIRST_IS_OVERWRITTEN_CONTINUATION,
        record::{HEADER_SIZE, MAX_SIZE},
        verify_crc,
        xlog::SWITCH,
    },
};

use super::{
    config::{LookAhead, ReaderConfig},
    end::{EndOfWal, EndReason},
    fetch::Fetch,
    pages::{Page, PageReader},
};
use crate::{config::AbortedRecord, error::WalReadError, position::WAL_BLOCK};

const BLOCK: usize = WAL_BLOCK as usize;

/// A record and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalRecord {
    /// Its first byte.
    pub start: Lsn,
    /// Behind its last byte, rounded up to a multiple of 8: the LSN of the pages it changes.
    pub end: Lsn,
    /// Its bytes, header included. Length, prev link and checksum are verified.
    pub bytes: Vec<u8>,
    /// The start of the incomplete record that this XLOG_OVERWRITE_CONTRECORD replaces.
    pub overwrites: Option<Lsn>,
}

impl WalRecord {
    /// Decodes the record.
    pub fn decode(&self) -> Result<DecodedRecord<'_>, RecordError> {
        decode_record(&self.bytes)
    }
}

/// Reads the records of a log, in order.
#[derive(Debug)]
pub struct WalReader {
    pages: PageReader,
    /// End of the record read last.
    at: Lsn,
    /// Start of the record read last.
    last: Option<Lsn>,
    /// The last page that was read.
    page: Lsn,
    end: Option<EndOfWal>,
}

/// The outcome of an attempt to read a record.
enum Attempt {
    Record(WalRecord),
    /// The record's next page is flagged: the rest of the record was lost, and others follow there.
    Overwritten {
        start: Lsn,
        page: Lsn,
    },
    /// There is no valid record, but perhaps an incomplete one.
    End(EndReason, Option<AbortedRecord>),
}

impl WalReader {
    /// A reader that starts at `start`: the start of a record, or a page boundary before one.
    pub fn new(aio: Arc<Aio>, config: ReaderConfig, start: Lsn) -> WalReader {
        WalReader {
            pages: PageReader::new(aio, config),
            at: start,
            last: None,
            page: start,
            end: None,
        }
    }

    /// Follows a timeline's history: reads segments of its ancestors where it has none.
    pub fn with_history(mut self, history: TimelineHistory) -> WalReader {
        self.pages.finder.history = history;
        self
    }

    /// Fetches segments before it looks for them in the directory.
    pub fn with_fetch(mut self, fetch: Arc<dyn Fetch>) -> WalReader {
        self.pages.finder.fetch = Some(fetch);
        self
    }

    /// Sets how far to read ahead.
    pub fn with_look_ahead(mut self, look_ahead: LookAhead) -> WalReader {
        self.pages.look_ahead = look_ahead;
        self
    }

    /// The next record, or `None` at the end of the log, which [`WalReader::end`] then describes.
    /// Another call at the end reads again.
    pub fn next(&mut self, io: &mut IoBackend) -> Result<Option<WalRecord>, WalReadError> {
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
                Attempt::End(reason, aborted) => {
                    let skipped = overwrites
                        .map(|(start, missing_page)| AbortedRecord { start, missing_page });
                    self.end = Some(EndOfWal {
                        end: self.at,
                        last_record: self.last.unwrap_or(Lsn(0)),
                        page: self.page,
                        reason,
                        aborted: aborted.or(skipped),
                    });
                    self.pages.forget(io);
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
    /// damaged, or lacks a segment. A segment is complete and durable before the next one is
    /// written. So if a segment behind the end was written to, there were records in between.
    pub fn check_end(&mut self, io: &mut IoBackend) -> Result<(), WalReadError> {
        let Some(end) = &self.end else { return Ok(()) };
        let number = self.config().segment_size.number(end.page);
        match self.pages.written_behind(io, number)? {
            None => Ok(()),
            Some(later) => Err(WalReadError::Gap {
                at: end.end,
                file: match &end.reason {
                    EndReason::MissingSegment(file) => file.clone(),
                    EndReason::Zeros(_) | EndReason::Invalid(_) => self.pages.finder.path(number),
                },
                reason: end.reason.to_string(),
                later,
            }),
        }
    }

    /// The end of the record read last, where the next one should be.
    pub fn position(&self) -> Lsn {
        self.at
    }

    /// The reader's configuration.
    pub fn config(&self) -> &ReaderConfig {
        self.pages.config()
    }

    /// Tries to read the record at `from`.
    fn attempt(&mut self, io: &mut IoBackend, from: Lsn) -> Result<Attempt, WalReadError> {
        if from.0 > i64::MAX as u64 {
            return Ok(invalid(format!("{from} is no position in a log")));
        }
        self.page = from.page_start();
        let Page { header, bytes: page, left_at } = match self.pages.page(io, from.page_start())? {
            Ok(found) => found,
            Err(reason) => return Ok(Attempt::End(reason, None)),
        };
        let begin = header.size();
        let start = match from.page_offset() {
            0 => from.add(begin as u64),
            offset if offset >= begin && offset % 8 == 0 => from,
            _ => return Ok(invalid(format!("no record can start at {from}"))),
        };
        let offset = start.page_offset();
        if let Some(left) = left_at.filter(|&left| left <= start) {
            return Ok(invalid(format!(
                "the segment is of a timeline that was left at {left}, before {start}"
            )));
        }
        if header.is_continuation() && offset == begin {
            return Ok(invalid(format!(
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
            return Ok(Attempt::End(EndReason::Zeros(start), None));
        }
        if !(HEADER_SIZE..=MAX_SIZE).contains(&total_len) {
            return Ok(invalid(format!("invalid record length at {start}: {total_len}")));
        }
        if rest.len() >= HEADER_SIZE
            && let Err(what) = check_header(rest, start, self.last)
        {
            return Ok(invalid(what));
        }
        match rest.get(..total_len) {
            Some(bytes) => {
                let (bytes, end) = (bytes.to_vec(), start.add(total_len as u64));
                Ok(self.finish(start, end, bytes, None))
            }
            None => {
                let first_part = rest.to_vec();
                self.reassemble(io, start, total_len, first_part)
            }
        }
    }

    /// Collects the parts of a record that continues on other pages.
    fn reassemble(
        &mut self,
        io: &mut IoBackend,
        start: Lsn,
        total_len: usize,
        mut bytes: Vec<u8>,
    ) -> Result<Attempt, WalReadError> {
        let mut header_checked = bytes.len() >= HEADER_SIZE;
        let mut missing_page = start.page_start();
        loop {
            missing_page = missing_page.add(WAL_BLOCK);
            let aborted = Some(AbortedRecord { start, missing_page });
            let incomplete = |what: String| Ok(Attempt::End(EndReason::Invalid(what), aborted));
            self.page = missing_page;
            let Page { header, bytes: page, .. } = match self.pages.page(io, missing_page)? {
                Ok(found) => found,
                Err(reason) => return Ok(Attempt::End(reason, aborted)),
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

    /// Verifies the checksum of a record that ends at `end`.
    fn finish(
        &self,
        start: Lsn,
        end: Lsn,
        bytes: Vec<u8>,
        aborted: Option<AbortedRecord>,
    ) -> Attempt {
        let mut verified = verify_crc(&bytes);
        forebay_aio::planted_bug!(self.pages.aio(), ReaderIgnoresChecksums, verified = Ok(()));
        if let Err(e) = verified {
            return Attempt::End(EndReason::Invalid(format!("{e}, at {start}")), aborted);
        }
        let mut end = end.align_record();
        if RecordHeader::decode(&bytes).is_some_and(|h| h.rmgr == Rmgr::XLOG && h.kind() == SWITCH)
        {
            end = Lsn(end.0.next_multiple_of(self.config().segment_size.bytes()));
        }
        Attempt::Record(WalRecord { start, end, bytes, overwrites: None })
    }
}

fn invalid(what: String) -> Attempt {
    Attempt::End(EndReason::Invalid(what), None)
}

/// Checks the fields of a record's header, except for its length.
fn check_header(bytes: &[u8], start: Lsn, last: Option<Lsn>) -> Result<(), String> {
    let header = RecordHeader::decode(bytes)
        .ok_or_else(|| format!("record header is cut off at {start}"))?;
    if !header.rmgr.is_valid() {
        return Err(format!("invalid resource manager ID {} at {start}", header.rmgr.0));
    }
    let linked = match last {
        Some(last) => header.prev == last,
        // The first record has nothing to compare with, but its link must point backwards.
        None => header.prev < start,
    };
    if linked {
        Ok(())
    } else {
        Err(format!("record with incorrect prev-link {} at {start}", header.prev))
    }
}
