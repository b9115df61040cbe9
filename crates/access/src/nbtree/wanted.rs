//! The values of one key column that a scan wants: disjoint intervals in the index's order.
//!
//! Each condition on a column is such a list: a comparison is one interval, `= ANY` one point for
//! each value. Several conditions are the intersection of their lists. Redundant ones disappear in
//! it; it is empty if they contradict each other.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::cmp::Ordering;
use std::ops::Bound;

use super::compare::KeyError;
use super::relation::KeyColumn;

/// A stored value. None: NULL.
pub(super) type Value = Option<Vec<u8>>;

/// The direction of a scan, in the index's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the first item on.
    Forward,
    /// From the last item on.
    Backward,
}

impl Direction {
    /// The order in which a scan meets two things that the index orders like this.
    #[inline]
    pub(super) fn of(self, order: Ordering) -> Ordering {
        match self {
            Direction::Forward => order,
            Direction::Backward => order.reverse(),
        }
    }

    /// The other one.
    #[must_use]
    pub fn reversed(self) -> Direction {
        match self {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        }
    }
}

/// Values of a column that lie next to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Interval {
    /// One value.
    Point(Value),
    /// All between two bounds, the lower one first.
    Range(Bound<Value>, Bound<Value>),
}

/// Where a value lies, seen from an interval, for a scan in a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Before,
    /// `last`: the scan meets no further value of the interval.
    Inside {
        last: bool,
    },
    Behind,
}

/// All values that a scan wants of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted(Vec<Interval>);

impl Interval {
    fn bounds(&self) -> (Bound<&Value>, Bound<&Value>) {
        match self {
            Interval::Point(value) => (Bound::Included(value), Bound::Included(value)),
            Interval::Range(low, high) => (low.as_ref(), high.as_ref()),
        }
    }

    /// The bound that a scan comes to first.
    pub(super) fn near(&self, direction: Direction) -> Bound<&Value> {
        match direction {
            Direction::Forward => self.bounds().0,
            Direction::Backward => self.bounds().1,
        }
    }

    /// Where a value lies.
    #[inline]
    fn place(
        &self,
        key: &KeyColumn,
        value: Option<&[u8]>,
        direction: Direction,
    ) -> Result<Place, KeyError> {
        let order = |bound: &Value| Ok(direction.of(key.compare(value, bound.as_deref())?));
        let (near, far) = match (self, direction) {
            (Interval::Point(point), _) => {
                return order(point).map(|order: Ordering| match order {
                    Ordering::Less => Place::Before,
                    Ordering::Equal => Place::Inside { last: true },
                    Ordering::Greater => Place::Behind,
                });
            }
            (Interval::Range(low, high), Direction::Forward) => (low, high),
            (Interval::Range(low, high), Direction::Backward) => (high, low),
        };
        let before = match near {
            Bound::Unbounded => false,
            Bound::Included(bound) => order(bound)?.is_lt(),
            Bound::Excluded(bound) => order(bound)?.is_le(),
        };
        if before {
            return Ok(Place::Before);
        }
        Ok(match far {
            Bound::Unbounded => Place::Inside { last: false },
            Bound::Included(bound) => match order(bound)? {
                Ordering::Greater => Place::Behind,
                order => Place::Inside { last: order.is_eq() },
            },
            Bound::Excluded(bound) if order(bound)?.is_ge() => Place::Behind,
            Bound::Excluded(_) => Place::Inside { last: false },
        })
    }
}

impl Wanted {
    pub(super) fn all() -> Wanted {
        Wanted::range(Bound::Unbounded, Bound::Unbounded)
    }

    pub(super) fn none() -> Wanted {
        Wanted(Vec::new())
    }

    pub(super) fn range(low: Bound<Value>, high: Bound<Value>) -> Wanted {
        Wanted(vec![Interval::Range(low, high)])
    }

    /// These values, in any order, each perhaps more than once.
    ///
    /// # Panics
    /// If values cannot be compared: whoever forms them checks that.
    pub(super) fn points(key: &KeyColumn, mut values: Vec<Value>) -> Wanted {
        let compare = |a: &Value, b: &Value| compare(key, a, b);
        values.sort_by(compare);
        values.dedup_by(|a, b| compare(a, b).is_eq());
        Wanted(values.into_iter().map(Interval::Point).collect())
    }

