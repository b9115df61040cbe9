//! Floating point in text: the shortest digits that read back the same, laid out as PostgreSQL
//! does.

use num_bigint::BigUint;

/// Appends a float8 as PostgreSQL prints it with `extra_float_digits` at its default.
pub fn write_f64(v: f64, out: &mut Vec<u8>) {
    if write_special(v, out) {
        return;
    }
    let mut buffer = ryu::Buffer::new();
    let (digits, exponent) = decompose(buffer.format_finite(v.abs()));
    let bits = v.to_bits();
    let even = bits & 1 == 0;
    if even && v.abs() >= 9_007_199_254_740_992.0 {
        let mantissa = (bits & ((1 << 52) - 1)) | (1 << 52);
        let shift = ((bits >> 52) & 0x7ff) as i64 - 1075;
        if on_boundary(&digits, exponent, mantissa, shift) {
            let (digits, exponent) = longer(
                17,
                |p| format!("{:.*e}", p, v.abs()),
                |s| s.parse() == Ok(v.abs()),
                &digits,
            );
            return layout(&digits, exponent, 15, out);
        }
    }
    layout(&digits, exponent, 15, out);
}

/// Appends a float4.
pub fn write_f32(v: f32, out: &mut Vec<u8>) {
    if write_special(f64::from(v), out) {
        return;
    }
    let mut buffer = ryu::Buffer::new();
    let (digits, exponent) = decompose(buffer.format_finite(v.abs()));
    let bits = v.to_bits();
    if bits & 1 == 0 && v.abs() >= 16_777_216.0 {
        let mantissa = u64::from((bits & ((1 << 23) - 1)) | (1 << 23));
        let shift = i64::from((bits >> 23) & 0xff) - 150;
        if on_boundary(&digits, exponent, mantissa, shift) {
            let (digits, exponent) =
                longer(9, |p| format!("{:.*e}", p, v.abs()), |s| s.parse() == Ok(v.abs()), &digits);
            return layout(&digits, exponent, 6, out);
        }
    }
    layout(&digits, exponent, 6, out);
}

/// Appends a float with so many significant digits at most, as C's `%g` does.
pub(crate) fn write_digits(v: f64, digits: i32, out: &mut Vec<u8>) {
    if write_special(v, out) {
        return;
    }
    let precision = digits.max(1);
    let (digits, exponent) = decompose(&format!("{:.*e}", precision as usize - 1, v.abs()));
    layout(&digits, exponent, precision, out);
}

/// Appends a number in decimal.
pub(crate) fn write_u64(mut v: u64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (v % 10) as u8;
        v /= 10;
        if v == 0 {
            return out.extend_from_slice(&digits[at..]);
        }
    }
}

/// NaN, infinities, zeros and the sign of everything else. True if nothing is left to write.
fn write_special(v: f64, out: &mut Vec<u8>) -> bool {
    if v.is_nan() {
        out.extend_from_slice(b"NaN");
        return true;
    }
    if v.is_sign_negative() {
        out.push(b'-');
    }
    if v.is_infinite() {
        out.extend_from_slice(b"Infinity");
    } else if v == 0.0 {
        out.push(b'0');
    } else {
        return false;
    }
    true
}

/// Digits without leading or trailing zeros, and the decimal exponent of the first.
type Decimal = (smallvec::SmallVec<[u8; 24]>, i32);

fn decompose(text: &str) -> Decimal {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let mut exponent: i32 = exponent.parse().expect("a float's exponent is a number");
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits: smallvec::SmallVec<[u8; 24]> = smallvec::SmallVec::new();
    exponent += whole.len() as i32 - 1;
    for b in whole.bytes().chain(fraction.bytes()) {
        if digits.is_empty() && b == b'0' {
            exponent -= 1;
        } else {
            digits.push(b);
        }
    }
    while digits.last() == Some(&b'0') {
        digits.pop();
    }
    (digits, exponent)
}

