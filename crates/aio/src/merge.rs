//! Merging: staged neighbours leave as one kernel-level I/O.
//!
//! When a batch is submitted, reads (or writes) of one open file that adjoin each other become a
//! *chain*, in whatever order they were staged, up to the combine limit. The member that comes
//! first in the file is the head: it alone goes to the method, with the memory of all. The others
//! keep their handles, reports, completions and waiters:
//!
//! ```text
//!   staged:     read 5   read 4   read 6   read 9        handles 0 1 2 3
//!   chains:     1 -> 0 -> 2 (blocks 4..6)     3 (alone)
//!   to method:  1, 3
//! ```
//!
//! # States
//!
//! All members are SUBMITTED and COMPLETED_IO together: the head is the first to become SUBMITTED,
//! and the last to leave it. So who sees a member SUBMITTED finds its head SUBMITTED, and whoever
//! waits for a member waits for its head at the method (helps it, leads its ring, takes it out of a
//! queue). No completion that was taken already can be waited for there, because what was taken has
//! moved every member on. From COMPLETED_IO on each member goes its own way; the head is completed
//! first, since those who wait for another member may be asleep on the head and must be woken to
//! look at their own.
//!
//! # Results
//!
//! A short transfer is continued over the whole chain, then each member gets its share: past the
//! end of a file, nothing, just as if it had been alone. When the whole fails, each member is
//! carried out alone, so that only the guilty one fails. Writes to files opened with O_DSYNC are an
//! exception: such a write includes a sync, a failed sync is never repeated, and so all members
//! fail.
//!
//! # Order
//!
//! Between I/Os in flight there is no order: not in the kernel, not in a queue of workers. Who
//! needs one I/O to come after another waits for the other first. Merging takes nothing away from
//! what a method that executes in the order of submission gives: a member moves forward to the
//! place of the first of its chain, but never past an I/O that was staged before it and overlaps it
//! in the same file (unless both read), and never past a sync or another operation on a file as
//! such, whichever file.

use smallvec::SmallVec;

use crate::backend::Backend;
use crate::error::Errno;
use crate::execute::Vector;
use crate::file::File;
use crate::memory::Region;
use crate::op::OpKind;
use crate::platform::MAX_VECTORS;
use crate::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Release},
};
use crate::sync::{Arc, RwLock};

/// A staged I/O, as far as merging is concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Its handle.
    pub(crate) index: u32,
    /// Tells open files apart.
    pub(crate) file: usize,
    pub(crate) op: OpKind,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// Pieces of memory.
    pub(crate) vectors: usize,
    /// The memory is the issuer's own.
    pub(crate) local_memory: bool,
}

/// No piece: the end of a list.
const NONE: u8 = u8::MAX;

const _: () = assert!(Backend::MAX_STAGED < NONE as usize);

/// What leaves as one I/O: a contiguous range.
#[derive(Clone, Copy, Debug)]
struct Unit {
    file: usize,
    op: OpKind,
    local_memory: bool,
    start: u64,
    end: u64,
    vectors: usize,
    /// Its first and last piece, in file order.
    first: u8,
    last: u8,
}

impl Unit {
    fn transfers(&self) -> bool {
        matches!(self.op, OpKind::Readv | OpKind::Writev)
    }

    /// Could the two be one, as far as they themselves are concerned?
    fn fits(&self, other: &Unit, limit: u64) -> bool {
        (self.end == other.start || other.end == self.start)
            && self.file == other.file
            && self.op == other.op
            && self.local_memory == other.local_memory
            && self.transfers()
            && (self.end - self.start) + (other.end - other.start) <= limit
            && self.vectors + other.vectors <= MAX_VECTORS
    }

    /// Must the two keep their order? `same_path` tells whether two pieces are on files of one
    /// path.
    fn bound_to(&self, other: &Unit, same_path: &impl Fn(u8, u8) -> bool) -> bool {
        if !(self.transfers() && other.transfers()) {
            return true;
        }
        let overlap = self.start < other.end && other.start < self.end;
        let written = self.op == OpKind::Writev || other.op == OpKind::Writev;
        overlap && written && (self.file == other.file || same_path(self.first, other.first))
    }
}

/// The units of one batch, in the order in which they are submitted.
pub(crate) struct Plan {
    units: SmallVec<[Unit; Backend::MAX_STAGED]>,
    /// For each piece the next one of its unit.
    next: [u8; Backend::MAX_STAGED],
}

impl Plan {
    /// Finds neighbours among the staged, which are in the order of staging. `same_path` as in the
    /// ordering rule; asked only about overlapping pieces of different open files.
    pub(crate) fn new(
        staged: &[Piece],
        limit: usize,
        same_path: impl Fn(u32, u32) -> bool,
    ) -> Plan {
        let mut plan = Plan { units: SmallVec::new(), next: [NONE; Backend::MAX_STAGED] };
        let same_path =
            |a: u8, b: u8| same_path(staged[a as usize].index, staged[b as usize].index);
        for (n, p) in staged.iter().enumerate() {
            let unit = Unit {
                file: p.file,
                op: p.op,
                local_memory: p.local_memory,
                start: p.offset,
                end: p.offset.saturating_add(p.len),
                vectors: p.vectors,
                first: n as u8,
                last: n as u8,
            };
            plan.units.push(unit);
            // Joining a neighbour may make it the neighbour of another.
            let mut at = plan.units.len() - 1;
            while let Some(joined) = plan.join(at, limit as u64, &same_path) {
                at = joined;
            }
        }
        plan
    }

