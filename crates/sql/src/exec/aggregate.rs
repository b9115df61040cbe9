//! Aggregates at work: accumulators.

use super::cast::{float_overflow, out_of_range};
use super::row::OwnedRow;
use crate::error::{Result, SqlError, state};
use crate::plan::{AggregateCall, AggregateKind, ValueOrder};
use forebay_types::{Datum, Numeric, SqlType, ValueError};
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
        order: ValueOrder,
    },
    Bool {
        value: Option<bool>,
        and: bool,
    },
}

impl Accumulator {
    /// Nothing taken in yet.
    pub(super) fn new(call: &AggregateCall) -> Accumulator {
        use AggregateKind as K;
        let (kind, value, order) = (call.kind, Datum::Null, || call.order.clone());
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
            K::Min => Accumulator::Best { value, wanted: Ordering::Less, order: order() },
            K::Max => Accumulator::Best { value, wanted: Ordering::Greater, order: order() },
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
                (*sum, *count) = (sum_of(*count, *sum, v)?, *count + 1);
            }
            (Accumulator::Best { value, wanted, order }, input) => {
                // Of equal values the last one stays: 1.0 and 1.00 are equal, and look different.
                if value.is_null() || order.compare(value, &input)? != *wanted {
                    *value = input.into_owned();
                }
            }
            (Accumulator::Bool { value, and }, Datum::Bool(v)) => {
                *value = Some(value.map_or(v, |old| if *and { old && v } else { old || v }));
            }
            _ => return Err(other_aggregate()),
        }
        Ok(())
    }

    /// Takes in what another one of the same aggregate has, over other rows.
    pub(super) fn combine(&mut self, other: Accumulator) -> Result<()> {
        use Accumulator as A;
        let bigint = |sum: Option<i64>| sum.ok_or_else(|| out_of_range(SqlType::Int8));
        match (self, other) {
            (A::Count(n), A::Count(more)) => *n = bigint(n.checked_add(more))?,
            (A::SumInt(sum), A::SumInt(more)) => {
                *sum = match (*sum, more) {
                    (Some(a), Some(b)) => Some(bigint(a.checked_add(b))?),
                    (a, b) => a.or(b),
                };
            }
            (A::Wide { sum, count, .. }, A::Wide { sum: more, count: rows, .. }) => {
                (*sum, *count) = (*sum + more, *count + rows);
            }
            (A::Numeric { sum, count, .. }, A::Numeric { sum: more, count: rows, .. }) => {
                (*sum, *count) = (sum.add(&more)?, *count + rows);
            }
            (A::Float8 { sum, count, .. }, A::Float8 { sum: more, count: rows, .. }) => {
                if rows > 0 {
                    *sum = sum_of(*count, *sum, more)?;
                    *count += rows;
                }
            }
            // Their states are values like those that they take in.
            (this @ (A::Float4(_) | A::Best { .. } | A::Bool { .. }), other) => {
                let value = other.finish()?;
                if !value.is_null() {
                    this.add(value)?;
                }
            }
            _ => return Err(other_aggregate()),
        }
        Ok(())
    }

    /// Appends its state to a row, for [`Accumulator::load`].
    pub(super) fn save(self, row: &mut OwnedRow) {
        match self {
            Accumulator::Count(n) => row.push(Datum::Int8(n)),
            Accumulator::SumInt(sum) => row.push(sum.map_or(Datum::Null, Datum::Int8)),
            Accumulator::Wide { sum, count, .. } => {
                // Both halves, as they are.
                row.extend([(sum >> 64) as i64, sum as i64, count].map(Datum::Int8));
            }
            Accumulator::Numeric { sum, count, .. } => {
                row.extend([Datum::numeric(sum), Datum::Int8(count)]);
            }
            Accumulator::Float4(sum) => row.push(sum.map_or(Datum::Null, Datum::Float4)),
            Accumulator::Float8 { sum, count, .. } => {
                row.extend([Datum::Float8(sum), Datum::Int8(count)]);
            }
            Accumulator::Best { value, .. } => row.push(value),
            Accumulator::Bool { value, .. } => row.push(value.map_or(Datum::Null, Datum::Bool)),
        }
    }

    /// How many columns `save` appends.
    pub(super) fn columns(call: &AggregateCall) -> usize {
        let mut row = OwnedRow::new();
        Accumulator::new(call).save(&mut row);
        row.len()
    }

    /// A new one, with the state that was saved as the next columns of a row.
    pub(super) fn load(
        mut self,
        saved: &mut impl Iterator<Item = Datum<'static>>,
    ) -> Result<Accumulator> {
        let mut next = || saved.next().ok_or_else(other_aggregate);
        let int = |value| match value {
            Datum::Int8(n) => Ok(n),
            _ => Err(other_aggregate()),
        };
        match &mut self {
            Accumulator::Count(n) => *n = int(next()?)?,
            Accumulator::SumInt(sum) => {
                *sum = match next()? {
                    Datum::Null => None,
                    value => Some(int(value)?),
                }
            }
            Accumulator::Wide { sum, count, .. } => {
                let (high, low) = (int(next()?)?, int(next()?)?);
                *sum = i128::from(high) << 64 | i128::from(low.cast_unsigned());
                *count = int(next()?)?;
            }
            Accumulator::Numeric { sum, count, .. } => {
                let Datum::Numeric(saved) = next()? else { return Err(other_aggregate()) };
                (*sum, *count) = (*saved, int(next()?)?);
            }
            Accumulator::Float8 { sum, count, .. } => {
                let Datum::Float8(saved) = next()? else { return Err(other_aggregate()) };
                (*sum, *count) = (saved, int(next()?)?);
            }
            Accumulator::Best { value, .. } => *value = next()?,
            Accumulator::Float4(_) | Accumulator::Bool { .. } => match next()? {
                Datum::Null => {}
                value => self.add(value)?,
            },
        }
        Ok(self)
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

/// The sum of `count` values and more.
fn sum_of(count: i64, sum: f64, more: f64) -> Result<f64> {
    // The first value is taken as it is: adding it to zero would lose the sign of -0.
    let total = if count == 0 { more } else { sum + more };
    if total.is_infinite() && more.is_finite() && sum.is_finite() {
        return Err(float_overflow());
    }
    Ok(total)
}

fn other_aggregate() -> SqlError {
    SqlError::new(state::INTERNAL_ERROR, "an aggregate's input is not of its type")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::AggregateKind;

    fn call(kind: AggregateKind) -> AggregateCall {
        let (result, order) = (SqlType::Numeric, ValueOrder::new(SqlType::Numeric, None));
        AggregateCall { kind, arg: None, filter: None, result, order }
    }

    #[test]
    fn values_that_are_only_carried_are_counted_and_else_refused() {
        use AggregateKind as K;
        let point = || Datum::Carried(600, vec![0; 16].into());
        for kind in [K::Min, K::Max, K::SumInt, K::AvgInt, K::SumNumeric, K::SumFloat8, K::BoolOr] {
            let error = Accumulator::new(&call(kind)).add(point()).expect_err("only carried");
            let message = "an aggregate of type with OID 600 is not supported";
            assert_eq!((error.sqlstate, &*error.message), ("0A000", message), "{kind:?}");
        }
        let mut count = Accumulator::new(&call(K::Count));
        count.add(point()).expect("it is not NULL");
        assert_eq!(count.finish().expect("a number"), Datum::Int8(1));
    }

    #[test]
    fn of_equal_values_the_last_one_stays() {
        for kind in [AggregateKind::Min, AggregateKind::Max] {
            let mut best = Accumulator::new(&call(kind));
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
