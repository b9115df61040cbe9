//! Functions of numerics: roots, powers, logarithms, divisors and buckets.
//!
//! The scale of a result is PostgreSQL's: 16 significant digits at least, by an estimate of the
//! result's size, and no fewer decimals than an operand has. The digits are computed with some more
//! and rounded.

use num_bigint::{BigInt, Sign};

use crate::error::{Result, ValueError};
use crate::numeric::Numeric::{self, Finite, Infinity, NaN, NegInfinity};
use crate::numeric::{MAX_SCALE, decimal_len, div_round, division_by_zero, overflow, pow10};

/// Significant digits that a result has at least.
const MIN_DIGITS: i64 = 16;
/// Decimals that a result has at most.
const MAX_DECIMALS: i64 = 1000;
/// Beyond this power of ten results are out of range, or zero.
const MAX_RESULT: f64 = 2000.0;
/// The logarithm of e to the base 10.
const LOG10_E: f64 = std::f64::consts::LOG10_E;
/// Digits that are computed and not shown.
const GUARD: u32 = 12;

fn clamped(decimals: i64, least: &[u32]) -> u32 {
    let least = least.iter().copied().max().unwrap_or(0);
    decimals.max(i64::from(least)).clamp(0, MAX_DECIMALS) as u32
}

fn undefined(state: &'static str, message: &str) -> ValueError {
    ValueError::new(state, message)
}

/// Groups of four digits as PostgreSQL stores them: the first ones (at most four), and the power of
/// ten that the first counts.
fn leading_groups(digits: &BigInt, scale: u32, most: usize) -> Option<(f64, i64)> {
    if digits.sign() == Sign::NoSign {
        return None;
    }
    let text = digits.magnitude().to_string();
    let exponent = text.len() as i64 - 1 - i64::from(scale);
    let weight = exponent.div_euclid(4);
    // Digits in the first group.
    let first = (exponent - 4 * weight + 1) as usize;
    let shown = text.trim_end_matches('0').len().max(1);
    let groups = (1 + shown.saturating_sub(first).div_ceil(4)).min(most);
    let take = first + 4 * (groups - 1);
    let mut number = 0.0;
    for n in 0..take {
        let digit = text.as_bytes().get(n).map_or(0, |b| b - b'0');
        number = number * 10.0 + f64::from(digit);
    }
    Some((number, 4 * (weight - groups as i64 + 1)))
}

/// The power of ten of a logarithm, about.
fn log_weight(digits: &BigInt, scale: u32) -> i64 {
    let ten = pow10(scale);
    if digits * 10u8 >= &ten * 9u8 && digits * 10u8 <= &ten * 11u8 {
        let rest = digits - ten;
        return match leading_groups(&rest, scale, 1) {
            Some((first, power)) => power + first.log10() as i64,
            None => 0,
        };
    }
    match leading_groups(digits, scale, 2) {
        Some((first, power)) => {
            let log = first.ln() + power as f64 * std::f64::consts::LN_10;
            log.abs().log10() as i64
        }
        None => 0,
    }
}

/// ln(digits / 10^scale) * 10^places, for a positive number.
fn ln_fixed(digits: &BigInt, scale: u32, places: u32) -> BigInt {
    let places = places + GUARD;
    // number = x * 10^power, with x from 0.3 to 3.2.
    let mut power = decimal_len(digits) as i64 - i64::from(scale);
    let mut fixed = shift(digits, i64::from(places) - i64::from(scale) - power);
    let one = pow10(places);
    if &fixed * 10u8 < &one * 3u8 {
        fixed = shift(digits, i64::from(places) - i64::from(scale) - power + 1);
        power -= 1;
    }
    let ln_x = ln_near_one(fixed, &one, places);
    let sum = if power == 0 { ln_x } else { ln_x + ln_ten(places) * power };
    div_round(&sum, &pow10(GUARD))
}

fn ln_ten(places: u32) -> BigInt {
    // ln 10 = 3 ln 2 + ln 1.25, each by its series.
    let one = pow10(places);
    let two = atanh_series(&(&one / 3u8), &one) * 2u8;
    let rest = atanh_series(&(&one / 9u8), &one) * 2u8;
    two * 3u8 + rest
}

