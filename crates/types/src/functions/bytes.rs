//! Functions of bytea: bytes and bits by number, text forms, digests.

use md5::{Digest, Md5};
use sha2::{Sha224, Sha256, Sha384, Sha512};

use crate::digits::decode_hex;
use crate::encoding::Encoding;
use crate::error::{Result, ValueError};

fn index_error(n: i64, most: i64) -> ValueError {
    ValueError::new("2202E", format!("index {n} out of valid range, 0..{most}"))
}

/// `get_byte(bytes, n)`
pub fn get_byte(bytes: &[u8], n: i32) -> Result<i32> {
    let found = usize::try_from(n).ok().and_then(|n| bytes.get(n));
    found.map(|b| i32::from(*b)).ok_or_else(|| index_error(i64::from(n), bytes.len() as i64 - 1))
}

/// `set_byte(bytes, n, value)`
pub fn set_byte(bytes: &[u8], n: i32, value: i32) -> Result<Vec<u8>> {
    get_byte(bytes, n)?;
    let mut changed = bytes.to_vec();
    changed[n as usize] = value as u8;
    Ok(changed)
}

/// `get_bit(bytes, n)`: counted from the lowest bit of the first byte.
pub fn get_bit(bytes: &[u8], n: i64) -> Result<i32> {
    let byte = usize::try_from(n).ok().and_then(|n| bytes.get(n / 8));
    let byte = byte.ok_or_else(|| index_error(n, bytes.len() as i64 * 8 - 1))?;
    Ok(i32::from(byte >> (n % 8) & 1))
}

/// `set_bit(bytes, n, value)`
pub fn set_bit(bytes: &[u8], n: i64, value: i32) -> Result<Vec<u8>> {
    get_bit(bytes, n)?;
    if !matches!(value, 0 | 1) {
        return Err(ValueError::new("22023", "new bit must be 0 or 1"));
    }
    let mut changed = bytes.to_vec();
    let byte = &mut changed[n as usize / 8];
    *byte = *byte & !(1 << (n % 8)) | (value as u8) << (n % 8);
    Ok(changed)
}

/// `bit_count(bytes)`
pub fn bit_count(bytes: &[u8]) -> i64 {
    bytes.iter().map(|b| i64::from(b.count_ones())).sum()
}

/// `substr(bytes, from [, count])`
pub fn substr(bytes: &[u8], from: i32, count: Option<i32>) -> Result<&[u8]> {
    let from = i64::from(from);
    let end = match count {
        Some(count) if count < 0 => {
            return Err(ValueError::new("22011", "negative substring length not allowed"));
        }
        Some(count) => from + i64::from(count),
        None => i64::MAX,
    };
    let len = bytes.len() as i64;
    let start = (from.max(1) - 1).min(len);
    let end = (end.max(1) - 1).clamp(start, len);
    Ok(bytes.get(start as usize..end as usize).unwrap_or_default())
}

/// `position(part in bytes)`: 0, if it is not there.
pub fn position(part: &[u8], bytes: &[u8]) -> i32 {
    if part.is_empty() {
        return 1;
    }
    bytes.windows(part.len()).position(|w| w == part).map_or(0, |at| at as i32 + 1)
}

/// `md5(bytes)`, in hexadecimal digits.
pub fn md5(bytes: &[u8]) -> String {
    hex(&Md5::digest(bytes))
}

/// `sha224(bytes)`
pub fn sha224(bytes: &[u8]) -> Vec<u8> {
    Sha224::digest(bytes).to_vec()
}

/// `sha256(bytes)`
pub fn sha256(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}

/// `sha384(bytes)`
pub fn sha384(bytes: &[u8]) -> Vec<u8> {
    Sha384::digest(bytes).to_vec()
}

/// `sha512(bytes)`
pub fn sha512(bytes: &[u8]) -> Vec<u8> {
    Sha512::digest(bytes).to_vec()
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |n: u8| char::from(DIGITS[usize::from(n)]);
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// `encode(bytes, format)`: hex, base64 or escape.
pub fn encode(bytes: &[u8], format: &str) -> Result<String> {
    Ok(match format.to_ascii_lowercase().as_str() {
        "hex" => hex(bytes),
        "base64" => encode_base64(bytes),
        "escape" => bytes
            .iter()
            .map(|b| match b {
                0 | 0x80.. => format!("\\{b:03o}"),
                b'\\' => "\\\\".to_owned(),
                b => char::from(*b).to_string(),
            })
            .collect(),
        _ => return Err(unknown_encoding(format)),
    })
}

fn unknown_encoding(format: &str) -> ValueError {
    ValueError::new("22023", format!("unrecognized encoding: \"{format}\""))
}

/// Lines of 76 characters.
fn encode_base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4 + bytes.len() / 57 + 1);
    for (n, chunk) in bytes.chunks(3).enumerate() {
        if n > 0 && n % 19 == 0 {
            out.push('\n');
        }
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let digit = BASE64[(bits >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

/// `decode(text, format)`: hex, base64 or escape.
pub fn decode(text: &str, format: &str, encoding: Encoding) -> Result<Vec<u8>> {
    match format.to_ascii_lowercase().as_str() {
        "hex" => decode_hex(text),
        "base64" => decode_base64(text),
        "escape" => decode_escape(&encoding.encode(text)?),
        _ => Err(unknown_encoding(format)),
    }
}

fn decode_base64(text: &str) -> Result<Vec<u8>> {
    let (mut out, mut bits, mut count, mut end) = (Vec::new(), 0_u32, 0, 0);
    for c in text.chars().filter(|c| !matches!(c, ' ' | '\n' | '\t' | '\r')) {
        let digit = if c == '=' {
            // One or two of them fill up the last four.
            if end == 0 {
                end = match count {
                    2 => 1,
                    3 => 2,
                    _ => {
                        let message = "unexpected \"=\" while decoding base64 sequence";
                        return Err(ValueError::new("22023", message));
                    }
                };
            }
            0
        } else {
            let found = BASE64.iter().position(|b| char::from(*b) == c).filter(|_| end == 0);
            found.ok_or_else(|| {
                let message =
                    format!("invalid symbol \"{c}\" found while decoding base64 sequence");
                ValueError::new("22023", message)
            })? as u32
        };
        bits = bits << 6 | digit;
        count += 1;
        if count == 4 {
            let [_, a, b, c] = bits.to_be_bytes();
            out.push(a);
            if end == 0 || end > 1 {
                out.push(b);
            }
            if end == 0 {
                out.push(c);
            }
            (bits, count) = (0, 0);
        }
    }
    if count != 0 {
        let error = ValueError::new("22023", "invalid base64 end sequence");
        return Err(error
            .with_hint("Input data is missing padding, is truncated, or is otherwise corrupted."));
    }
    Ok(out)
}

fn decode_escape(text: &[u8]) -> Result<Vec<u8>> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((first, tail)) = rest.split_first() {
        rest = match (first, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..]) => {
                out.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                tail
            }
            (b'\\', [b'\\', tail @ ..]) => {
                out.push(b'\\');
                tail
            }
            (b'\\', _) => {
                return Err(ValueError::new("22P02", "invalid input syntax for type bytea"));
            }
            (plain, tail) => {
                out.push(*plain);
                tail
            }
        };
    }
    Ok(out)
}
