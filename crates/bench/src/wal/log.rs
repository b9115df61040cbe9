//! A private log: a directory of segments, opened for each run where the run before ended.
//!
//! So every run finds segments that were written before, like a server whose checkpoints recycle
//! them.

use std::path::Path;
use std::sync::Arc;

use forebay_aio::sync::{Duration, Instant, thread};
use forebay_aio::{Aio, BackendType, IoBackend, IoContext, IoObject, IoOp};
use forebay_format::wal::{Rmgr, xlog};
use forebay_format::{Lsn, SegmentSize};
use forebay_wal::position::WAL_BLOCK;
use forebay_wal::{CheckpointKind, Record, Resume, Wal, WalConfig, WalError};

use super::plan::WalSetup;
use crate::error::BenchError;
use crate::measure::Stopwatch;
use crate::scratch::Scratch;
use crate::stats::Latencies;
use crate::threads::{Gate, Leaving, joined};

const SEGMENT: SegmentSize = SegmentSize::DEFAULT;
const SYSTEM_ID: u64 = 0x0f0e_0b0a_0123_4567;
/// How often a run looks for full segments to recycle. Each look interrupts a committer.
const LOOK_AFTER: Duration = Duration::from_millis(10);

/// What a run gave.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
    /// Records that were inserted, and their bytes in the log.
    pub(super) records: u64,
    pub(super) record_bytes: u64,
    pub(super) writes: u64,
    pub(super) write_bytes: u64,
    pub(super) syncs: u64,
    /// The sum of the times of all writes and syncs.
    pub(super) io_seconds: f64,
    /// How often an inserter had to make room in the buffers.
    pub(super) buffers_full: u64,
    /// How often an inserter waited for a new segment.
    pub(super) segment_waits: u64,
    pub(super) latencies: Latencies,
    /// What the device gave in the same round: writes a second, or bytes.
    pub(super) device: Option<f64>,
}

/// The log between two runs.
pub(super) struct Log {
    scratch: Scratch,
    size: u64,
    at: Resume,
}

/// The log in a run.
pub(super) struct Run<'a> {
    pub(super) wal: &'a Wal,
    pub(super) aio: &'a Arc<Aio>,
    /// Bytes of segments that exist before a run.
    pub(super) size: u64,
}

impl Log {
    /// Makes a log in a new directory in `parent`.
    pub(super) fn make(parent: &Path, size: u64) -> Result<Log, BenchError> {
        let insert_at = Lsn(SEGMENT.bytes());
        let at = Resume { insert_at, prev: Lsn(0), redo: Lsn(0), aborted: None };
        Ok(Log { scratch: Scratch::make(parent)?, size, at })
    }

    /// Its directory.
    pub(super) fn dir(&self) -> &Path {
        self.scratch.dir()
    }

    /// Opens the log with `buffers` bytes of buffers, makes segments ahead, and runs `body`.
    pub(super) fn run(
        &mut self,
        aio: &Arc<Aio>,
        setup: WalSetup,
        buffers: u64,
        body: impl FnOnce(&Run<'_>) -> Result<Sample, BenchError>,
    ) -> Result<Sample, BenchError> {
        let mut io = aio.backend(BackendType::Standalone)?;
        let config = WalConfig {
            sync_method: setup.sync,
            direct: setup.direct,
            init_direct: setup.direct,
            buffers: (buffers / WAL_BLOCK) as usize,
            gather: setup.gather,
            writes_in_flight: setup.in_flight as usize,
            ..WalConfig::new(self.dir().to_owned(), SEGMENT, SYSTEM_ID)
        };
        let wal = Wal::start(Arc::clone(aio), &mut io, config, self.at)?;
        let run = Run { wal: &wal, aio, size: self.size };
        run.make_room(&mut io)?;
        let sample = body(&run)?;
        let end = wal.flush_all(&mut io)?;
        self.at = Resume {
            insert_at: end,
            prev: wal.last_record_lsn(),
            redo: wal.redo_lsn(),
            aborted: None,
        };
        Ok(sample)
    }
}

/// A record that recovery would ignore.
pub(super) fn record(main: &[u8]) -> Record<'_> {
    Record { rmgr: Rmgr::XLOG, info: xlog::NOOP, xid: 0, main, blocks: &[] }
}