/// ln of a fixed-point number: square roots bring it near 1, where the series is short.
fn ln_near_one(mut x: BigInt, one: &BigInt, places: u32) -> BigInt {
    let mut halvings = 0_u32;
    let near = one / 100u8;
    while (&x - one).magnitude() > near.magnitude() && halvings < 64 {
        x = (&x * one).sqrt();
        halvings += 1;
    }
    let _ = places;
    let ratio = (&x - one) * one / (&x + one);
    atanh_series(&ratio, one) << (halvings + 1)
}

/// The inverse hyperbolic tangent of a small fixed-point number.
fn atanh_series(x: &BigInt, one: &BigInt) -> BigInt {
    let square = x * x / one;
    let (mut term, mut sum, mut n) = (x.clone(), x.clone(), 3_u32);
    while term.sign() != Sign::NoSign {
        term = term * &square / one;
        sum += &term / n;
        n += 2;
    }
    sum
}

/// digits * 10^power, cut.
fn shift(digits: &BigInt, power: i64) -> BigInt {
    if power >= 0 { digits * pow10(power as u32) } else { digits / pow10(-power as u32) }
}

/// e to a power: a fixed-point number of so many places, and the power of ten that it counts.
fn exp_fixed(x: &BigInt, places: u32) -> (BigInt, i64) {
    let one = pow10(places);
    let ten = ln_ten(places);
    let mut power = x / &ten;
    let mut rest = x - &power * &ten;
    if rest.sign() == Sign::Minus {
        rest += &ten;
        power -= 1;
    }
    // The series of a small number, squared again.
    const HALVINGS: u32 = 16;
    let small = rest >> HALVINGS;
    let (mut term, mut sum, mut n) = (one.clone(), one.clone(), 1_u32);
    while term.sign() != Sign::NoSign {
        term = term * &small / (&one * n);
        sum += &term;
        n += 1;
    }
    for _ in 0..HALVINGS {
        sum = &sum * &sum / &one;
    }
    (sum, i64::try_from(power).unwrap_or(i64::MAX))
}

/// e^(x / 10^places), rounded to so many decimals. `weight`: the power of ten of the result, about.
fn exp_rounded(x: &BigInt, places: u32, decimals: u32, weight: i64) -> Result<Numeric> {
    let digits = (i64::from(decimals) + weight.max(0) + i64::from(GUARD) * 2) as u32;
    let fixed = shift(x, i64::from(digits) - i64::from(places));
    let (mantissa, power) = exp_fixed(&fixed, digits);
    let cut = i64::from(digits) - i64::from(decimals) - power;
    let result = if cut > 0 {
        let cut = cut.min(i64::from(digits) * 4) as u32;
        div_round(&mantissa, &pow10(cut))
    } else {
        mantissa * pow10((-cut) as u32)
    };
    Numeric::checked(result, decimals)
}

impl Numeric {
    /// The square root.
    pub fn sqrt(&self) -> Result<Numeric> {
        let (digits, scale) = match self {
            NaN | Infinity => return Ok(self.clone()),
            NegInfinity => return Err(negative_root()),
            Finite { digits, scale } => (digits, *scale),
        };
        if digits.sign() == Sign::Minus {
            return Err(negative_root());
        }
        let exponent = if digits.sign() == Sign::NoSign {
            0
        } else {
            decimal_len(digits) as i64 - 1 - i64::from(scale)
        };
        let weight = exponent.div_euclid(4);
        let decimals = clamped(MIN_DIGITS - (weight * 2 + 1), &[scale]);
        // One more digit than is shown; the root of a square is exact.
        let places = i64::from(decimals) + 1;
        let root = shift(digits, 2 * places - i64::from(scale)).sqrt();
        Numeric::checked(div_round(&root, &BigInt::from(10u8)), decimals)
    }

