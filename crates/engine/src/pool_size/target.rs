//! Which size the buffer pool should have, by what is known of the machine's memory.
//!
//! ```text
//!   room:     what could be taken without anyone else noticing: the least of the memory that is
//!             available, and of what each limit of a control group leaves
//!   reserve:  a 16th of the memory, 64 MB to 2 GB, which stays free
//!   falling:  what others take in 100 ms, as they did since the last look
//!   burst:    the most of that in the last 10 min
//!
//!   room < reserve + falling                shrink by the difference
//!   others are stalled, room < 4 x reserve  shrink by a 256th
//!   pages give way, or 64 MB are not free, room > 2 x reserve + burst
//!     and memory was not short for 10 min   grow twofold, by 128 MB at most
//!     and it was not short for 5 s          grow by a 64th
//!     but by half of the room beyond that at most, and not while others take much
//!   else                                    stay
//! ```
//!
//! So a pool takes little memory that it has no use for, and has it before pages must give way.
//! Between the two bounds of the room the size stays, so it does not swing.

use forebay_aio::sync::Duration;

use crate::memory::Readings;

/// How often memory is looked at where there is much, or a program is asked.
pub(super) const LOOK: Duration = Duration::from_millis(250);
/// The same where there is little.
const OFTEN: Duration = Duration::from_millis(10);
/// The same where the pool has grown.
pub(super) const SOON: Duration = Duration::from_millis(20);
/// The same when the pool has given some back.
pub(super) const AT_ONCE: Duration = Duration::from_millis(5);
/// Bytes a second that others may take: what the kernel gives to one thread.
const FASTEST: u64 = 4 << 30;
/// How long after a shortage the pool stays as it is.
pub(super) const CALM: Duration = Duration::from_secs(5);
/// How long after a shortage it grows as if there had been none.
pub(super) const FORGOTTEN: Duration = Duration::from_secs(600);
/// Percent of the last ten seconds in which some task waited for memory, from which on the pool
/// gives some back.
const STALLED: f64 = 5.0;
/// The size changes in steps of this many bytes.
const STEP: u64 = 4 << 20;
/// It grows by this much at least, after a shortage and before one.
const LEAST_GROWTH: [u64; 2] = [16 << 20, 64 << 20];
/// After so much it looks whether pages still give way.
const MOST_GROWTH: u64 = 128 << 20;

/// The pool as the decision sees it.
#[derive(Clone, Copy, Debug)]
pub struct Present {
    /// Its bytes.
    pub size: u64,
    /// The bytes that others are about to take.
    pub falling: u64,
    /// The most that they took so fast lately.
    pub burst: u64,
    /// The fewest and the most that it may have.
    pub bounds: (u64, u64),
    /// Whether pages had to give way to others lately, or soon will have to.
    pub is_full: bool,
    /// The time since memory was short last.
    pub calm: Duration,
}

impl Readings {
    /// What stays free.
    fn reserve(&self) -> u64 {
        (self.total / 16).clamp(64 << 20, 2 << 30)
    }

    /// Whether tasks wait for memory. With much room left, they wait because of limits of their
    /// own.
    fn is_stalled(&self) -> bool {
        self.stalled >= STALLED && self.is_scarce()
    }

    /// Whether so little is left that it may end between two looks.
    pub fn is_scarce(&self) -> bool {
        self.room < 4 * self.reserve()
    }

    /// What must be free, if others are about to take so much.
    fn needed(&self, falling: u64) -> u64 {
        self.reserve() + falling
    }

    /// Whether less is free.
    pub fn is_short(&self, falling: u64) -> bool {
        self.room < self.needed(falling)
    }

    /// How long until memory must be looked at again: as long as others need for half of the room
    /// beyond the reserve.
    pub fn next_look(&self) -> Duration {
        let room = self.room.saturating_sub(self.reserve()) / 2;
        Duration::from_millis(room / (FASTEST / 1000)).clamp(OFTEN, LOOK)
    }

    /// What a pool may take at once, if its pages are known to be needed.
    pub fn spare(&self) -> u64 {
        self.room.saturating_sub(2 * self.reserve())
    }
}

/// Returns the size that the pool should have.
pub fn target(readings: &Readings, pool: &Present) -> u64 {
    let (least, most) = pool.bounds;
    let (size, reserve) = (pool.size, readings.reserve());
    let wanted = if readings.is_short(pool.falling) {
        size.saturating_sub(readings.needed(pool.falling) - readings.room)
    } else if readings.is_stalled() {
        size - size / 256
    } else if pool.is_full && pool.calm >= CALM && pool.falling < reserve / 8 {
        // Others may begin to take some, too.
        size + growth(pool).min(readings.spare().saturating_sub(pool.burst) / 2)
    } else {
        size
    };
    if wanted == size {
        return size.clamp(least, most);
    }
    (wanted / STEP * STEP).clamp(least, most)
}

