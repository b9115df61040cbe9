//! Which values a sequence hands out next.

use forebay_format::sequence::SequenceTuple;

/// Values that a record tells of beyond those that are handed out.
const LOGGED_AHEAD: i128 = 32;

/// What the catalogs say of a sequence (pg_sequence).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceRules {
    /// What is added to a value to get the next one; never 0.
    pub increment: i64,
    /// The least value.
    pub min: i64,
    /// The greatest value.
    pub max: i64,
    /// How many values a session takes at a time, at least 1.
    pub cache: i64,
    /// Whether it begins again behind its last value.
    pub cycle: bool,
}

/// A step of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Advance {
    /// The first value that is handed out.
    pub(super) first: i64,
    /// The page's tuple afterwards. Its last value is the last that is handed out.
    pub(super) after: SequenceTuple,
    /// The tuple that is logged, if one is.
    pub(super) logged: Option<SequenceTuple>,
}

impl SequenceRules {
    /// Takes as many values as a session takes at a time, or fewer if no more are left. None if
    /// none is. `must_log`: the log does not know of values ahead any more.
    pub(super) fn advance(&self, now: &SequenceTuple, must_log: bool) -> Option<Advance> {
        let cache = i128::from(self.cache.max(1));
        let step = i128::from(self.increment);
        // The value of a sequence that was not called yet is handed out itself.
        let mut steps = cache - i128::from(!now.is_called);
        let mut ahead = i128::from(now.log_count);
        let logs = must_log || !now.is_called || ahead < steps;
        if logs {
            steps += LOGGED_AHEAD;
            ahead = steps;
        }
        let mut first = i128::from(now.last_value);
        if now.is_called {
            first = match (self.room(first) > 0, self.cycle) {
                (true, _) => first + step,
                (false, true) => self.beginning(),
                (false, false) => return None,
            };
            (steps, ahead) = (steps - 1, ahead - 1);
        }
        // Nothing is taken beyond the last value: the next call begins again, or fails.
        let possible = steps.min(self.room(first));
        let taken = possible.min(cache - 1);
        let last = first + taken * step;
        let log_count = ahead - taken - (steps - possible);
        let tuple = |value, log_count| {
            Some(SequenceTuple {
                last_value: i64::try_from(value).ok()?,
                log_count: i64::try_from(log_count).ok()?,
                is_called: true,
            })
        };
        let logged = if logs { Some(tuple(first + possible * step, 0)?) } else { None };
        let first = i64::try_from(first).ok()?;
        Some(Advance { first, after: tuple(last, log_count)?, logged })
    }

    /// How many values come behind one before the last.
    fn room(&self, value: i128) -> i128 {
        let (step, [min, max]) = (i128::from(self.increment), [self.min, self.max].map(i128::from));
        let way = if step > 0 { max - value } else { min - value };
        way.checked_div(step).unwrap_or(0).max(0)
    }

    fn beginning(&self) -> i128 {
        i128::from(if self.increment > 0 { self.min } else { self.max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAIN: SequenceRules =
        SequenceRules { increment: 1, min: 1, max: i64::MAX, cache: 1, cycle: false };

    fn state(last_value: i64, log_count: i64, is_called: bool) -> SequenceTuple {
        SequenceTuple { last_value, log_count, is_called }
    }

    /// The first and the last value, log_cnt, and the logged value.
    fn took(
        rules: SequenceRules,
        now: SequenceTuple,
        must_log: bool,
    ) -> Option<(i64, i64, i64, Option<i64>)> {
        let Advance { first, after, logged } = rules.advance(&now, must_log)?;
        let logged = logged.inspect(|logged| assert!(logged.is_called && logged.log_count == 0));
        Some((first, after.last_value, after.log_count, logged.map(|logged| logged.last_value)))
    }

    /// The numbers are those of PostgreSQL 18's pages and records.
    #[test]
    fn every_33rd_value_is_logged() {
        assert_eq!(took(PLAIN, state(1, 0, false), false), Some((1, 1, 32, Some(33))));
        assert_eq!(took(PLAIN, state(1, 32, true), false), Some((2, 2, 31, None)));
        assert_eq!(took(PLAIN, state(32, 1, true), false), Some((33, 33, 0, None)));
        assert_eq!(took(PLAIN, state(33, 0, true), false), Some((34, 34, 32, Some(66))));
        assert_eq!(took(PLAIN, state(5, 28, true), true), Some((6, 6, 32, Some(38))));
        let cached = SequenceRules { cache: 10, ..PLAIN };
        assert_eq!(took(cached, state(1, 0, false), false), Some((1, 10, 32, Some(42))));
        assert_eq!(took(cached, state(10, 32, true), false), Some((11, 20, 22, None)));
        assert_eq!(took(cached, state(40, 2, true), false), Some((41, 50, 32, Some(82))));
    }

    #[test]
    fn a_sequence_ends_or_begins_again() {
        let three = SequenceRules { max: 3, ..PLAIN };
        assert_eq!(took(three, state(1, 0, false), false), Some((1, 1, 2, Some(3))));
        assert_eq!(took(three, state(2, 1, true), false), Some((3, 3, 0, None)));
        assert_eq!(took(three, state(3, 0, true), false), None);
        let cycle = SequenceRules { cycle: true, cache: 5, ..three };
        assert_eq!(took(cycle, state(3, 0, true), false), Some((1, 3, 0, Some(3))));
        let down = SequenceRules { increment: -2, min: -4, max: -1, ..PLAIN };
        assert_eq!(took(down, state(-1, 0, false), false), Some((-1, -1, 1, Some(-3))));
        assert_eq!(took(down, state(-3, 0, true), false), None);
        let cycle = SequenceRules { cycle: true, ..down };
        assert_eq!(took(cycle, state(-3, 0, true), false), Some((-1, -1, 1, Some(-3))));
        let all = SequenceRules { min: i64::MIN, cache: i64::MAX, ..PLAIN };
        let (least, most) = (state(i64::MIN, 0, false), state(i64::MAX, 9, true));
        assert!(took(all, least, false).is_some() && took(all, most, true).is_none());
    }

    proptest! {
        /// Values come one after the other, whatever is cached and logged, and none is handed out
        /// again after a crash: that goes on with the last logged value.
        #[test]
        fn no_value_comes_twice(
            increment in prop_oneof![1i64..5, -5i64..-1],
            cache in 1i64..70,
            crashes in prop::collection::vec(any::<(bool, bool)>(), 1..200),
        ) {
            let rules = SequenceRules { increment, min: -1000, max: 1000, cache, cycle: false };
            let start = if increment > 0 { -1000 } else { 1000 };
            let (mut page, mut log) = (state(start, 0, false), state(start, 0, false));
            let mut last: Option<i64> = None;
            for (must_log, crash) in crashes {
                let Some(Advance { first, after, logged }) = rules.advance(&page, must_log) else {
                    break;
                };
                if let Some(last) = last {
                    prop_assert!(increment.signum() * (first - last) >= increment.abs());
                    prop_assert_eq!((first - last) % increment, 0);
                }
                let count = (after.last_value - first) / increment + 1;
                prop_assert!((1..=cache).contains(&count));
                log = logged.unwrap_or(log);
                prop_assert!(increment.signum() * (log.last_value - after.last_value) >= 0);
                prop_assert_eq!(
                    log.last_value - after.last_value, after.log_count * increment
                );
                last = Some(after.last_value);
                page = if crash { log } else { after };
            }
        }
    }
}
