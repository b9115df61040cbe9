//! Ghosts: pages that have left the pool, and when they were used last. A page that comes back
//! before its ghost is forgotten has a distance of reuse.
//!
//! ```text
//!   line (of the cache):  | ghost | ghost | ... 8 ... |     newest first
//!   ghost:                | fingerprint (32) | epoch of the last use (32) |    0: none
//! ```
//!
//! There are four ghosts for each buffer, so they take 0.4 % of the pool's memory. When the pool's
//! size changes, their number is doubled or halved, and they are two to eight. A page's hash
//! selects the line. Threads change lines without a lock. If two change one at the same time, a
//! ghost is lost or there twice, which costs one read at most. The same is true if two pages have
//! the same fingerprint.

use super::slab::Slab;
use forebay_aio::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Ghosts for each buffer.
pub(crate) const FOR_EACH_BUFFER: usize = 4;
/// Ghosts of a line.
const IN_A_LINE: usize = 8;
const NONE: u64 = 0;

#[repr(align(64))]
struct Line([AtomicU64; IN_A_LINE]);

#[cfg(not(shuttle))]
const _: () = assert!(size_of::<Line>() == 64);

impl Line {
    fn new() -> Line {
        Line([(); IN_A_LINE].map(|()| AtomicU64::new(NONE)))
    }

    fn load(&self) -> [u64; IN_A_LINE] {
        std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed))
    }

    fn store(&self, ghosts: [u64; IN_A_LINE]) {
        for (place, ghost) in self.0.iter().zip(ghosts) {
            place.store(ghost, Ordering::Relaxed);
        }
    }
}

/// The ghosts of a pool.
pub(crate) struct Ghosts {
    lines: Slab<Line>,
    /// The number of lines in use.
    used: AtomicUsize,
}

fn lines_for(buffers: usize) -> usize {
    (buffers * FOR_EACH_BUFFER).div_ceil(IN_A_LINE)
}

/// Returns the newest ghosts of two lines, which may be copies of one.
fn newest_of(a: [u64; IN_A_LINE], b: [u64; IN_A_LINE]) -> [u64; IN_A_LINE] {
    let (mut newest, mut found) = ([NONE; IN_A_LINE], 0);
    for ghost in a.into_iter().zip(b).flat_map(|(a, b)| [a, b]) {
        if ghost != NONE && !newest.contains(&ghost) && found < IN_A_LINE {
            newest[found] = ghost;
            found += 1;
        }
    }
    newest
}

/// The bits of a ghost that tell its page.
fn fingerprint(hash: u64) -> u64 {
    // Never 0, so that no ghost looks like none.
    (hash | 1) << 32
}

fn is_of(ghost: u64, hash: u64) -> bool {
    ghost & fingerprint(u64::from(u32::MAX)) == fingerprint(hash)
}

impl Ghosts {
    /// Makes room for the ghosts of a pool that may grow to `most` buffers.
    pub(crate) fn new(buffers: usize, most: usize) -> Ghosts {
        let (used, most) = (lines_for(buffers), lines_for(most));
        Ghosts { lines: Slab::new(most, used, |_| Line::new()), used: AtomicUsize::new(used) }
    }

    /// Follows a change of the pool's size. A line's ghosts are copied into both lines that it
    /// becomes; of two lines that become one the newest remain.
    pub(crate) fn resize(&self, buffers: usize) {
        let wanted = lines_for(buffers);
        let mut used = self.used.load(Ordering::Relaxed);
        while used * 2 <= wanted {
            self.lines.grow(used * 2, |_| Line::new());
            for at in (0..used).rev() {
                let ghosts = self.lines[at].load();
                self.lines[2 * at + 1].store(ghosts);
                self.lines[2 * at].store(ghosts);
            }
            used *= 2;
            self.used.store(used, Ordering::Relaxed);
        }
        while used >= wanted * 2 && used.is_multiple_of(2) {
            used /= 2;
            self.used.store(used, Ordering::Relaxed);
            for at in 0..used {
                let [a, b] = [0, 1].map(|n| self.lines[2 * at + n].load());
                self.lines[at].store(newest_of(a, b));
            }
        }
    }

    /// The line of a page. It depends on the bits of the hash that the fingerprint leaves out.
    fn line(&self, hash: u64) -> &[AtomicU64; IN_A_LINE] {
        let lines = self.used.load(Ordering::Relaxed);
        let at = (u128::from(hash >> 32) * lines as u128) >> 32;
        &self.lines[at as usize].0
    }

    /// Adds the ghost of a page that leaves, and the epoch of its last use. The oldest ghost of a
    /// full line is forgotten.
    pub(crate) fn add(&self, hash: u64, last_use: u64) {
        let mut next = fingerprint(hash) | u64::from(last_use as u32);
        for place in self.line(hash) {
            let old = place.load(Ordering::Relaxed);
            place.store(next, Ordering::Relaxed);
            if old == NONE || is_of(old, hash) {
                return;
            }
            next = old;
        }
    }

