//! Which rows of a table an index lacks that was built while others changed the table.
//!
//! ```text
//!   index: bulk pass ─▶ places of rows ─▶ sort ─┐
//!   heap: what a snapshot sees, in block order ─┴▶ those without an entry ─▶ the caller adds them
//! ```
//!
//! All who change the table put new rows into the index by now. So it lacks only rows that were
//! inserted, or updated, after the snapshot of the build and before they did.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::cell::RefCell;
use std::cmp::Ordering;

use forebay_format::{BlockNumber, Fork, ItemPointer, OffsetNumber};
use forebay_storage::{
    Backend, Merge, RunItems, Runs, Strategy, StreamSettings, TempReader, TempWriter,
};

use crate::error::AccessError;
use crate::heap::{IndexableScan, PageCost, ReadAhead};
use crate::index_build::RowSource;
use crate::nbtree::{Index, IndexVacuumJob, IndexVacuumStats, append_entry};
use crate::progress::{self, Phase};
use crate::sort::{SortHost, SortResources};

/// A place as a number that orders as the place does.
type Place = u64;

fn number(tid: ItemPointer) -> Place {
    u64::from(tid.block) << OffsetNumber::BITS | u64::from(tid.offset)
}

fn block_of(place: Place) -> BlockNumber {
    BlockNumber::try_from(place >> OffsetNumber::BITS).unwrap_or(BlockNumber::MAX)
}

/// How places are written to temporary files.
#[derive(Clone, Debug)]
struct Places;

impl RunItems<SortHost<'_>> for Places {
    type Item = Place;

    fn order(&self, a: &Place, b: &Place) -> Result<Ordering, AccessError> {
        Ok(a.cmp(b))
    }

    fn write(
        &mut self,
        item: &Place,
        writer: &mut TempWriter,
        host: &mut SortHost<'_>,
    ) -> Result<(), AccessError> {
        Ok(writer.write_all(&mut host.backend.io, &item.to_le_bytes())?)
    }

    fn read(
        &mut self,
        reader: &mut TempReader,
        host: &mut SortHost<'_>,
    ) -> Result<Option<Place>, AccessError> {
        if reader.left() == 0 {
            return Ok(None);
        }
        let mut bytes = [0; size_of::<Place>()];
        reader.read_exact(&mut host.backend.io, &mut bytes)?;
        Ok(Some(Place::from_le_bytes(bytes)))
    }
}

/// The places of the rows that an index has, in order.
#[derive(Debug)]
pub struct RowsInIndex {
    places: Sorted,
    /// The next one.
    next: Option<Place>,
}

#[derive(Debug)]
enum Sorted {
    Memory(std::vec::IntoIter<Place>),
    Merged(Box<Merge<Places, Place>>),
}

impl RowsInIndex {
    /// Reads them in a pass over the index. The caller's lock on the table keeps vacuums from it.
    pub fn collect(
        backend: &mut Backend,
        index: &Index,
        ahead: ReadAhead,
        resources: &SortResources,
    ) -> Result<RowsInIndex, AccessError> {
        let blocks = index.pool.nblocks(index.locator, Fork::Main)?;
        backend.progress.set_all(&[
            (progress::PHASE, Phase::ScanIndex as u64),
            (progress::BLOCKS_TOTAL, blocks.into()),
            (progress::BLOCKS_DONE, 0),
            (progress::TUPLES_TOTAL, 0),
            (progress::TUPLES_DONE, 0),
        ]);
        let job = IndexVacuumJob {
            stream: StreamSettings::new(ahead.io_concurrency, ahead.combine_limit),
            strategy: Strategy::BulkRead,
            interrupt: &resources.interrupt,
        };
        let found = RefCell::new(Vec::new());
        let most = resources.memory / size_of::<Place>();
        let mut runs = None;
        // Nothing is dead: the pass only shows what there is.
        let show = |tid| {
            found.borrow_mut().push(number(tid));
            false
        };
        let mut pace = |backend: &mut Backend, _: PageCost| {
            backend.progress.add(progress::BLOCKS_DONE, 1);
            resources.check()?;
            let mut found = found.borrow_mut();
            if found.len() >= most {
                spill(&mut SortHost { backend, resources }, &mut found, &mut runs)?;
            }
            Ok(())
        };
        let mut stats = IndexVacuumStats::default();
        index.bulk_delete(backend, &job, &show, &mut pace, &mut stats)?;
        backend.progress.set(progress::PHASE, Phase::SortRows as u64);
        let mut host = SortHost { backend, resources };
        let mut found = found.into_inner();
        let mut places = match runs {
            None => {
                found.sort_unstable();
                Sorted::Memory(found.into_iter())
            }
            Some(_) => {
                spill(&mut host, &mut found, &mut runs)?;
                let runs = runs.ok_or_else(|| AccessError::Internal("no runs".to_owned()))?;
                Sorted::Merged(Box::new(runs.merge(&mut host)?))
            }
        };
        let next = places.next(&mut host)?;
        Ok(RowsInIndex { places, next })
    }

