//! Starts the log where recovery found its end.
//!
//! A crash can leave valid pages behind that end: pages of the same segment with the right
//! addresses and whole records, behind a page that never reached the disk. If a new record ended
//! exactly where the lost one did, a reader would continue with such a page. So before anything is
//! inserted, all pages behind the end that state their own address are durably cleared:
//!
//! ```text
//!            insert_at
//!   +----------+---------------+-----------------+-------------+
//!   | records  | zeros         | own address:    | other or no |
//!   | (kept)   | (rewritten)   | cleared         | address     |
//!   +----------+---------------+-----------------+-------------+
//!   |<------- one block ------>|
//! ```
//!
//! If the log ends with an incomplete record, the segment with its first part may be archived, and
//! must not change. As in PostgreSQL, the log then resumes at the page on which the record should
//! have continued. That page's header is flagged, and its first record, XLOG_OVERWRITE_CONTRECORD,
//! names the incomplete record. A reader that finds the flag drops the incomplete record.

use forebay_aio::{
    Aio, AioError, AlignedBuf, File, IoBackend,
    sync::{
        Arc, SystemTime, UNIX_EPOCH,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
};
use forebay_format::{
    Lsn,
    wal::{PageHeader, Rmgr, xlog::OVERWRITE_CONTRECORD},
};

use crate::{
    config::{AbortedRecord, Resume, WalConfig},
    error::WalError,
    pipeline::{FlushPipeline, PipelineRules, Progress},
    poison::Poison,
    position::{Positions, WAL_BLOCK},
    record::Record,
    reserve::Reservations,
    ring::Ring,
    segments::Segments,
    slots::Slots,
    stats::WalCounters,
    wal::Wal,
};

const BLOCK: usize = WAL_BLOCK as usize;
/// Most bytes of a write. Longer writes gain nothing, and make inserters wait longer for buffers.
const MAX_WRITE: u64 = 1 << 20;
/// Bytes read at once.
const CHUNK: usize = 1 << 20;
/// Microseconds from 1970-01-01 to 2000-01-01, from which PostgreSQL counts.
const POSTGRES_EPOCH: i64 = 946_684_800_000_000;

impl Wal {
    /// Starts the log at `resume`: reads the partial block there, clears what a crash left behind
    /// it, and after an incomplete record, inserts and flushes XLOG_OVERWRITE_CONTRECORD. Makes the
    /// segment if it does not exist.
    pub fn start(
        aio: Arc<Aio>,
        io: &mut IoBackend,
        config: WalConfig,
        resume: Resume,
    ) -> Result<Wal, WalError> {
        let positions = Positions::new(config.segment_size.bytes());
        let (pos, at) = start_position(positions, &resume)?;
        let first = config.segment_size.number(at);
        let poison = Arc::new(Poison::default());
        let segments = Segments::new(Arc::clone(&aio), &config, first, Arc::clone(&poison))?;
        let existed = segments.open_existing(first)?.is_some();
        if !existed && at.page_offset() != 0 {
            return Err(invalid(&resume, "its segment does not exist"));
        }
        segments.take_first(io)?;
        let mut cleaner = TailCleaner { io, segments: &segments, config: &config };
        let mut head = Vec::new();
        if existed {
            head = cleaner.load_block(at)?;
            cleaner.clear_behind(at)?;
        }
        let progress = Progress::new(at);
        let ring = Ring::new(&aio, config.buffers, Arc::clone(&progress), &head)?;
        let missing_page = resume.aborted.map_or(0, |aborted| aborted.missing_page.0);
        let wal = Wal {
            reservations: Reservations::new(pos),
            slots: Slots::new(),
            first_prev: resume.prev,
            overwrites_at: AtomicU64::new(missing_page),
            pipeline: FlushPipeline::new(pipeline_rules(&config), Arc::clone(&progress)),
            progress,
            async_commits_end: AtomicU64::new(0),
            redo: AtomicU64::new(resume.redo.0),
            full_page_writes: AtomicBool::new(config.full_page_writes),
            compression: AtomicU8::new(0),
            poison,
            counters: WalCounters::default(),
            ring,
            segments,
            positions,
            config,
        };
        if let Some(aborted) = resume.aborted {
            overwrite(&wal, io, aborted)?;
        }
        Ok(wal)
    }
}

/// The byte position at which the log resumes, and the LSN at which its last record ends.
fn start_position(positions: Positions, resume: &Resume) -> Result<(u64, Lsn), WalError> {
    let Some(pos) = positions.byte_pos(resume.insert_at) else {
        return Err(invalid(resume, "it lies in a page header"));
    };
    let at = positions.end_lsn(pos);
    if at.0 == 0 || !at.0.is_multiple_of(8) {
        return Err(invalid(resume, "no record can start there"));
    }
    if resume.aborted.is_some_and(|aborted| aborted.missing_page != at || at.page_offset() != 0) {
        let reason = "it is not the page on which the incomplete record was to go on";
        return Err(invalid(resume, reason));
    }
    Ok((pos, at))
}

fn invalid(resume: &Resume, reason: &str) -> WalError {
    WalError::Resume { at: resume.insert_at, reason: reason.to_owned() }
}

fn pipeline_rules(config: &WalConfig) -> PipelineRules {
    let durable_writes = config.sync_method.opens_synchronous();
    // Of two concurrent writes through the kernel's cache, either may get the error of a failed
    // write-back (see `pipeline`).
    let one_at_a_time = durable_writes && !config.direct;
    PipelineRules {
        segment_size: config.segment_size,
        durable_writes,
        cached_writes: !durable_writes && !config.direct,
        max_in_flight: if one_at_a_time { 1 } else { config.writes_in_flight.max(1) },
        max_write: MAX_WRITE,
        shared: config.gather || !durable_writes,
    }
}

/// Inserts the record that tells later readers to skip the incomplete record.
fn overwrite(wal: &Wal, io: &mut IoBackend, aborted: AbortedRecord) -> Result<(), WalError> {
    let now =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64);
    let mut main = [0; 16];
    main[..8].copy_from_slice(&aborted.start.0.to_le_bytes());
    main[8..].copy_from_slice(&(now - POSTGRES_EPOCH).to_le_bytes());
    let record =
        Record { rmgr: Rmgr::XLOG, info: OVERWRITE_CONTRECORD, xid: 0, main: &main, blocks: &[] };
    let inserted = wal.insert(io, &record)?;
    wal.overwrites_at.store(0, Ordering::Release);
    wal.flush(io, inserted.end)
}

