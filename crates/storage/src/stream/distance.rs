//! How far a stream looks ahead, and how much it reads at once. These are two distances:
//!
//! | distance | what it bounds | grows | falls |
//! |---|---|---|---|
//! | `ahead` | blocks to read ahead, to avoid waits | when a wait blocks | with hits |
//! | `combine` | neighbours in one read | with each read | with hits |
//!
//! So a scan whose reads all end before their turn pins few pages, and still reads in full size.
//! That is the case if the kernel has the pages cached, or if the method reads synchronously.
//!
//! Both distances fall only after as many hits in a row as the stream looks ahead. So a cached page
//! here and there does not slow a scan down.

/// The two distances, in blocks.
#[derive(Debug)]
pub(crate) struct Distance {
    ahead: u32,
    combine: u32,
    most_ahead: u32,
    most_combine: u32,
    /// Hits until the distances begin to fall.
    hold: u32,
}

impl Distance {
    pub(crate) fn new(most_ahead: u32, most_combine: u32) -> Distance {
        let most_combine = most_combine.min(most_ahead);
        Distance { ahead: 1, combine: 1, most_ahead, most_combine, hold: 0 }
    }

    /// Sets the distances to those of a new stream.
    pub(crate) fn least(&mut self) {
        (self.ahead, self.combine, self.hold) = (1, 1, 0);
    }

    /// Sets the distances to those after many waits.
    pub(crate) fn in_full(&mut self) {
        self.ahead = self.most_ahead;
        self.combine = self.most_combine;
    }

    /// Sets the distances to those after many reads without a wait.
    pub(crate) fn combine_in_full(&mut self) {
        self.combine = self.most_combine;
    }

    /// Returns the number of blocks to read ahead.
    pub(crate) fn ahead(&self) -> u32 {
        self.ahead
    }

    /// Returns the number of neighbours to read at once.
    pub(crate) fn combine(&self) -> u32 {
        self.combine
    }

    /// Returns the number of blocks that the stream may hold.
    pub(crate) fn window(&self) -> u32 {
        // The last read may extend beyond the distance.
        (if self.ahead > 1 { self.ahead + self.combine - 1 } else { self.combine })
            .min(self.most_ahead)
    }

    /// Whether there were only hits for long, so that the stream does not look ahead.
    pub(crate) fn is_least(&self) -> bool {
        self.ahead == 1 && self.combine == 1
    }

    /// Notes that a read was started.
    pub(crate) fn read(&mut self) {
        self.combine = self.combine.saturating_mul(2).min(self.most_combine);
        self.hold = self.ahead;
    }

    /// Notes that a page was not in memory when its turn came.
    pub(crate) fn waited(&mut self) {
        self.ahead = self.ahead.max(self.combine).saturating_mul(2).min(self.most_ahead);
    }

    /// Notes that a page was in memory already.
    pub(crate) fn hit(&mut self) {
        if self.hold > 0 {
            self.hold -= 1;
        } else {
            self.ahead = (self.ahead - 1).max(1);
            self.combine = (self.combine - 1).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_grow_without_waits_and_look_ahead_grows_only_with_them() {
        let mut distance = Distance::new(512, 16);
        (0..5).for_each(|_| distance.read());
        assert_eq!((distance.ahead(), distance.combine(), distance.window()), (1, 16, 16));
        distance.waited();
        assert_eq!((distance.ahead(), distance.window()), (32, 47));
        (0..10).for_each(|_| distance.waited());
        assert_eq!((distance.ahead(), distance.window()), (512, 512));
    }

    #[test]
    fn only_many_hits_in_a_row_lower_the_distances() {
        let mut distance = Distance::new(64, 16);
        distance.in_full();
        for _ in 0..100 {
            distance.read();
            (0..64).for_each(|_| distance.hit());
        }
        assert_eq!((distance.ahead(), distance.combine()), (64, 16));
        (0..62).for_each(|_| distance.hit());
        assert_eq!((distance.ahead(), distance.combine()), (2, 1));
        (0..2).for_each(|_| distance.hit());
        assert!(distance.is_least());
    }

    #[test]
    fn distances_stay_within_their_bounds() {
        let mut distance = Distance::new(1, 16);
        distance.in_full();
        distance.read();
        distance.waited();
        distance.hit();
        assert!(distance.is_least() && distance.window() == 1);
    }
}
