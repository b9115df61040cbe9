//! Which aggregates there are, by their OIDs in pg_proc.

use super::super::aggregate::{AggregateCall, AggregateKind};
use super::super::catalog::Catalog;
use super::super::order::ValueOrder;
use super::{Columns, cast_if_needed, lower, value_order};
use crate::analyze::{Aggregated, assign_collations, type_name};
use crate::error::{Result, SqlError};
use forebay_engine::nodes::{collation_of, type_of};
use forebay_types::{Oid, SqlType, oids};

/// min and max, of all types whose values are compared.
const MIN: &[Oid] = &[
    2051, 2131, 2132, 2133, 2134, 2135, 2136, 2138, 2139, 2140, 2142, 2143, 2144, 2145, 2146, 2245,
    2798, 3565, 4190, 5100, 6396,
];
const MAX: &[Oid] = &[
    2050, 2115, 2116, 2117, 2118, 2119, 2120, 2122, 2123, 2124, 2126, 2127, 2128, 2129, 2130, 2244,
    2797, 3564, 4189, 5099, 6395,
];

fn kind_of(aggregate: Oid) -> Option<AggregateKind> {
    use AggregateKind as K;
    Some(match aggregate {
        2147 => K::Count,
        2803 => K::CountStar,
        2107 => K::SumBigint,
        2108 | 2109 => K::SumInt,
        2110 => K::SumFloat4,
        2111 => K::SumFloat8,
        2114 => K::SumNumeric,
        2100..=2102 => K::AvgInt,
        2103 => K::AvgNumeric,
        2104 | 2105 => K::AvgFloat,
        2517 | 2519 => K::BoolAnd,
        2518 => K::BoolOr,
        oid if MIN.contains(&oid) => K::Min,
        oid if MAX.contains(&oid) => K::Max,
        _ => return None,
    })
}

impl AggregateCall {
    /// The aggregate of an analyzed call.
    pub fn lower(
        call: &Aggregated,
        columns: &dyn Columns,
        catalog: &mut dyn Catalog,
    ) -> Result<AggregateCall> {
        let Some(kind) = kind_of(call.function.oid) else {
            let mut shown = Vec::new();
            for arg in &call.args {
                shown.push(type_name(catalog.names(), type_of(arg))?);
            }
            let what = format!("aggregate {}({})", call.function.name, shown.join(", "));
            return Err(SqlError::unsupported(what));
        };
        let mut arg = None;
        let mut args = call.args.clone();
        for arg in &mut args {
            assign_collations(catalog.names(), arg)?;
        }
        if let Some(given) = args.first() {
            let value = lower(given, columns, catalog)?;
            arg = Some(match kind {
                AggregateKind::AvgFloat => cast_if_needed(value, type_of(given), oids::FLOAT8),
                _ => value,
            });
        }
        let filter = match call.filter.clone() {
            Some(mut filter) => {
                assign_collations(catalog.names(), &mut filter)?;
                Some(lower(&filter, columns, catalog)?)
            }
            None => None,
        };
        let result = SqlType::of(call.result);
        let of = args.first().filter(|_| matches!(kind, AggregateKind::Min | AggregateKind::Max));
        let order = match of {
            Some(arg) => value_order(catalog, type_of(arg), collation_of(arg))?,
            None => ValueOrder::new(result, None),
        };
        Ok(AggregateCall { kind, arg, filter, result, order })
    }
}