/// The data of a record that takes `record_size` bytes in the log.
pub(super) fn payload(record_size: u32) -> Vec<u8> {
    // Before the data stand the record's header, of 24 bytes, and the data's length: 2 bytes up to
    // a length of 255, else 5.
    let short = record_size.saturating_sub(24 + 2);
    let len = if short < 256 { short } else { record_size - (24 + 5) };
    (0..len).map(|n| (n * 31 % 251) as u8).collect()
}

impl Run<'_> {
    /// Recycles full segments, and makes those that are missing.
    pub(super) fn make_room(&self, io: &mut IoBackend) -> Result<(), WalError> {
        self.wal.flush_all(io)?;
        self.recycle(io)?;
        // Behind the room that is asked for, the log keeps one more segment.
        self.wal.ensure_room(io, self.size - 2 * SEGMENT.bytes())
    }

    fn recycle(&self, io: &mut IoBackend) -> Result<(), WalError> {
        let redo = self.wal.begin_checkpoint(io, CheckpointKind::Online { wal_level: 1 })?;
        self.wal.remove_old_segments(redo, self.size)?;
        Ok(())
    }

    /// Runs `body` in `count` threads that begin together, and counts what they do.
    pub(super) fn threads(
        &self,
        count: u32,
        body: impl Fn(&mut IoBackend, Instant) -> Result<Latencies, WalError> + Sync,
    ) -> Result<Sample, BenchError> {
        let backend = |_| self.aio.backend(BackendType::Client);
        let mut backends: Vec<IoBackend> = (0..count).map(backend).collect::<Result<_, _>>()?;
        let mut own = self.aio.backend(BackendType::Checkpointer)?;
        let gate = Gate::default();
        let before = self.counts();
        let mut sample = thread::scope(|scope| -> Result<Sample, BenchError> {
            let start = |io| {
                let (gate, body) = (&gate, &body);
                scope.spawn(move || {
                    let _leaving = Leaving(gate);
                    body(io, gate.enter())
                })
            };
            let threads: Vec<_> = backends.iter_mut().map(start).collect();
            let watch = Stopwatch::start();
            let begun = gate.open();
            // An error ends the bench, but not before all threads have ended.
            let recycled = self.recycle_behind(&mut own, &gate, count);
            let mut latencies = Latencies::default();
            for thread in threads {
                latencies.merge(&joined(thread.join())?);
            }
            recycled?;
            let seconds = gate.ended().saturating_duration_since(begun).as_secs_f64();
            let cpu_seconds = watch.cpu_seconds();
            Ok(Sample { seconds, cpu_seconds, latencies, ..Sample::default() })
        })?;
        let after = self.counts();
        for row in self.aio.backend_stats() {
            if row.backend_type == BackendType::Client {
                sample.io_seconds += row.latency_sum as f64 / 1e9;
            }
        }
        Ok(Sample {
            records: after.records - before.records,
            record_bytes: after.record_bytes - before.record_bytes,
            writes: after.writes - before.writes,
            write_bytes: after.write_bytes - before.write_bytes,
            syncs: after.syncs - before.syncs,
            buffers_full: after.buffers_full - before.buffers_full,
            segment_waits: after.segment_waits - before.segment_waits,
            ..sample
        })
    }

    /// Prepares segments and recycles full ones, as a server's WAL writer and checkpointer do,
    /// until `count` threads have left.
    fn recycle_behind(&self, io: &mut IoBackend, gate: &Gate, count: u32) -> Result<(), WalError> {
        let mut result = Ok(());
        while !gate.left(count, LOOK_AFTER) {
            if result.is_ok() {
                result = self.keep_up(io);
            }
        }
        result
    }

    fn keep_up(&self, io: &mut IoBackend) -> Result<(), WalError> {
        self.wal.prepare_segments(io)?;
        if self.wal.bytes_since_redo() > self.size / 2 {
            self.recycle(io)?;
        }
        Ok(())
    }

    /// Everything counted so far.
    fn counts(&self) -> Sample {
        let stats = self.wal.stats();
        let mut sum = Sample {
            records: stats.records,
            record_bytes: stats.bytes,
            buffers_full: stats.buffers_full,
            segment_waits: self.wal.segment_stats().waits,
            ..Sample::default()
        };
        let log = |object, context| object == IoObject::Wal && context == IoContext::Normal;
        for row in self.aio.stats().totals().iter().filter(|row| log(row.object, row.context)) {
            let (writes, syncs) = (row.get(IoOp::Write), row.get(IoOp::Fsync));
            sum.writes += writes.count;
            sum.write_bytes += writes.bytes;
            sum.syncs += syncs.count;
        }
        sum
    }
}

