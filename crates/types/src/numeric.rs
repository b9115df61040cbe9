//! PostgreSQL's numeric: a decimal of any size with a display scale, NaN and the infinities.
//!
//! Held as an integer and the number of its digits behind the point, which is the display scale.
//! Scales of results, rounding (half away from zero) and limits are PostgreSQL's.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

use crate::digits::{parse_exponent, strip_underscores};
use crate::error::{Problem, Result, ValueError};

/// Decimal digits before the point that a value may have.
const MAX_INTEGER_DIGITS: i64 = 131_072;
/// The largest display scale a value may have.
pub(crate) const MAX_SCALE: u32 = 16_383;
/// The largest display scale division chooses.
const MAX_DIVISION_SCALE: i64 = 1000;
/// Significant digits a quotient has at least.
const MIN_SIGNIFICANT_DIGITS: i64 = 16;

/// A numeric value.
#[derive(Clone, Debug)]
pub enum Numeric {
    /// -Infinity
    NegInfinity,
    /// digits / 10^scale
    Finite {
        /// All digits.
        digits: BigInt,
        /// How many of them are behind the point, shown even if zero.
        scale: u32,
    },
    /// Infinity
    Infinity,
    /// NaN, greater than all else
    NaN,
}

use Numeric::{Finite, Infinity, NaN, NegInfinity};

pub(crate) fn pow10(n: u32) -> BigInt {
    BigInt::from(10u8).pow(n)
}

pub(crate) fn overflow() -> ValueError {
    Problem::NumericOverflow.into()
}

/// Division that rounds half away from zero.
pub(crate) fn div_round(n: &BigInt, d: &BigInt) -> BigInt {
    let q = n / d;
    let r = n - &q * d;
    if r.magnitude() * 2u8 >= *d.magnitude() {
        let away = if (n.sign() == Sign::Minus) == (d.sign() == Sign::Minus) { 1 } else { -1 };
        q + away
    } else {
        q
    }
}

impl Numeric {
    /// A whole number.
    pub fn from_int(v: impl Into<BigInt>) -> Numeric {
        Finite { digits: v.into(), scale: 0 }
    }

    fn rank(&self) -> u8 {
        match self {
            NegInfinity => 0,
            Finite { .. } => 1,
            Infinity => 2,
            NaN => 3,
        }
    }

    /// -1, 0 or 1; of NaN 0.
    pub(crate) fn sign(&self) -> i32 {
        match self {
            NegInfinity => -1,
            Infinity => 1,
            NaN => 0,
            Finite { digits, .. } => match digits.sign() {
                Sign::Minus => -1,
                Sign::NoSign => 0,
                Sign::Plus => 1,
            },
        }
    }

    pub(crate) fn checked(digits: BigInt, scale: u32) -> Result<Numeric> {
        if has_room(&digits, scale) { Ok(Finite { digits, scale }) } else { Err(overflow()) }
    }

    /// Rounded to `scale` digits behind the point (more digits: zeros are added).
    pub fn round(&self, scale: u32) -> Numeric {
        match self {
            Finite { digits, scale: old } if scale >= *old => {
                Finite { digits: digits * pow10(scale - old), scale }
            }
            Finite { digits, scale: old } => {
                Finite { digits: div_round(digits, &pow10(old - scale)), scale }
            }
            other => other.clone(),
        }
    }

    /// Rounded to so many digits behind the point, or before it where there is a minus.
    pub fn round_to(&self, places: i32) -> Result<Numeric> {
        if let Ok(scale) = u32::try_from(places) {
            return Ok(self.round(scale.min(MAX_SCALE)));
        }
        let Finite { digits, scale } = self else { return Ok(self.clone()) };
        // Of anything shorter than that nothing is left.
        let before = places.unsigned_abs().min(MAX_INTEGER_DIGITS as u32 + 1);
        let whole = div_round(digits, &pow10(before + scale));
        if whole.sign() == Sign::NoSign {
            return Ok(Numeric::from_int(0));
        }
        Numeric::checked(whole * pow10(before), 0)
    }

    /// Whether its absolute value is at least ten to this power.
    pub(crate) fn magnitude_exceeds(&self, power: i32) -> bool {
        let Finite { digits, scale } = self else { return true };
        if digits.sign() == Sign::NoSign {
            return false;
        }
        let before_point = decimal_len(digits) as i64 - i64::from(*scale);
        before_point > i64::from(power)
    }