    /// e to this power.
    pub fn exp(&self) -> Result<Numeric> {
        let (digits, scale) = match self {
            NaN | Infinity => return Ok(self.clone()),
            NegInfinity => return Ok(Numeric::from_int(0)),
            Finite { digits, scale } => (digits, *scale),
        };
        let value = self.to_f64();
        let weight = (value * LOG10_E).clamp(-MAX_RESULT, MAX_RESULT) as i64;
        let decimals = clamped(MIN_DIGITS - weight, &[scale]);
        if value.abs() >= MAX_RESULT * 3.0 {
            if value > 0.0 {
                return Err(overflow());
            }
            return Numeric::checked(BigInt::ZERO, decimals);
        }
        exp_rounded(digits, scale, decimals, (value * LOG10_E) as i64)
    }

    /// The logarithm to the base e.
    pub fn ln(&self) -> Result<Numeric> {
        match self {
            NaN | Infinity => Ok(self.clone()),
            _ => {
                let (digits, scale) = self.positive()?;
                let decimals = clamped(MIN_DIGITS - log_weight(digits, scale), &[scale]);
                Numeric::checked(ln_fixed(digits, scale, decimals), decimals)
            }
        }
    }

    /// The digits of a number that has a logarithm.
    fn positive(&self) -> Result<(&BigInt, u32)> {
        match self {
            Finite { digits, scale } => match digits.sign() {
                Sign::Plus => Ok((digits, *scale)),
                Sign::NoSign => Err(undefined("2201E", "cannot take logarithm of zero")),
                Sign::Minus => Err(negative_log()),
            },
            _ => Err(negative_log()),
        }
    }

    /// The logarithm to a base.
    pub fn log(&self, base: &Numeric) -> Result<Numeric> {
        if matches!(base, NaN) || matches!(self, NaN) {
            return Ok(NaN);
        }
        match (base, self) {
            (NegInfinity, _) | (_, NegInfinity) => return Err(negative_log()),
            (Infinity, Infinity) => return Ok(NaN),
            (Infinity, _) => {
                self.positive()?;
                return Ok(Numeric::from_int(0));
            }
            (_, Infinity) => {
                base.positive()?;
                return Ok(Infinity);
            }
            _ => {}
        }
        let (base_digits, base_scale) = base.positive()?;
        let (digits, scale) = self.positive()?;
        let base_weight = log_weight(base_digits, base_scale);
        let weight = log_weight(digits, scale);
        let decimals = clamped(MIN_DIGITS - (weight - base_weight), &[base_scale, scale]);
        let spare = decimals + GUARD + weight.unsigned_abs() as u32;
        let places = spare + 2 * base_weight.unsigned_abs() as u32;
        let of_base = ln_fixed(base_digits, base_scale, places);
        if of_base.sign() == Sign::NoSign {
            return Err(division_by_zero());
        }
        let of_number = ln_fixed(digits, scale, places);
        Numeric::checked(div_round(&(of_number * pow10(decimals)), &of_base), decimals)
    }

    /// The logarithm to the base 10.
    pub fn log10(&self) -> Result<Numeric> {
        self.log(&Numeric::from_int(10))
    }

