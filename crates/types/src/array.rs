//! Arrays to text.
//!
//! ```text
//!   dimensions | offset of the data, if there is a bitmap of NULLs | element type |
//!   length of each dimension | lower bound of each | bitmap | elements
//! ```
//!
//! All but the elements are words of four bytes. Offsets count from the length word, which is not
//! part of the bytes.

use crate::datum::Datum;
use crate::error::{Problem, Result, ValueError};
use crate::facts::{Repr, type_info};
use crate::oid::Oid;
use crate::sqltype::SqlType;

/// Bytes of a length word.
const WORD: usize = 4;

/// Appends the text form of a value.
type Output<'o> = &'o dyn Fn(&Datum<'_>, SqlType, &mut Vec<u8>) -> Result<()>;

/// Appends the text form of an array of one dimension, or without any.
pub(crate) fn array_out(
    ty: Oid,
    bytes: &[u8],
    element_out: Output<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let damaged = || Problem::StoredLength { len: bytes.len(), expected: 5 * WORD };
    let word = |n: usize| {
        let word = bytes.get(n * WORD..).and_then(<[u8]>::first_chunk).copied();
        word.map(u32::from_le_bytes).ok_or_else(damaged)
    };
    let (dimensions, offset, element) = (word(0)?, word(1)? as usize, word(2)?);
    match dimensions {
        0 => {
            out.extend_from_slice(b"{}");
            return Ok(());
        }
        1 => {}
        _ => return Err(ValueError::carried("output", ty)),
    }
    let (count, lower) = (word(3)?, word(4)? as i32);
    let bitmap = (offset != 0).then(|| bytes.get(5 * WORD..).unwrap_or_default());
    let mut rest = Elements::new(element, bytes, if offset == 0 { 6 * WORD } else { offset })?;
    if lower != 1 {
        let upper = i64::from(lower) + i64::from(count) - 1;
        out.extend_from_slice(format!("[{lower}:{upper}]=").as_bytes());
    }
    out.push(b'{');
    for n in 0..count as usize {
        if n > 0 {
            out.push(b',');
        }
        let is_null = bitmap.map(|bits| bits.get(n / 8).map(|byte| byte >> (n % 8) & 1 == 0));
        if is_null.map_or(Ok(false), |bit| bit.ok_or_else(damaged))? {
            out.extend_from_slice(b"NULL");
        } else {
            let value = rest.next().ok_or_else(damaged)?;
            let mut text = Vec::new();
            element_out(&rest.repr.decode(value)?, rest.ty, &mut text)?;
            quoted(&text, out);
        }
    }
    out.push(b'}');
    Ok(())
}

/// The elements of an array one after the other.
struct Elements<'a> {
    ty: SqlType,
    repr: Repr,
    len: i16,
    align: usize,
    bytes: &'a [u8],
    /// Where the next one begins, from the length word of the array.
    at: usize,
}

impl<'a> Elements<'a> {
    fn new(element: Oid, bytes: &'a [u8], at: usize) -> Result<Elements<'a>> {
        let info = type_info(element).filter(|info| !matches!(info.repr, Repr::Carried(_)));
        let info = info.ok_or_else(|| ValueError::carried("output", element))?;
        let align = match info.align {
            b'c' => 1,
            b's' => 2,
            b'i' => 4,
            _ => 8,
        };
        let ty = SqlType::of(element);
        Ok(Elements { ty, repr: info.repr, len: info.len, align, bytes, at })
    }

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.at.checked_next_multiple_of(self.align)?.checked_sub(WORD)?;
        let rest = self.bytes.get(start..)?;
        let (header, len) = match usize::try_from(self.len) {
            Ok(len) => (0, len),
            Err(_) if self.len == -1 => {
                let word = u32::from_le_bytes(*rest.first_chunk()?);
                let len = (word >> 2) as usize;
                (WORD, len.checked_sub(WORD).filter(|_| word & 3 == 0)?)
            }
            Err(_) => return None,
        };
        let value = rest.get(header..)?.get(..len)?;
        self.at = start + WORD + header + len;
        Some(value)
    }
}

/// Appends an element, in quotes if it needs them.
fn quoted(text: &[u8], out: &mut Vec<u8>) {
    let special = |byte: &u8| {
        matches!(byte, b'"' | b'\\' | b'{' | b'}' | b',' | b' ' | b'\t' | b'\n' | 0x0b..=b'\r')
    };
    if !text.is_empty() && !text.eq_ignore_ascii_case(b"null") && !text.iter().any(special) {
        return out.extend_from_slice(text);
    }
    out.push(b'"');
    for &byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}