    /// Sum.
    pub fn add(&self, other: &Numeric) -> Result<Numeric> {
        match (self, other) {
            (NaN, _) | (_, NaN) | (Infinity, NegInfinity) | (NegInfinity, Infinity) => Ok(NaN),
            (Finite { digits: a, scale: s }, Finite { digits: b, scale: t }) => {
                let scale = (*s).max(*t);
                let sum = if s == t { a + b } else { a * pow10(scale - s) + b * pow10(scale - t) };
                Numeric::checked(sum, scale)
            }
            (Finite { .. }, infinite) | (infinite, _) => Ok(infinite.clone()),
        }
    }

    /// Negation.
    pub fn neg(&self) -> Numeric {
        match self {
            Finite { digits, scale } => Finite { digits: -digits, scale: *scale },
            Infinity => NegInfinity,
            NegInfinity => Infinity,
            NaN => NaN,
        }
    }

    /// Absolute value.
    pub fn abs(&self) -> Numeric {
        if self.sign() < 0 { self.neg() } else { self.clone() }
    }

    /// Difference.
    pub fn sub(&self, other: &Numeric) -> Result<Numeric> {
        self.add(&other.neg())
    }

    /// Product: the scales add up.
    pub fn mul(&self, other: &Numeric) -> Result<Numeric> {
        match (self, other) {
            (NaN, _) | (_, NaN) => Ok(NaN),
            (Finite { digits: a, scale: s }, Finite { digits: b, scale: t }) => {
                let product = Finite { digits: a * b, scale: s + t };
                let product = if s + t > MAX_SCALE { product.round(MAX_SCALE) } else { product };
                match product {
                    Finite { digits, scale } => Numeric::checked(digits, scale),
                    other => Ok(other),
                }
            }
            _ => Ok(match self.sign() * other.sign() {
                0 => NaN,
                1 => Infinity,
                _ => NegInfinity,
            }),
        }
    }

    /// Quotient, with at least 16 significant digits and no fewer decimals than either operand.
    pub fn div(&self, other: &Numeric) -> Result<Numeric> {
        match (self, other) {
            (NaN, _) | (_, NaN) => Ok(NaN),
            (Finite { digits: a, scale: s }, Finite { digits: b, scale: t }) => {
                if b.sign() == Sign::NoSign {
                    return Err(division_by_zero());
                }
                let scale = division_scale(a, *s, b, *t);
                // a/10^s / (b/10^t) * 10^scale = a * 10^(scale + t - s) / b
                let shift = i64::from(scale) + i64::from(*t) - i64::from(*s);
                let quotient = if shift >= 0 {
                    div_round(&(a * pow10(shift as u32)), b)
                } else {
                    div_round(a, &(b * pow10(-shift as u32)))
                };
                Numeric::checked(quotient, scale)
            }
            (Finite { .. }, _) => Ok(Numeric::from_int(0)),
            (_, Finite { .. }) => match other.sign() {
                0 => Err(division_by_zero()),
                sign => Ok(if self.sign() * sign > 0 { Infinity } else { NegInfinity }),
            },
            _ => Ok(NaN),
        }
    }

    /// Remainder with the sign of the dividend.
    pub fn rem(&self, other: &Numeric) -> Result<Numeric> {
        match (self, other) {
            (NaN, _) | (_, NaN) => Ok(NaN),
            (Finite { digits: a, scale: s }, Finite { digits: b, scale: t }) => {
                if b.sign() == Sign::NoSign {
                    return Err(division_by_zero());
                }
                let scale = (*s).max(*t);
                let digits = (a * pow10(scale - s)) % (b * pow10(scale - t));
                Ok(Finite { digits, scale })
            }
            (Finite { .. }, _) => Ok(self.clone()),
            (_, Finite { .. }) if other.sign() == 0 => Err(division_by_zero()),
            _ => Ok(NaN),
        }
    }

    /// Parses PostgreSQL's text form, or None if it is malformed. Values too large are an error.
    pub fn parse(text: &str) -> Result<Option<Numeric>> {
        let text = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
        let (negative, body) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if body.eq_ignore_ascii_case("nan") {
            return Ok((body.len() == text.len()).then_some(NaN));
        }
        if body.eq_ignore_ascii_case("infinity") || body.eq_ignore_ascii_case("inf") {
            return Ok(Some(if negative { NegInfinity } else { Infinity }));
        }
        let Some(value) = parse_finite(body)? else { return Ok(None) };
        Ok(Some(if negative { value.neg() } else { value }))
    }

