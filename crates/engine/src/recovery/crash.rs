//! Crash recovery: replays the log from the last checkpoint to its end.

use forebay_access::redo::Registry;
use forebay_aio::sync::Instant;
use forebay_format::control::ControlFile;
use forebay_format::timeline::TimelineHistory;
use forebay_storage::Backend;
use forebay_txn::redo::RedoContext;
use forebay_wal::EndOfWal;

use super::ahead::ReadAhead;
use super::scan::{self, Scan};
use super::startup::{Checkpoint, Started, Startup, redo_one, tell_done};
use crate::config::RecoveryProgress;
use crate::error::EngineError;
use crate::orphans::MadeSince;

impl Startup<'_> {
    /// Reads the log that is to be replayed, without changing anything.
    pub(super) fn scan(
        &self,
        backend: &mut Backend,
        control: &ControlFile,
        history: &TimelineHistory,
        checkpoint: &Checkpoint,
        registry: &Registry,
    ) -> Result<Scan, EngineError> {
        let started = Instant::now();
        let point = &checkpoint.point;
        let reader = self.reader(control, history, point.redo);
        let needed = if control.min_recovery_point > checkpoint.end {
            (control.min_recovery_point, "the minimum recovery point")
        } else {
            (checkpoint.end, "the end of the checkpoint record")
        };
        let stop = &self.config.recovery_stop;
        let scan =
            scan::scan(&mut backend.io, reader, registry, history, point.timeline, needed, stop)?;
        tracing::info!(
            "WAL from {} to {} holds {} records ({:.2} s)",
            point.redo,
            scan.end.end,
            scan.records,
            started.elapsed().as_secs_f64()
        );
        Ok(scan)
    }

    /// Replays the log up to its end, and empties unlogged tables.
    pub(super) fn replay(
        &self,
        backend: &mut Backend,
        control: &ControlFile,
        history: &TimelineHistory,
        checkpoint: &Checkpoint,
        scan: &Scan,
        registry: &Registry,
    ) -> Result<Started, EngineError> {
        let redo = checkpoint.point.redo;
        let reader = self.reader(control, history, redo);
        let mut ahead = ReadAhead::new(reader, self.pool, self.config.recovery);
        let end = scan.end.end;
        let mut progress = RecoveryProgress { redo, at: redo, end, ..RecoveryProgress::default() };
        let mut ctx = self.redo_context(backend, &checkpoint.point)?;
        let end = self.redo_all(&mut ahead, registry, &mut ctx, &mut progress)?;
        ctx.check_missing()?;
        let (mut counters, cluster) = (ctx.counters, ctx.cluster.clone());
        let mut first = checkpoint.point.next_oid;
        forebay_aio::planted_bug!(self.aio, RecoveryIgnoresNewOids, first = counters.next_oid);
        let made = MadeSince::new(std::mem::take(&mut ctx.made), first, counters.next_oid);
        forebay_aio::planted_bug!(self.aio, RecoveryReusesTransactionIds, {
            counters.next_xid = checkpoint.point.next_xid
        });
        self.end_redo(backend, &counters, &cluster)?;
        progress.done = true;
        self.report(&progress);
        let started = Started::new(end.resume(redo), counters, true, checkpoint, scan.timeline);
        Ok(Started { made, ..started })
    }

    /// Redoes all records. Returns the end of the log.
    fn redo_all(
        &self,
        ahead: &mut ReadAhead<'_>,
        registry: &Registry,
        ctx: &mut RedoContext<'_>,
        progress: &mut RecoveryProgress,
    ) -> Result<EndOfWal, EngineError> {
        let started = Instant::now();
        tracing::info!("redo starts at {}", progress.redo);
        while let Some(record) = ahead.next(ctx.backend)? {
            self.config.recovery_stop.check()?;
            redo_one(registry, &record, ctx)?;
            progress.at = record.end;
            progress.records += 1;
            progress.prefetch = ahead.stats();
            self.tell_progress(started, progress);
        }
        let end = ahead.end()?;
        if end.end != progress.end {
            let message = format!(
                "WAL ended at {} and now ends at {}: {}",
                progress.end, end.end, end.reason
            );
            return Err(EngineError::corrupt(message)
                .with_hint("Somebody else writes to it, or the disk fails."));
        }
        progress.prefetch = ahead.stats();
        tell_done(started, end.last_record, &end.reason, progress);
        Ok(end)
    }
}
