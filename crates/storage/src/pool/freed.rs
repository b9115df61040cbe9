//! Buffers whose pages were forgotten, because their relation was dropped or truncated. New pages
//! take them first. Without this list the hand would have to come by: it looks at a few buffers for
//! each page, and other pages would leave while free buffers lie elsewhere.

use std::collections::VecDeque;

use forebay_aio::sync::Mutex;
use forebay_aio::sync::atomic::{AtomicUsize, Ordering};

/// Buffers in the order in which they became free. They are hints: one may have a page again, or no
/// place, and may be there twice.
#[derive(Default)]
pub(crate) struct Freed {
    buffers: Mutex<VecDeque<u32>>,
    /// How many there are, for those who find none.
    len: AtomicUsize,
}

impl Freed {
    /// Adds a buffer, unless there are as many as the pool has.
    pub(crate) fn add(&self, buf: u32, most: usize) {
        let mut buffers = self.buffers.lock();
        if buffers.len() < most {
            buffers.push_back(buf);
            self.len.store(buffers.len(), Ordering::Relaxed);
        }
    }

    /// Takes the buffer out that has been there longest.
    pub(crate) fn take(&self) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let mut buffers = self.buffers.lock();
        let first = buffers.pop_front();
        if buffers.is_empty() {
            *buffers = VecDeque::new(); // A large relation's list is not kept.
        }
        self.len.store(buffers.len(), Ordering::Relaxed);
        first
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    /// Forgets the buffers from this one on.
    pub(crate) fn forget_from(&self, first: u32) {
        let mut buffers = self.buffers.lock();
        buffers.retain(|&buf| buf < first);
        buffers.shrink_to_fit();
        self.len.store(buffers.len(), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_comes_first_and_the_number_is_bounded() {
        let freed = Freed::default();
        assert_eq!(freed.take(), None);
        for buf in [7, 3, 7, 5] {
            freed.add(buf, 3);
        }
        let taken: Vec<u32> = std::iter::from_fn(|| freed.take()).collect();
        assert_eq!(taken, [7, 3, 7]);
        freed.add(5, 3);
        assert_eq!((freed.take(), freed.take()), (Some(5), None));
        [7, 3, 5].iter().for_each(|&buf| freed.add(buf, 3));
        freed.forget_from(5);
        assert_eq!((freed.take(), freed.is_empty()), (Some(3), true));
    }
}
