//! An interval: months, days and microseconds, which PostgreSQL keeps apart.

use std::cmp::Ordering;

/// Microseconds of a day of 24 hours.
const DAY: i128 = 86_400_000_000;
/// Days of a month, where intervals are compared.
const MONTH: i128 = 30;

/// A span of time. All fields at their least or at their greatest stand for the infinities.
///
/// ```text
///   stored:  microseconds (8) | days (4) | months (4)
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// The part below a day.
    pub micros: i64,
    /// Days, which may be longer or shorter than 24 hours.
    pub days: i32,
    /// Months, of any number of days; twelve of them are a year.
    pub months: i32,
}

impl Interval {
    /// infinity
    pub const INFINITY: Interval = Interval { micros: i64::MAX, days: i32::MAX, months: i32::MAX };
    /// -infinity
    pub const NEG_INFINITY: Interval =
        Interval { micros: i64::MIN, days: i32::MIN, months: i32::MIN };

    /// Whether it is neither of the infinities.
    pub fn is_finite(&self) -> bool {
        *self != Interval::INFINITY && *self != Interval::NEG_INFINITY
    }

    /// Its microseconds, if a day has 24 hours and a month 30 days: by it intervals are ordered.
    pub fn span(&self) -> i128 {
        i128::from(self.micros) + (i128::from(self.months) * MONTH + i128::from(self.days)) * DAY
    }

    /// The order of the B-tree: by [`Interval::span`], so that different intervals may be equal.
    pub fn order(&self, other: &Interval) -> Ordering {
        self.span().cmp(&other.span())
    }
}