    /// Returns the epochs since a page's last use, if it has a ghost.
    pub(crate) fn elapsed(&self, hash: u64, now: u64) -> Option<u64> {
        let ghosts = self.line(hash).iter().map(|place| place.load(Ordering::Relaxed));
        let ghost = ghosts.into_iter().find(|&ghost| ghost != NONE && is_of(ghost, hash))?;
        let epochs = (now as u32).wrapping_sub(ghost as u32);
        // A thread that is late may have seen an earlier epoch.
        Some(if epochs > u32::MAX / 2 { 0 } else { u64::from(epochs) })
    }

    /// Forgets the ghost of a page that has come back.
    pub(crate) fn forget(&self, hash: u64) {
        for place in self.line(hash) {
            if is_of(place.load(Ordering::Relaxed), hash) {
                place.store(NONE, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    /// Well-mixed hashes.
    fn hash(n: u64) -> u64 {
        let step = |h: u64, shift: u32, by: u64| (h ^ h >> shift).wrapping_mul(by);
        let h = (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let h = step(step(h, 30, 0xBF58_476D_1CE4_E5B9), 27, 0x94D0_49BB_1331_11EB);
        h ^ h >> 31
    }

    #[test]
    fn a_ghost_tells_the_time_since_the_last_use() {
        let ghosts = Ghosts::new(64, 64);
        assert_eq!(ghosts.elapsed(hash(1), 7), None);
        ghosts.add(hash(1), 100);
        ghosts.add(hash(2), 101);
        ghosts.add(hash(1), 103);
        assert_eq!(
            (ghosts.elapsed(hash(1), 110), ghosts.elapsed(hash(2), 110)),
            (Some(7), Some(9))
        );
        assert_eq!(ghosts.elapsed(hash(2), 100), Some(0), "by a thread that is late");
        ghosts.forget(hash(1));
        assert_eq!((ghosts.elapsed(hash(1), 110), ghosts.elapsed(hash(2), 110)), (None, Some(9)));
        // The epoch's lowest 32 bits are kept.
        let now = (5 << 32) - 3;
        ghosts.add(hash(3), now);
        assert_eq!(ghosts.elapsed(hash(3), now + 10), Some(10));
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_ghosts_go() {
        const BUFFERS: u64 = 256;
        let ghosts = Ghosts::new(BUFFERS as usize, 0);
        assert_eq!(size_of_val(&*ghosts.lines), BUFFERS as usize * 32);
        let known = |n: std::ops::Range<u64>| {
            n.filter(|&n| ghosts.elapsed(hash(n), 0).is_some()).count() as u64
        };
        // As many pages as there are buffers, twice that: nearly all are known.
        (0..BUFFERS).for_each(|n| ghosts.add(hash(n), 0));
        assert_eq!(known(0..BUFFERS), BUFFERS);
        (0..100 * BUFFERS).for_each(|n| ghosts.add(hash(n), 0));
        let all = known(0..100 * BUFFERS);
        assert!((7 * BUFFERS / 2..=4 * BUFFERS).contains(&all), "{all}");
        let newest = known(98 * BUFFERS..100 * BUFFERS);
        assert!(newest >= 2 * BUFFERS - BUFFERS / 20, "{newest}");
        assert_eq!(known(0..90 * BUFFERS), 0);
    }

    #[test]
    fn a_full_line_forgets_its_oldest_ghost() {
        let ghosts = Ghosts::new(2, 2);
        assert_eq!(ghosts.lines.len(), 1);
        (0..9).for_each(|n| ghosts.add(hash(n), 0));
        assert_eq!(ghosts.elapsed(hash(0), 0), None);
        assert!((1..9).all(|n| ghosts.elapsed(hash(n), 0).is_some()));
        // A place in the middle is filled, and nothing is forgotten.
        ghosts.forget(hash(4));
        ghosts.add(hash(20), 0);
        assert!([1, 2, 3, 5, 6, 7, 8, 20].iter().all(|&n| ghosts.elapsed(hash(n), 0).is_some()));
    }

    #[test]
    fn ghosts_outlast_changes_of_the_size() {
        let ghosts = Ghosts::new(256, 4096);
        let known = |n: u64| (0..n).filter(|&n| ghosts.elapsed(hash(n), 9) == Some(9)).count();
        (0..512).for_each(|n| ghosts.add(hash(n), 0));
        let all = known(512);
        assert!(all > 500, "{all}");
        ghosts.resize(300);
        assert_eq!((ghosts.lines.len(), known(512)), (128, all), "too little has changed");
        ghosts.resize(4096);
        assert_eq!((ghosts.lines.len(), known(512)), (2048, all));
        ghosts.resize(1024);
        assert_eq!((ghosts.used.load(Ordering::Relaxed), known(512)), (512, all));
        ghosts.resize(16);
        assert!(known(512) >= 32, "{}", known(512));
    }
}
