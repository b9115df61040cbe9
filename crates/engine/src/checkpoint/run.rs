//! Making a checkpoint.
//!
//! ```text
//! online:    CHECKPOINT_REDO ── wait for commits under way ── pg_xact, buffers, syncs ── CHECKPOINT_ONLINE ── pg_control ── old WAL
//! shutdown:                                                   pg_xact, buffers, syncs ── CHECKPOINT_SHUTDOWN ── pg_control ── old WAL
//! ```
//!
//! The counters are read after the redo pointer stands: what was handed out earlier may be mentioned only in WAL that
//! will not be replayed.

use forebay_aio::sync::{Instant, SystemTime, UNIX_EPOCH};

use forebay_format::control::DbState;
use forebay_format::ids::INVALID_XID;
use forebay_format::wal::Rmgr;
use forebay_format::wal::standby::{self, RunningXacts};
use forebay_format::wal::xlog::{self, CheckPoint};
use forebay_format::{Lsn, Xid};
use forebay_storage::{Backend, WriteOptions, WriteScope};
use forebay_wal::{CheckpointKind, Inserted, Record};

use super::Progress;
use super::pace::Schedule;
use super::report::Report;
use super::requests::Causes;
use crate::config::CheckpointStep;
use crate::core::Core;
use crate::error::EngineError;

/// wal_level as stored: replica.
pub(crate) const WAL_LEVEL: i32 = 1;

/// Makes a checkpoint of the kind its causes ask for.
pub(crate) fn checkpoint(core: &Core, be: &mut Backend, causes: Causes) -> Result<(), EngineError> {
    let mut progress = core.checkpointer.progress.lock();
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
        let early = core.aio.has_bug("checkpoint: shut down before it is");
        let state = if early { DbState::ShutDown } else { DbState::ShuttingDown };
        core.control.set_state(&mut be.io, state)?;
    }
    let mut report = Report::default();
    let (redo, point) = begin(core, be, quiet)?;
    tell(core, CheckpointStep::Begun);
    write_everything(core, be, causes, redo, &mut report)?;
    let mut point = point;
    if !quiet && core.aio.has_bug("checkpoint: redo begins where it ended") {
        point.redo = core.wal.insert_lsn();
    }
    let inserted = log_checkpoint(core, be, quiet, redo, &point)?;
    tell(core, CheckpointStep::Logged);
    let state = if causes.shutdown { DbState::ShutDown } else { DbState::Production };
    core.control.set_checkpoint(&mut be.io, inserted.start, point, state)?;
    // From here on the checkpoint counts, whatever happens to old segments.
    let distance = redo.since(progress.redo);
    report.distance = distance;
    *progress =
        Progress { began, end: inserted.end, redo, estimate: smoothed(progress.estimate, distance as f64) };
    report.estimate = progress.estimate;
    report.segments = core.wal.remove_old_segments(redo, keep_bytes(core, progress.estimate))?;
    report.total = began.elapsed();
    (report.lsn, report.redo) = (inserted.start, redo);
    core.checkpointer.totals.end(&report);
    report.log(core.pool.buffers());
    Ok(())
}

/// Who wants to know how far it is, is told.
fn tell(core: &Core, step: CheckpointStep) {
    if let Some(watch) = &core.config.on_checkpoint {
        (watch.0)(step);
    }
}

/// Moves the redo pointer and takes down the counters.
fn begin(core: &Core, be: &mut Backend, quiet: bool) -> Result<(Lsn, CheckPoint), EngineError> {
    let kind = if quiet {
        CheckpointKind::Shutdown
    } else {
        CheckpointKind::Online { wal_level: WAL_LEVEL.unsigned_abs() }
    };
    let redo = core.wal.begin_checkpoint(&mut be.io, kind)?;
    let timeline = core.wal.config().timeline;
    let point = CheckPoint {
        redo,
        timeline,
        prev_timeline: timeline,
        full_page_writes: core.config.full_page_writes,
        wal_level: WAL_LEVEL,
        next_xid: core.xacts.next_xid(),
        next_oid: core.oids.for_checkpoint(quiet),
        time: unix_seconds(),
        oldest_active_xid: if quiet { INVALID_XID } else { core.xacts.oldest_running().xid() },
        ..core.control.checkpoint()
    };
    if !quiet {
        core.xacts.gate().wait_for_earlier();
        log_running(core, be)?;
    }
    Ok((redo, point))
}

