//! Which size the buffer pool should have, by what is known of the machine's memory.
//!
//! ```text
//!   room:     what could be taken without anyone else noticing: the least of the memory that is
//!             available, and of what each limit of a control group leaves
//!   reserve:  a 16th of the memory, 64 MB to 2 GB, which stays free
//!
//!   room < reserve         shrink by the difference, at once
//!   others are stalled     shrink by a 16th, at once
//!   room > 2 x reserve     grow by a 16th of the pool, if nothing was short for a while
//!   else                   stay
//! ```
//!
//! Between the two bounds of the room the size stays, so it does not swing.

use forebay_aio::sync::Duration;

/// How long after a shortage the pool stays as it is.
const CALM: Duration = Duration::from_secs(10);
/// Percent of the last ten seconds in which some task waited for memory, from which on the pool
/// gives some back.
const STALLED: f64 = 5.0;
/// The size changes in steps of this many bytes.
const STEP: u64 = 4 << 20;
/// It grows by this much at least.
const LEAST_GROWTH: u64 = 64 << 20;

/// The machine's memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Readings {
    /// What the process may use in all: the machine's memory, or the lowest limit.
    pub total: u64,
    /// What it could take without swapping and without taking from others: MemAvailable, or what
    /// the tightest limit leaves.
    pub room: u64,
    /// Percent of the last ten seconds in which some task waited for memory.
    pub stalled: f64,
}

impl Readings {
    /// What stays free.
    fn reserve(&self) -> u64 {
        (self.total / 16).clamp(64 << 20, 2 << 30)
    }

    /// Whether memory is short.
    pub fn is_short(&self) -> bool {
        self.room < self.reserve() || self.stalled >= STALLED
    }
}

/// Returns the size that a pool of `present` bytes should have, within `bounds`. Nothing was short
/// for the time `calm`.
pub fn target(readings: &Readings, present: u64, bounds: (u64, u64), calm: Duration) -> u64 {
    let (least, most) = bounds;
    let reserve = readings.reserve();
    let wanted = if readings.room < reserve {
        present.saturating_sub(reserve - readings.room)
    } else if readings.stalled >= STALLED {
        present - present / 16
    } else if readings.room > 2 * reserve && calm >= CALM {
        present + (present / 16).max(LEAST_GROWTH).min(readings.room - 2 * reserve)
    } else {
        return present.clamp(least, most);
    };
    (wanted / STEP * STEP).clamp(least, most)
}

/// Returns the size with which a pool begins: half of the room that the reserve leaves. The rest
/// comes as it runs.
pub fn first_size(readings: &Readings) -> u64 {
    readings.room.saturating_sub(readings.reserve()) / 2 / STEP * STEP
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

    fn size(readings: &Readings, present: u64) -> u64 {
        target(readings, present, BOUNDS, CALM)
    }

    #[test]
    fn a_pool_gives_back_what_is_short() {
        assert_eq!(size(&readings(16 * GB, GB), 8 * GB), 8 * GB, "just enough");
        assert_eq!(size(&readings(16 * GB, GB - 100 * MB), 8 * GB), 8 * GB - 100 * MB);
        assert_eq!(size(&readings(16 * GB, 0), 8 * GB), 7 * GB);
        assert_eq!(size(&readings(16 * GB, 0), 500 * MB), 16 * MB, "down to its least size");
        let stalled = Readings { stalled: 7.5, ..readings(16 * GB, 10 * GB) };
        assert_eq!(size(&stalled, 8 * GB), 8 * GB - 512 * MB);
        assert!(stalled.is_short() && !readings(16 * GB, GB).is_short());
    }

    #[test]
    fn it_grows_slowly_and_only_in_calm() {
        let much = readings(16 * GB, 12 * GB);
        assert_eq!(size(&much, 4 * GB), 4 * GB + 256 * MB);
        assert_eq!(size(&much, 128 * MB), 192 * MB);
        assert_eq!(target(&much, 4 * GB, BOUNDS, Duration::from_secs(9)), 4 * GB);
        assert_eq!(size(&readings(16 * GB, 2 * GB), 4 * GB), 4 * GB, "between the bounds");
        assert_eq!(size(&readings(16 * GB, 2 * GB + 8 * MB), 4 * GB), 4 * GB + 8 * MB);
        assert_eq!(size(&much, 20 * GB), 20 * GB, "up to its largest size");
        assert_eq!(target(&much, 30 * GB, BOUNDS, Duration::ZERO), 20 * GB);
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

    #[test]
    fn a_pool_begins_with_half() {
        assert_eq!(first_size(&readings(16 * GB, 13 * GB)), 6 * GB);
        assert_eq!(first_size(&readings(GB, 64 * MB)), 0);
    }
}
