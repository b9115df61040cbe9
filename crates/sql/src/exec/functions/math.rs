//! Functions of numbers.

use super::Area;
use super::arguments::{float8, int, int8, wrong_argument};
use crate::error::{Result, SqlError};
use crate::exec::cast::{float_overflow, float_underflow, out_of_range};
use forebay_types::{Datum, Numeric, SqlType};

pub(super) const TABLE: Area = &[
    (1394, |_, args, _| abs(args)),
    (1395, |_, args, _| abs(args)),
    (1396, |_, args, _| abs(args)),
    (1397, |_, args, _| abs(args)),
    (1398, |_, args, _| abs(args)),
    (1705, |_, args, _| abs(args)),
    (1711, |_, args, _| Ok(Datum::numeric(number(args, 0)?.ceil()))),
    (2167, |_, args, _| Ok(Datum::numeric(number(args, 0)?.ceil()))),
    (1712, |_, args, _| Ok(Datum::numeric(number(args, 0)?.floor()))),
    (2308, |_, args, _| float(args, f64::ceil)),
    (2320, |_, args, _| float(args, f64::ceil)),
    (2309, |_, args, _| float(args, f64::floor)),
    (1342, |_, args, _| float(args, f64::round_ties_even)),
    (1343, |_, args, _| float(args, f64::trunc)),
    (1344, |_, args, _| match args.first() {
        Some(Datum::Float8(v)) if *v < 0.0 => {
            Err(SqlError::new("2201F", "cannot take square root of a negative number"))
        }
        _ => float(args, f64::sqrt),
    }),
    (1346, |_, args, _| power(args)), // pow, power, dpow
    (1368, |_, args, _| power(args)),
    (232, |_, args, _| power(args)),
    (1347, |_, args, _| checked(args, f64::exp)),
    (1341, |_, args, _| logarithm(args, f64::ln)),
    (1340, |_, args, _| logarithm(args, f64::log10)),
    (1345, |_, args, _| float(args, f64::cbrt)),
    (231, |_, args, _| float(args, f64::cbrt)),
    (221, |_, args, _| float(args, f64::abs)),
    (2310, |_, args, _| float(args, |v| if v == 0.0 || v.is_nan() { 0.0 } else { v.signum() })),
    (1608, |_, args, _| checked(args, |v| v / (std::f64::consts::PI / 180.0))), // degrees
    (1609, |_, args, _| checked(args, |v| v * (std::f64::consts::PI / 180.0))), // radians
    (1610, |_, _, _| Ok(Datum::Float8(std::f64::consts::PI))),
    (2169, |_, args, _| Ok(Datum::numeric(number(args, 0)?.power(number(args, 1)?)?))), // power
    (1738, |_, args, _| Ok(Datum::numeric(number(args, 0)?.power(number(args, 1)?)?))),
    (1739, |_, args, _| Ok(Datum::numeric(number(args, 0)?.power(number(args, 1)?)?))),
    (1730, |_, args, _| Ok(Datum::numeric(number(args, 0)?.sqrt()?))),
    (1732, |_, args, _| Ok(Datum::numeric(number(args, 0)?.exp()?))),
    (1734, |_, args, _| Ok(Datum::numeric(number(args, 0)?.ln()?))),
    (1736, |_, args, _| Ok(Datum::numeric(number(args, 1)?.log(number(args, 0)?)?))),
    (1741, |_, args, _| Ok(Datum::numeric(number(args, 0)?.log10()?))),
    (1706, |_, args, _| Ok(Datum::numeric(number(args, 0)?.signum()))),
    (1704, |_, args, _| Ok(Datum::numeric(number(args, 0)?.abs()))),
    (1709, |_, args, _| Ok(Datum::numeric(number(args, 0)?.trunc(int(args, 1)?)))),
    (1710, |_, args, _| Ok(Datum::numeric(number(args, 0)?.trunc(0)))),
    (1973, |_, args, _| Ok(Datum::numeric(number(args, 0)?.div_trunc(number(args, 1)?)?))),
    (5048, |_, args, _| Ok(Datum::numeric(number(args, 0)?.gcd(number(args, 1)?)?))),
    (5049, |_, args, _| Ok(Datum::numeric(number(args, 0)?.lcm(number(args, 1)?)?))),
    (3281, |_, args, _| Ok(digits(number(args, 0)?.scale()))),
    (5042, |_, args, _| Ok(digits(number(args, 0)?.min_scale()))),
    (5043, |_, args, _| Ok(Datum::numeric(number(args, 0)?.trim_scale()))),
    (1376, |_, args, _| Ok(Datum::numeric(Numeric::factorial(int8(args, 0)?)?))),
    (2170, |_, args, _| {
        let bounds = (number(args, 1)?, number(args, 2)?);
        let bucket = number(args, 0)?.width_bucket(bounds.0, bounds.1, int(args, 3)?)?;
        Ok(Datum::Int4(bucket))
    }),
    // bits of integers
    (1898, |_, args, _| Ok(Datum::Int4(int(args, 0)? & int(args, 1)?))),
    (1899, |_, args, _| Ok(Datum::Int4(int(args, 0)? | int(args, 1)?))),
    (1900, |_, args, _| Ok(Datum::Int4(int(args, 0)? ^ int(args, 1)?))),
    (1901, |_, args, _| Ok(Datum::Int4(!int(args, 0)?))),
    (1902, |_, args, _| Ok(Datum::Int4(int(args, 0)?.wrapping_shl(shift(args)?)))),
    (1903, |_, args, _| Ok(Datum::Int4(int(args, 0)?.wrapping_shr(shift(args)?)))),
    (1904, |_, args, _| Ok(Datum::Int8(int8(args, 0)? & int8(args, 1)?))),
    (1905, |_, args, _| Ok(Datum::Int8(int8(args, 0)? | int8(args, 1)?))),
    (1906, |_, args, _| Ok(Datum::Int8(int8(args, 0)? ^ int8(args, 1)?))),
    (1907, |_, args, _| Ok(Datum::Int8(!int8(args, 0)?))),
    (1908, |_, args, _| Ok(Datum::Int8(int8(args, 0)?.wrapping_shl(shift(args)?)))),
    (1909, |_, args, _| Ok(Datum::Int8(int8(args, 0)?.wrapping_shr(shift(args)?)))),
    (1708, |_, args, _| Ok(Datum::numeric(number(args, 0)?.round(0)))),
    (1707, |_, args, _| Ok(Datum::numeric(number(args, 0)?.round_to(int(args, 1)?)?))),
];

