//! Makes a checkpoint.
//!
//! ```text
//! online:   CHECKPOINT_REDO ─ wait for commits in progress ─┐
//! shutdown: ───────────────────────────────────────────────┴─ pg_xact, pg_subtrans ─┐
//!           ┌───────────────────────────────────────────────────────────────────────┘
//!           └─ pg_multixact, buffers ─ syncs ─ CHECKPOINT_ONLINE or CHECKPOINT_SHUTDOWN ─┐
//!           ┌────────────────────────────────────────────────────────────────────────────┘
//!           └─ pg_control ─ old WAL removed
//! ```
//!
//! The counters are read after the redo pointer is set: ids assigned earlier may appear only in WAL
//! that is not replayed. Only that of OIDs is read before, and reserved anew afterwards.

use std::collections::HashMap;

use forebay_aio::sync::Instant;
use forebay_format::control::DbState;
use forebay_format::ids::INVALID_XID;
use forebay_format::wal::Rmgr;
use forebay_format::wal::standby::{self, StandbyLock};
use forebay_format::wal::xlog::{self, CheckPoint};
use forebay_format::{Lsn, SegmentSize, Xid};
use forebay_storage::{Backend, WriteOptions, WriteScope};
use forebay_txn::locks::{LockMode, LockTag};
use forebay_wal::{CheckpointKind, Inserted};

use super::pace::Schedule;
use crate::checkpointer::Causes;
use crate::checkpointer::Progress;
use crate::checkpointer::Report;
use crate::clock::unix_seconds;
use crate::config::{CheckpointStep, WritingSettings};
use crate::control::WAL_LEVEL;
use crate::core::Core;
use crate::error::EngineError;

/// Makes a checkpoint of the kind that its causes demand.
pub(crate) fn checkpoint(
    core: &Core,
    backend: &mut Backend,
    causes: Causes,
) -> Result<(), EngineError> {
    let mut progress = core.checkpointer.progress.lock();
    core.fatal.check_alive()?;
    let quiet = causes.shutdown || causes.recovery;
    if !quiet && !causes.demand && core.wal.end_lsn() == progress.end {
        tracing::debug!("checkpoint skipped because system is idle");
        progress.began = Instant::now();
        return Ok(());
    }
    tracing::info!("checkpoint starting:{}", causes.words());
    let began = Instant::now();
    core.checkpointer.totals.begin(causes);
    if causes.shutdown {
        let mut state = DbState::ShuttingDown;
        forebay_aio::planted_bug!(core.aio, CheckpointShutDownTooEarly, state = DbState::ShutDown);
        core.control.set_state(&mut backend.io, state)?;
    }
    // Records of its beginning, of running transactions, and of itself; or the last alone.
    core.archiving.note_housekeeping(if quiet { 1 } else { 3 });
    let mut report = Report::default();
    let (redo, mut point) = begin(core, backend, causes)?;
    tell(core, CheckpointStep::Begun)?;
    write_everything(core, backend, causes, redo, &mut report)?;
    forebay_aio::planted_bug!(
        core.aio,
        CheckpointRedoAtItsEnd,
        if !quiet {
            point.redo = core.wal.insert_lsn();
        }
    );
    let inserted = log_checkpoint(core, backend, quiet, redo, &point)?;
    tell(core, CheckpointStep::Logged)?;
    let state = if causes.shutdown { DbState::ShutDown } else { DbState::Production };
    core.control.set_checkpoint(&mut backend.io, inserted.start, point, state)?;
    // From here on the checkpoint is valid, whatever happens to old segments.
    let distance = redo.since(progress.redo);
    report.distance = distance;
    let segments_made = core.wal.segment_stats().made;
    report.added = segments_made.saturating_sub(progress.segments_made);
    let estimate = smoothed(progress.estimate, distance as f64);
    *progress = Progress { began, end: inserted.end, redo, estimate, segments_made };
    report.estimate = progress.estimate;
    report.segments =
        core.wal.remove_old_segments(redo, keep_bytes(core, redo, progress.estimate))?;
    report.total = began.elapsed();
    (report.lsn, report.redo) = (inserted.start, redo);
    core.checkpointer.totals.end(&report);
    report.log(core.pool.buffers());
    Ok(())
}

/// Reports a step to the embedding program. If the engine has stopped, the checkpoint ends here.
fn tell(core: &Core, step: CheckpointStep) -> Result<(), EngineError> {
    if let Some(watch) = &core.config.on_checkpoint {
        (watch.0)(step);
    }
    core.fatal.check_alive()
}

