//! Buffers without places: those that a shrink gives up. What it could not give up remains, and is
//! given up later, or gets its places back.
//!
//! ```text
//!   buffers:  | with places ........ | chunk | chunk | chunk |
//!                                      tail
//!   a chunk:  | retired | in use | retired ........ |
//! ```
//!
//! The memory of retired buffers between those in use can be given back on its own.

use std::collections::VecDeque;
use std::ops::Range;

/// Buffers that are given up together: 4 MB of them.
const CHUNK: u32 = 512;

/// Successive buffers without places.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) buffers: Range<u32>,
    /// Those that are not retired, in order.
    pub(crate) in_use: Vec<u32>,
    /// How many were in use when memory was given back last. None: it was not.
    given_back: Option<usize>,
}

impl Chunk {
    fn of(buffers: Range<u32>) -> Chunk {
        Chunk { in_use: buffers.clone().collect(), buffers, given_back: None }
    }

    /// The retired buffers, in order.
    pub(crate) fn retired(&self) -> Vec<u32> {
        let in_use = |buf: &u32| self.in_use.binary_search(buf).is_ok();
        self.buffers.clone().filter(|buf| !in_use(buf)).collect()
    }

    /// Returns runs of retired buffers, if there are more of them than when this was called last.
    pub(crate) fn take_retired_runs(&mut self) -> Vec<Range<u32>> {
        let before = self.given_back.replace(self.in_use.len());
        if before.unwrap_or(self.buffers.len()) <= self.in_use.len() {
            return Vec::new();
        }
        let ends = self.in_use.iter().copied().chain([self.buffers.end]);
        let mut from = self.buffers.start;
        let runs = ends.map(|end| std::mem::replace(&mut from, end + 1)..end);
        runs.filter(|run| !run.is_empty()).collect()
    }

    /// Whether its memory was given back in part.
    pub(crate) fn has_holes(&self) -> bool {
        self.given_back.is_some()
    }

    /// A part of its memory may be provided again without need, and is to be given back.
    pub(crate) fn give_back_again(&mut self) {
        self.given_back = Some(usize::MAX);
    }

    /// Splits off the buffers from `at` on.
    fn split(&mut self, at: u32) -> Chunk {
        let in_use = self.in_use.split_off(self.in_use.partition_point(|&buf| buf < at));
        let (buffers, given_back) = (at..self.buffers.end, self.given_back.map(|_| usize::MAX));
        self.buffers.end = at;
        Chunk { buffers, in_use, given_back }
    }
}

/// All buffers without places, in order.
#[derive(Debug, Default)]
pub(crate) struct Tail(pub(crate) VecDeque<Chunk>);

impl Tail {
    /// Adds the buffers before those that it has. All of them are in use.
    pub(crate) fn extend_down(&mut self, buffers: Range<u32>) {
        let mut end = buffers.end;
        while end > buffers.start {
            let start = ((end - 1) / CHUNK * CHUNK).max(buffers.start);
            self.0.push_front(Chunk::of(start..end));
            end = start;
        }
    }

    /// Takes the first buffers out, those before `to`.
    pub(crate) fn take_first(&mut self, to: u32) -> Option<Chunk> {
        let first = self.0.front_mut().filter(|chunk| chunk.buffers.start < to)?;
        if first.buffers.end > to {
            let rest = first.split(to);
            self.0.insert(1, rest);
        }
        self.0.pop_front()
    }

    /// Drops the last chunks that have no buffer in use. Returns the end of the others.
    pub(crate) fn drop_retired(&mut self) -> Option<u32> {
        while self.0.back().is_some_and(|chunk| chunk.in_use.is_empty()) {
            self.0.pop_back();
        }
        self.0.back().map(|chunk| chunk.buffers.end)
    }

    /// The number of buffers in use.
    pub(crate) fn in_use(&self) -> usize {
        self.0.iter().map(|chunk| chunk.in_use.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(buffers: Range<u32>) -> Tail {
        let mut tail = Tail::default();
        tail.extend_down(buffers);
        tail
    }

    fn ranges(tail: &Tail) -> Vec<Range<u32>> {
        tail.0.iter().map(|chunk| chunk.buffers.clone()).collect()
    }

    #[test]
    fn it_grows_downwards() {
        let mut tail = tail(700..1100);
        assert_eq!(ranges(&tail), [700..1024, 1024..1100]);
        tail.extend_down(500..700);
        assert_eq!(ranges(&tail), [500..512, 512..700, 700..1024, 1024..1100]);
        assert_eq!(tail.in_use(), 600);
        tail.extend_down(500..500);
        assert_eq!(tail.0.len(), 4);
    }

    #[test]
    fn what_is_retired_leaves_from_the_end() {
        let mut tail = tail(0..1536);
        for at in [0, 2] {
            tail.0[at].in_use.clear();
        }
        assert_eq!(tail.drop_retired(), Some(1024));
        tail.0[1].in_use.clear();
        assert_eq!((tail.drop_retired(), tail.0.len()), (None, 0));
    }

    #[test]
    fn the_first_ones_are_taken_out() {
        let mut tail = tail(100..1000);
        tail.0[0].in_use = vec![150, 300];
        assert!(tail.take_first(100).is_none());
        let first = tail.take_first(200).expect("there");
        assert_eq!((first.buffers.clone(), first.in_use.clone()), (100..200, vec![150]));
        assert_eq!(first.retired().len(), 99);
        assert_eq!(ranges(&tail), [200..512, 512..1000]);
        assert_eq!(tail.0[0].in_use, [300]);
        assert_eq!(tail.take_first(5000).expect("there").buffers, 200..512);
    }

    #[test]
    fn memory_between_buffers_in_use_is_given_back_once() {
        let mut tail = tail(0..10);
        let chunk = &mut tail.0[0];
        assert!(chunk.take_retired_runs().is_empty() && chunk.has_holes());
        chunk.in_use = vec![0, 4, 5, 9];
        assert_eq!(chunk.take_retired_runs(), [1..4, 6..9]);
        assert!(chunk.take_retired_runs().is_empty());
        chunk.in_use = vec![4];
        assert_eq!(chunk.take_retired_runs(), [0..4, 5..10]);
        chunk.give_back_again();
        assert_eq!(chunk.take_retired_runs(), [0..4, 5..10]);
    }
}
