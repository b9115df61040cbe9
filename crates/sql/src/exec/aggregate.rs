//! Aggregates at work: accumulators.

use super::cast::float_overflow;
use crate::error::{Result, SqlError, state};
use crate::plan::AggregateKind;
use forebay_types::{Datum, Numeric, ValueError, compare};
use std::cmp::Ordering;

/// The state of one aggregate.
pub(super) enum Accumulator {
    Count(i64),
    SumInt(Option<i64>),
    /// sum(int8) and avg of integers.
    Wide {
        sum: i128,
        count: i64,
        average: bool,
    },
    Numeric {
        sum: Numeric,
        count: i64,
        average: bool,
    },
    Float4(Option<f32>),
    Float8 {
        sum: f64,
        count: i64,
        average: bool,
    },
    Best {
        value: Datum<'static>,
        wanted: Ordering,
    },
    Bool {
        value: Option<bool>,
        and: bool,
    },
}

impl Accumulator {
    /// Nothing taken in yet.
    pub(super) fn new(kind: AggregateKind) -> Accumulator {
        use AggregateKind as K;
        match kind {
            K::CountStar | K::Count => Accumulator::Count(0),
            K::SumInt => Accumulator::SumInt(None),
            K::SumBigint | K::AvgInt => {
                Accumulator::Wide { sum: 0, count: 0, average: kind == K::AvgInt }
            }
            K::SumNumeric | K::AvgNumeric => Accumulator::Numeric {
                sum: Numeric::from_int(0),
                count: 0,
                average: kind == K::AvgNumeric,
            },
            K::SumFloat4 => Accumulator::Float4(None),
            K::SumFloat8 | K::AvgFloat => {
                Accumulator::Float8 { sum: 0.0, count: 0, average: kind == K::AvgFloat }
            }
            K::Min => Accumulator::Best { value: Datum::Null, wanted: Ordering::Less },
            K::Max => Accumulator::Best { value: Datum::Null, wanted: Ordering::Greater },
            K::BoolAnd => Accumulator::Bool { value: None, and: true },
            K::BoolOr => Accumulator::Bool { value: None, and: false },
        }
    }

    /// Takes in a value that is not NULL.
    pub(super) fn add(&mut self, input: Datum<'_>) -> Result<()> {
        match (self, input) {
            (Accumulator::Count(n), _) => *n += 1,
            (_, Datum::Carried(ty, _)) => {
                return Err(ValueError::carried("an aggregate", ty).into());
            }
            (Accumulator::SumInt(sum), Datum::Int4(v)) => {
                *sum = Some(sum.unwrap_or(0).wrapping_add(i64::from(v)))
            }
            (Accumulator::SumInt(sum), Datum::Int2(v)) => {
                *sum = Some(sum.unwrap_or(0).wrapping_add(i64::from(v)))
            }
            (Accumulator::Wide { sum, count, .. }, Datum::Int2(v)) => {
                (*sum, *count) = (*sum + i128::from(v), *count + 1);
            }
            (Accumulator::Wide { sum, count, .. }, Datum::Int4(v)) => {
                (*sum, *count) = (*sum + i128::from(v), *count + 1);
            }
            (Accumulator::Wide { sum, count, .. }, Datum::Int8(v)) => {
                (*sum, *count) = (*sum + i128::from(v), *count + 1);
            }
            (Accumulator::Numeric { sum, count, .. }, Datum::Numeric(v)) => {
                *sum = sum.add(&v)?;
                *count += 1;
            }
            (Accumulator::Float4(sum), Datum::Float4(v)) => {
                let total = sum.map_or(v, |s| s + v);
                if total.is_infinite() && v.is_finite() && sum.is_some_and(f32::is_finite) {
                    return Err(float_overflow());
                }
                *sum = Some(total);
            }
            (Accumulator::Float8 { sum, count, .. }, Datum::Float8(v)) => {
                // The first value is taken as it is: adding it to zero would lose the sign of -0.
                let total = if *count == 0 { v } else { *sum + v };
                if total.is_infinite() && v.is_finite() && sum.is_finite() {
                    return Err(float_overflow());
                }
                *sum = total;
                *count += 1;
            }
            (Accumulator::Best { value, wanted }, input) => {
                // Of equal values the last one stays: 1.0 and 1.00 are equal, and look different.
                if value.is_null() || compare(value, &input)? != *wanted {
                    *value = input.into_owned();
                }
            }
            (Accumulator::Bool { value, and }, Datum::Bool(v)) => {
                *value = Some(value.map_or(v, |old| if *and { old && v } else { old || v }));
            }
            _ => {
                let message = "an aggregate's input is not of its type";
                return Err(SqlError::new(state::INTERNAL_ERROR, message));
            }
        }
        Ok(())
    }

    /// The aggregate's value.
    pub(super) fn finish(self) -> Result<Datum<'static>> {
        Ok(match self {
            Accumulator::Count(n) => Datum::Int8(n),
            Accumulator::SumInt(sum) => sum.map_or(Datum::Null, Datum::Int8),
            Accumulator::Wide { count: 0, .. }
            | Accumulator::Numeric { count: 0, .. }
            | Accumulator::Float8 { count: 0, .. } => Datum::Null,
            Accumulator::Wide { sum, count, average: true } => {
                Datum::numeric(Numeric::from_int(sum).div(&Numeric::from_int(count))?)
            }
            Accumulator::Wide { sum, .. } => Datum::numeric(Numeric::from_int(sum)),
            Accumulator::Numeric { sum, count, average: true } => {
                Datum::numeric(sum.div(&Numeric::from_int(count))?)
            }
            Accumulator::Numeric { sum, .. } => Datum::numeric(sum),
            Accumulator::Float4(sum) => sum.map_or(Datum::Null, Datum::Float4),
            Accumulator::Float8 { sum, count, average } => {
                Datum::Float8(if average { sum / count as f64 } else { sum })
            }
            Accumulator::Best { value, .. } => value,
            Accumulator::Bool { value, .. } => value.map_or(Datum::Null, Datum::Bool),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_only_carried_are_counted_and_else_refused() {
        use AggregateKind as K;
        let date = || Datum::Carried(1082, vec![0; 4].into());
        for kind in [K::Min, K::Max, K::SumInt, K::AvgInt, K::SumNumeric, K::SumFloat8, K::BoolOr] {
            let error = Accumulator::new(kind).add(date()).expect_err("only carried");
            let message = "an aggregate of type date is not supported";
            assert_eq!((error.sqlstate, &*error.message), ("0A000", message), "{kind:?}");
        }
        let mut count = Accumulator::new(K::Count);
        count.add(date()).expect("it is not NULL");
        assert_eq!(count.finish().expect("a number"), Datum::Int8(1));
    }

    #[test]
    fn of_equal_values_the_last_one_stays() {
        for kind in [AggregateKind::Min, AggregateKind::Max] {
            let mut best = Accumulator::new(kind);
            for text in ["1.0", "1.00"] {
                let number = Numeric::parse(text).expect("in range").expect("a number");
                best.add(Datum::numeric(number)).expect("a number");
            }
            let Datum::Numeric(number) = best.finish().expect("a number") else {
                panic!("numeric")
            };
            assert_eq!(number.to_string(), "1.00");
        }
    }
}