/// An argument of type numeric.
pub(super) fn number<'v>(args: &'v [Datum<'_>], i: usize) -> Result<&'v Numeric> {
    match args.get(i) {
        Some(Datum::Numeric(number)) => Ok(number),
        _ => Err(wrong_argument(args, i)),
    }
}

fn float<'a>(args: &[Datum<'_>], f: fn(f64) -> f64) -> Result<Datum<'a>> {
    match args.first() {
        Some(Datum::Float8(v)) => Ok(Datum::Float8(f(*v))),
        _ => Err(wrong_argument(args, 0)),
    }
}

fn fits<'a>(result: Option<Datum<'a>>, ty: SqlType) -> Result<Datum<'a>> {
    result.ok_or_else(|| out_of_range(ty))
}

fn abs<'a>(args: &[Datum<'a>]) -> Result<Datum<'a>> {
    match args.first() {
        Some(Datum::Int2(v)) => fits(v.checked_abs().map(Datum::Int2), SqlType::Int2),
        Some(Datum::Int4(v)) => fits(v.checked_abs().map(Datum::Int4), SqlType::Int4),
        Some(Datum::Int8(v)) => fits(v.checked_abs().map(Datum::Int8), SqlType::Int8),
        Some(Datum::Float4(v)) => Ok(Datum::Float4(v.abs())),
        Some(Datum::Float8(v)) => Ok(Datum::Float8(v.abs())),
        Some(Datum::Numeric(v)) => Ok(Datum::numeric(v.abs())),
        _ => Err(wrong_argument(args, 0)),
    }
}

/// A function of a float whose result may be out of range.
fn checked<'a>(args: &[Datum<'_>], f: fn(f64) -> f64) -> Result<Datum<'a>> {
    let value = float8(args, 0)?;
    let result = f(value);
    if result.is_infinite() && value.is_finite() {
        return Err(float_overflow());
    }
    if result == 0.0 && value.is_finite() && value != 0.0 {
        return Err(float_underflow());
    }
    Ok(Datum::Float8(result))
}

fn logarithm<'a>(args: &[Datum<'_>], f: fn(f64) -> f64) -> Result<Datum<'a>> {
    let value = float8(args, 0)?;
    let refuse =
        |what: &str| Err(SqlError::new("2201E", format!("cannot take logarithm of {what}")));
    match value {
        0.0 => refuse("zero"),
        v if v < 0.0 => refuse("a negative number"),
        v => Ok(Datum::Float8(f(v))),
    }
}

/// A float raised to a power.
fn power<'a>(args: &[Datum<'_>]) -> Result<Datum<'a>> {
    let (base, exponent) = (float8(args, 0)?, float8(args, 1)?);
    if base == 0.0 && exponent < 0.0 {
        let message = "zero raised to a negative power is undefined";
        return Err(SqlError::new("2201F", message));
    }
    if base < 0.0 && exponent.is_finite() && exponent.floor() != exponent {
        let message = "a negative number raised to a non-integer power yields a complex result";
        return Err(SqlError::new("2201F", message));
    }
    let result = base.powf(exponent);
    let finite = base.is_finite() && exponent.is_finite();
    if result.is_infinite() && finite {
        return Err(float_overflow());
    }
    if result == 0.0 && finite && base != 0.0 {
        return Err(float_underflow());
    }
    Ok(Datum::Float8(result))
}

/// How far to shift: as the processor does it, by the lowest bits.
fn shift(args: &[Datum<'_>]) -> Result<u32> {
    Ok(int(args, 1)?.cast_unsigned())
}

fn digits<'a>(scale: Option<u32>) -> Datum<'a> {
    scale.and_then(|scale| i32::try_from(scale).ok()).map_or(Datum::Null, Datum::Int4)
}