    /// Rounded to a whole number. None if it is not finite, or beyond 64 bits.
    pub fn to_i64(&self) -> Option<i64> {
        match self.round(0) {
            Finite { digits, .. } => i64::try_from(digits).ok(),
            _ => None,
        }
    }

    /// The nearest double (overflow gives an infinity).
    pub fn to_f64(&self) -> f64 {
        match self {
            NaN => f64::NAN,
            Infinity => f64::INFINITY,
            NegInfinity => f64::NEG_INFINITY,
            Finite { .. } => self.to_string().parse().expect("decimal digits are a float"),
        }
    }

    /// The numeric of a float: its first `digits` significant digits (15 for float8, 6 for float4).
    pub fn from_float(v: f64, digits: usize) -> Numeric {
        if v.is_nan() {
            return NaN;
        }
        if v.is_infinite() {
            return if v > 0.0 { Infinity } else { NegInfinity };
        }
        let text = format!("{:.*e}", digits - 1, v);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let mut mantissa = mantissa.to_owned();
        if mantissa.contains('.') {
            mantissa.truncate(mantissa.trim_end_matches('0').trim_end_matches('.').len());
        }
        let parsed = Numeric::parse(&format!("{mantissa}e{exponent}"));
        parsed.ok().flatten().expect("a float's digits are a numeric")
    }

    /// Bytes that its digits take, about.
    pub(crate) fn allocated(&self) -> usize {
        match self {
            Finite { digits, .. } => digits.bits() as usize / 8 + 24,
            _ => 0,
        }
    }

    /// The digits without the zeros behind the point that only the scale asks for: equal numbers
    /// have the same.
    pub(crate) fn canonical_text(&self) -> String {
        let mut text = self.to_string();
        if text.contains('.') {
            text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
        }
        text
    }

    /// The binary form: digit count, weight, sign, display scale, digits in base 10000.
    pub fn write_binary(&self, out: &mut Vec<u8>) {
        let (digits, scale) = match self {
            NaN => return out.extend_from_slice(&[0, 0, 0, 0, 0xc0, 0, 0, 0]),
            Infinity => return out.extend_from_slice(&[0, 0, 0, 0, 0xd0, 0, 0, 0x20]),
            NegInfinity => return out.extend_from_slice(&[0, 0, 0, 0, 0xf0, 0, 0, 0x20]),
            Finite { digits, scale } => (digits, *scale),
        };
        let (kept, weight) = groups(digits, scale);
        let sign: u16 = if digits.sign() == Sign::Minus { 0x4000 } else { 0 };
        out.extend_from_slice(&(kept.len() as i16).to_be_bytes());
        out.extend_from_slice(&weight.to_be_bytes());
        out.extend_from_slice(&sign.to_be_bytes());
        out.extend_from_slice(&(scale as i16).to_be_bytes());
        for group in kept {
            out.extend_from_slice(&group.to_be_bytes());
        }
    }

    /// Reads the binary form; None if it is malformed.
    pub fn read_binary(bytes: &[u8]) -> Option<Numeric> {
        let mut words = bytes.chunks_exact(2).map(|c| u16::from_be_bytes([c[0], c[1]]));
        let (count, weight) = (words.next()?, words.next()? as i16);
        let (sign, scale) = (words.next()?, words.next()?);
        if bytes.len() != 8 + 2 * usize::from(count) || u32::from(scale) > MAX_SCALE {
            return None;
        }
        match sign {
            0xc000 => return Some(NaN),
            0xd000 => return Some(Infinity),
            0xf000 => return Some(NegInfinity),
            0 | 0x4000 => {}
            _ => return None,
        }
        // As PostgreSQL does, it cuts off what lies behind the display scale.
        let (digits, _) = from_groups(words, sign == 0x4000, weight, scale)?;
        Some(Finite { digits, scale: u32::from(scale) })
    }

