//! Bit strings in text: binary or hexadecimal digits.

use crate::error::{Result, ValueError};

/// Bits that a string may have.
pub const MAX_BITS: usize = i32::MAX as usize - 7;

/// Reads `0101`, `b0101` or `x1f`: how many bits, and their bytes.
pub(crate) fn parse(text: &str) -> Result<(u32, Vec<u8>)> {
    let (digits, hex) = match text.as_bytes().first() {
        Some(b'b' | b'B') => (&text[1..], false),
        Some(b'x' | b'X') => (&text[1..], true),
        _ => (text, false),
    };
    let width = if hex { 4 } else { 1 };
    if digits.len() > MAX_BITS / width {
        let message = format!("bit string length exceeds the maximum allowed ({MAX_BITS})");
        return Err(ValueError::new("54000", message));
    }
    let mut bytes = Vec::with_capacity((digits.len() * width).div_ceil(8));
    let mut len = 0_u32;
    for c in digits.chars() {
        let digit = c.to_digit(if hex { 16 } else { 2 }).ok_or_else(|| {
            let kind = if hex { "hexadecimal" } else { "binary" };
            ValueError::new("22P02", format!("\"{c}\" is not a valid {kind} digit"))
        })?;
        for n in (0..width).rev() {
            push(&mut bytes, &mut len, digit >> n & 1 == 1);
        }
    }
    Ok((len, bytes))
}

/// Appends a bit.
pub(crate) fn push(bytes: &mut Vec<u8>, len: &mut u32, bit: bool) {
    if len.is_multiple_of(8) {
        bytes.push(0);
    }
    if let (true, Some(last)) = (bit, bytes.last_mut()) {
        *last |= 0x80 >> (*len % 8);
    }
    *len += 1;
}

/// A bit, counted from the first.
pub(crate) fn bit(bytes: &[u8], n: u32) -> bool {
    bytes.get(n as usize / 8).is_some_and(|byte| byte & 0x80 >> (n % 8) != 0)
}

/// Appends the text.
pub(crate) fn show(len: u32, bytes: &[u8], out: &mut Vec<u8>) {
    out.extend((0..len).map(|n| if bit(bytes, n) { b'1' } else { b'0' }));
}

/// The same bits, cut or filled with zeros to a length.
pub(crate) fn resized(len: u32, bytes: &[u8]) -> Vec<u8> {
    let mut resized = bytes.to_vec();
    resized.resize(len.div_ceil(8) as usize, 0);
    if let (Some(last), false) = (resized.last_mut(), len.is_multiple_of(8)) {
        *last &= 0xff << (8 - len % 8);
    }
    resized
}
