//! Comparison, as the default btree operator class of each type has it.

use std::cmp::Ordering;

use crate::datum::Datum;
use crate::error::{Problem, Result, ValueError};

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
        (Datum::Int8(a), Datum::Int8(b)) | (Datum::Timestamptz(a), Datum::Timestamptz(b)) => {
            a.cmp(b)
        }
        (Datum::Float4(a), Datum::Float4(b)) => compare_floats(f64::from(*a), f64::from(*b)),
        (Datum::Float8(a), Datum::Float8(b)) => compare_floats(*a, *b),
        (Datum::Oid(a), Datum::Oid(b)) | (Datum::Xid(a), Datum::Xid(b)) => a.cmp(b),
        (Datum::Tid(a, m), Datum::Tid(b, n)) => (a, m).cmp(&(b, n)),
        (Datum::Char(a), Datum::Char(b)) => a.cmp(b),
        (Datum::Text(a), Datum::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Datum::Numeric(a), Datum::Numeric(b)) => a.cmp(b),
        (Datum::Bytes(a), Datum::Bytes(b)) => a.cmp(b),
        (Datum::Toasted(_), _) | (_, Datum::Toasted(_)) => return Err(Problem::NotFetched.into()),
        (Datum::Carried(ty, _), _) | (_, Datum::Carried(ty, _)) => {
            return Err(ValueError::carried("comparison", *ty));
        }
        (a, b) => {
            let values = format!("{} and {}", representation(a), representation(b));
            return Err(Problem::Incomparable { values }.into());
        }
    })
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
        Datum::Timestamptz(_) => "timestamptz",
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
        let jsonb = Datum::Carried(3802, b"{}".into());
        let error = compare(&jsonb, &jsonb).expect_err("only carried");
        assert_eq!(error.to_string(), "comparison of type with OID 3802 is not supported");
        // bytea is compared by its bytes.
        let order = compare(&Datum::bytes(b"a\xff"), &Datum::bytes(b"b")).expect("an order");
        assert_eq!(order, Ordering::Less);
    }
}
