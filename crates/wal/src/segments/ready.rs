//! Makes segments ready for writing: opens existing ones, and makes those that are missing.

use forebay_aio::{File, IoBackend, sync::atomic::Ordering};
use forebay_format::Lsn;

use super::files::Segments;
use crate::error::WalError;

impl Segments {
    /// Makes the segment at the end of the log ready.
    pub fn take_first(&self, io: &mut IoBackend) -> Result<(), WalError> {
        self.take_upto(io, self.first).map(drop)
    }

    /// Makes sure that all segments up to `number` are ready, for an inserter. It counts as a wait
    /// if one had to be made.
    pub fn ensure(&self, io: &mut IoBackend, number: u64) -> Result<(), WalError> {
        self.demand.need(number, self.ready());
        if number < self.ready() {
            return Ok(());
        }
        if self.take_upto(io, number)? {
            self.stats.lock().waits += 1;
            self.demand.keep_more();
            self.demand.allow_retry();
        }
        Ok(())
    }

    /// Makes the segments ready that will be needed next. Returns whether there were any.
    pub fn prepare(&self, io: &mut IoBackend) -> Result<bool, WalError> {
        let upto = self.demand.take_request();
        if upto < self.ready() {
            return Ok(false);
        }
        self.take_upto(io, upto)?;
        Ok(true)
    }

    /// Makes all segments up to `number` ready, one at a time. Returns whether one had to be made,
    /// by this thread or by another that it waited for.
    fn take_upto(&self, io: &mut IoBackend, number: u64) -> Result<bool, WalError> {
        let mut waited = false;
        while self.ready() <= number {
            let held = match self.making_ready.try_lock() {
                Some(held) => held,
                None => {
                    waited = true;
                    self.making_ready.lock()
                }
            };
            let next = self.ready();
            if next <= number {
                self.poison.check()?;
                let (file, made) = self.take(io, next)?;
                waited |= made;
                self.open.lock().insert(next, file);
                self.ready.store(next + 1, Ordering::Release);
            }
            drop(held);
        }
        Ok(waited)
    }

    /// Opens a segment for writing. Makes it if it does not exist, and returns whether it did.
    fn take(&self, io: &mut IoBackend, number: u64) -> Result<(File, bool), WalError> {
        if let Some(file) = self.open_existing(number)? {
            if self.may_be_written(number)? {
                // The segment may have been recycled a moment ago.
                self.settle_names()?;
                return Ok((file, false));
            }
            drop(file);
            // Writing to this file would change the file under its other name: an archived segment,
            // or, if a server crashed that recycles by link and unlink, one still to be archived.
            let path = self.path(number);
            tracing::warn!(
                "WAL segment \"{}\" has other names: a new one takes its place",
                path.display()
            );
            self.unlink(&path)?;
        }
        Ok((self.create(io, number)?, true))
    }

    /// Whether an existing segment may be written: it has no other name, or it holds the end of the
    /// log.
    fn may_be_written(&self, number: u64) -> Result<bool, WalError> {
        let path = self.path(number);
        let links = self
            .aio
            .namespace()
            .link_count(&path)
            .map_err(|e| WalError::segment("examine", &path, e))?;
        if links > 1 && number == self.first {
            tracing::warn!(
                "WAL segment \"{}\" has {links} names: \
                 what is written to it shows under all of them",
                path.display()
            );
        }
        Ok(links == 1 || number == self.first)
    }

    /// Called before the first write to a segment. Closes the segments before it, which are
    /// complete and durable, requests the next one, and reports how far the log has grown since the
    /// redo pointer.
    pub fn enter(&self, number: u64, redo: Lsn) {
        let mut open = self.open.lock();
        *open = open.split_off(&number);
        drop(open);
        self.demand.need(number + 1, self.ready());
        let watcher = self.watcher.lock().clone();
        if let Some(watcher) = watcher {
            watcher(number.saturating_sub(self.size.number(redo)));
        }
    }
}
