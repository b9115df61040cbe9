//! A place in a scan, which moves item by item.

use std::sync::Arc;

use forebay_format::ItemPointer;
use forebay_format::nbtree::Tuple;
use forebay_storage::Backend;

use super::scan::{Batch, IndexScan, Item};
use super::scan_keys::Condition;
use super::wanted::Direction;
use crate::error::AccessError;

/// Where a cursor is.
#[derive(Debug, Clone)]
enum Place {
    /// Before the first item in either direction.
    Start,
    /// On an item of a batch.
    On(Arc<Batch>, usize),
    /// Behind the last item of a direction; the batch is the last one.
    Behind(Arc<Batch>, Direction),
    /// There are no items.
    Nothing,
}

/// A scan with a place in it.
#[derive(Debug)]
pub struct IndexCursor {
    scan: IndexScan,
    place: Place,
    mark: Place,
}

impl IndexCursor {
    /// Stands before the first item. Keeps no pins: what it leads to is for an MVCC snapshot.
    pub fn new(scan: IndexScan) -> IndexCursor {
        let scan = scan.without_pins();
        IndexCursor { scan, place: Place::Start, mark: Place::Start }
    }

    /// Begins anew with other conditions.
    pub fn restart(&mut self, conditions: Vec<Condition>) {
        self.scan.set_conditions(conditions);
        (self.place, self.mark) = (Place::Start, Place::Start);
    }

    /// The scan, to be begun anew.
    pub fn into_scan(self) -> IndexScan {
        self.scan
    }

    /// Moves to the next item in a direction. None behind the last one.
    pub fn next(
        &mut self,
        backend: &mut Backend,
        direction: Direction,
    ) -> Result<Option<ItemPointer>, AccessError> {
        let (batch, at) = match &self.place {
            Place::Nothing => return Ok(None),
            Place::Start => match self.scan.first(backend, direction)? {
                None => {
                    self.place = Place::Nothing;
                    return Ok(None);
                }
                Some(batch) => edge(batch, direction),
            },
            Place::Behind(_, end) if *end == direction => return Ok(None),
            Place::Behind(batch, _) => (batch.clone(), edge_of(batch, direction)),
            Place::On(batch, at) => {
                let next = match direction {
                    Direction::Forward => Some(at + 1).filter(|&at| at < batch.items().len()),
                    Direction::Backward => at.checked_sub(1),
                };
                match next {
                    Some(at) => (batch.clone(), at),
                    None => match self.scan.next(backend, batch, direction)? {
                        Some(batch) => edge(batch, direction),
                        None => {
                            self.place = Place::Behind(batch.clone(), direction);
                            return Ok(None);
                        }
                    },
                }
            }
        };
        let tid = batch.items().get(at).map(|item| item.tid);
        self.place = Place::On(batch, at);
        Ok(tid)
    }

    /// The item that the cursor is on.
    fn item(&self) -> Option<(&Batch, &Item)> {
        match &self.place {
            Place::On(batch, at) => Some((batch.as_ref(), batch.items().get(*at)?)),
            _ => None,
        }
    }

    /// The index tuple of the item, if the scan keeps them.
    pub fn tuple(&self) -> Option<Tuple<'_>> {
        self.item().and_then(|(batch, item)| batch.tuple(item))
    }

    /// The items of the present batch that come next in a direction, nearest first: their rows can
    /// be read ahead.
    pub fn upcoming(&self, direction: Direction) -> impl Iterator<Item = ItemPointer> + '_ {
        let (before, behind): (&[Item], &[Item]) = match &self.place {
            Place::On(batch, at) => {
                let (before, rest) = batch.items().split_at(*at);
                (before, rest.get(1..).unwrap_or_default())
            }
            _ => (&[], &[]),
        };
        let (forward, backward) = match direction {
            Direction::Forward => (behind, &[][..]),
            Direction::Backward => (&[][..], before),
        };
        forward.iter().chain(backward.iter().rev()).map(|item| item.tid)
    }

    /// Remembers the place.
    pub fn set_mark(&mut self) {
        self.mark = self.place.clone();
    }

    /// Goes back to the remembered place.
    pub fn go_to_mark(&mut self) {
        self.place = self.mark.clone();
    }
}

fn edge(batch: Batch, direction: Direction) -> (Arc<Batch>, usize) {
    let at = edge_of(&batch, direction);
    (Arc::new(batch), at)
}

/// The first item of a batch in a direction.
fn edge_of(batch: &Batch, direction: Direction) -> usize {
    match direction {
        Direction::Forward => 0,
        Direction::Backward => batch.items().len() - 1,
    }
}