    /// Reads the stored form; None if it is damaged. Its header is two bytes where weight and
    /// scale are small, or else four. The groups of four digits follow:
    ///
    /// ```text
    ///   bits    15 14   13    12 .. 7   6 .. 0          15 14   13 .. 0   next 16 bits
    ///   short   1  0   sign   scale     weight   long   0 sign  scale     weight
    ///   special 1  1  0 0: NaN,  0 1: Infinity,  1 1: -Infinity
    /// ```
    pub(crate) fn read_stored(bytes: &[u8]) -> Option<Numeric> {
        let (words, []) = bytes.as_chunks::<2>() else { return None };
        let mut words = words.iter().map(|word| u16::from_le_bytes(*word));
        let header = words.next()?;
        let (negative, scale, weight) = match header >> 14 {
            0b10 => {
                // The weight is a signed number of seven bits.
                let weight = ((header << 9) as i16) >> 9;
                (header & 0x2000 != 0, (header >> 7) & 0x3f, weight)
            }
            0b11 => {
                return match header & 0xf000 {
                    0xc000 => Some(NaN),
                    0xd000 => Some(Infinity),
                    0xf000 => Some(NegInfinity),
                    _ => None,
                };
            }
            _ => (header & 0x4000 != 0, header & 0x3fff, words.next()? as i16),
        };
        let (digits, exact) = from_groups(words, negative, weight, scale)?;
        exact.then_some(Finite { digits, scale: u32::from(scale) })
    }

    /// The stored form, with the header that PostgreSQL chooses.
    ///
    /// # Panics
    /// If the number does not fit the type ([`crate::Repr::accepts`]).
    pub fn to_stored(&self) -> Vec<u8> {
        let (digits, scale) = match self {
            NaN => return vec![0, 0xc0],
            Infinity => return vec![0, 0xd0],
            NegInfinity => return vec![0, 0xf0],
            Finite { digits, scale } => (digits, *scale),
        };
        assert!(fits(digits, scale), "a number beyond the limits of numeric");
        let negative = u16::from(digits.sign() == Sign::Minus);
        let (groups, weight) = groups(digits, scale);
        let scale = scale as u16;
        let header = if scale <= 0x3f && (-0x40..=0x3f).contains(&weight) {
            vec![0x8000 | negative << 13 | scale << 7 | (weight as u16 & 0x7f)]
        } else {
            vec![negative << 14 | scale, weight as u16]
        };
        header.into_iter().chain(groups).flat_map(u16::to_le_bytes).collect()
    }

    /// Whether the number is within the limits of the type.
    pub(crate) fn is_in_range(&self) -> bool {
        !matches!(self, Finite { digits, scale } if !fits(digits, *scale))
    }
}

/// Whether digits / 10^scale is within the limits of the type.
fn fits(digits: &BigInt, scale: u32) -> bool {
    scale <= MAX_SCALE && has_room(digits, scale)
}

/// Whether digits / 10^scale has no more digits before the point than it may have.
fn has_room(digits: &BigInt, scale: u32) -> bool {
    let most = MAX_INTEGER_DIGITS + i64::from(scale);
    // A quick bound by bits (log2(10) > 3) before the exact count.
    digits.bits() as i64 <= most * 3 || decimal_len(digits) as i64 <= most
}

/// The groups of four digits, without those that are zero at either end, and the weight of the
/// first: it counts 10000^weight. Zero has no groups.
fn groups(digits: &BigInt, scale: u32) -> (Vec<u16>, i16) {
    let mut text = digits.magnitude().to_string();
    let fraction_pad = (4 - scale % 4) % 4;
    text.extend(std::iter::repeat_n('0', fraction_pad as usize));
    let fraction_groups = i64::from((scale + fraction_pad) / 4);
    let lead = (4 - text.len() % 4) % 4;
    text.insert_str(0, &"000"[..lead]);
    let mut groups: Vec<u16> = text
        .as_bytes()
        .chunks(4)
        .map(|c| c.iter().fold(0, |n, d| n * 10 + u16::from(d - b'0')))
        .collect();
    let Some(first) = groups.iter().position(|g| *g != 0) else { return (Vec::new(), 0) };
    let weight = groups.len() as i64 - fraction_groups - 1 - first as i64;
    groups.truncate(groups.iter().rposition(|g| *g != 0).map_or(0, |last| last + 1));
    groups.drain(..first);
    (groups, weight as i16)
}

