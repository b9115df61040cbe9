//! The values that the statistics of a column have, compared with a constant.

use super::expr::Comparison;
use forebay_collation::Collation;
use forebay_engine::{Column, ColumnStatistics, Table};
use forebay_types::{Datum, compare, oids};
use std::cmp::Ordering;

/// Bytes of a text that are looked at.
const LOOKED_AT: usize = 12;

/// The values of a column that its statistics have.
pub(super) struct ColumnValues<'t> {
    common: Vec<(Datum<'t>, f64)>,
    histogram: Vec<Datum<'t>>,
    /// Whether blanks at the end count.
    padded: bool,
    /// The collation of a comparison, unless it is that of bytes.
    collation: Option<&'t Collation>,
}

impl<'t> ColumnValues<'t> {
    /// The values in a column's statistics. Damaged values are left out.
    pub(super) fn of(
        table: &Table,
        column: usize,
        stats: &'t ColumnStatistics,
    ) -> ColumnValues<'t> {
        let column: Option<&Column> = table.columns.get(column);
        let encoding = table.encoding;
        let decode =
            |bytes: &'t [u8]| column.and_then(|column| column.repr.decode(bytes, encoding).ok());
        let common = stats.common.iter();
        let common = common.filter_map(|(bytes, part)| Some((decode(bytes)?, f64::from(*part))));
        let histogram = stats.histogram.iter().filter_map(|bytes| decode(bytes));
        let padded = column.is_some_and(|column| column.type_oid == oids::BPCHAR);
        ColumnValues {
            common: common.collect(),
            histogram: histogram.collect(),
            padded,
            collation: None,
        }
    }

    /// The same for a comparison by a collation.
    pub(super) fn collated(self, collation: Option<&'t Collation>) -> ColumnValues<'t> {
        ColumnValues { collation, ..self }
    }

    /// How often a value is there, if it is a common one.
    pub(super) fn frequency(&self, value: &Datum<'_>) -> Option<f64> {
        let is_it = |other: &Datum<'_>| self.order(other, value) == Some(Ordering::Equal);
        self.common.iter().find(|(other, _)| is_it(other)).map(|(_, part)| *part)
    }

    /// The part of the rows that has common values for which a comparison with a value holds. None:
    /// they cannot be compared.
    pub(super) fn common_part(&self, comparison: Comparison, value: &Datum<'_>) -> Option<f64> {
        let mut sum = 0.0;
        for (other, part) in &self.common {
            if holds(comparison, self.order(other, value)?) {
                sum += part;
            }
        }
        Some(sum)
    }

    /// The part of the values in the histogram for which a comparison with a value holds. `others`:
    /// how many different ones there are. None without a histogram.
    pub(super) fn histogram_part(
        &self,
        comparison: Comparison,
        value: &Datum<'_>,
        others: f64,
    ) -> Option<f64> {
        let bounds = self.histogram.len();
        if bounds < 2 {
            return None;
        }
        let greater = matches!(comparison, Comparison::Gt | Comparison::Ge);
        let or_equal = matches!(comparison, Comparison::Le | Comparison::Ge);
        let mut below = 0;
        for bound in &self.histogram {
            // Of `greater` comparisons, those for which it does not hold.
            if holds(comparison, self.order(bound, value)?) == greater {
                break;
            }
            below += 1;
        }
        let part = if below == 0 {
            0.0
        } else if below == bounds {
            1.0
        } else {
            let (low, high) = (&self.histogram[below - 1], &self.histogram[below]);
            let within = within(low, high, value);
            // A value in the histogram is as frequent as the others.
            let equal = if others > 1.0 { 1.0 / others } else { 0.0 };
            let mut part = ((below - 1) as f64 + within) / (bounds - 1) as f64;
            if below == 1 {
                part += equal * (1.0 - within);
            }
            if greater == or_equal {
                part -= equal;
            }
            part
        };
        let part = if greater { 1.0 - part } else { part };
        // The sample does not show the ends.
        let least = 0.01 / (bounds - 1) as f64;
        Some(part.clamp(least, 1.0 - least))
    }

    fn texts(&self, a: &str, b: &str) -> Ordering {
        match self.collation {
            Some(collation) => collation.compare(a, b),
            None => a.as_bytes().cmp(b.as_bytes()),
        }
    }

    /// The order of two values. None: they cannot be compared.
    fn order(&self, a: &Datum<'_>, b: &Datum<'_>) -> Option<Ordering> {
        match (a, b) {
            (Datum::Text(a), Datum::Text(b)) if self.padded => {
                let [a, b] = [a, b].map(|text| text.trim_end_matches(' '));
                Some(self.texts(a, b))
            }
            (Datum::Text(a), Datum::Text(b)) => Some(self.texts(a, b)),
            _ => match (integer(a), integer(b)) {
                (Some(a), Some(b)) => Some(a.cmp(&b)),
                _ => compare(a, b).ok(),
            },
        }
    }
}

