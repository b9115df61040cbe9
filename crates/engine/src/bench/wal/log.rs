//! A private log: a directory of segments that goes with its bench, opened for each run where the
//! run before ended.
//!
//! So every run finds segments that were written before, as a server does whose checkpoints recycle
//! them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::sync::{Condvar, Duration, Instant, Mutex, thread};
use forebay_aio::{
    Aio, AioError, Backend, BackendType, Errno, IoContext, IoObject, IoOp, Namespace,
    PosixNamespace,
};
use forebay_format::wal::{Rmgr, xlog};
use forebay_format::{Lsn, SegmentSize};
use forebay_wal::position::WAL_BLOCK;
use forebay_wal::{CheckpointKind, Record, Resume, Wal, WalConfig, WalError};

use super::super::measure::process_seconds;
use super::{BenchError, Latencies, Sample, WalWay};

const SEGMENT: SegmentSize = SegmentSize::DEFAULT;
const SYSTEM_ID: u64 = 0x0f0e_0b0a_0123_4567;
/// How often it is looked whether full segments are to be recycled: each look interrupts somebody
/// who commits.
const LOOK_AFTER: Duration = Duration::from_millis(10);

/// The log between two runs.
pub(super) struct Log {
    dir: PathBuf,
    size: u64,
    at: Resume,
}

/// The log in a run.
pub(super) struct Run<'a> {
    pub(super) wal: &'a Wal,
    pub(super) aio: &'a Arc<Aio>,
    /// Bytes of segments that are there before a run.
    pub(super) size: u64,
}