/// Moves the redo pointer and reads the counters.
fn begin(
    core: &Core,
    backend: &mut Backend,
    causes: Causes,
) -> Result<(Lsn, CheckPoint), EngineError> {
    let quiet = causes.shutdown || causes.recovery;
    let kind = if quiet {
        CheckpointKind::Shutdown
    } else {
        CheckpointKind::Online { wal_level: WAL_LEVEL.unsigned_abs() }
    };
    let next_oid = core.oids.next();
    let redo = core.wal.begin_checkpoint(&mut backend.io, kind)?;
    if !quiet {
        core.oids.reserve_anew(&mut backend.io, &core.wal, next_oid)?;
    }
    let timeline = core.wal.config().timeline;
    let mut point = CheckPoint {
        redo,
        timeline,
        // For readers that follow the log from timeline to timeline.
        prev_timeline: if causes.recovery { core.came_from } else { timeline },
        full_page_writes: core.config.full_page_writes,
        wal_level: WAL_LEVEL,
        next_xid: core.xacts.next_xid(),
        next_oid,
        time: unix_seconds(),
        oldest_active_xid: if quiet { INVALID_XID } else { core.xacts.oldest_running().xid() },
        ..core.control.checkpoint()
    };
    if !quiet {
        core.xacts.gate().wait_for_earlier();
        log_running(core, backend)?;
    }
    // Behind the gate: a removal of MultiXacts that is logged before the redo pointer counts.
    (point.oldest_xid, point.oldest_xid_db) = core.xacts.oldest_xid();
    let multis = core.multis.counters();
    (point.next_multi, point.next_multi_offset) = (multis.next, multis.next_offset);
    (point.oldest_multi, point.oldest_multi_db) = (multis.oldest, multis.oldest_db);
    (point.oldest_commit_ts_xid, point.newest_commit_ts_xid) = core.xacts.clog().times().range();
    Ok((redo, point))
}

/// The relations that running transactions have locked exclusively.
fn exclusive_locks(core: &Core) -> Vec<StandbyLock> {
    let held = core.locks.list();
    // Afterwards: a transaction gets its id before such a lock, so only ended ones are missing.
    let runners: HashMap<u32, Xid> = core
        .xacts
        .procs()
        .runners()
        .into_iter()
        .map(|(xid, backend)| (backend, xid.xid()))
        .collect();
    let exclusive = held.into_iter().filter(|lock| lock.granted);
    exclusive
        .filter_map(|lock| match (lock.tag, lock.mode) {
            (LockTag::Relation { database, relation }, LockMode::AccessExclusive) => {
                let xid = *runners.get(&lock.owner.0)?;
                Some(StandbyLock { xid, db: database, rel: relation })
            }
            _ => None,
        })
        .collect()
}

/// Logs what a standby or a base backup needs for its first snapshot.
fn log_running(core: &Core, backend: &mut Backend) -> Result<(), EngineError> {
    let locks = exclusive_locks(core);
    if !locks.is_empty() {
        let main = standby::encode_locks(&locks);
        core.log_as(&mut backend.io, Rmgr::STANDBY, standby::LOCK, &main)?;
    }
    let main = core.xacts.running_xacts().encode();
    core.log_as(&mut backend.io, Rmgr::STANDBY, standby::RUNNING_XACTS, &main)?;
    Ok(())
}

fn write_everything(
    core: &Core,
    backend: &mut Backend,
    causes: Causes,
    redo: Lsn,
    report: &mut Report,
) -> Result<(), EngineError> {
    let started = Instant::now();
    // After a failure other than a sync's, the next checkpoint writes the pages.
    report.slru_pages = core.xacts.clog().flush_behind(&mut backend.io, |io| {
        core.wal.flush_async_commits(io)?;
        core.fatal.check_alive()
    })?;
    report.slru_pages += core.xacts.checkpoint_subtrans(&mut backend.io)?;
    report.slru_pages += core.multis.flush(&mut backend.io)?;
    write_pages(core, backend, causes, redo, report)?;
    report.write = started.elapsed();
    tell(core, CheckpointStep::Written)?;
    let started = Instant::now();
    sync_files(core, backend, report)?;
    report.sync = started.elapsed().saturating_sub(report.synced.read_back_time);
    tell(core, CheckpointStep::Synced)
}