/// An integer of any size: columns are compared with wider ones.
fn integer(value: &Datum<'_>) -> Option<i64> {
    match value {
        Datum::Int2(n) => Some((*n).into()),
        Datum::Int4(n) => Some((*n).into()),
        Datum::Int8(n) => Some(*n),
        _ => None,
    }
}

fn holds(comparison: Comparison, order: Ordering) -> bool {
    match comparison {
        Comparison::Eq => order.is_eq(),
        Comparison::Ne => order.is_ne(),
        Comparison::Lt => order.is_lt(),
        Comparison::Le => order.is_le(),
        Comparison::Gt => order.is_gt(),
        Comparison::Ge => order.is_ge(),
    }
}

/// Where a value lies between two bounds, from 0 to 1.
fn within(low: &Datum<'_>, high: &Datum<'_>, value: &Datum<'_>) -> f64 {
    let places = match (low, high, value) {
        (Datum::Text(low), Datum::Text(high), Datum::Text(value)) => {
            let [low, high, value] = [low, high, value].map(|text| text.as_bytes());
            Some(text_places(low, high, value))
        }
        _ => scalar(low).zip(scalar(high)).zip(scalar(value)).map(|((l, h), v)| [l, h, v]),
    };
    let Some([low, high, value]) = places else { return 0.5 };
    match () {
        () if high <= low => 0.5,
        () if value <= low => 0.0,
        () if value >= high => 1.0,
        () => {
            let part = (value - low) / (high - low);
            if (0.0..=1.0).contains(&part) { part } else { 0.5 }
        }
    }
}

fn scalar(value: &Datum<'_>) -> Option<f64> {
    Some(match value {
        Datum::Bool(b) => f64::from(u8::from(*b)),
        Datum::Float4(n) => f64::from(*n),
        Datum::Float8(n) => *n,
        Datum::Oid(n) => f64::from(*n),
        Datum::Numeric(n) => n.to_f64(),
        Datum::Timestamptz(n) => *n as f64,
        other => integer(other)? as f64,
    })
}

/// Texts as fractions, whose digits are their bytes behind what they have in common. The bytes of
/// the two bounds say which digits there are.
fn text_places(low: &[u8], high: &[u8], value: &[u8]) -> [f64; 3] {
    let all = low.iter().chain(high);
    let (mut least, mut most) = all.fold((u8::MAX, u8::MIN), |(l, m), b| (l.min(*b), m.max(*b)));
    for (from, to) in [(b'A', b'Z'), (b'a', b'z'), (b'0', b'9')] {
        if least <= to && most >= from {
            (least, most) = (least.min(from), most.max(to));
        }
    }
    if most.saturating_sub(least) < 9 {
        (least, most) = (b' ', 127);
    }
    let same = low.iter().zip(high).zip(value).take_while(|((l, h), v)| l == h && l == v).count();
    let base = f64::from(most - least) + 1.0;
    [low, high, value].map(|text| {
        let digit = |byte: u8| match byte {
            byte if byte < least => -1.0,
            byte if byte > most => base,
            byte => f64::from(byte - least),
        };
        let digits = text.iter().skip(same).take(LOOKED_AT);
        let sum =
            digits.fold((0.0, base), |(sum, unit), byte| (sum + digit(*byte) / unit, unit * base));
        sum.0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(bounds: &[i32]) -> ColumnValues<'static> {
        let histogram = bounds.iter().map(|n| Datum::Int4(*n)).collect();
        ColumnValues { common: Vec::new(), histogram, padded: false, collation: None }
    }

    #[test]
    fn a_histogram_tells_the_part_below_a_value() {
        let values = histogram(&[0, 10, 20, 40, 100]);
        let part = |comparison, value| {
            let part = values.histogram_part(comparison, &Datum::Int8(value), 1000.0);
            (part.expect("a histogram") * 1000.0).round()
        };
        assert_eq!(part(Comparison::Lt, 20), 499.0);
        assert_eq!(part(Comparison::Le, 30), 625.0);
        assert_eq!(part(Comparison::Gt, 30), 375.0);
        assert_eq!(part(Comparison::Ge, 70), 126.0);
        // Nothing is known beyond the ends.
        assert_eq!((part(Comparison::Lt, -5), part(Comparison::Gt, 500)), (3.0, 3.0));
        assert_eq!((part(Comparison::Lt, 500), part(Comparison::Ge, -5)), (998.0, 998.0));
        assert!(histogram(&[1]).histogram_part(Comparison::Lt, &Datum::Int4(1), 9.0).is_none());
    }

    #[test]
    fn texts_lie_between_others() {
        let of =
            |low, high, value| within(&Datum::text(low), &Datum::text(high), &Datum::text(value));
        assert_eq!(of("a", "a", "a"), 0.5);
        assert_eq!((of("b", "d", "a"), of("b", "d", "x")), (0.0, 1.0));
        assert!((of("row 1", "row 5", "row 3") - 0.5).abs() < 1e-9);
        assert!((0.4..0.6).contains(&of("a", "z", "m")));
    }
}