/// What a standby or a base backup needs to build its first snapshot.
fn log_running(core: &Core, be: &mut Backend) -> Result<(), EngineError> {
    // Whoever is handed out later is not listed; whoever ends in between has its own record before this one.
    let next = core.xacts.next_xid();
    let running: Vec<Xid> =
        core.xacts.procs().all().iter().filter(|xid| **xid < next).map(|xid| xid.xid()).collect();
    let next_xid = next.xid();
    let payload = RunningXacts {
        subxid_overflow: false,
        next_xid,
        oldest_running: running.first().copied().unwrap_or(next_xid),
        latest_completed: forebay_format::ids::xid_previous(next_xid),
        xids: running,
        subxids: Vec::new(),
    };
    let main = payload.encode();
    let record = Record {
        rmgr: Rmgr::STANDBY,
        info: standby::RUNNING_XACTS,
        xid: INVALID_XID,
        main: &main,
        blocks: &[],
    };
    core.wal.insert(&mut be.io, &record)?;
    Ok(())
}

fn write_everything(
    core: &Core,
    be: &mut Backend,
    causes: Causes,
    redo: Lsn,
    report: &mut Report,
) -> Result<(), EngineError> {
    let started = Instant::now();
    let flushed = core.clog.flush_behind(&mut be.io, |io| Ok(core.wal.flush_unawaited(io)?));
    report.slru_pages = flushed.map_err(|error| unknown_durability(core, error))?;
    let options = WriteOptions {
        flush_after: core.writing().checkpoint_flush_after,
        ..WriteOptions::checkpoint(&core.pool)
    };
    let mut schedule = Schedule::new(core, causes, redo);
    if !core.aio.has_bug("checkpoint: pages are not written") {
        report.written = core.pool.write_paced(be, WriteScope::All, options, &mut schedule)?;
    }
    report.write = started.elapsed();
    tell(core, CheckpointStep::Written);
    let started = Instant::now();
    if !core.aio.has_bug("checkpoint: files are not synced") {
        report.synced = core.pool.sync_pending(be)?;
    }
    report.sync = started.elapsed();
    tell(core, CheckpointStep::Synced);
    Ok(())
}

/// pg_xact is written and synced in one go: after an error nobody knows what of it is durable.
fn unknown_durability(core: &Core, error: EngineError) -> EngineError {
    core.fatal.stop(&error.to_string());
    error
}

fn log_checkpoint(
    core: &Core,
    be: &mut Backend,
    quiet: bool,
    redo: Lsn,
    point: &CheckPoint,
) -> Result<Inserted, EngineError> {
    let info = if quiet { xlog::CHECKPOINT_SHUTDOWN } else { xlog::CHECKPOINT_ONLINE };
    let main = point.encode();
    let record = Record { rmgr: Rmgr::XLOG, info, xid: INVALID_XID, main: &main, blocks: &[] };
    let inserted = core.wal.insert(&mut be.io, &record)?;
    if !core.aio.has_bug("checkpoint: its record is not durable when pg_control tells of it") {
        core.wal.flush(&mut be.io, inserted.end)?;
    }
    if quiet && inserted.start != redo {
        let message = format!(
            "concurrent write-ahead log activity while database system is shutting down: {redo} became {}",
            inserted.start
        );
        core.fatal.stop(&message);
        return Err(EngineError::internal(message));
    }
    Ok(inserted)
}

/// Rises at once, and falls slowly.
fn smoothed(estimate: f64, distance: f64) -> f64 {
    if estimate < distance { distance } else { 0.9 * estimate + 0.1 * distance }
}

/// How much room for WAL to keep ready: what the next cycle will need, within the two settings.
fn keep_bytes(core: &Core, estimate: f64) -> u64 {
    let writing = core.writing();
    let wanted = (1.0 + writing.checkpoint_completion_target) * estimate * 1.1;
    (wanted as u64).clamp(writing.min_wal_size.min(writing.max_wal_size), writing.max_wal_size)
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_rises_at_once_and_falls_slowly() {
        assert!((smoothed(100.0, 500.0) - 500.0).abs() < 1e-9);
        assert!((smoothed(500.0, 100.0) - 460.0).abs() < 1e-9);
    }
}