/// Is the decimal exactly halfway to a neighbour? PostgreSQL does not rely on round-to-even when it
/// is read. Only whole numbers past the mantissa's range can be.
fn on_boundary(digits: &[u8], exponent: i32, mantissa: u64, shift: i64) -> bool {
    let zeros = exponent - (digits.len() as i32 - 1);
    // Half a unit of the last place is odd * 2^(shift - 1), so powers of ten are small when it
    // fits.
    if !(0..=60).contains(&zeros) || shift < 1 {
        return false;
    }
    let digits =
        digits.iter().fold(0u64, |n, d| n.wrapping_mul(10).wrapping_add(u64::from(d - b'0')));
    let decimal = BigUint::from(digits) * BigUint::from(10u8).pow(zeros as u32);
    let half = shift as u64 - 1;
    let middle = BigUint::from(mantissa) * 2u8;
    decimal == ((&middle + 1u8) << half) || decimal == ((&middle - 1u8) << half)
}

/// The fewest digits, at most `most`, that read back the same and are not `avoid`.
fn longer(
    most: usize,
    show: impl Fn(usize) -> String,
    reads_back: impl Fn(&str) -> bool,
    avoid: &[u8],
) -> Decimal {
    for precision in avoid.len()..most {
        let text = show(precision);
        let decimal = decompose(&text);
        if reads_back(&text) && decimal.0.as_slice() != avoid {
            return decimal;
        }
    }
    decompose(&show(most - 1))
}

/// Plain notation for exponents from -4 to below `limit`, scientific with two exponent digits
/// otherwise.
fn layout(digits: &[u8], exponent: i32, limit: i32, out: &mut Vec<u8>) {
    let (first, rest) = digits.split_first().map_or((b'0', &[][..]), |(f, r)| (*f, r));
    if !(-4..limit).contains(&exponent) {
        out.push(first);
        if !rest.is_empty() {
            out.push(b'.');
            out.extend_from_slice(rest);
        }
        out.push(b'e');
        out.push(if exponent < 0 { b'-' } else { b'+' });
        let e = exponent.unsigned_abs();
        if e < 10 {
            out.push(b'0');
        }
        write_u64(u64::from(e), out);
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize));
        out.extend_from_slice(digits);
    } else {
        let whole = exponent as usize + 1;
        if digits.len() <= whole {
            out.extend_from_slice(digits);
            out.extend(std::iter::repeat_n(b'0', whole - digits.len()));
        } else {
            let (whole, fraction) = digits.split_at(whole);
            out.extend_from_slice(whole);
            out.push(b'.');
            out.extend_from_slice(fraction);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn f64_text(v: f64) -> String {
        let mut out = Vec::new();
        write_f64(v, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn f32_text(v: f32) -> String {
        let mut out = Vec::new();
        write_f32(v, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn float8_is_laid_out_as_postgresql_does() {
        for (v, want) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (1e20, "1e+20"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (1e15, "1e+15"),
            (1e14, "100000000000000"),
            (123456789012345.0, "123456789012345"),
            (1234567890123456.0, "1.234567890123456e+15"),
            (12.5, "12.5"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (5e-324, "5e-324"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (1.0 / 3.0, "0.3333333333333333"),
            (1e23, "9.999999999999999e+22"),
            (8.41e21, "8.409999999999999e+21"),
            (2e22, "2e+22"),
            (9.5367431640625e-07, "9.5367431640625e-07"),
        ] {
            assert_eq!(f64_text(v), want);
        }
        for (v, want) in [
            (1e6, "1e+06"),
            (123456.0, "123456"),
            (1234567.0, "1.234567e+06"),
            (0.1, "0.1"),
            (8.5e9, "8.4999997e+09"),
        ] {
            assert_eq!(f32_text(v), want);
        }
    }

    proptest! {
        #[test]
        fn float_text_reads_back(bits in any::<u64>(), small in any::<u32>()) {
            let v = f64::from_bits(bits);
            if v.is_finite() {
                prop_assert_eq!(f64_text(v).parse::<f64>().unwrap().to_bits(), bits);
            }
            let v = f32::from_bits(small);
            if v.is_finite() {
                prop_assert_eq!(f32_text(v).parse::<f32>().unwrap().to_bits(), small);
            }
        }
    }
}
