//! Comparison, as the default btree operator class of each type has it.

use std::cmp::Ordering;

use crate::array::{Array, Dim};
use crate::datum::Datum;
use crate::error::{Problem, Result, ValueError};
use crate::json::Json;
use crate::sqltype::SqlType;
use crate::text_order::{TextOrder, by_bytes};

/// Orders two values of the same type as a btree does; NaN is greater than all numbers and equal to
/// itself.
///
/// # Errors
/// If the values have different representations, or one of them is NULL, was not fetched or is only
/// carried.
pub fn compare(a: &Datum<'_>, b: &Datum<'_>) -> Result<Ordering> {
    Ok(match (a, b) {
        (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
        (Datum::Int2(a), Datum::Int2(b)) => a.cmp(b),
        (Datum::Int4(a), Datum::Int4(b)) => a.cmp(b),
        (Datum::Int8(a), Datum::Int8(b))
        | (Datum::Time(a), Datum::Time(b))
        | (Datum::Timestamp(a), Datum::Timestamp(b))
        | (Datum::Timestamptz(a), Datum::Timestamptz(b)) => a.cmp(b),
        (Datum::Date(a), Datum::Date(b)) => a.cmp(b),
        (Datum::Timetz(a, zone_a), Datum::Timetz(b, zone_b)) => {
            compare_timetz((*a, *zone_a), (*b, *zone_b))
        }
        (Datum::Interval(a), Datum::Interval(b)) => a.order(b),
        (Datum::Uuid(a), Datum::Uuid(b)) => a.cmp(b),
        (Datum::Lsn(a), Datum::Lsn(b)) | (Datum::Xid8(a), Datum::Xid8(b)) => a.cmp(b),
        (Datum::Bits(m, a), Datum::Bits(n, b)) => a.cmp(b).then(m.cmp(n)),
        (Datum::Inet(a), Datum::Inet(b)) => a.order(b),
        (Datum::Macaddr(a), Datum::Macaddr(b)) => a.cmp(b),
        (Datum::Macaddr8(a), Datum::Macaddr8(b)) => a.cmp(b),
        (Datum::Array(a), Datum::Array(b)) => compare_arrays(a, b, &by_bytes)?,
        (Datum::Float4(a), Datum::Float4(b)) => compare_floats(f64::from(*a), f64::from(*b)),
        (Datum::Float8(a), Datum::Float8(b)) => compare_floats(*a, *b),
        (Datum::Oid(a), Datum::Oid(b)) | (Datum::Xid(a), Datum::Xid(b)) => a.cmp(b),
        (Datum::Tid(a, m), Datum::Tid(b, n)) => (a, m).cmp(&(b, n)),
        (Datum::Char(a), Datum::Char(b)) => a.cmp(b),
        (Datum::Text(a), Datum::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Datum::Numeric(a), Datum::Numeric(b)) => a.cmp(b),
        (Datum::Bytes(a), Datum::Bytes(b)) => a.cmp(b),
        (Datum::Toasted(_), _) | (_, Datum::Toasted(_)) => return Err(Problem::NotFetched.into()),
        (Datum::Jsonb(a), Datum::Jsonb(b)) => compare_jsonb(a, b, &by_bytes)?,
        (Datum::Carried(ty, _), _) | (_, Datum::Carried(ty, _)) => {
            return Err(ValueError::carried("comparison", *ty));
        }
        (a, b) => {
            let values = format!("{} and {}", representation(a), representation(b));
            return Err(Problem::Incomparable { values }.into());
        }
    })
}

/// Orders two values of a type as its default operator class does: as [`compare`], but that the
/// trailing blanks of character(n) do not count, and that the shorter oidvector comes first.
///
/// # Errors
/// As [`compare`].
pub fn compare_as(a: &Datum<'_>, b: &Datum<'_>, ty: SqlType) -> Result<Ordering> {
    compare_by(a, b, ty, &by_bytes)
}

/// The same with an order of texts, which is also that of texts in arrays and in jsonb. Texts that
/// it takes for equal have the same bytes.
///
/// # Errors
/// As [`compare`].
pub fn compare_by(
    a: &Datum<'_>,
    b: &Datum<'_>,
    ty: SqlType,
    texts: TextOrder<'_>,
) -> Result<Ordering> {
    match (a, b) {
        (Datum::Text(a), Datum::Text(b)) if ty == SqlType::Bpchar => {
            Ok(texts(a.trim_end_matches(' '), b.trim_end_matches(' ')))
        }
        (Datum::Text(a), Datum::Text(b)) => Ok(texts(a, b)),
        (Datum::Array(m), Datum::Array(n)) if ty == SqlType::OidVector => {
            let (m, n) = (m.shape()?.count, n.shape()?.count);
            if m != n { Ok(m.cmp(&n)) } else { compare(a, b) }
        }
        (Datum::Array(a), Datum::Array(b)) => compare_arrays(a, b, texts),
        (Datum::Jsonb(a), Datum::Jsonb(b)) => compare_jsonb(a, b, texts),
        _ => compare(a, b),
    }
}

fn compare_jsonb(a: &[u8], b: &[u8], texts: TextOrder<'_>) -> Result<Ordering> {
    Ok(Json::read_stored(a)?.order(&Json::read_stored(b)?, texts))
}

/// By the time in UTC, then by the zone.
fn compare_timetz((a, zone_a): (i64, i32), (b, zone_b): (i64, i32)) -> Ordering {
    let utc = |time: i64, zone: i32| i128::from(time) + i128::from(zone) * 1_000_000;
    utc(a, zone_a).cmp(&utc(b, zone_b)).then(zone_a.cmp(&zone_b))
}

/// Element by element, NULL last; then by the number of elements, of dimensions, their lengths and
/// their lower bounds.
fn compare_arrays(a: &Array<'_>, b: &Array<'_>, texts: TextOrder<'_>) -> Result<Ordering> {
    let (shape_a, shape_b) = (a.shape()?, b.shape()?);
    if shape_a.element != shape_b.element {
        let message = "cannot compare arrays of different element types";
        return Err(ValueError::new("42804", message));
    }
    let ty = SqlType::of(shape_a.element);
    for (a, b) in shape_a.values()?.zip(shape_b.values()?) {
        let (a, b) = (a?, b?);
        let order = match (a.is_null(), b.is_null()) {
            (false, false) => compare_by(&a, &b, ty, texts)?,
            (a, b) => a.cmp(&b),
        };
        if order.is_ne() {
            return Ok(order);
        }
    }
    let (dims_a, dims_b) = (&shape_a.dims, &shape_b.dims);
    let lens = |dims: &[Dim]| dims.iter().map(|dim| dim.len).collect::<Vec<_>>();
    let lowers = |dims: &[Dim]| dims.iter().map(|dim| dim.lower).collect::<Vec<_>>();
    Ok(shape_a
        .count
        .cmp(&shape_b.count)
        .then(dims_a.len().cmp(&dims_b.len()))
        .then_with(|| lens(dims_a).cmp(&lens(dims_b)))
        .then_with(|| lowers(dims_a).cmp(&lowers(dims_b))))
}

fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn representation(value: &Datum<'_>) -> &'static str {
    match value {
        Datum::Null => "NULL",
        Datum::Bool(_) => "bool",
        Datum::Int2(_) => "int2",
        Datum::Int4(_) => "int4",
        Datum::Int8(_) => "int8",
        Datum::Float4(_) => "float4",
        Datum::Float8(_) => "float8",
        Datum::Oid(_) => "oid",
        Datum::Xid(_) => "xid",
        Datum::Tid(..) => "tid",
        Datum::Char(_) => "\"char\"",
        Datum::Text(_) => "text",
        Datum::Numeric(_) => "numeric",
        Datum::Bytes(_) => "bytes",
        Datum::Carried(..) => "carried",
        Datum::Date(_) => "date",
        Datum::Time(_) => "time",
        Datum::Timetz(..) => "timetz",
        Datum::Timestamp(_) => "timestamp",
        Datum::Timestamptz(_) => "timestamptz",
        Datum::Interval(_) => "interval",
        Datum::Uuid(_) => "uuid",
        Datum::Lsn(_) => "pg_lsn",
        Datum::Xid8(_) => "xid8",
        Datum::Bits(..) => "bits",
        Datum::Jsonb(_) => "jsonb",
        Datum::Inet(_) => "inet",
        Datum::Macaddr(_) => "macaddr",
        Datum::Macaddr8(_) => "macaddr8",
        Datum::Array(_) => "array",
        Datum::Toasted(_) => "out of line",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_ordered_as_a_btree_orders_them() {
        let order = |a: Datum<'_>, b: Datum<'_>| compare(&a, &b).expect("comparable");
        assert_eq!(order(Datum::Int4(-1), Datum::Int4(1)), Ordering::Less);
        assert_eq!(order(Datum::text("Z"), Datum::text("a")), Ordering::Less);
        assert_eq!(order(Datum::Tid(1, 9), Datum::Tid(2, 1)), Ordering::Less);
        assert_eq!(order(Datum::Float8(f64::NAN), Datum::Float8(f64::INFINITY)), Ordering::Greater);
        assert_eq!(order(Datum::Float4(f32::NAN), Datum::Float4(f32::NAN)), Ordering::Equal);
        assert_eq!(order(Datum::Float8(-0.0), Datum::Float8(0.0)), Ordering::Equal);
    }

    #[test]
    fn values_of_different_types_are_no_equals() {
        let error = compare(&Datum::Int4(1), &Datum::Int8(1)).expect_err("two types");
        assert_eq!(error.sqlstate(), "XX000");
        assert!(compare(&Datum::Null, &Datum::Null).is_err());
        let pointer = Datum::Toasted(b"pointer".into());
        let error = compare(&pointer, &pointer).expect_err("not fetched");
        assert_eq!(error.sqlstate(), "0A000");
    }

    #[test]
    fn what_is_only_carried_has_no_order() {
        let date = |bytes: &'static [u8]| Datum::Carried(1082, bytes.into());
        for (a, b) in [
            (date(b"\0\0\0\0"), date(b"\0\0\0\0")),
            (date(b"\0\0\0\0"), Datum::Int4(0)),
            (Datum::bytes(b"\0\0\0\0"), date(b"\0\0\0\0")),
        ] {
            let error = compare(&a, &b).expect_err("only carried");
            assert_eq!(error.sqlstate(), "0A000");
            assert_eq!(error.to_string(), "comparison of type date is not supported");
        }
        let point = Datum::Carried(600, b"{}".into());
        let error = compare(&point, &point).expect_err("only carried");
        assert_eq!(error.to_string(), "comparison of type with OID 600 is not supported");
        // bytea is compared by its bytes.
        let order = compare(&Datum::bytes(b"a\xff"), &Datum::bytes(b"b")).expect("an order");
        assert_eq!(order, Ordering::Less);
    }
}