    /// This number raised to a power.
    pub fn power(&self, exponent: &Numeric) -> Result<Numeric> {
        let (Finite { digits: base, scale }, Finite { digits: exp, scale: exp_scale }) =
            (self, exponent)
        else {
            return self.power_special(exponent);
        };
        let (scale, exp_scale) = (*scale, *exp_scale);
        let whole = exp % pow10(exp_scale) == BigInt::ZERO;
        if base.sign() == Sign::NoSign && exp.sign() == Sign::Minus {
            return Err(zero_power());
        }
        if base.sign() == Sign::Minus && !whole {
            return Err(complex_power());
        }
        let int = exponent.to_i64().and_then(|exp| i32::try_from(exp).ok());
        if let Some(exp) = int.filter(|_| whole) {
            return power_int(base, scale, exp, exp_scale);
        }
        if base.sign() == Sign::NoSign {
            return Numeric::checked(BigInt::ZERO, MIN_DIGITS as u32);
        }
        let negative = base.sign() == Sign::Minus && (exp / pow10(exp_scale)) % 2u8 != BigInt::ZERO;
        let base = BigInt::from(base.magnitude().clone());
        let rough_places = (8 - log_weight(&base, scale)).max(0) as u32;
        let rough_ln = ln_fixed(&base, scale, rough_places);
        let rough = Finite { digits: rough_ln * exp, scale: rough_places + exp_scale };
        let rough = rough.round(rough_places).to_f64();
        if rough.abs() > MAX_RESULT * 3.01 {
            if rough > 0.0 {
                return Err(overflow());
            }
            return Numeric::checked(BigInt::ZERO, MAX_DECIMALS as u32);
        }
        let weight = (rough * LOG10_E) as i64;
        let decimals = clamped(MIN_DIGITS - weight, &[scale, exp_scale]);
        let exp_digits = decimal_len(exp).saturating_sub(exp_scale as usize) as u32;
        let places = decimals + weight.unsigned_abs() as u32 + exp_digits + 2 * GUARD;
        let product = ln_fixed(&base, scale, places) * exp;
        let result = exp_rounded(&product, places + exp_scale, decimals, weight)?;
        Ok(if negative { result.neg() } else { result })
    }

    /// Powers with an infinity or NaN in them.
    fn power_special(&self, exponent: &Numeric) -> Result<Numeric> {
        let one = Numeric::from_int(1);
        if matches!(self, NaN) {
            return Ok(if exponent.sign() == 0 && !matches!(exponent, NaN) { one } else { NaN });
        }
        if matches!(exponent, NaN) {
            return Ok(if *self == one { one } else { NaN });
        }
        if self.sign() == 0 && exponent.sign() < 0 {
            return Err(zero_power());
        }
        let is_whole = match exponent {
            Finite { digits, scale } => digits % pow10(*scale) == BigInt::ZERO,
            _ => true,
        };
        if self.sign() < 0 && !is_whole {
            return Err(complex_power());
        }
        if *self == one || exponent.sign() == 0 {
            return Ok(one);
        }
        if let Finite { digits, scale } = exponent {
            // The base is infinite.
            let odd = (digits / pow10(*scale)) % 2u8 != BigInt::ZERO;
            return Ok(match (exponent.sign() > 0, self) {
                (false, _) => Numeric::from_int(0),
                (true, NegInfinity) if odd => NegInfinity,
                (true, _) => Infinity,
            });
        }
        // The exponent is infinite.
        let grows = match self.abs().cmp(&one) {
            std::cmp::Ordering::Equal => return Ok(one),
            std::cmp::Ordering::Greater => exponent.sign() > 0,
            std::cmp::Ordering::Less => exponent.sign() < 0,
        };
        Ok(if grows { Infinity } else { Numeric::from_int(0) })
    }

    /// The least whole number that is not less.
    pub fn ceil(&self) -> Numeric {
        self.whole(1)
    }

    /// The greatest whole number that is not greater.
    pub fn floor(&self) -> Numeric {
        self.whole(-1)
    }

    /// Without the digits behind the point; what was cut off moves it away from 0 in a direction.
    fn whole(&self, direction: i32) -> Numeric {
        let Finite { digits, scale } = self else { return self.clone() };
        let ten = pow10(*scale);
        let (mut whole, rest) = (digits / &ten, digits % &ten);
        match rest.sign() {
            Sign::Plus if direction > 0 => whole += 1,
            Sign::Minus if direction < 0 => whole -= 1,
            _ => {}
        }
        Numeric::from_int(whole)
    }

    /// Cut to so many digits behind the point, or before it where there is a minus.
    pub fn trunc(&self, places: i32) -> Numeric {
        let Finite { digits, scale } = self else { return self.clone() };
        if let Ok(places) = u32::try_from(places) {
            let places = places.min(MAX_SCALE);
            return if places >= *scale {
                self.round(places)
            } else {
                Finite { digits: digits / pow10(scale - places), scale: places }
            };
        }
        let before = places.unsigned_abs().min(131_073);
        let cut = digits / pow10(before + scale);
        Finite { digits: cut * pow10(before), scale: 0 }
    }

