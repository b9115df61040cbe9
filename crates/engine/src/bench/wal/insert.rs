//! Insertion without waiting: into memory alone, and of much that is flushed now and then.

use forebay_aio::BackendType;
use forebay_aio::sync::{Duration, Instant};
use forebay_wal::position::{SHORT_HEADER, WAL_BLOCK};

use super::log::{Run, payload, record};
use super::{BenchError, InsertCase, Latencies, Sample};

/// Buffers that insertion alone has: nothing must be written to make room.
pub(super) const RING: u64 = 128 << 20;
/// Bulk insertion flushes after so much: wal_writer_flush_after's default.
const FLUSH_AFTER: u64 = 1 << 20;
/// Records between two looks at the clock.
const BETWEEN_LOOKS: u32 = 16;

/// Into buffers that were touched before, three quarters of them.
pub(super) fn alone(run: &Run<'_>, case: &InsertCase, ring: u64) -> Result<Sample, BenchError> {
    let data = payload(case.record_size);
    let mut io = run.aio.backend(BackendType::Client)?;
    let start = run.wal.insert_lsn();
    while run.wal.insert_lsn().since(start) < ring {
        run.wal.insert(&mut io, &record(&data))?;
    }
    run.make_room(&mut io)?;
    drop(io);
    let usable = ring / 4 * 3 / WAL_BLOCK * (WAL_BLOCK - SHORT_HEADER);
    let each = usable / u64::from(case.record_size) / u64::from(case.inserters);
    run.threads(case.inserters, |_, io, _| {
        let record = record(&data);
        for _ in 0..each {
            run.wal.insert(io, &record)?;
        }
        Ok(Latencies::default())
    })
}

/// For such a time. All of it is durable at the end, and the time of that counts.
pub(super) fn bulk(run: &Run<'_>, case: &InsertCase, time: Duration) -> Result<Sample, BenchError> {
    let data = payload(case.record_size);
    run.threads(case.inserters, |_, io, begun| {
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
    use super::super::log::in_a_log;
    use super::super::{WalBench, WalWay};
    use super::*;
    use forebay_aio::MethodKind;
    use forebay_wal::SyncMethod;

    fn case(record_size: u32, inserters: u32) -> InsertCase {
        let sync = SyncMethod::Fdatasync;
        let way =
            WalWay { method: MethodKind::Sync, sync, direct: false, gather: true, in_flight: 4 };
        InsertCase { way, record_size, inserters }
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
