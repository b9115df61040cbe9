//! Writing behind: a load or vacuum remembers the buffers that it filled last, and writes them when
//! it has filled so many others. So they are clean when they leave the pool, and a checkpoint finds
//! little to do. Where they lie does not matter.

use super::strategy::Strategy;

/// The buffers that bulk accesses of a backend filled last.
#[derive(Debug, Default)]
pub(crate) struct Trails {
    load: Trail,
    vacuum: Trail,
}

impl Trails {
    /// Returns the trail of a strategy, in a pool of this size; None if it writes nothing.
    pub(super) fn of(&mut self, strategy: Strategy, pool: usize) -> Option<&mut Trail> {
        let trail = match strategy {
            Strategy::Normal | Strategy::BulkRead | Strategy::Scan { .. } => return None,
            Strategy::BulkWrite => &mut self.load,
            Strategy::Vacuum { .. } => &mut self.vacuum,
        };
        trail.prepare(strategy.written_behind(pool));
        (trail.length > 0).then_some(trail)
    }
}

/// The buffers that were filled last, in a ring. They are hints: a buffer may have another page, or
/// be one of another pool.
#[derive(Debug, Default)]
pub(super) struct Trail {
    bufs: Vec<u32>,
    /// The place of the newest buffer.
    newest: usize,
    length: usize,
}

impl Trail {
    /// Sets the length at the first use, and whenever another one is wanted.
    fn prepare(&mut self, length: usize) {
        if self.length != length {
            *self = Trail { bufs: Vec::new(), newest: 0, length };
        }
    }

    /// Adds the buffer that was filled, and forgets the oldest one.
    pub(super) fn add(&mut self, buf: u32) {
        self.newest = (self.newest + 1) % self.length;
        match self.bufs.get_mut(self.newest) {
            Some(place) => *place = buf,
            None => {
                self.newest = self.bufs.len();
                self.bufs.push(buf);
            }
        }
    }

    /// Whether this is an `n`th buffer, after which others are written.
    pub(super) fn is_nth(&self, n: usize) -> bool {
        self.newest.is_multiple_of(n)
    }

    /// Returns the oldest `n` buffers, once there are as many as may lie. They are at most half of
    /// all: the others were filled just before.
    pub(super) fn oldest(&self, n: usize) -> impl Iterator<Item = u32> + '_ {
        let n = if self.bufs.len() == self.length { n.min(self.length.div_ceil(2)) } else { 0 };
        (1..=n).map(|i| self.bufs[(self.newest + i) % self.length])
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_buffers_come_first() {
        let mut trail = Trail::default();
        trail.prepare(4);
        for buf in 0..3 {
            trail.add(buf);
            assert_eq!(trail.oldest(4).count(), 0, "not so many yet");
        }
        trail.add(3);
        assert_eq!(trail.oldest(4).collect::<Vec<_>>(), [0, 1]);
        trail.add(4);
        trail.add(5);
        assert_eq!(trail.oldest(1).collect::<Vec<_>>(), [2]);
        let turns: Vec<bool> = (6..10)
            .map(|buf| {
                trail.add(buf);
                trail.is_nth(2)
            })
            .collect();
        assert_eq!(turns, [true, false, true, false]);
        trail.prepare(1);
        trail.add(7);
        assert_eq!(trail.oldest(9).collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn only_loads_and_vacuum_leave_a_trail() {
        let length = |strategy, pool| Trails::default().of(strategy, pool).map_or(0, |t| t.length);
        assert_eq!(length(Strategy::Normal, 1 << 20), 0);
        assert_eq!(length(Strategy::BulkRead, 1 << 20), 0);
        assert_eq!(length(Strategy::Vacuum { buffers: 0 }, 1 << 20), 0);
        assert_eq!(length(Strategy::VACUUM, 1 << 20), 256);
        assert_eq!(length(Strategy::BulkWrite, 1 << 20), 2048);
        assert_eq!(length(Strategy::BulkWrite, 1024), 32, "half of the queue");
        assert_eq!(length(Strategy::VACUUM, 16), 1);
    }
}