    /// The whole part of a quotient.
    pub fn div_trunc(&self, other: &Numeric) -> Result<Numeric> {
        match (self, other) {
            (Finite { digits: a, scale: s }, Finite { digits: b, scale: t }) => {
                if b.sign() == Sign::NoSign {
                    return Err(division_by_zero());
                }
                let scale = (*s).max(*t);
                let quotient = (a * pow10(scale - s)) / (b * pow10(scale - t));
                Numeric::checked(quotient, 0)
            }
            _ => self.div(other),
        }
    }

    /// -1, 0 or 1; NaN of NaN.
    pub fn signum(&self) -> Numeric {
        if matches!(self, NaN) { NaN } else { Numeric::from_int(self.sign()) }
    }

    /// The greatest common divisor.
    pub fn gcd(&self, other: &Numeric) -> Result<Numeric> {
        let (Finite { digits: a, scale: s }, Finite { digits: b, scale: t }) = (self, other) else {
            return Ok(NaN);
        };
        let scale = (*s).max(*t);
        let (a, b) = (a * pow10(scale - s), b * pow10(scale - t));
        Numeric::checked(gcd(a, b), scale)
    }

    /// The least common multiple.
    pub fn lcm(&self, other: &Numeric) -> Result<Numeric> {
        let (Finite { digits: a, scale: s }, Finite { digits: b, scale: t }) = (self, other) else {
            return Ok(NaN);
        };
        let scale = (*s).max(*t);
        let (a, b) = (a * pow10(scale - s), b * pow10(scale - t));
        if a.sign() == Sign::NoSign || b.sign() == Sign::NoSign {
            return Numeric::checked(BigInt::ZERO, scale);
        }
        let multiple = &a / gcd(a.clone(), b.clone()) * &b;
        Numeric::checked(BigInt::from(multiple.magnitude().clone()), scale)
    }

    /// How many digits are shown behind the point. None if it is not finite.
    pub fn scale(&self) -> Option<u32> {
        match self {
            Finite { scale, .. } => Some(*scale),
            _ => None,
        }
    }

    /// How many digits behind the point it needs.
    pub fn min_scale(&self) -> Option<u32> {
        match self.trim_scale() {
            Finite { scale, .. } => Some(scale),
            _ => None,
        }
    }

    /// Without zeros at the end of the digits behind the point.
    pub fn trim_scale(&self) -> Numeric {
        let Finite { digits, scale } = self else { return self.clone() };
        if digits.sign() == Sign::NoSign {
            return Numeric::from_int(0);
        }
        let text = digits.magnitude().to_string();
        let zeros = text.len() - text.trim_end_matches('0').len();
        let cut = (zeros as u32).min(*scale);
        Finite { digits: digits / pow10(cut), scale: scale - cut }
    }

    /// The factorial of a whole number.
    pub fn factorial(n: i64) -> Result<Numeric> {
        if n < 0 {
            return Err(undefined("22003", "factorial of a negative number is undefined"));
        }
        // No larger one fits the type.
        if n > 32_177 {
            return Err(overflow());
        }
        let product = (2..=n).fold(BigInt::from(1u8), |product, k| product * k);
        Numeric::checked(product, 0)
    }

    /// The bucket of a number among `count` equal ones between two bounds; 0 and `count` + 1 are
    /// outside.
    pub fn width_bucket(&self, low: &Numeric, high: &Numeric, count: i32) -> Result<i32> {
        let fails = |message: &str| Err(undefined("2201G", message));
        if count <= 0 {
            return fails("count must be greater than zero");
        }
        if matches!(self, NaN) || matches!(low, NaN) || matches!(high, NaN) {
            return fails("operand, lower bound, and upper bound cannot be NaN");
        }
        if low.scale().is_none() || high.scale().is_none() {
            return fails("lower and upper bounds must be finite");
        }
        let beyond =
            || count.checked_add(1).ok_or_else(|| undefined("22003", "integer out of range"));
        let (below, above) = match low.cmp(high) {
            std::cmp::Ordering::Equal => return fails("lower bound cannot equal upper bound"),
            std::cmp::Ordering::Less => (*self < *low, *self >= *high),
            std::cmp::Ordering::Greater => (*self > *low, *self <= *high),
        };
        if below {
            return Ok(0);
        }
        if above {
            return beyond();
        }
        let part = self.sub(low)?.abs().mul(&Numeric::from_int(count))?;
        let bucket = part.div_trunc(&high.sub(low)?.abs())?.to_i64().unwrap_or(0);
        Ok(bucket as i32 + 1)
    }
}

