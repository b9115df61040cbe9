//! Transfers one file: examines it, gives it to the module, and notes the outcome.

use std::panic::{AssertUnwindSafe, catch_unwind};

use forebay_aio::IoBackend;
use forebay_aio::sync::{Arc, Instant};

use super::control::Archiver;
use super::queue::QUICK_TRIES;
use super::state::{RESTART, StopMode};
use crate::error::{ArchiveError, Result};
use crate::module::{ArchiveModule, Archived};
use crate::names::WalName;
use crate::source::Source;

/// The outcome of a transfer.
enum Outcome {
    Archived,
    /// Its `.ready` is gone, so it is not to be archived any more.
    Unwanted,
}

impl Archiver {
    /// Transfers a file that was taken from the queue, and tells the queue the outcome.
    pub(super) fn transfer(
        &self,
        io: &mut IoBackend,
        name: &WalName,
        module: &Arc<dyn ArchiveModule>,
        now: Instant,
    ) {
        let outcome = self.attempt(io, name, &**module);
        // A long time may have passed; in a simulation, `now` may be ahead of the clock.
        let now = now.max(Instant::now());
        let mut state = self.state.lock();
        let error = match outcome {
            Ok(Outcome::Archived) => return state.queue.transferred(name, now),
            Ok(Outcome::Unwanted) => return state.queue.drop_file(name),
            Err(e) => e,
        };
        if error.is_stop() && state.stop == Some(StopMode::Now) {
            return state.queue.put_back(name);
        }
        state.modules.checked = false;
        state.stats.failed(name);
        let (failures, age) = state.queue.failed(name, now);
        let files = state.queue.backlog(now).files;
        if error.ends_archiver() {
            state.pause(now, RESTART);
        } else if failures >= QUICK_TRIES && state.stop.is_some() {
            state.gave_up = true;
        }
        drop(state);
        let seconds = age.as_secs();
        if error.ends_archiver() {
            tracing::error!("{error}; archiving begins again in {} s", RESTART.as_secs());
        } else if failures < QUICK_TRIES {
            tracing::info!("could not archive \"{name}\": {error}");
        } else {
            tracing::warn!(
                "archiving write-ahead log file \"{name}\" failed too many times, will try again \
                 later: {error} (failed {failures} times in {seconds} s; {files} files wait to be \
                 archived)"
            );
        }
    }

    fn attempt(
        &self,
        io: &mut IoBackend,
        name: &WalName,
        module: &dyn ArchiveModule,
    ) -> Result<Outcome> {
        if !self.status.is_ready(name)? {
            return Ok(Outcome::Unwanted);
        }
        let mut file = match Source::open(&self.aio, self.status.wal_dir(), name, &self.source) {
            Err(ArchiveError::Vanished { .. }) => return self.orphan(name),
            opened => opened?,
        };
        forebay_aio::planted_bug!(self.aio, ArchiveAcknowledgesEarly, {
            self.status.acknowledge(std::slice::from_ref(name))?
        });
        let archived = catch_unwind(AssertUnwindSafe(|| module.archive(io, &mut file)));
        file.close(io);
        match archived {
            Ok(Ok(archived)) => {
                let again = if archived == Archived::Identical { " (it was there)" } else { "" };
                tracing::debug!("archived write-ahead log file \"{name}\"{again}");
                Ok(Outcome::Archived)
            }
            Ok(Err(e)) => Err(e),
            Err(_) => {
                let reason = "it panicked".to_owned();
                Err(ArchiveError::Module { module: module.name(), file: name.to_string(), reason })
            }
        }
    }

    /// The file is gone: removes its `.ready`.
    fn orphan(&self, name: &WalName) -> Result<Outcome> {
        self.status.remove(name)?;
        let ready = self.status.dir().join(name.ready());
        tracing::warn!("removed orphan archive status file \"{}\"", ready.display());
        Ok(Outcome::Unwanted)
    }
}