    pub(super) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// The values that both want.
    pub(super) fn and(&self, key: &KeyColumn, other: &Wanted) -> Wanted {
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Vec::new();
        while let (Some(a), Some(b)) = (ours.peek(), theirs.peek()) {
            both.extend(intersection(key, a, b));
            match compare_bounds(key, a.bounds().1, b.bounds().1, Ordering::Greater) {
                Ordering::Less => ours.next(),
                _ => theirs.next(),
            };
        }
        Wanted(both)
    }

    /// An interval, by its number in the index's order.
    pub(super) fn interval(&self, number: usize) -> Option<&Interval> {
        self.0.get(number)
    }

    /// The interval that a scan comes to first.
    pub(super) fn first(&self, direction: Direction) -> Option<&Interval> {
        match direction {
            Direction::Forward => self.0.first(),
            Direction::Backward => self.0.last(),
        }
    }

    /// The interval that follows another one.
    pub(super) fn following(&self, number: usize, direction: Direction) -> Option<&Interval> {
        match direction {
            Direction::Forward => self.interval(number + 1),
            Direction::Backward => self.interval(number.checked_sub(1)?),
        }
    }

    /// The first interval that a value does not lie behind, and where the value lies.
    #[inline]
    pub(super) fn locate(
        &self,
        key: &KeyColumn,
        value: Option<&[u8]>,
        direction: Direction,
    ) -> Result<(usize, Place), KeyError> {
        if let [only] = self.0.as_slice() {
            return Ok((0, only.place(key, value, direction)?));
        }
        // In the scan's order.
        let count = self.0.len();
        let number = |n: usize| match direction {
            Direction::Forward => n,
            Direction::Backward => count - 1 - n,
        };
        let (mut low, mut high, mut found) = (0, count, None);
        while low < high {
            let middle = low + (high - low) / 2;
            let Some(interval) = self.0.get(number(middle)) else { break };
            match interval.place(key, value, direction)? {
                Place::Behind => low = middle + 1,
                Place::Before => {
                    high = middle;
                    found = Some((number(middle), Place::Before));
                }
                inside => return Ok((number(middle), inside)),
            }
        }
        Ok(found.unwrap_or((count, Place::Behind)))
    }
}

fn compare(key: &KeyColumn, a: &Value, b: &Value) -> Ordering {
    key.compare(a.as_deref(), b.as_deref()).expect("the values of conditions can be compared")
}

/// Orders two upper bounds (`end`: greater) or two lower ones (`end`: less). No bound lies at the
/// end, and a value that is excluded further away from it than the same one that is not.
fn compare_bounds(key: &KeyColumn, a: Bound<&Value>, b: Bound<&Value>, end: Ordering) -> Ordering {
    match (a, b) {
        (Bound::Unbounded, Bound::Unbounded) => Ordering::Equal,
        (Bound::Unbounded, _) => end,
        (_, Bound::Unbounded) => end.reverse(),
        (Bound::Included(a), Bound::Excluded(b)) => compare(key, a, b).then(end),
        (Bound::Excluded(a), Bound::Included(b)) => compare(key, a, b).then(end.reverse()),
        (Bound::Included(a), Bound::Included(b)) | (Bound::Excluded(a), Bound::Excluded(b)) => {
            compare(key, a, b)
        }
    }
}

/// What two intervals have in common.
fn intersection(key: &KeyColumn, a: &Interval, b: &Interval) -> Option<Interval> {
    let ((low_a, high_a), (low_b, high_b)) = (a.bounds(), b.bounds());
    let low = if compare_bounds(key, low_a, low_b, Ordering::Less).is_ge() { low_a } else { low_b };
    let high = if compare_bounds(key, high_a, high_b, Ordering::Greater).is_le() {
        high_a
    } else {
        high_b
    };
    match (low, high) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => {}
        (Bound::Included(low), Bound::Included(high)) => match compare(key, low, high) {
            Ordering::Less => {}
            Ordering::Equal => return Some(Interval::Point(low.clone())),
            Ordering::Greater => return None,
        },
        (
            Bound::Included(low) | Bound::Excluded(low),
            Bound::Included(high) | Bound::Excluded(high),
        ) => {
            if compare(key, low, high).is_ge() {
                return None;
            }
        }
    }
    Some(Interval::Range(low.cloned(), high.cloned()))
}