fn negative_root() -> ValueError {
    undefined("2201F", "cannot take square root of a negative number")
}

fn negative_log() -> ValueError {
    undefined("2201E", "cannot take logarithm of a negative number")
}

fn zero_power() -> ValueError {
    undefined("2201F", "zero raised to a negative power is undefined")
}

fn complex_power() -> ValueError {
    let message = "a negative number raised to a non-integer power yields a complex result";
    undefined("2201F", message)
}

/// The greatest common divisor by shifts and subtractions: of long numbers, divisions take minutes.
fn gcd(a: BigInt, b: BigInt) -> BigInt {
    let (mut a, mut b) = (a.magnitude().clone(), b.magnitude().clone());
    if a.bits() > b.bits() {
        (a, b) = (b, a);
    }
    // One division makes them of like length.
    if a.bits() > 0 {
        b %= &a;
    }
    let (Some(twos), Some(others)) = (a.trailing_zeros(), b.trailing_zeros()) else {
        return BigInt::from(if a.bits() > 0 { a } else { b });
    };
    a >>= twos;
    while let Some(zeros) = b.trailing_zeros() {
        b >>= zeros;
        if a > b {
            std::mem::swap(&mut a, &mut b);
        }
        b -= &a;
    }
    BigInt::from(a << twos.min(others))
}

/// A whole power.
fn power_int(base: &BigInt, scale: u32, exp: i32, exp_scale: u32) -> Result<Numeric> {
    let weight = match leading_groups(&BigInt::from(base.magnitude().clone()), scale, 4) {
        Some((first, power)) => f64::from(exp) * (first.log10() + power as f64),
        None => 0.0,
    };
    if weight > 131_072.0 + 4.0 {
        return Err(overflow());
    }
    if weight + 1.0 < -(MAX_DECIMALS as f64) {
        return Numeric::checked(BigInt::ZERO, MAX_DECIMALS as u32);
    }
    let decimals = clamped(MIN_DIGITS - weight as i64, &[scale, exp_scale]);
    if exp == 0 {
        return Numeric::checked(pow10(decimals), decimals);
    }
    if base.sign() == Sign::NoSign {
        return Numeric::checked(BigInt::ZERO, decimals);
    }
    // A mantissa of so many digits, and the power of ten that it counts.
    let keep = (i64::from(decimals) + (weight as i64).max(0) + 2 * i64::from(GUARD)) as usize;
    let cut = |mantissa: BigInt, power: i64| {
        let excess = decimal_len(&mantissa).saturating_sub(keep);
        if excess == 0 {
            return (mantissa, power);
        }
        (mantissa / pow10(excess as u32), power + excess as i64)
    };
    let (mut square, mut result) = ((base.clone(), -i64::from(scale)), (BigInt::from(1u8), 0_i64));
    let mut rest = exp.unsigned_abs();
    while rest > 0 {
        if rest & 1 == 1 {
            result = cut(&result.0 * &square.0, result.1 + square.1);
        }
        rest >>= 1;
        if rest > 0 {
            square = cut(&square.0 * &square.0, square.1 * 2);
        }
    }
    let (mantissa, power) = result;
    let places = i64::from(decimals);
    let digits = if exp > 0 {
        let up = places + power;
        if up >= 0 { mantissa * pow10(up as u32) } else { div_round(&mantissa, &pow10(-up as u32)) }
    } else {
        // 10^places / (mantissa * 10^power)
        let up = places - power;
        if up >= 0 { div_round(&pow10(up as u32), &mantissa) } else { BigInt::ZERO }
    };
    Numeric::checked(digits, decimals)
}
