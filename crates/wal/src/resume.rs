//! Starting the log where recovery found its end.
//!
//! What a crash leaves behind that end may look alive: pages of the same segment, with the right
//! addresses and whole records in them, behind a page that never reached the disk. Should a new
//! record ever end exactly where the lost one did, such a page would be taken for its continuation.
//! So everything behind the end that claims to be where it is gets cleared, durably, before
//! anything is inserted:
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
//! A record that the log ends in the middle of is another matter when its beginning may already be
//! archived: the segment must not change then. PostgreSQL's way is followed: the log goes on at the
//! page where the rest was missing; that page's header is flagged, and its first record,
//! XLOG_OVERWRITE_CONTRECORD, names the lost one, so that a reader that comes from its beginning
//! knows to go on there.

use forebay_aio::sync::{SystemTime, UNIX_EPOCH};

use forebay_aio::{
    Aio, AioError, AlignedBuf, Backend, File,
    sync::{
        Arc,
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
    flight::{Flight, FlightRules, Progress},
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
/// Most bytes in one write: beyond that a disk gains nothing, and who waits for buffers waits
/// longer.
const MAX_PIECE: u64 = 1 << 20;
/// Bytes looked through at once.
const CHUNK: usize = 1 << 20;

/// Microseconds from 1970 to 2000, where PostgreSQL's clock begins.
const EPOCH_DIFFERENCE: i64 = 946_684_800_000_000;

/// See [`Wal::start`].
pub(crate) fn start(
    aio: Arc<Aio>,
    io: &mut Backend,
    config: WalConfig,
    resume: Resume,
) -> Result<Wal, WalError> {
    let wrong = |reason: &str| WalError::Resume { at: resume.insert_at, reason: reason.to_owned() };
    let positions = Positions::new(config.segment_size.bytes());
    let pos =
        positions.byte_pos(resume.insert_at).ok_or_else(|| wrong("it lies in a page header"))?;
    let at = positions.end_lsn(pos);
    if at.0 == 0 || !at.0.is_multiple_of(8) {
        return Err(wrong("no record can start there"));
    }
    if resume.aborted.is_some_and(|aborted| aborted.missing_page != at || at.page_offset() != 0) {
        return Err(wrong("it is not the page on which the incomplete record was to go on"));
    }
    let first = config.segment_size.number(at);
    let poison = Arc::new(Poison::default());
    let segments = Segments::new(Arc::clone(&aio), &config, first, Arc::clone(&poison))?;
    let existed = segments.open_existing(first)?.is_some();
    if !existed && at.page_offset() != 0 {
        return Err(wrong("its segment does not exist"));
    }
    segments.take_first(io)?;
    let mut tidier = Tidier { io, segments: &segments, config: &config };
    let mut head = Vec::new();
    if existed {
        head = tidier.load_block(at)?;
        tidier.clear_behind(at)?;
    }
    let progress = Progress::new(at);
    let ring = Ring::new(&aio, config.buffers, Arc::clone(&progress), &head)?;
    let wal = Wal {
        reservations: Reservations::new(pos),
        slots: Slots::new(),
        first_prev: resume.prev,
        overwrites_at: AtomicU64::new(resume.aborted.map_or(0, |aborted| aborted.missing_page.0)),
        flight: Flight::new(flight_rules(&config), Arc::clone(&progress)),
        progress,
        unawaited: AtomicU64::new(0),
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

fn flight_rules(config: &WalConfig) -> FlightRules {
    let durable_writes = config.sync_method.opens_synchronous();
    FlightRules {
        segment_size: config.segment_size,
        durable_writes,
        cached_writes: !durable_writes && !config.direct,
        // Of two writes side by side through the kernel's cache, either may be told that writing
        // back failed (see `flight`).
        in_flight: if durable_writes && !config.direct {
            1
        } else {
            config.writes_in_flight.max(1)
        },
        piece: MAX_PIECE,
        shared: config.gather || !durable_writes,
    }
}

/// Tells later readers to skip the incomplete record.
fn overwrite(wal: &Wal, io: &mut Backend, aborted: AbortedRecord) -> Result<(), WalError> {
    let now =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64);
    let mut main = [0; 16];
    main[..8].copy_from_slice(&aborted.start.0.to_le_bytes());
    main[8..].copy_from_slice(&(now - EPOCH_DIFFERENCE).to_le_bytes());
    let record =
        Record { rmgr: Rmgr::XLOG, info: OVERWRITE_CONTRECORD, xid: 0, main: &main, blocks: &[] };
    let inserted = wal.insert(io, &record)?;
    wal.overwrites_at.store(0, Ordering::Release);
    wal.flush(io, inserted.end)
}

/// Brings what is on disk around the end of the log into shape.
struct Tidier<'a> {
    io: &'a mut Backend,
    segments: &'a Segments,
    config: &'a WalConfig,
}

impl Tidier<'_> {
    /// What is before `at` in its block; zeros what follows in it on disk.
    fn load_block(&mut self, at: Lsn) -> Result<Vec<u8>, WalError> {
        let keep = at.page_offset();
        if keep == 0 {
            return Ok(Vec::new());
        }
        let page = at.page_start();
        let file = self.file(self.segments.number(at))?;
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

    /// Clears the pages behind `at` that could be taken for a continuation of the log.
    fn clear_behind(&mut self, at: Lsn) -> Result<(), WalError> {
        let first = self.segments.number(at);
        let behind = Lsn(at.0.next_multiple_of(WAL_BLOCK));
        if self.segments.number(behind) == first {
            self.clear(&self.file(first)?, behind)?;
        }
        // A segment is complete and durable before the next one is written (see `flush`), so later
        // ones are suspect only if the log was damaged. Their first pages tell.
        for number in self.segments.existing_from(first + 1)? {
            let Some(file) = self.segments.open_existing(number)? else { continue };
            let start = self.config.segment_size.start(number);
            let mut block = AlignedBuf::zeroed(BLOCK)?;
            self.read(&file, 0, &mut block)?;
            if claims_to_be(&block, start) {
                self.clear(&file, start)?;
            }
        }
        Ok(())
    }

    /// Clears the pages of `file` from `from` on that claim to be where they are.
    fn clear(&mut self, file: &File, from: Lsn) -> Result<(), WalError> {
        let size = self.config.segment_size;
        let start = size.start(size.number(from));
        let mut offset = size.offset(from);
        let mut changed = false;
        while offset < size.bytes() {
            let len = usize::try_from(size.bytes() - offset).unwrap_or(CHUNK).min(CHUNK);
            let mut chunk = AlignedBuf::zeroed(len)?;
            self.read(file, offset, &mut chunk)?;
            let mut alive = false;
            for (n, page) in chunk.chunks_exact_mut(BLOCK).enumerate() {
                if claims_to_be(page, start.add(offset + (n * BLOCK) as u64)) {
                    page.fill(0);
                    alive = true;
                }
            }
            if alive {
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

/// True if `page` says that it is the page at `at`.
fn claims_to_be(page: &[u8], at: Lsn) -> bool {
    PageHeader::decode(page).is_ok_and(|header| header.page_addr == at)
}