/// Clears what a crash left on disk behind the end of the log.
struct TailCleaner<'a> {
    io: &'a mut IoBackend,
    segments: &'a Segments,
    config: &'a WalConfig,
}

impl TailCleaner<'_> {
    /// Returns the bytes before `at` in its block, and zeros the rest of that block on disk.
    fn load_block(&mut self, at: Lsn) -> Result<Vec<u8>, WalError> {
        let keep = at.page_offset();
        if keep == 0 {
            return Ok(Vec::new());
        }
        let page = at.page_start();
        let file = self.file(self.config.segment_size.number(at))?;
        let offset = self.config.segment_size.offset(page);
        let mut block = AlignedBuf::zeroed(BLOCK)?;
        self.read(&file, offset, &mut block)?;
        PageHeader::decode(&block)
            .and_then(|header| header.check(page, self.config.segment_size, self.config.system_id))
            .map_err(|e| WalError::Resume { at, reason: e.to_string() })?;
        let head = block[..keep].to_vec();
        if block[keep..].iter().any(|&byte| byte != 0) {
            block[keep..].fill(0);
            self.write(&file, offset, &block)?;
            self.sync(&file)?;
        }
        Ok(head)
    }

    /// Clears the pages behind `at` that a reader could take for a continuation of the log.
    fn clear_behind(&mut self, at: Lsn) -> Result<(), WalError> {
        let first = self.config.segment_size.number(at);
        let behind = Lsn(at.0.next_multiple_of(WAL_BLOCK));
        if self.config.segment_size.number(behind) == first {
            self.clear(&self.file(first)?, behind)?;
        }
        // A segment is complete and durable before the next one is written (see `pipeline`), so
        // later segments have such pages only if the log was damaged. Their first pages tell.
        for number in self.segments.existing_from(first + 1)? {
            let Some(file) = self.segments.open_existing(number)? else { continue };
            let start = self.config.segment_size.start(number);
            let mut block = AlignedBuf::zeroed(BLOCK)?;
            self.read(&file, 0, &mut block)?;
            if states_address(&block, start) {
                self.clear(&file, start)?;
            }
        }
        Ok(())
    }

    /// Clears the pages of `file` at and behind `from` that state their own address.
    fn clear(&mut self, file: &File, from: Lsn) -> Result<(), WalError> {
        let size = self.config.segment_size;
        let start = size.start(size.number(from));
        let mut offset = size.offset(from);
        let mut changed = false;
        while offset < size.bytes() {
            let len = (size.bytes() - offset).min(CHUNK as u64) as usize;
            let mut chunk = AlignedBuf::zeroed(len)?;
            self.read(file, offset, &mut chunk)?;
            let mut found = false;
            for (n, page) in chunk.chunks_exact_mut(BLOCK).enumerate() {
                if states_address(page, start.add(offset + (n * BLOCK) as u64)) {
                    page.fill(0);
                    found = true;
                }
            }
            if found {
                self.write(file, offset, &chunk)?;
                changed = true;
            }
            offset += len as u64;
        }
        if changed { self.sync(file) } else { Ok(()) }
    }

    fn file(&self, number: u64) -> Result<File, WalError> {
        let file = self.segments.file(number);
        file.ok_or_else(|| WalError::Config(format!("WAL segment {number} was not opened")))
    }

    fn read(&mut self, file: &File, offset: u64, buf: &mut AlignedBuf) -> Result<(), WalError> {
        self.io.read_exact_at(file, offset, buf).map_err(|e| failed("read", file, e))
    }

    fn write(&mut self, file: &File, offset: u64, buf: &AlignedBuf) -> Result<(), WalError> {
        self.io.write_all_at(file, offset, buf).map_err(|e| failed("write", file, e))
    }

    fn sync(&mut self, file: &File) -> Result<(), WalError> {
        self.io.fsync(file).map_err(|e| failed("sync", file, e))
    }
}

fn failed(operation: &'static str, file: &File, source: AioError) -> WalError {
    WalError::segment(operation, file.path(), source)
}

/// Whether the header of `page` states the address `at`.
fn states_address(page: &[u8], at: Lsn) -> bool {
    PageHeader::decode(page).is_ok_and(|header| header.page_addr == at)
}
