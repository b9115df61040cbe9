//! Single versions of rows, by their place.

use forebay_format::tuple::HeapTuple;
use forebay_format::{Fork, ItemPointer, Xid};
use forebay_storage::{Backend, Strategy};

use super::relation::Heap;
use super::status::updater;
use super::tuple_at::tuple_at;
use super::visibility::Visibility;
use crate::error::AccessError;

impl Heap {
    /// The version at `tid`, if there is one and it is seen.
    pub fn fetch(
        &self,
        backend: &mut Backend,
        visibility: &mut Visibility,
        tid: ItemPointer,
    ) -> Result<Option<Vec<u8>>, AccessError> {
        visibility.keep_multis();
        self.version_where(backend, tid, |backend, tuple| visibility.sees(&mut backend.io, tuple))
    }

    /// The newest version that is seen of the row whose version is at `tid`, with its place.
    /// PostgreSQL calls it the latest tid.
    pub fn newest_seen(
        &self,
        backend: &mut Backend,
        visibility: &mut Visibility,
        tid: ItemPointer,
    ) -> Result<Option<(ItemPointer, Vec<u8>)>, AccessError> {
        visibility.keep_multis();
        let (mut at, mut by, mut newest) = (tid, None::<Xid>, None);
        loop {
            let mut judged = None;
            let found = self.version_where(backend, at, |backend, tuple| {
                if by.is_some_and(|by| tuple.xmin() != by) {
                    // The chain ended before it, and its place was used again.
                    return Ok(false);
                }
                let seen = visibility.sees(&mut backend.io, tuple)?;
                let next_by = updater(&mut backend.io, visibility, tuple)?;
                judged = Some((seen, next_by, tuple.ctid()));
                Ok(true)
            })?;
            let (Some(bytes), Some((seen, next_by, next))) = (found, judged) else { break };
            if seen {
                newest = Some((at, bytes));
            }
            if next_by.is_none() || next == at {
                break;
            }
            (at, by) = (next, next_by);
        }
        Ok(newest)
    }

    /// The version at `tid`, if `inserter` has made it. If not, it was the end of a chain and is
    /// gone, and its place was used again.
    ///
    /// # Errors
    /// If there is no version at all. The caller's snapshot sees an older version of the row, so
    /// nothing can have removed this one.
    pub fn newer_version(
        &self,
        backend: &mut Backend,
        tid: ItemPointer,
        inserter: Xid,
    ) -> Result<Option<Vec<u8>>, AccessError> {
        let mut exists = false;
        let version = self.version_where(backend, tid, |_, tuple| {
            exists = true;
            Ok(tuple.xmin() == inserter)
        })?;
        if exists { Ok(version) } else { Err(self.no_newer_version(tid, inserter)) }
    }

    /// A chain of versions leads to nothing.
    #[cold]
    pub(super) fn no_newer_version(&self, tid: ItemPointer, inserter: Xid) -> AccessError {
        let problem = format!("the version of a row that transaction {inserter} made is missing");
        self.located(tid, AccessError::Corrupt(problem))
    }

    /// The version at `tid`, whatever became of it.
    pub fn any_version(
        &self,
        backend: &mut Backend,
        tid: ItemPointer,
    ) -> Result<Option<Vec<u8>>, AccessError> {
        self.version_where(backend, tid, |_, _| Ok(true))
    }

    fn version_where(
        &self,
        backend: &mut Backend,
        tid: ItemPointer,
        wanted: impl FnOnce(&mut Backend, HeapTuple<'_>) -> Result<bool, AccessError>,
    ) -> Result<Option<Vec<u8>>, AccessError> {
        if tid.block >= self.pool.nblocks(self.locator, Fork::Main)? {
            return Ok(None);
        }
        let pin = self.pool.read(backend, self.tag(tid.block), Strategy::Normal)?;
        let guard = pin.lock_shared();
        let found = tuple_at(guard.page(), pin.tag(), tid.offset)?;
        let Some(bytes) = found.map(|tuple| tuple.bytes().to_vec()) else { return Ok(None) };
        // Outcomes may have to be read from files. The pin keeps them, as for a scan.
        drop(guard);
        let wanted = wanted(backend, HeapTuple::new(&bytes)?);
        Ok(wanted.map_err(|error| self.located(tid, error))?.then_some(bytes))
    }
}
