//! How far a stream looks ahead, and how much it reads at once. Two questions with two answers:
//!
//! | distance | answers | grows | falls |
//! |---|---|---|---|
//! | `ahead` | how many blocks are to be on their way, so that nobody waits | when a wait really blocked | with hits |
//! | `combine` | how many neighbours go into one read | with each read, waited for or not | with hits |
//!
//! So a scan whose reads all end before their turn (the kernel had the pages, or the method reads
//! at once) pins few pages and still reads in full runs. Both fall only after as many hits in a row
//! as the stream looks ahead: a cached page here and there costs nothing.

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

    /// As at the beginning.
    pub(crate) fn least(&mut self) {
        (self.ahead, self.combine, self.hold) = (1, 1, 0);
    }

    /// As after many waits.
    pub(crate) fn in_full(&mut self) {
        self.ahead = self.most_ahead;
        self.combine = self.most_combine;
    }

    /// As after many reads that nobody waited for.
    pub(crate) fn combine_in_full(&mut self) {
        self.combine = self.most_combine;
    }

    /// Blocks to be on their way.
    pub(crate) fn ahead(&self) -> u32 {
        self.ahead
    }

    /// Neighbours to be read at once.
    pub(crate) fn combine(&self) -> u32 {
        self.combine
    }

    /// Blocks that the stream may have in hand.
    pub(crate) fn window(&self) -> u32 {
        // A read may be made whole beyond the distance.
        (if self.ahead > 1 { self.ahead + self.combine - 1 } else { self.combine })
            .min(self.most_ahead)
    }

    /// Nothing but hits for long: no look-ahead at all.
    pub(crate) fn is_least(&self) -> bool {
        self.ahead == 1 && self.combine == 1
    }

    /// A read was started.
    pub(crate) fn read(&mut self) {
        self.combine = self.combine.saturating_mul(2).min(self.most_combine);
        self.hold = self.ahead;
    }

    /// A page was not there in its turn.
    pub(crate) fn waited(&mut self) {
        self.ahead = self.ahead.max(self.combine).saturating_mul(2).min(self.most_ahead);
    }

    /// A page was in memory when it was looked for.
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
    fn reads_grow_without_waits_and_look_ahead_only_with_them() {
        let mut distance = Distance::new(512, 16);
        (0..5).for_each(|_| distance.read());
        assert_eq!((distance.ahead(), distance.combine(), distance.window()), (1, 16, 16));
        distance.waited();
        assert_eq!((distance.ahead(), distance.window()), (32, 47));
        (0..10).for_each(|_| distance.waited());
        assert_eq!((distance.ahead(), distance.window()), (512, 512));
    }

    #[test]
    fn a_hit_here_and_there_changes_nothing_but_a_row_of_them_does() {
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
    fn no_distance_leaves_its_bounds() {
        let mut distance = Distance::new(1, 16);
        distance.in_full();
        distance.read();
        distance.waited();
        distance.hit();
        assert!(distance.is_least() && distance.window() == 1);
    }
}
