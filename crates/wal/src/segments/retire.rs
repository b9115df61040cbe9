//! Recycles or removes old segments; while archiving, only archived ones.

use std::collections::BTreeSet;
use std::path::Path;

use super::files::Segments;
use crate::error::WalError;

/// Suffix of the partial segment at the end of a timeline.
const PARTIAL: &str = ".partial";

/// Counts of old segments that one call recycled or removed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct OldSegments {
    /// Renamed, to be written again.
    pub recycled: u64,
    /// Removed.
    pub removed: u64,
}

/// The outcome of an attempt to rename an old segment.
enum Renamed {
    Done,
    /// The new name exists.
    Taken,
    /// The file is not as long as a segment, or has other names.
    Unfit,
}

impl Segments {
    /// Recycles or removes the segments below `before`; while archiving, only archived ones.
    /// Recycled segments get free names up to `upto`.
    pub fn remove_before(&self, before: u64, upto: u64) -> Result<OldSegments, WalError> {
        let _retiring = self.retiring.lock();
        self.demand.keep_fewer();
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
            self.demand.allow_retry();
        }
        let mut stats = self.stats.lock();
        stats.recycled += done.recycled;
        stats.removed += done.removed;
        drop(stats);
        // Also after an error: a recycled segment may be written any time from now on.
        if done.recycled > 0 {
            self.settle_names()?;
        } else if done.removed > 0 {
            self.sync_dir()?;
        }
        if archived {
            let gone = (done.recycled + done.removed) as usize;
            old.iter().take(gone).for_each(|(_, name)| self.status.forget(name));
        }
        result.map(|()| done)
    }

    /// While archiving, removes from `old` the segments that are not archived, and marks those that
    /// have no mark. Returns whether the log is archived.
    fn keep_unarchived(&self, old: &mut Vec<(u64, String)>) -> Result<bool, WalError> {
        if !self.status.is_on() || old.is_empty() {
            return Ok(false);
        }
        let marks = self.status.list()?;
        for (_, name) in old.iter().filter(|(_, name)| !marks.has(name)) {
            self.announce(name);
        }
        forebay_aio::planted_bug!(self.aio, WalSegmentsRemovedBeforeArchived, return Ok(true));
        old.retain(|(_, name)| marks.is_done(name));
        self.poison.check()?;
        if !old.is_empty() {
            // So that after a crash no segment has a stale `.ready` mark and a new use.
            self.status.settle()?;
        }
        Ok(true)
    }

    /// Recycles or removes each of `old`. Counts them in `done`, also if it fails halfway.
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
            let recycle = self.policy.lock().recycle && !name.ends_with(PARTIAL);
            if recycle && self.recycle(&path, &mut future, upto, &mut taken)? {
                done.recycled += 1;
            } else {
                self.unlink(&path)?;
                done.removed += 1;
            }
        }
        Ok(())
    }

    /// Renames an old segment to the first free name from `future` up to `upto`. Returns false if
    /// there is none, or the file is unfit.
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
                // An inserter has made that segment meanwhile.
                Renamed::Taken => taken.insert(*future),
            };
        }
    }

    /// Renames an old segment to that of `number`.
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
