//! Blocks with room.
//!
//! Each relation has a list of blocks that have room and that no backend fills. An inserter takes a
//! block out of the list, so that no other fills the same one, and puts it back when it is done.
//! The list is a hint: an inserter looks at the page under its lock. The list lives in memory.
//! After a start it begins with the blocks at the relation's end.
//!
//! An inserter that finds nothing there searches the free-space map, into which vacuum has written
//! what it found. Only if that has nothing either the relation is extended. The new blocks go to
//! the list, not to the map: after a start they are found at the relation's end.
//!
//! The place of the relation's scans is kept beside the list: see `scan_place`.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_aio::sync::Mutex;
use forebay_format::{BlockNumber, Oid, RelFileLocator};

use super::scan_place::ScanPlace;

/// Most entries of a list. Blocks with the least room are dropped first.
const REMEMBERED: usize = 128;
/// Blocks with less room than this are not listed.
const WORTHWHILE: usize = 64;
/// Room on an empty page.
pub(super) const EMPTY: usize = 8164;

/// A block with room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) block: BlockNumber,
    pub(super) free: usize,
}

#[derive(Debug, Default)]
struct State {
    rooms: Vec<Room>,
    /// Whether a backend has looked at the relation's end, or is doing so.
    looked: bool,
    /// Whether there was no free-space map.
    no_map: bool,
}

/// The list of one relation, and the place of its scans.
#[derive(Debug, Default)]
pub struct RelationSpace {
    state: Mutex<State>,
    pub(super) scans: ScanPlace,
}

impl RelationSpace {
    /// Takes a block with at least `need` bytes of room: the one added last, which is most likely
    /// in memory.
    pub(super) fn take(&self, need: usize) -> Option<BlockNumber> {
        let mut state = self.state.lock();
        let index = state.rooms.iter().rposition(|room| room.free >= need)?;
        Some(state.rooms.remove(index).block)
    }

    /// Adds a block, or puts it back.
    pub(super) fn give(&self, block: BlockNumber, free: usize) {
        if free < WORTHWHILE {
            return;
        }
        let mut state = self.state.lock();
        if state.rooms.iter().any(|room| room.block == block) {
            return;
        }
        if state.rooms.len() >= REMEMBERED {
            let least = state.rooms.iter().enumerate().min_by_key(|(_, room)| room.free);
            match least.map(|(index, room)| (index, room.free)) {
                Some((index, least)) if least < free => {
                    state.rooms.remove(index);
                }
                _ => return,
            }
        }
        state.rooms.push(Room { block, free });
    }

    /// Whether the caller is the first and should look at the relation's end.
    pub(super) fn first_look(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().looked, true)
    }

    /// Whether a free-space map may be there.
    pub(super) fn may_have_map(&self) -> bool {
        !self.state.lock().no_map
    }

    /// Tells whether there is a free-space map.
    pub(super) fn note_map(&self, exists: bool) {
        self.state.lock().no_map = !exists;
    }

    /// Forgets block `blocks` and later ones, which are gone.
    pub(super) fn forget_from(&self, blocks: BlockNumber) {
        self.state.lock().rooms.retain(|room| room.block < blocks);
    }

    /// The entries.
    #[cfg(test)]
    pub(super) fn rooms(&self) -> Vec<Room> {
        self.state.lock().rooms.clone()
    }
}

/// The lists of all relations.
#[derive(Debug, Default)]
pub struct SpaceMap {
    relations: Mutex<HashMap<RelFileLocator, Arc<RelationSpace>>>,
}

impl SpaceMap {
    /// No entries.
    pub fn new() -> SpaceMap {
        SpaceMap::default()
    }

    /// The list of a relation.
    pub fn relation(&self, rel: RelFileLocator) -> Arc<RelationSpace> {
        self.relations.lock().entry(rel).or_default().clone()
    }

    /// Removes the list of a relation that is dropped.
    pub fn forget(&self, rel: RelFileLocator) {
        self.relations.lock().remove(&rel);
    }

    /// Removes the lists of a database's relations.
    pub fn forget_database(&self, database: Oid) {
        self.relations.lock().retain(|rel, _| rel.db != database);
    }
}