    /// Merges the unit at `at` with the nearest earlier neighbour, at that one's place, and returns
    /// it. (A later neighbour there can't be: the piece that came last was offered to the later
    /// ones first.)
    fn join(
        &mut self,
        at: usize,
        limit: u64,
        same_path: &impl Fn(u8, u8) -> bool,
    ) -> Option<usize> {
        for to in (0..at).rev() {
            if self.units[to].fits(&self.units[at], limit) {
                self.merge(to, at);
                return Some(to);
            }
            if self.units[to].bound_to(&self.units[at], same_path) {
                break;
            }
        }
        None
    }

    fn merge(&mut self, to: usize, from: usize) {
        let b = self.units.remove(from);
        let a = &mut self.units[to];
        let (low, high) = if a.start < b.start { (*a, b) } else { (b, *a) };
        self.next[low.last as usize] = high.first;
        *a = Unit {
            start: low.start,
            end: high.end,
            vectors: low.vectors + high.vectors,
            first: low.first,
            last: high.last,
            ..low
        };
    }

    /// For each unit the places of its pieces among the staged, in file order.
    pub(crate) fn units(&self) -> impl Iterator<Item = impl Iterator<Item = usize>> {
        self.units.iter().map(|unit| {
            let following = |&n: &u8| Some(self.next[n as usize]).filter(|&n| n != NONE);
            std::iter::successors(Some(unit.first), following).map(usize::from)
        })
    }
}

/// A member of a chain.
pub(crate) struct Member {
    pub(crate) index: u32,
    /// Where its bytes begin within the chain's.
    at: usize,
    len: usize,
}

impl Member {
    /// Its part of the chain's result.
    pub(crate) fn share(&self, whole: Result<usize, Errno>) -> Result<usize, Errno> {
        whole.map(|n| n.saturating_sub(self.at).min(self.len))
    }
}

/// Neighbours that travel as one I/O.
pub(crate) struct Chain {
    pub(crate) file: File,
    pub(crate) op: OpKind,
    pub(crate) offset: u64,
    /// Bytes in all.
    pub(crate) len: usize,
    /// The memory of all members; adjacent pieces of one region in one.
    pub(crate) vectors: Vec<Vector>,
    /// In file order; the head first.
    pub(crate) members: SmallVec<[Member; 16]>,
    /// Where all of the memory lies; None: not in one region.
    pub(crate) region: Option<Arc<Region>>,
}

impl Chain {
    /// Nobody yet.
    pub(crate) fn new(file: File, op: OpKind, offset: u64) -> Chain {
        Chain {
            file,
            op,
            offset,
            len: 0,
            vectors: Vec::new(),
            members: SmallVec::new(),
            region: None,
        }
    }

    /// The members alone. The chain's hold on file and memory goes here, while each member still
    /// has its own: so it is never whoever completes the last member that closes or unmaps.
    pub(crate) fn into_members(self) -> SmallVec<[Member; 16]> {
        self.members
    }

    /// Appends the I/O of a handle, with memory in `region`.
    pub(crate) fn push(&mut self, index: u32, vectors: &[Vector], region: Option<&Arc<Region>>) {
        if self.members.is_empty() {
            self.region = region.cloned();
        } else if !self.region.iter().zip(region).any(|(a, b)| Arc::ptr_eq(a, b)) {
            self.region = None;
        }
        let at = self.len;
        for v in vectors {
            self.len += v.len();
            match self.vectors.last_mut() {
                // No vector reaches from one region into the next, even where they lie side by
                // side.
                Some(last)
                    if self.region.is_some() && last.ptr().wrapping_add(last.len()) == v.ptr() =>
                {
                    *last = Vector::new(last.ptr(), last.len() + v.len());
                }
                _ => self.vectors.push(*v),
            }
        }
        self.members.push(Member { index, at, len: self.len - at });
    }
}

/// A handle's place in a chain.
pub(crate) struct Link {
    /// The head's handle, its own if it is the head; [`ALONE`]. Valid from SUBMITTED on.
    head: AtomicU32,
    /// A head's chain. Taken out by whoever completes it.
    pub(crate) chain: RwLock<Option<Box<Chain>>>,
}

const ALONE: u32 = u32::MAX;

impl Link {
    pub(crate) fn new() -> Link {
        Link { head: AtomicU32::new(ALONE), chain: RwLock::new(None) }
    }

    /// In no chain (any more).
    pub(crate) fn clear(&self) {
        self.head.store(ALONE, Release);
    }

    /// In the chain of `head`.
    pub(crate) fn join(&self, head: u32) {
        self.head.store(head, Release);
    }

    /// The head of the chain. (Acquire: who finds the head of a later use here finds the handle in
    /// that use afterwards.)
    pub(crate) fn head(&self) -> Option<u32> {
        Some(self.head.load(Acquire)).filter(|&head| head != ALONE)
    }
}

#[cfg(test)]
mod tests;