/// The digits of a number with this scale, of groups of four digits of which the first counts
/// 10000^weight; and whether no digit lies behind the scale. None if a group has more digits.
fn from_groups(
    groups: impl Iterator<Item = u16>,
    negative: bool,
    weight: i16,
    scale: u16,
) -> Option<(BigInt, bool)> {
    let pairs: Vec<u8> = groups
        .map(|group| Some([u8::try_from(group / 100).ok()?, (group % 100) as u8]))
        .collect::<Option<Vec<_>>>()?
        .concat();
    let sign = if negative { Sign::Minus } else { Sign::Plus };
    let digits = BigInt::from_radix_be(sign, &pairs, 100)?;
    let exponent = 4 * (i64::from(weight) + 1) - 2 * pairs.len() as i64 + i64::from(scale);
    let power = pow10(u32::try_from(exponent.unsigned_abs()).ok()?);
    if exponent >= 0 {
        return Some((digits * power, true));
    }
    let cut = &digits / &power;
    let exact = &cut * power == digits;
    Some((cut, exact))
}

pub(crate) fn division_by_zero() -> ValueError {
    Problem::DivisionByZero.into()
}

pub(crate) fn decimal_len(n: &BigInt) -> usize {
    n.magnitude().to_string().len()
}

/// Weight of the first base-10000 digit, and that digit.
fn leading_digit(digits: &BigInt, scale: u32) -> (i64, i64) {
    if digits.sign() == Sign::NoSign {
        return (0, 0);
    }
    let text = digits.magnitude().to_string();
    let exponent = text.len() as i64 - 1 - i64::from(scale);
    let weight = exponent.div_euclid(4);
    let take = (exponent - 4 * weight + 1) as usize;
    let mut first = 0;
    for i in 0..take {
        first = first * 10 + text.as_bytes().get(i).map_or(0, |d| i64::from(d - b'0'));
    }
    (weight, first)
}

/// The display scale PostgreSQL chooses for a quotient.
fn division_scale(a: &BigInt, s: u32, b: &BigInt, t: u32) -> u32 {
    let (weight1, first1) = leading_digit(a, s);
    let (weight2, first2) = leading_digit(b, t);
    let mut weight = weight1 - weight2;
    if first1 <= first2 {
        weight -= 1;
    }
    let scale = MIN_SIGNIFICANT_DIGITS - weight * 4;
    scale.max(i64::from(s)).max(i64::from(t)).clamp(0, MAX_DIVISION_SCALE) as u32
}

