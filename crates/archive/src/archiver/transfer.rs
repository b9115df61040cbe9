//! One file: looked at, handed to the module, and what came of it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use forebay_aio::Backend;
use forebay_aio::sync::{Arc, Instant};

use super::decide::{RESTART, give_up_for};
use super::queue::EAGER_TRIES;
use super::{Archiver, StopMode};
use crate::error::{ArchiveError, Result};
use crate::module::{ArchiveModule, Archived};
use crate::names::WalName;
use crate::source::Source;

/// What became of a file.
enum Came {
    /// The archive has it.
    There,
    /// Its mark is gone: nobody wants it archived.
    Unwanted,
}

impl Archiver {
    /// Transfers a file that was taken from the queue, and puts it where it belongs then.
    pub(super) fn transfer(
        &self,
        io: &mut Backend,
        name: &WalName,
        module: &Arc<dyn ArchiveModule>,
        now: Instant,
    ) {
        let came = self.attempt(io, name, &**module);
        // A long time may have passed; in a simulation it is said from outside.
        let now = now.max(Instant::now());
        let mut inner = self.inner.lock();
        let error = match came {
            Ok(Came::There) => return inner.queue.transferred(name, now),
            Ok(Came::Unwanted) => return inner.queue.drop_file(name),
            Err(e) => e,
        };
        if error.is_stop() && inner.stop == Some(StopMode::Now) {
            return inner.queue.put_back(name);
        }
        inner.modules.checked = false;
        inner.stats.failed(name);
        let (failures, age) = inner.queue.failed(name, now);
        let files = inner.queue.backlog(now).files;
        if error.ends_archiver() {
            give_up_for(&mut inner, now, RESTART);
        } else if failures >= EAGER_TRIES && inner.stop.is_some() {
            inner.gave_up = true;
        }
        drop(inner);
        let seconds = age.as_secs();
        if error.ends_archiver() {
            tracing::error!("{error}; archiving begins again in {} s", RESTART.as_secs());
        } else if failures < EAGER_TRIES {
            tracing::info!("could not archive \"{name}\": {error}");
        } else {
            tracing::warn!(
                "archiving write-ahead log file \"{name}\" failed too many times, will try again later: {error} \
                 (failed {failures} times in {seconds} s; {files} files wait to be archived)"
            );
        }
    }

    fn attempt(
        &self,
        io: &mut Backend,
        name: &WalName,
        module: &dyn ArchiveModule,
    ) -> Result<Came> {
        if !self.status.is_ready(name)? {
            return Ok(Came::Unwanted);
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
                Ok(Came::There)
            }
            Ok(Err(e)) => Err(e),
            Err(_) => {
                let reason = "it panicked".to_owned();
                Err(ArchiveError::Module { module: module.name(), file: name.to_string(), reason })
            }
        }
    }

    /// The file is gone, and its mark goes as well: there is nothing that could be archived.
    fn orphan(&self, name: &WalName) -> Result<Came> {
        self.status.remove(name)?;
        let mark = self.status.dir().join(name.ready());
        tracing::warn!("removed orphan archive status file \"{}\"", mark.display());
        Ok(Came::Unwanted)
    }
}
