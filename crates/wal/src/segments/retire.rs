//! Old segments: recycled or removed, once the archive has them.

use std::collections::BTreeSet;
use std::path::Path;

use forebay_aio::sync::atomic::Ordering;

use super::Segments;
use crate::{checkpoint::OldSegments, error::WalError};

/// The last part of a timeline that was left in the middle of a segment.
const PARTIAL: &str = ".partial";

/// What came of an attempt to give an old segment a new name.
enum Renamed {
    Done,
    /// That name is taken.
    Taken,
    /// It is no file that can be written under another name.
    Unfit,
}

impl Segments {
    /// Recycles or removes the segments below `before`, those that the archive has if there is one.
    /// Recycled ones get the free names up to `upto`.
    pub fn remove_before(&self, before: u64, upto: u64) -> Result<OldSegments, WalError> {
        let _alone = self.retiring.lock();
        self.demand.calm();
        let mut old: Vec<(u64, String)> = Vec::new();
        let mut taken = BTreeSet::new();
        for name in self.list()? {
            let segment = name.strip_suffix(PARTIAL).unwrap_or(&name);
            let Some((timeline, number)) = self.size.parse_file_name(segment) else { continue };
            if number < before {
                old.push((number, name));
            } else if timeline == self.timeline {
                taken.insert(number);
            }
        }
        old.sort_unstable();
        let archived = self.keep_unarchived(&mut old)?;
        let mut done = OldSegments::default();
        let result = self.remove_each(&old, before, upto, taken, &mut done);
        if done.recycled + done.removed > 0 {
            self.demand.relieve();
        }
        self.counters.recycled.fetch_add(done.recycled, Ordering::Relaxed);
        self.counters.removed.fetch_add(done.removed, Ordering::Relaxed);
        // Also after an error: a segment that got a new name may be written under it any time from
        // now on.
        if done.recycled > 0 {
            self.settle_names()?;
        } else if done.removed > 0 {
            self.sync_dir()?;
        }
        if archived {
            let gone = usize::try_from(done.recycled + done.removed).unwrap_or(usize::MAX);
            old.iter().take(gone).for_each(|(_, name)| self.status.forget(name));
        }
        result.map(|()| done)
    }

    /// Takes those from `old` that the archive does not have yet; marks those that it was not told
    /// of. False if there is no archive.
    fn keep_unarchived(&self, old: &mut Vec<(u64, String)>) -> Result<bool, WalError> {
        if !self.status.is_on() || old.is_empty() {
            return Ok(false);
        }
        let known = self.status.list()?;
        for (_, name) in old.iter().filter(|(_, name)| !known.knows(name)) {
            self.announce(name);
        }
        forebay_aio::planted_bug!(self.aio, WalSegmentsRemovedBeforeArchived, return Ok(true));
        old.retain(|(_, name)| known.is_done(name));
        self.poison.check()?;
        if !old.is_empty() {
            // After a crash nothing may be waiting for the archive that has become another segment.
            self.status.settle()?;
        }
        Ok(true)
    }

    /// Recycles or removes each of `old`; counts in `done` what was done, also when it fails
    /// halfway.
    fn remove_each(
        &self,
        old: &[(u64, String)],
        before: u64,
        upto: u64,
        mut taken: BTreeSet<u64>,
        done: &mut OldSegments,
    ) -> Result<(), WalError> {
        let mut future = self.ready().max(before);
        for (_, name) in old {
            self.poison.check()?;
            let path = self.dir.join(name);
            let recycle = self.recycle.load(Ordering::Relaxed) && !name.ends_with(PARTIAL);
            if recycle && self.recycle(&path, &mut future, upto, &mut taken)? {
                done.recycled += 1;
            } else {
                self.aio
                    .namespace()
                    .unlink(&path)
                    .map_err(|e| WalError::segment("remove", &path, e))?;
                done.removed += 1;
            }
        }
        Ok(())
    }

    /// Gives an old segment the first free name from `future` up to `upto`. False if there is none,
    /// or it is not fit.
    fn recycle(
        &self,
        old: &Path,
        future: &mut u64,
        upto: u64,
        taken: &mut BTreeSet<u64>,
    ) -> Result<bool, WalError> {
        loop {
            while taken.contains(future) {
                *future += 1;
            }
            if *future > upto {
                return Ok(false);
            }
            match self.rename(old, *future)? {
                Renamed::Unfit => return Ok(false),
                Renamed::Done => {
                    taken.insert(*future);
                    return Ok(true);
                }
                // Made meanwhile, for the log goes on.
                Renamed::Taken => taken.insert(*future),
            };
        }
    }

    /// Gives an old segment that name.
    fn rename(&self, old: &Path, number: u64) -> Result<Renamed, WalError> {
        let mut unsettled = self.names.lock();
        let namespace = self.aio.namespace();
        let stat = namespace.stat(old).map_err(|e| WalError::segment("examine", old, e))?;
        if !stat.is_some_and(|stat| stat.len == self.size.bytes() && stat.links == 1) {
            return Ok(Renamed::Unfit);
        }
        let new = self.path(number);
        if namespace.exists(&new).map_err(|e| WalError::segment("examine", &new, e))? {
            return Ok(Renamed::Taken);
        }
        namespace.rename(old, &new).map_err(|e| WalError::segment("recycle", old, e))?;
        *unsettled = true;
        Ok(Renamed::Done)
    }
}