fn write_pages(
    core: &Core,
    backend: &mut Backend,
    causes: Causes,
    redo: Lsn,
    report: &mut Report,
) -> Result<(), EngineError> {
    forebay_aio::planted_bug!(core.aio, CheckpointPagesNotWritten, return Ok(()));
    let options = WriteOptions {
        flush_after: core.writing().checkpoint_flush_after,
        ..WriteOptions::checkpoint(&core.pool)
    };
    let mut schedule = Schedule::new(core, causes, redo);
    report.written = core.pool.write_paced(backend, WriteScope::All, options, &mut schedule)?;
    Ok(())
}

fn sync_files(core: &Core, backend: &mut Backend, report: &mut Report) -> Result<(), EngineError> {
    forebay_aio::planted_bug!(core.aio, CheckpointFilesNotSynced, return Ok(()));
    report.synced = core.pool.sync_pending(backend)?;
    if core.config.verify_writes {
        tracing::info!(
            "checkpoint: {} buffers read back from disk in {:.3} s",
            report.synced.read_back,
            report.synced.read_back_time.as_secs_f64()
        );
    }
    Ok(())
}

fn log_checkpoint(
    core: &Core,
    backend: &mut Backend,
    quiet: bool,
    redo: Lsn,
    point: &CheckPoint,
) -> Result<Inserted, EngineError> {
    let info = if quiet { xlog::CHECKPOINT_SHUTDOWN } else { xlog::CHECKPOINT_ONLINE };
    let main = point.encode();
    let inserted = core.log(&mut backend.io, info, &main)?;
    let mut flush_to = inserted.end;
    forebay_aio::planted_bug!(core.aio, CheckpointRecordNotFlushed, flush_to = Lsn(0));
    core.wal.flush(&mut backend.io, flush_to)?;
    if quiet && inserted.start != redo {
        let message = format!(
            "concurrent write-ahead log activity while database system is shutting down: {redo} \
             became {}",
            inserted.start
        );
        core.fatal.stop(message.as_str());
        return Err(EngineError::internal(message));
    }
    Ok(inserted)
}

/// The estimate rises at once and falls slowly.
fn smoothed(estimate: f64, distance: f64) -> f64 {
    if estimate < distance { distance } else { 0.9 * estimate + 0.1 * distance }
}

/// Bytes beyond the redo pointer's segment for which old segments are recycled.
fn keep_bytes(core: &Core, redo: Lsn, estimate: f64) -> u64 {
    let size = core.wal.config().segment_size;
    let cycle = (1.0 + core.writing().checkpoint_completion_target) * estimate;
    segments_ahead(redo, cycle, &core.writing(), size) * size.bytes()
}

/// PostgreSQL's estimate of the segments needed: for the cycle until the next redo pointer, for the
/// time over which the checkpoint after that is spread, and a tenth more. With the redo pointer's
/// own segment that is at least min_wal_size and at most max_wal_size.
fn segments_ahead(redo: Lsn, cycle: f64, writing: &WritingSettings, size: SegmentSize) -> u64 {
    let setting = |bytes: u64| (bytes / size.bytes()).saturating_sub(1);
    let end = (redo.0 as f64 + cycle * 1.1) / size.bytes() as f64;
    let wanted = (end.ceil() as u64).saturating_sub(size.number(redo));
    wanted.max(setting(writing.min_wal_size)).min(setting(writing.max_wal_size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_segments_are_kept_as_a_cycle_takes() {
        let size = SegmentSize::DEFAULT;
        let writing = WritingSettings::default();
        let ahead = |redo: u64, cycle: u64| segments_ahead(Lsn(redo), cycle as f64, &writing, size);
        // min_wal_size, 80 MB, is five segments with the redo pointer's own.
        assert_eq!(ahead(0x100_0028, 0), 4);
        assert_eq!(ahead(0x100_0028, 20 << 20), 4);
        // 110 MB from the first bytes of a segment end in the seventh, and in the next after them
        // from its last ones.
        assert_eq!(ahead(0x100_0028, 100 << 20), 7);
        assert_eq!(ahead(0x1ff_0000, 100 << 20), 8);
        // max_wal_size, 1 GB, is 64.
        assert_eq!(ahead(0x100_0028, 10 << 30), 63);
        let tiny = WritingSettings { min_wal_size: 1 << 20, max_wal_size: 2 << 20, ..writing };
        assert_eq!(segments_ahead(Lsn(0x100_0028), 1e9, &tiny, size), 0);
    }

    #[test]
    fn the_estimate_rises_at_once_and_falls_slowly() {
        assert!((smoothed(100.0, 500.0) - 500.0).abs() < 1e-9);
        assert!((smoothed(500.0, 100.0) - 460.0).abs() < 1e-9);
    }
}
