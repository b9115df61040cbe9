//! Merging: staged neighbours are submitted as one kernel-level I/O.
//!
//! When a batch is submitted, adjacent reads (or writes) of one open file become a *chain*, in
//! whatever order they were staged, up to the combine limit. The member that comes first in the
//! file is the head: only it goes to the method, with the memory of all members. The others keep
//! their handles, reports, completions and waiters:
//!
//! ```text
//!   staged:     read 5   read 4   read 6   read 9        handles 0 1 2 3
//!   chains:     1 -> 0 -> 2 (blocks 4..6)     3 (alone)
//!   to method:  1, 3
//! ```
//!
//! # States
//!
//! All members enter SUBMITTED and COMPLETED_IO together. The head is the first to become SUBMITTED
//! and the last to leave it, so a thread that sees a member SUBMITTED finds its head SUBMITTED. A
//! thread that waits for a member waits for the head at the method: it helps the head, leads its
//! ring, or takes it out of a queue. It never waits there for a completion that was already taken,
//! because taking one moves every member on.
//!
//! From COMPLETED_IO on each member proceeds alone. The head is completed first, because threads
//! that wait for another member may be asleep on the head, and must wake to look at their own
//! member.
//!
//! # Results
//!
//! A short transfer is continued over the whole chain. Then each member gets its share; a member
//! past the end of a file gets nothing, as if it had been alone. If the whole fails, each member is
//! executed alone, so that only the faulty one fails. Writes to files opened with O_DSYNC are an
//! exception: such a write includes a sync, and a failed sync is never repeated, so all members
//! fail.
//!
//! # Order
//!
//! I/Os in flight have no order, in the kernel or in a queue of workers. A caller that needs one
//! I/O after another waits for the first. Merging keeps the order that a method gives that executes
//! in the order of submission. A member moves forward to the place of the first of its chain. But
//! it never moves past an earlier I/O that overlaps it in the same file (unless both read), or past
//! a sync or another operation that is no transfer, whichever file that is on.

use smallvec::SmallVec;

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

/// The maximum number of I/Os of one batch: [`IoBackend::MAX_STAGED`](crate::Backend::MAX_STAGED).
pub(crate) const MAX_STAGED: usize = 32;

/// A staged I/O, as far as merging is concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Its handle.
    pub(crate) index: u32,
    /// Identifies the open file.
    pub(crate) file: usize,
    pub(crate) op: OpKind,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// How many ranges of memory it has.
    pub(crate) vectors: usize,
    /// The memory is the issuer's own.
    pub(crate) local_memory: bool,
}

/// The end of a list of pieces.
const NONE: u8 = u8::MAX;

const _: () = assert!(MAX_STAGED < NONE as usize);

/// A contiguous range that is submitted as one I/O.
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

    /// Whether the two can be merged, apart from the order of other units.
    fn fits(&self, other: &Unit, limit: u64) -> bool {
        (self.end == other.start || other.end == self.start)
            && self.file == other.file
            && self.op == other.op
            && self.local_memory == other.local_memory
            && self.transfers()
            && (self.end - self.start) + (other.end - other.start) <= limit
            && self.vectors + other.vectors <= MAX_VECTORS
    }

    /// Whether the two must keep their order. `same_path` tells whether two pieces are on files of
    /// one path.
    fn bound_to(&self, other: &Unit, same_path: &impl Fn(u8, u8) -> bool) -> bool {
        if !(self.transfers() && other.transfers()) {
            return true;
        }
        let overlap = self.start < other.end && other.start < self.end;
        let written = self.op == OpKind::Writev || other.op == OpKind::Writev;
        overlap && written && (self.file == other.file || same_path(self.first, other.first))
    }
}

/// The units of one batch, in the order of submission.
pub(crate) struct Plan {
    units: SmallVec<[Unit; MAX_STAGED]>,
    /// For each piece, the next one of its unit.
    next: [u8; MAX_STAGED],
}

impl Plan {
    /// Finds neighbours among `staged`, which are in the order of staging. `same_path` is asked
    /// only about overlapping pieces of different open files.
    pub(crate) fn new(
        staged: &[Piece],
        limit: usize,
        same_path: impl Fn(u32, u32) -> bool,
    ) -> Plan {
        let mut plan = Plan { units: SmallVec::new(), next: [NONE; MAX_STAGED] };
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
            // After a merge the unit may adjoin another one.
            let mut at = plan.units.len() - 1;
            while let Some(joined) = plan.join(at, limit as u64, &same_path) {
                at = joined;
            }
        }
        plan
    }

    /// Merges the unit at `at` with the nearest earlier neighbour, at that one's place, and returns
    /// that place. There is no later neighbour, because the newest piece was offered to the later
    /// units first.
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

    /// For each unit, the indexes of its pieces in file order.
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
    /// Where its bytes begin within the chain.
    at: usize,
    len: usize,
}

impl Member {
    /// Its part of the chain's result.
    pub(crate) fn share(&self, whole: Result<usize, Errno>) -> Result<usize, Errno> {
        whole.map(|n| n.saturating_sub(self.at).min(self.len))
    }
}

/// Merged neighbours.
pub(crate) struct Chain {
    pub(crate) file: File,
    pub(crate) op: OpKind,
    pub(crate) offset: u64,
    /// Bytes of all members.
    pub(crate) len: usize,
    /// The memory of all members; adjacent ranges of one region are joined.
    pub(crate) vectors: Vec<Vector>,
    /// In file order; the head first.
    pub(crate) members: SmallVec<[Member; 16]>,
    /// The region of all the memory; None if there are several.
    pub(crate) region: Option<Arc<Region>>,
}

impl Chain {
    /// A chain without members.
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

    /// The members. The chain drops its references to file and memory here, while each member still
    /// has its own. So completing the last member closes and unmaps nothing.
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
                // Vectors of different regions are not joined, even if adjacent.
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

/// A handle's link to its chain.
pub(crate) struct Link {
    /// The head's handle (its own, if it is the head), or [`ALONE`]. Valid from SUBMITTED on.
    head: AtomicU32,
    /// The chain, if this is its head. The thread that completes it takes it out.
    pub(crate) chain: RwLock<Option<Box<Chain>>>,
}

const ALONE: u32 = u32::MAX;

impl Link {
    pub(crate) fn new() -> Link {
        Link { head: AtomicU32::new(ALONE), chain: RwLock::new(None) }
    }

    /// Leaves the chain.
    pub(crate) fn clear(&self) {
        self.head.store(ALONE, Release);
    }

    /// Joins the chain of `head`.
    pub(crate) fn join(&self, head: u32) {
        self.head.store(head, Release);
    }

    /// The head of the chain. Acquire: a thread that reads the head of a later use here then finds
    /// the handle in that use.
    pub(crate) fn head(&self) -> Option<u32> {
        Some(self.head.load(Acquire)).filter(|&head| head != ALONE)
    }
}

#[cfg(test)]
mod tests;