fn parse_finite(body: &str) -> Result<Option<Numeric>> {
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if body.len() > 2 && body.get(..2).is_some_and(|p| p.eq_ignore_ascii_case(prefix)) {
            let digits = strip_underscores(&body[2..], radix, true);
            let Some(digits) = digits else { return Ok(None) };
            let digits = digits.trim_start_matches('0');
            let bits = digits.len().saturating_sub(1) as i64 * i64::from(radix.ilog2());
            // A decimal digit has less than ten thirds of a bit.
            if bits > MAX_INTEGER_DIGITS * 10 / 3 {
                return Err(overflow());
            }
            let digits = if digits.is_empty() { "0" } else { digits };
            let parsed = BigInt::parse_bytes(digits.as_bytes(), radix);
            return parsed.map(|d| Numeric::checked(d, 0)).transpose();
        }
    }
    let (mantissa, exponent) = match body.find(['e', 'E']) {
        Some(at) => match parse_exponent(&body[at + 1..]) {
            Some(e) => (&body[..at], e),
            None => return Ok(None),
        },
        None => (body, 0i64),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (Some(whole), Some(fraction)) =
        (strip_underscores(whole, 10, false), strip_underscores(fraction, 10, false))
    else {
        return Ok(None);
    };
    if whole.is_empty() && fraction.is_empty() {
        return Ok(None);
    }
    let scale = fraction.len() as i64 - exponent;
    let significant = whole.trim_start_matches('0').len() as i64;
    let zero = whole.bytes().chain(fraction.bytes()).all(|b| b == b'0');
    // This also bounds how many digits are read, which takes time by the square of their number.
    if !zero && significant + exponent > MAX_INTEGER_DIGITS
        || exponent > i64::from(i32::MAX / 2)
        || scale > i64::from(MAX_SCALE)
    {
        return Err(overflow());
    }
    let text = format!("{whole}{fraction}");
    let Ok(digits) = text.parse::<BigInt>() else { return Ok(None) };
    if scale < 0 {
        let digits = if zero { digits } else { digits * pow10((-scale) as u32) };
        return Numeric::checked(digits, 0).map(Some);
    }
    Numeric::checked(digits, scale as u32).map(Some)
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Numeric) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Numeric) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Numeric {
    fn cmp(&self, other: &Numeric) -> Ordering {
        match (self, other) {
            (Finite { digits: a, scale: s }, Finite { digits: b, scale: t }) => match s.cmp(t) {
                Ordering::Equal => a.cmp(b),
                Ordering::Less => (a * pow10(t - s)).cmp(b),
                Ordering::Greater => a.cmp(&(b * pow10(s - t))),
            },
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl std::fmt::Display for Numeric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (digits, scale) = match self {
            NaN => return f.write_str("NaN"),
            Infinity => return f.write_str("Infinity"),
            NegInfinity => return f.write_str("-Infinity"),
            Finite { digits, scale } => (digits, *scale as usize),
        };
        if digits.sign() == Sign::Minus {
            f.write_str("-")?;
        }
        let text = digits.magnitude().to_string();
        if scale == 0 {
            return f.write_str(&text);
        }
        if text.len() <= scale {
            write!(f, "0.{text:0>scale$}")
        } else {
            let (whole, fraction) = text.split_at(text.len() - scale);
            write!(f, "{whole}.{fraction}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn n(text: &str) -> Numeric {
        Numeric::parse(text).unwrap().unwrap()
    }

    #[test]
    fn quotients_have_postgresql_digits() {
        for (a, b, want) in [
            ("3", "2", "1.5000000000000000"),
            ("1", "3", "0.33333333333333333333"),
            ("10", "3", "3.3333333333333333"),
            ("100000", "3", "33333.333333333333"),
            ("1", "7000000", "0.000000142857142857142857"),
            ("0", "5", "0.00000000000000000000"),
            ("-7", "2", "-3.5000000000000000"),
            ("1.50", "0.5", "3.0000000000000000"),
            ("12345678901234567890", "7", "1763668414462081127"),
        ] {
            assert_eq!(n(a).div(&n(b)).unwrap().to_string(), want, "{a} / {b}");
        }
        assert_eq!(n("1").div(&n("0")).unwrap_err().sqlstate(), "22012");
    }

    #[test]
    fn parses_and_prints() {
        for (text, want) in [
            ("1e3", "1000"),
            ("1.50", "1.50"),
            (".5", "0.5"),
            ("5.", "5"),
            ("-0.00", "0.00"),
            ("1e-5", "0.00001"),
            ("12.5e1", "125"),
            ("1_000", "1000"),
            ("0x1F", "31"),
            (" NaN ", "NaN"),
            ("-inf", "-Infinity"),
            ("+1", "1"),
        ] {
            assert_eq!(n(text).to_string(), want, "{text}");
        }
        for bad in ["", "-", ".", "e5", "1e", "1 2", "--1", "1__0", "_1", "-NaN", "0x", "1.2.3"] {
            assert!(Numeric::parse(bad).unwrap().is_none(), "{bad:?}");
        }
        assert_eq!(Numeric::parse("1e131072").unwrap_err().sqlstate(), "22003");
        assert!(Numeric::parse("1e131071").unwrap().is_some());
        let too_large = |text: &str| {
            let error = Numeric::parse(text).unwrap_err();
            assert_eq!(error.sqlstate(), "22003");
            assert_eq!(error.to_string(), "value overflows numeric format");
        };
        too_large("1e999999999999");
        for decimals in ["1e-16384", "1.5e-16383", "0e-20000", "1e-2147483648"] {
            too_large(decimals);
        }
        let ones = |n: usize| "1".repeat(n);
        // Reading their digits would take hours.
        for long in [format!("0.{}", ones(100_000_000)), format!("{}e-9999999", ones(10_000_000))] {
            too_large(&long);
        }
        too_large(&format!("0x{}", "f".repeat(100_000_000)));
        too_large(&format!("0x{}", "f".repeat(108_853)));
        assert_eq!(n(&format!("0x{}f", "0".repeat(208_900))).to_string(), "15");
        assert_eq!(n(&format!("0.{}", ones(16_383))).scale(), Some(16_383));
        assert!(Numeric::parse(&format!("0.{}e20000", ones(20_000))).unwrap().is_some());
        assert!(Numeric::parse("1e-16383").unwrap().is_some());
    }

    /// Stored forms that PostgreSQL 18 wrote.
    #[test]
    fn stored_forms_are_read_and_written() {
        for (hex, text) in [
            ("0080", "0"),
            ("00800100", "1"),
            ("00a00100", "-1"),
            ("0081", "0.00"),
            ("8181010029097c1a", "12345.678"),
            ("7fa20100", "-0.0001"),
            ("0f80e803", "1e63"),
            ("3f80e803", "1e255"),
            ("000040000100", "1e256"),
            ("ff808813", "0.5"),
            ("00c0", "NaN"),
            ("00d0", "Infinity"),
            ("00f0", "-Infinity"),
            ("6400e7ff0100", "1e-100"),
            ("07a10c00800dd21ed2042e163423800dd21eb004", "-123456789012345678901234567890.12"),
            ("f09f0a00", "1e-63"),
            ("4000f0ff0100", "1e-64"),
            ("0000ff7fe803", "1e131071"),
            ("80810a00", "10.000"),
        ] {
            let digit = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
            let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(digit).collect();
            let number = Numeric::read_stored(&bytes).expect("a number");
            // The scale is part of the number.
            assert_eq!(number.to_string(), n(text).to_string());
            assert_eq!(n(text).to_stored(), bytes, "{text}");
        }
        for damaged in [
            &b""[..],
            b"\x80",
            b"\x00\x00",                 // a long header without a weight
            b"\x00\xe0",                 // no special value
            b"\x00\x80\x10\x27",         // 10000 in a group
            b"\x00\x80\xff\xff",         // 65535 in a group
            b"\x80\x80\x01\x00\x01",     // half a group
            b"\x7f\x80\x88\x13\x01\x00", // digits behind the scale
        ] {
            assert!(Numeric::read_stored(damaged).is_none(), "{damaged:x?}");
        }
    }

    /// Long division digit by digit, for comparison.
    fn slow_quotient(a: i64, b: i64, scale: u32) -> String {
        let (mut rest, divisor) = (i128::from(a).abs(), i128::from(b).abs());
        let mut digits = (rest / divisor).to_string();
        rest %= divisor;
        for _ in 0..=scale {
            rest *= 10;
            digits.push(char::from(b'0' + (rest / divisor) as u8));
            rest %= divisor;
        }
        // One digit too many: round half away from zero by hand.
        let round_up = digits.pop().unwrap() >= '5';
        let mut bytes = digits.into_bytes();
        if round_up {
            let mut i = bytes.len();
            loop {
                if i == 0 {
                    bytes.insert(0, b'1');
                    break;
                }
                i -= 1;
                if bytes[i] == b'9' {
                    bytes[i] = b'0';
                } else {
                    bytes[i] += 1;
                    break;
                }
            }
        }
        let text = String::from_utf8(bytes).unwrap();
        let (whole, fraction) = text.split_at(text.len() - scale as usize);
        let zero = text.bytes().all(|b| b == b'0');
        let sign = if (a < 0) != (b < 0) && !zero { "-" } else { "" };
        if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
    }

    proptest! {
        #[test]
        fn division_equals_long_division(
            a in any::<i64>(),
            b in any::<i64>().prop_filter("not zero", |b| *b != 0),
        ) {
            let quotient = Numeric::from_int(a).div(&Numeric::from_int(b)).unwrap();
            let Finite { scale, .. } = quotient else { panic!() };
            prop_assert_eq!(quotient.to_string(), slow_quotient(a, b, scale));
        }

        #[test]
        fn binary_round_trip(digits in any::<i128>(), scale in 0u32..60) {
            let value = Finite { digits: digits.into(), scale };
            let mut bytes = Vec::new();
            value.write_binary(&mut bytes);
            let back = Numeric::read_binary(&bytes).unwrap();
            prop_assert_eq!(value.to_string(), back.to_string());
        }

        #[test]
        fn stored_round_trip(
            digits in prop_oneof![-20_000..20_000i128, any::<i128>()],
            zeros in 0u32..300,
            scale in prop_oneof![0u32..70, 0..=MAX_SCALE],
        ) {
            let digits = BigInt::from(digits) * pow10(zeros);
            let bytes = Finite { digits: digits.clone(), scale }.to_stored();
            let Some(Finite { digits: back, scale: same }) = Numeric::read_stored(&bytes) else {
                panic!("{bytes:x?}")
            };
            prop_assert_eq!((back, same), (digits, scale));
        }

        #[test]
        fn garbage_never_panics(
            text in "[-+0-9._eExXnN]{0,12}",
            bytes in prop::collection::vec(any::<u8>(), 0..24),
        ) {
            let _ = Numeric::parse(&text);
            let _ = Numeric::read_binary(&bytes);
            let _ = Numeric::read_stored(&bytes);
        }
    }
}
