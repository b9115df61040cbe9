//! Aggregates at work: accumulators and groups.

use super::eval::{Row, eval, float_overflow, is_true};
use super::host::Host;
use crate::error::Result;
use crate::plan::{AggregateCall, AggregateKind, Grouping};
use crate::value::{Datum, Numeric, compare};
use std::cmp::Ordering;
use std::collections::HashMap;

/// The state of one aggregate.
enum Accumulator {
    Count(i64),
    SumInt(Option<i64>),
    /// Of integers, with their number: sum(int8), avg.
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
    fn new(kind: AggregateKind) -> Accumulator {
        use AggregateKind as K;
        match kind {
            K::CountStar | K::Count => Accumulator::Count(0),
            K::SumInt => Accumulator::SumInt(None),
            K::SumBigint | K::AvgInt => Accumulator::Wide { sum: 0, count: 0, average: kind == K::AvgInt },
            K::SumNumeric | K::AvgNumeric => {
                Accumulator::Numeric { sum: Numeric::from_int(0), count: 0, average: kind == K::AvgNumeric }
            }
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
    fn add(&mut self, input: Datum<'_>) -> Result<()> {
        match (self, input) {
            (Accumulator::Count(n), _) => *n += 1,
            (Accumulator::SumInt(sum), Datum::Int4(v)) => {
                *sum = Some(sum.unwrap_or(0).wrapping_add(i64::from(v)))
            }
            (Accumulator::SumInt(sum), Datum::Int2(v)) => {
                *sum = Some(sum.unwrap_or(0).wrapping_add(i64::from(v)))
            }
            (Accumulator::Wide { sum, count, .. }, input) => {
                *sum += match input {
                    Datum::Int2(v) => i128::from(v),
                    Datum::Int4(v) => i128::from(v),
                    Datum::Int8(v) => i128::from(v),
                    _ => 0,
                };
                *count += 1;
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
            (Accumulator::Best { value, wanted }, input)
                if value.is_null() || compare(&input, value) == *wanted =>
            {
                *value = input.into_owned();
            }
            (Accumulator::Bool { value, and }, Datum::Bool(v)) => {
                *value = Some(value.map_or(v, |old| if *and { old && v } else { old || v }));
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(self) -> Result<Datum<'static>> {
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

struct Group {
    keys: Vec<Datum<'static>>,
    states: Vec<Accumulator>,
}

/// Groups being filled.
pub struct Groups {
    index: HashMap<Vec<u8>, usize>,
    groups: Vec<Group>,
    key: Vec<u8>,
}

fn states(calls: &[AggregateCall]) -> Vec<Accumulator> {
    calls.iter().map(|c| Accumulator::new(c.kind)).collect()
}

impl Groups {
    /// No rows yet; without keys there is one group from the start.
    pub fn new(grouping: &Grouping) -> Groups {
        let mut groups = Groups { index: HashMap::new(), groups: Vec::new(), key: Vec::new() };
        if grouping.keys.is_empty() {
            groups.groups.push(Group { keys: Vec::new(), states: states(&grouping.calls) });
        }
        groups
    }

    /// The one group of a query without keys whose aggregates all count rows.
    pub fn counted(grouping: &Grouping, count: u64) -> Groups {
        let mut groups = Groups::new(grouping);
        for state in groups.groups.iter_mut().flat_map(|g| &mut g.states) {
            *state = Accumulator::Count(count as i64);
        }
        groups
    }

    /// Takes in a row.
    pub fn add(
        &mut self,
        grouping: &Grouping,
        row: Row<'_>,
        params: &[Datum<'static>],
        host: &mut Host,
    ) -> Result<()> {
        let at = if grouping.keys.is_empty() { 0 } else { self.find(grouping, row, params, host)? };
        let Some(group) = self.groups.get_mut(at) else { return Ok(()) };
        for (call, state) in grouping.calls.iter().zip(&mut group.states) {
            if let Some(filter) = &call.filter
                && !is_true(filter, row, params, host)?
            {
                continue;
            }
            match &call.arg {
                None => state.add(Datum::Bool(true))?,
                Some(arg) => {
                    let value = eval(arg, row, params, host)?;
                    if !value.is_null() {
                        state.add(value)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn find(
        &mut self,
        grouping: &Grouping,
        row: Row<'_>,
        params: &[Datum<'static>],
        host: &mut Host,
    ) -> Result<usize> {
        self.key.clear();
        let mut keys: smallvec::SmallVec<[Datum<'_>; 4]> = smallvec::SmallVec::new();
        for key in &grouping.keys {
            let value = eval(key, row, params, host)?;
            encode_key(&value, &mut self.key);
            keys.push(value);
        }
        if let Some(at) = self.index.get(&self.key) {
            return Ok(*at);
        }
        let keys = keys.into_iter().map(Datum::into_owned).collect();
        self.groups.push(Group { keys, states: states(&grouping.calls) });
        self.index.insert(self.key.clone(), self.groups.len() - 1);
        Ok(self.groups.len() - 1)
    }

    /// The group rows: keys, then aggregates.
    pub fn finish(self) -> Result<Vec<Vec<Datum<'static>>>> {
        let mut rows = Vec::with_capacity(self.groups.len());
        for group in self.groups {
            let mut row = group.keys;
            for state in group.states {
                row.push(state.finish()?);
            }
            rows.push(row);
        }
        Ok(rows)
    }
}

/// Bytes that are equal exactly for equal values.
fn encode_key(value: &Datum<'_>, out: &mut Vec<u8>) {
    let mut sized = |bytes: &[u8]| {
        out.push(1);
        out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        out.extend_from_slice(bytes);
    };
    let float = |v: f64| if v.is_nan() { f64::NAN.to_bits() } else { (v + 0.0).to_bits() };
    match value {
        Datum::Null => out.push(0),
        Datum::Bool(v) => sized(&[u8::from(*v)]),
        Datum::Int2(v) => sized(&v.to_le_bytes()),
        Datum::Int4(v) => sized(&v.to_le_bytes()),
        Datum::Int8(v) | Datum::Timestamptz(v) => sized(&v.to_le_bytes()),
        Datum::Float4(v) => sized(&float(f64::from(*v)).to_le_bytes()),
        Datum::Float8(v) => sized(&float(*v).to_le_bytes()),
        Datum::Oid(v) | Datum::Xid(v) => sized(&v.to_le_bytes()),
        Datum::Char(v) => sized(&[*v]),
        Datum::Text(v) => sized(v.as_bytes()),
        Datum::Numeric(v) => {
            // 1.0 and 1.00 are equal.
            let text = v.to_string();
            let text =
                if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
            sized(text.as_bytes());
        }
        Datum::Bytes(v) => sized(v),
    }
}
