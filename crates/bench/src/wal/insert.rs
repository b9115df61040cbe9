//! Insertion without a wait for each record: into memory alone, and in bulk.

use forebay_aio::BackendType;
use forebay_aio::sync::{Duration, Instant};
use forebay_wal::position::{SHORT_HEADER, WAL_BLOCK};

use super::log::{Run, Sample, payload, record};
use super::plan::Case;
use crate::error::BenchError;
use crate::stats::Latencies;

/// Bytes of buffers for insertion alone, in which no write is needed to make room.
pub(super) const RING: u64 = 128 << 20;
/// Bulk insertion flushes after so many bytes: wal_writer_flush_after's default.
const FLUSH_AFTER: u64 = 1 << 20;
/// Records between two looks at the clock.
const BETWEEN_LOOKS: u32 = 16;

/// Fills three quarters of the buffers, all of which have been touched before.
pub(super) fn alone(run: &Run<'_>, case: &Case, ring: u64) -> Result<Sample, BenchError> {
    let data = payload(case.record_size);
    let mut io = run.aio.backend(BackendType::Client)?;
    let start = run.wal.insert_lsn();
    while run.wal.insert_lsn().since(start) < ring {
        run.wal.insert(&mut io, &record(&data))?;
    }
    run.make_room(&mut io)?;
    drop(io);
    let usable = ring / 4 * 3 / WAL_BLOCK * (WAL_BLOCK - SHORT_HEADER);
    let each = usable / u64::from(case.record_size) / u64::from(case.threads);
    run.threads(case.threads, |io, _| {
        let record = record(&data);
        for _ in 0..each {
            run.wal.insert(io, &record)?;
        }
        Ok(Latencies::default())
    })
}

/// Inserts for this time. All records are durable at the end, and the time of that counts.
pub(super) fn bulk(run: &Run<'_>, case: &Case, time: Duration) -> Result<Sample, BenchError> {
    let data = payload(case.record_size);
    run.threads(case.threads, |io, begun| {
        let (record, until) = (record(&data), begun + time);
        let mut flushed = run.wal.insert_lsn();
        let mut end = flushed;
        while Instant::now() < until {
            for _ in 0..BETWEEN_LOOKS {
                end = run.wal.insert(io, &record)?.end;
            }
            if end.0.saturating_sub(flushed.0) >= FLUSH_AFTER {
                run.wal.flush(io, end)?;
                flushed = end;
            }
        }
        run.wal.flush(io, end)?;
        Ok(Latencies::default())
    })
}

#[cfg(test)]
mod tests {
    use super::super::log::{in_a_log, setup};
    use super::super::plan::WalBench;
    use super::*;
    use forebay_wal::SyncMethod;

    fn case(record_size: u32, threads: u32) -> Case {
        Case { setup: setup(SyncMethod::Fdatasync), record_size, threads }
    }

    #[test]
    fn insertion_alone_writes_nothing() {
        let ring = 8 << 20;
        for (size, inserters) in [(64, 1), (WalBench::WHOLE_BLOCK, 3), (1 << 18, 2)] {
            let sample = in_a_log(SyncMethod::Fdatasync, ring, |log| {
                alone(log, &case(size, inserters), ring)
            });
            assert_eq!((sample.writes, sample.syncs, sample.buffers_full), (0, 0, 0), "{size}");
            assert!(sample.record_bytes > ring / 2 && sample.record_bytes < ring, "{sample:?}");
            assert!(sample.seconds > 0.0, "{sample:?}");
        }
    }

    #[test]
    fn bulk_insertion_is_durable_at_the_end() {
        let sample = in_a_log(SyncMethod::Fdatasync, 2 << 20, |log| {
            let sample = bulk(log, &case(WalBench::WHOLE_BLOCK, 2), Duration::from_millis(30))?;
            assert_eq!(log.wal.flushed_lsn(), log.wal.end_lsn());
            Ok(sample)
        });
        assert!(sample.records > 0 && sample.syncs > 0, "{sample:?}");
        assert!(sample.write_bytes >= sample.record_bytes, "{sample:?}");
    }
}