impl Log {
    /// In a new directory in `parent`.
    pub(super) fn make(parent: &Path, size: u64) -> Result<Log, BenchError> {
        let names = PosixNamespace::new();
        let mut n = 0_u32;
        loop {
            let dir = parent.join(format!("forebay-bench-{}-{n}", std::process::id()));
            match names.mkdir(&dir) {
                Ok(()) => {
                    let at = Resume {
                        insert_at: Lsn(SEGMENT.bytes()),
                        prev: Lsn(0),
                        redo: Lsn(0),
                        aborted: None,
                    };
                    return Ok(Log { dir, size, at });
                }
                Err(error) if error.errno() == Some(Errno::EXIST) && n < 1000 => n += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Its directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Opens the log this way, with segments ahead and so many bytes of buffers, and runs `body`.
    pub(super) fn run(
        &mut self,
        aio: &Arc<Aio>,
        way: WalWay,
        buffers: u64,
        body: impl FnOnce(&Run<'_>) -> Result<Sample, BenchError>,
    ) -> Result<Sample, BenchError> {
        let mut io = aio.backend(BackendType::Standalone)?;
        let config = WalConfig {
            sync_method: way.sync,
            direct: way.direct,
            init_direct: way.direct,
            buffers: (buffers / WAL_BLOCK) as usize,
            gather: way.gather,
            writes_in_flight: way.in_flight as usize,
            ..WalConfig::new(self.dir.clone(), SEGMENT, SYSTEM_ID)
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

    fn remove(&self) -> Result<(), AioError> {
        let names = PosixNamespace::new();
        for entry in names.list(&self.dir)? {
            names.unlink(&self.dir.join(entry.name))?;
        }
        names.rmdir(&self.dir)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::warn!("could not remove directory \"{}\": {error}", self.dir.display());
        }
    }
}

/// A record of so many bytes in the log, which nobody looks at.
pub(super) fn record(main: &[u8]) -> Record<'_> {
    Record { rmgr: Rmgr::XLOG, info: xlog::NOOP, xid: 0, main, blocks: &[] }
}

/// Its data.
pub(super) fn payload(record_size: u32) -> Vec<u8> {
    // A record's header has 24 bytes, and before the data stands its length: 2 bytes up to 255,
    // else 5.
    let short = record_size.saturating_sub(24 + 2);
    let len = if short < 256 { short } else { record_size - (24 + 5) };
    (0..len).map(|n| (n * 31 % 251) as u8).collect()
}

impl Run<'_> {
    /// Gives full segments future names, and makes those that are missing.
    pub(super) fn make_room(&self, io: &mut Backend) -> Result<(), WalError> {
        self.wal.flush_all(io)?;
        self.recycle(io)?;
        // What is asked for has a segment more behind it, for others.
        self.wal.ensure_room(io, self.size - 2 * SEGMENT.bytes())
    }

    fn recycle(&self, io: &mut Backend) -> Result<(), WalError> {
        let redo = self.wal.begin_checkpoint(io, CheckpointKind::Online { wal_level: 1 })?;
        self.wal.remove_old_segments(redo, self.size)?;
        Ok(())
    }

    /// Runs `body` in so many threads that begin at one moment, and counts what they do.
    pub(super) fn threads(
        &self,
        count: u32,
        body: impl Fn(u32, &mut Backend, Instant) -> Result<Latencies, WalError> + Sync,
    ) -> Result<Sample, BenchError> {
        let backend = |_| self.aio.backend(BackendType::Client);
        let mut backends: Vec<Backend> = (0..count).map(backend).collect::<Result<_, _>>()?;
        let mut own = self.aio.backend(BackendType::Checkpointer)?;
        let gate = Gate::default();
        let before = self.counts();
        let mut sample = thread::scope(|scope| -> Result<Sample, BenchError> {
            let threads: Vec<_> = (0..count)
                .zip(&mut backends)
                .map(|(n, io)| {
                    let (gate, body) = (&gate, &body);
                    scope.spawn(move || {
                        let _leaving = Leaving(gate);
                        body(n, io, gate.enter())
                    })
                })
                .collect();
            let cpu = process_seconds();
            let begun = gate.open();
            // An error of ours ends the bench, but not before the threads are back.
            let recycled = self.recycle_behind(&mut own, &gate, count);
            let mut latencies = Latencies::default();
            for thread in threads {
                let done = thread.join();
                let done =
                    done.map_err(|_| BenchError::Options("a thread of the bench panicked".into()))?;
                latencies.merge(&done?);
            }
            recycled?;
            let seconds = gate.ended().saturating_duration_since(begun).as_secs_f64();
            Ok(Sample {
                seconds,
                cpu_seconds: process_seconds() - cpu,
                latencies,
                ..Sample::default()
            })
        })?;
        let after = self.counts();
        for row in
            self.aio.backend_stats().iter().filter(|row| row.backend_type == BackendType::Client)
        {
            sample.io_seconds += row.latency_sum as f64 / 1e9;
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

    /// What a server's WAL writer and checkpointer do for the segments.
    fn keep_up(&self, io: &mut Backend) -> Result<(), WalError> {
        self.wal.prepare_segments(io)?;
        if self.wal.bytes_since_redo() > self.size / 2 {
            self.recycle(io)?;
        }
        Ok(())
    }

    /// Prepares segments, and recycles full ones, until so many threads have left.
    fn recycle_behind(&self, io: &mut Backend, gate: &Gate, count: u32) -> Result<(), WalError> {
        let mut result = Ok(());
        while !gate.left(count, LOOK_AFTER) {
            if result.is_ok() {
                result = self.keep_up(io);
            }
        }
        result
    }

    /// What was counted so far.
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

/// Lets threads begin together, and tells when they are done.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    open: Option<Instant>,
    left: u32,
    ended: Option<Instant>,
}

impl Gate {
    /// Waits until the gate is open; since when it is.
    fn enter(&self) -> Instant {
        let mut state = self.state.lock();
        loop {
            if let Some(begun) = state.open {
                return begun;
            }
            self.changed.wait(&mut state);
        }
    }

    fn open(&self) -> Instant {
        let now = Instant::now();
        self.state.lock().open = Some(now);
        self.changed.notify_all();
        now
    }

    /// Whether so many have left, now or within this time.
    fn left(&self, count: u32, within: Duration) -> bool {
        let mut state = self.state.lock();
        if state.left < count {
            self.changed.wait_for(&mut state, within);
        }
        state.left >= count
    }

    /// When the last one left.
    fn ended(&self) -> Instant {
        self.state.lock().ended.unwrap_or_else(Instant::now)
    }
}

/// A thread that leaves, also by a panic.
struct Leaving<'a>(&'a Gate);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut state = self.0.state.lock();
        state.left += 1;
        state.ended = Some(now);
        drop(state);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
pub(super) use tests::in_a_log;

#[cfg(test)]
mod tests {
    use super::super::WalBench;
    use super::*;
    use forebay_aio::{AioConfig, MethodKind};
    use forebay_wal::SyncMethod;

    pub(in super::super) fn in_a_log(
        sync: SyncMethod,
        buffers: u64,
        body: impl FnOnce(&Run<'_>) -> Result<Sample, BenchError>,
    ) -> Sample {
        let dir = tempfile::tempdir().expect("a directory");
        let aio = Aio::new(Arc::new(PosixNamespace::new()), MethodKind::Sync, AioConfig::default());
        let aio = aio.expect("a door");
        let mut log = Log::make(dir.path(), 64 << 20).expect("a log");
        let way =
            WalWay { method: MethodKind::Sync, sync, direct: false, gather: true, in_flight: 4 };
        let sample = log.run(&aio, way, buffers, body).expect("a run");
        let again = log.run(&aio, way, buffers, |run| Ok(run.counts())).expect("the next run");
        assert!(again.records > 0);
        drop(log);
        assert_eq!(dir.path().read_dir().expect("listed").count(), 0, "it is gone");
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
            run.threads(2, |_, io, _| {
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