#[cfg(test)]
pub(super) use tests::{in_a_log, setup};

#[cfg(test)]
mod tests {
    use super::super::plan::WalBench;
    use super::*;
    use forebay_aio::{AioConfig, MethodKind, PosixNamespace};
    use forebay_wal::SyncMethod;

    pub(in super::super) fn setup(sync: SyncMethod) -> WalSetup {
        WalSetup { method: MethodKind::Sync, sync, direct: false, gather: true, in_flight: 4 }
    }

    pub(in super::super) fn in_a_log(
        sync: SyncMethod,
        buffers: u64,
        body: impl FnOnce(&Run<'_>) -> Result<Sample, BenchError>,
    ) -> Sample {
        let dir = tempfile::tempdir().expect("a directory");
        let aio = Aio::new(Arc::new(PosixNamespace::new()), MethodKind::Sync, AioConfig::default());
        let aio = aio.expect("a method");
        let mut log = Log::make(dir.path(), 64 << 20).expect("a log");
        let sample = log.run(&aio, setup(sync), buffers, body).expect("a run");
        let again = log.run(&aio, setup(sync), buffers, |run| Ok(run.counts()));
        let again = again.expect("the next run");
        assert!(again.records > 0);
        drop(log);
        assert_eq!(dir.path().read_dir().expect("listed").count(), 0, "it is removed");
        sample
    }

    #[test]
    fn records_have_their_size() {
        in_a_log(SyncMethod::Fdatasync, 1 << 20, |run| {
            let mut io = run.aio.backend(BackendType::Client)?;
            for size in [32, 64, 128, 280, 288, 1024, WalBench::WHOLE_BLOCK, 100_000] {
                let before = run.wal.stats().bytes;
                run.wal.insert(&mut io, &record(&payload(size)))?;
                let bytes = run.wal.stats().bytes - before;
                assert_eq!(bytes.next_multiple_of(8), u64::from(size));
            }
            Ok(Sample::default())
        });
    }

    #[test]
    fn segments_are_recycled_behind_a_run_that_is_longer_than_the_log() {
        let sample = in_a_log(SyncMethod::OpenDatasync, 1 << 20, |run| {
            let data = payload(WalBench::WHOLE_BLOCK);
            run.threads(2, |io, _| {
                // Twice the size between two threads: 128 MB.
                for n in 0..8192 {
                    let inserted = run.wal.insert(io, &record(&data))?;
                    if n % 512 == 511 {
                        run.wal.flush(io, inserted.end)?;
                    }
                }
                Ok(Latencies::default())
            })
        });
        assert!(sample.records >= 16_384 && sample.records < 16_400, "{}", sample.records);
        assert!(sample.write_bytes >= sample.record_bytes, "{sample:?}");
        assert!(sample.writes > 0 && sample.syncs == 0 && sample.io_seconds > 0.0, "{sample:?}");
        assert!(sample.seconds > 0.0 && sample.buffers_full > 0, "{sample:?}");
    }
}
