//! Which recovery a data directory needs.

use forebay_format::control::DbState;
use forebay_storage::Backend;
use forebay_txn::redo::Counters;
use forebay_wal::{Resume, read_history};

use super::request::{Request, refuse_under_way};
use super::startup::{Started, Startup};
use crate::clock::at_time;
use crate::error::EngineError;

impl Startup<'_> {
    /// Brings the directory to where its log goes on.
    pub(crate) fn run(&self, backend: &mut Backend) -> Result<Started, EngineError> {
        self.bring(backend).map_err(|error| self.config.recovery_stop.judge(error))
    }

    fn bring(&self, backend: &mut Backend) -> Result<Started, EngineError> {
        // Two of them are a mistake, whatever is recovered.
        self.config.restore.target()?;
        refuse_under_way(&backend.io, self.dir)?;
        let control = self.control.get();
        if let Some(request) =
            Request::find(&mut backend.io, self.dir, control.state, control.segment_size)?
        {
            return self.recover_backup(backend, &request);
        }
        let timeline = control.checkpoint_copy.timeline.max(control.min_recovery_timeline);
        let history = read_history(&mut backend.io, &self.dir.join("pg_wal"), timeline)?;
        let reader = self.reader(&control, &history, control.checkpoint);
        let checkpoint = self.last_checkpoint(backend, reader, control.checkpoint)?;
        match control.state {
            DbState::ShutDown => {
                tracing::info!("database system was shut down at {}", at_time(control.time));
                let resume = Resume {
                    insert_at: checkpoint.end,
                    prev: checkpoint.start,
                    redo: checkpoint.point.redo,
                    aborted: None,
                };
                let point = &checkpoint.point;
                let counters = Counters::at(point);
                self.keep_commit_times(backend, point)?;
                self.discard_commit_times()?;
                self.clog.trim(&mut backend.io, counters.next_xid)?;
                self.trim_multis(backend, &counters)?;
                Ok(Started::new(resume, counters, false, &checkpoint, point.timeline))
            }
            // Those of a recovery from an archive, which is always gone on with.
            DbState::ShutDownInRecovery | DbState::ArchiveRecovery => {
                Err(EngineError::internal("archive recovery that nobody goes on with"))
            }
            DbState::Startup
            | DbState::ShuttingDown
            | DbState::CrashRecovery
            | DbState::Production => {
                tracing::info!(
                    "database system was not properly shut down; automatic recovery in progress"
                );
                self.sync_everything(backend)?;
                let registry = self.registry();
                let scan = self.scan(backend, &control, &history, &checkpoint, &registry)?;
                self.control.set_state(&mut backend.io, DbState::CrashRecovery)?;
                self.replay(backend, &control, &history, &checkpoint, &scan, &registry)
            }
        }
    }
}
