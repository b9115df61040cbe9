//! Committers: each inserts a record and waits until it is durable, again and again.

use forebay_aio::IoBackend;
use forebay_aio::sync::{Duration, Instant, Mutex};
use forebay_format::Lsn;
use forebay_wal::WalError;
use forebay_wal::position::{SHORT_HEADER, WAL_BLOCK};

use super::log::{Run, Sample, payload, record};
use super::plan::{Case, WalBench};
use crate::error::BenchError;
use crate::stats::Latencies;

/// Commits for this time.
pub(super) fn run(run: &Run<'_>, case: &Case, time: Duration) -> Result<Sample, BenchError> {
    let data = payload(case.record_size);
    let blocks = (case.record_size == WalBench::WHOLE_BLOCK).then(WholeBlocks::default);
    run.threads(case.threads, |io, begun| {
        let mut latencies = Latencies::default();
        let (record, until) = (record(&data), begun + time);
        let mut now = begun;
        while now < until {
            let inserted = run.wal.insert(io, &record)?;
            run.wal.flush(io, inserted.end)?;
            let done = Instant::now();
            latencies.add(done - now);
            now = done;
            if let Some(blocks) = &blocks
                && blocks.restore(run, io, inserted.end)?
            {
                now = Instant::now();
            }
        }
        Ok(latencies)
    })
}

/// Keeps records that are as large as a block from straddling two. A segment's first page has a
/// longer header, and checkpoints insert records of their own. Holds the end of the last record
/// that completed a block.
#[derive(Default)]
struct WholeBlocks(Mutex<Lsn>);

impl WholeBlocks {
    /// Completes the block in which a record has ended, unless another committer has done it. True
    /// if it inserted a record.
    fn restore(&self, run: &Run<'_>, io: &mut IoBackend, end: Lsn) -> Result<bool, WalError> {
        if end.0.is_multiple_of(WAL_BLOCK) {
            return Ok(false);
        }
        let mut filled = self.0.lock();
        if end <= *filled {
            return Ok(false);
        }
        // Records inserted in the meantime fill whole blocks, so the gap is the same at every end.
        let gap = (WAL_BLOCK - end.0 % WAL_BLOCK) as u32;
        let least = WalBench::LEAST_BYTES;
        let size = if gap < least { gap + (WAL_BLOCK - SHORT_HEADER) as u32 } else { gap };
        *filled = run.wal.insert(io, &record(&payload(size)))?.end;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::log::{in_a_log, setup};
    use super::*;
    use forebay_wal::SyncMethod;

    fn case(record_size: u32, threads: u32) -> Case {
        Case { setup: setup(SyncMethod::OpenDatasync), record_size, threads }
    }

    #[test]
    fn every_commit_is_waited_for() {
        let sample = in_a_log(SyncMethod::Fdatasync, 1 << 20, |log| {
            let sample = run(log, &case(128, 3), Duration::from_millis(50))?;
            assert_eq!(log.wal.flushed_lsn(), log.wal.end_lsn());
            Ok(sample)
        });
        assert_eq!(sample.records, sample.latencies.count());
        assert!(sample.syncs > 0 && sample.syncs <= sample.records, "{sample:?}");
        assert!(sample.seconds >= 0.05 && sample.io_seconds <= 3.0 * sample.seconds, "{sample:?}");
        // One at a time: the sum of the latencies of each is the time of the run.
        assert!(sample.latencies.percentile(0.5) as f64 / 1e9 < sample.seconds, "{sample:?}");
    }

    #[test]
    fn records_that_fill_blocks_go_on_doing_so() {
        in_a_log(SyncMethod::OpenDatasync, 1 << 20, |log| {
            let mut io = log.aio.backend(forebay_aio::BackendType::Client)?;
            let blocks = WholeBlocks::default();
            let data = payload(WalBench::WHOLE_BLOCK);
            let end = log.wal.insert(&mut io, &record(&data))?.end;
            assert!(!end.0.is_multiple_of(WAL_BLOCK), "the log begins with a checkpoint's record");
            for gap in [0, 8, 16, 24, 32, 4096] {
                if gap > 0 {
                    // Leaves a gap in the next block, the smallest ones too small for a record.
                    let size = WalBench::WHOLE_BLOCK - gap;
                    log.wal.insert(&mut io, &record(&payload(size)))?;
                }
                let other = log.wal.insert(&mut io, &record(&data))?.end;
                assert!(blocks.restore(log, &mut io, other)?);
                assert!(!blocks.restore(log, &mut io, other)?, "once is enough");
                let end = log.wal.insert(&mut io, &record(&data))?.end;
                assert!(end.0.is_multiple_of(WAL_BLOCK), "{end} after a gap of {gap}");
            }
            Ok(Sample::default())
        });
    }
}