/// By how much a full pool grows at once, where there is room.
fn growth(pool: &Present) -> u64 {
    let [after, before] = LEAST_GROWTH;
    if pool.calm >= FORGOTTEN {
        pool.size.clamp(before, MOST_GROWTH)
    } else {
        (pool.size / 64).max(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;
    const GB: u64 = 1 << 30;
    const BOUNDS: (u64, u64) = (16 * MB, 20 * GB);

    fn readings(total: u64, room: u64) -> Readings {
        Readings { total, room, stalled: 0.0 }
    }

    fn full(size: u64, calm: Duration) -> Present {
        Present { size, falling: 0, burst: 0, bounds: BOUNDS, is_full: true, calm }
    }

    /// The size of a full pool some time after a shortage.
    fn size(readings: &Readings, present: u64) -> u64 {
        target(readings, &full(present, CALM))
    }

    #[test]
    fn a_pool_gives_back_what_is_short() {
        assert_eq!(size(&readings(16 * GB, GB), 8 * GB), 8 * GB, "just enough");
        assert_eq!(size(&readings(16 * GB, GB - 100 * MB), 8 * GB), 8 * GB - 100 * MB);
        assert_eq!(size(&readings(16 * GB, 0), 8 * GB), 7 * GB);
        assert_eq!(size(&readings(16 * GB, 0), 500 * MB), 16 * MB, "down to its least size");
    }

    #[test]
    fn it_gives_back_what_others_are_about_to_take() {
        let size = |room, falling| {
            let pool = Present { falling, ..full(8 * GB, Duration::MAX) };
            target(&readings(16 * GB, room), &pool)
        };
        assert_eq!(size(2 * GB, GB), 8 * GB, "they take it from what is free");
        assert_eq!(size(2 * GB, GB + 512 * MB), 8 * GB - 512 * MB);
        assert_eq!(size(500 * MB, 2 * GB), 8 * GB - 524 * MB - 2 * GB);
    }

    #[test]
    fn stalls_count_where_room_is_scarce() {
        let stalled = |room| Readings { stalled: 7.5, ..readings(16 * GB, room) };
        assert_eq!(size(&stalled(3 * GB), 8 * GB), 8 * GB - 32 * MB);
        assert!(size(&stalled(4 * GB), 8 * GB) > 8 * GB);
        let little = Readings { stalled: 4.9, ..stalled(3 * GB) };
        assert!(size(&little, 8 * GB) > 8 * GB);
    }

    #[test]
    fn memory_is_looked_at_before_others_can_take_it() {
        let next = |total, room| readings(total, room).next_look().as_millis();
        assert_eq!(next(16 * GB, 12 * GB), 250);
        assert_eq!(next(16 * GB, 2 * GB), 125);
        assert_eq!([0, 100 * MB, 256 * MB].map(|room| next(2 * GB, room)), [10, 10, 15]);
        assert_eq!(next(2 * GB, 768 * MB), 78);
    }

    #[test]
    fn it_grows_only_when_it_is_full() {
        let much = readings(16 * GB, 12 * GB);
        for calm in [Duration::ZERO, CALM, Duration::MAX] {
            let idle = Present { is_full: false, ..full(4 * GB, calm) };
            assert_eq!(target(&much, &idle), 4 * GB);
        }
        assert_eq!(target(&much, &Present { is_full: false, ..full(30 * GB, CALM) }), 20 * GB);
    }

    #[test]
    fn it_grows_fast_until_memory_was_short() {
        let grown = |room, size| target(&readings(16 * GB, room), &full(size, Duration::MAX));
        assert_eq!(grown(12 * GB, 16 * MB), 80 * MB);
        assert_eq!(grown(12 * GB, 128 * MB), 256 * MB);
        assert_eq!(grown(12 * GB, 4 * GB), 4 * GB + 128 * MB);
        assert_eq!(grown(2 * GB + 100 * MB, 4 * GB), 4 * GB + 48 * MB);
        assert_eq!(grown(12 * GB, 20 * GB), 20 * GB, "up to its largest size");
    }

    #[test]
    fn after_that_it_grows_slowly_and_only_in_calm() {
        let much = readings(16 * GB, 12 * GB);
        assert_eq!(size(&much, 4 * GB), 4 * GB + 64 * MB);
        assert_eq!(size(&much, 128 * MB), 144 * MB);
        assert_eq!(target(&much, &full(4 * GB, Duration::from_secs(4))), 4 * GB);
        assert_eq!(size(&readings(16 * GB, 2 * GB), 4 * GB), 4 * GB, "between the bounds");
        assert_eq!(size(&readings(16 * GB, 2 * GB + 8 * MB), 4 * GB), 4 * GB + 4 * MB);
        let others = Present { falling: 128 * MB, ..full(4 * GB, CALM) };
        assert_eq!(target(&much, &others), 4 * GB, "others take it");
        let near = readings(16 * GB, 2 * GB + 128 * MB);
        let burst = |burst| target(&near, &Present { burst, ..full(4 * GB, CALM) });
        assert_eq!(burst(0), 4 * GB + 64 * MB);
        assert_eq!(burst(120 * MB), 4 * GB + 4 * MB);
        assert_eq!(burst(GB), 4 * GB, "others may take it as fast again");
        assert_eq!(target(&much, &full(30 * GB, Duration::ZERO)), 20 * GB);
    }

    #[test]
    fn sizes_settle() {
        // Memory that others leave, of 8 GB; the pool has the rest but the reserve.
        for others in [0, 2 * GB, 5 * GB, 7 * GB, 7900 * MB] {
            for start in [16 * MB, 4 * GB, 8 * GB] {
                let mut present = start;
                for _ in 0..400 {
                    let room = (8 * GB).saturating_sub(others + present);
                    present = size(&readings(8 * GB, room), present);
                }
                let room = (8 * GB).saturating_sub(others + present);
                let settled = size(&readings(8 * GB, room), present);
                assert_eq!(settled, present, "{others}, from {start}");
                let free = (8 * GB).saturating_sub(others + present);
                assert!(free >= 500 * MB || present == 16 * MB, "{free} are left");
            }
        }
    }
}