    /// The line pointers of a block that have entries. Blocks are asked for in order.
    fn of_block(
        &mut self,
        host: &mut SortHost<'_>,
        block: BlockNumber,
        offsets: &mut Vec<OffsetNumber>,
    ) -> Result<(), AccessError> {
        offsets.clear();
        while let Some(place) = self.next.filter(|place| block_of(*place) <= block) {
            if block_of(place) == block {
                offsets.push(place as OffsetNumber);
            }
            self.next = self.places.next(host)?;
        }
        Ok(())
    }
}

/// Writes what is in memory as a run.
fn spill(
    host: &mut SortHost<'_>,
    found: &mut Vec<Place>,
    runs: &mut Option<Runs<Places>>,
) -> Result<(), AccessError> {
    found.sort_unstable();
    let SortResources { memory, options, .. } = *host.resources;
    let runs = runs.get_or_insert_with(|| Runs::new(Places, memory, options));
    runs.add(found.drain(..), host)
}

impl Sorted {
    fn next(&mut self, host: &mut SortHost<'_>) -> Result<Option<Place>, AccessError> {
        match self {
            Sorted::Memory(places) => Ok(places.next()),
            Sorted::Merged(merge) => merge.next(host),
        }
    }
}

/// A row that has no entry.
#[derive(Debug, Clone, Copy)]
pub struct MissingRow<'a> {
    /// Where its entry is to lead.
    pub place: ItemPointer,
    /// The entry.
    pub tuple: &'a [u8],
}

/// Reads what a snapshot sees of a table ([`IndexableScan::seen_by`]), and has `add` put the rows
/// into the index that it lacks.
pub fn add_missing<E: From<AccessError>>(
    backend: &mut Backend,
    mut rows: IndexableScan<'_>,
    (source, index): (&RowSource, &Index),
    mut present: RowsInIndex,
    resources: &SortResources,
    add: &mut dyn FnMut(&mut Backend, MissingRow<'_>) -> Result<(), E>,
) -> Result<(), E> {
    backend.progress.set_all(&[
        (progress::PHASE, Phase::ScanTable as u64),
        (progress::BLOCKS_TOTAL, rows.blocks.into()),
        (progress::BLOCKS_DONE, 0),
    ]);
    let (mut offsets, mut tuple) = (Vec::new(), Vec::new());
    while rows.next_page(backend)? {
        resources.check()?;
        let mut host = SortHost { backend, resources };
        present.of_block(&mut host, rows.block(), &mut offsets)?;
        for row in rows.found() {
            if offsets.binary_search(&row.root.offset).is_ok() {
                continue;
            }
            tuple.clear();
            let Some(values) = source.values(backend, rows.tuple(row)?)? else { continue };
            let fields = values.iter().map(Option::as_deref);
            append_entry(&index.shape, fields, row.root, &mut tuple)
                .map_err(|error| error.in_row(rows.heap().locator, row.root))?;
            add(backend, MissingRow { place: row.root, tuple: &tuple })?;
        }
        backend.progress.add(progress::BLOCKS_DONE, 1);
    }
    Ok(())
}
