//! Stored arrays to text.
//!
//! ```text
//!   dimensions | offset of the data, if there is a bitmap of NULLs | element type |
//!   length of each dimension | lower bound of each | bitmap | elements
//! ```
//!
//! All but the elements are words of four bytes. Offsets count from the length word, which is not
//! part of the bytes.

use crate::array::join;
use crate::datum::Datum;
use crate::error::{Problem, Result, ValueError};
use crate::facts::{Repr, type_info};
use crate::oid::Oid;
use crate::sqltype::SqlType;

/// Bytes of a length word.
const WORD: usize = 4;

/// Appends the text of a value.
type TextOf = fn(&Datum<'_>, SqlType, &mut Vec<u8>) -> Result<()>;

/// Appends the text form of an array of one dimension, or without any. Its elements are written by
/// `text_of`.
pub(crate) fn array_out(ty: Oid, bytes: &[u8], text_of: TextOf, out: &mut Vec<u8>) -> Result<()> {
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
    let mut elements = Vec::new();
    for n in 0..count as usize {
        let is_null = bitmap.map(|bits| bits.get(n / 8).map(|byte| byte >> (n % 8) & 1 == 0));
        elements.push(if is_null.map_or(Ok(false), |bit| bit.ok_or_else(damaged))? {
            None
        } else {
            let value = rest.next().ok_or_else(damaged)?;
            let mut text = Vec::new();
            text_of(&rest.repr.decode(value)?, rest.ty, &mut text)?;
            Some(String::from_utf8(text).map_err(|_| damaged())?)
        });
    }
    out.extend_from_slice(join(&elements).as_bytes());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oid::oids;

    fn array(words: &[u32], rest: &[&[u8]]) -> Vec<u8> {
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        words.chain(rest.iter().flat_map(|part| part.iter().copied())).collect()
    }

    fn text(bytes: &[u8]) -> Result<String> {
        let mut out = Vec::new();
        array_out(oids::ANYARRAY, bytes, crate::text_out, &mut out)?;
        Ok(String::from_utf8(out).expect("UTF-8"))
    }

    /// A text with its length word and padding.
    fn element(text: &str) -> Vec<u8> {
        let mut bytes = ((text.len() as u32 + 4) << 2).to_le_bytes().to_vec();
        bytes.extend(text.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn arrays_are_written_as_postgresql_writes_them() {
        let ints = [1_i32, -2].map(i32::to_le_bytes);
        let of_ints = |lower| array(&[1, 0, oids::INT4, 2, lower], &[&ints[0], &ints[1]]);
        assert_eq!(text(&of_ints(1)).expect("it"), "{1,-2}");
        assert_eq!(text(&of_ints(0)).expect("it"), "[0:1]={1,-2}");
        assert_eq!(text(&array(&[0, 0, oids::INT4], &[])).expect("it"), "{}");
        let bits = [0b101, 0, 0, 0];
        let nulls = array(&[1, 32, oids::INT4, 3, 1], &[&bits, &[0; 4], &ints[0], &ints[1]]);
        assert_eq!(text(&nulls).expect("it"), "{1,NULL,-2}");
        let words = ["a", "", "nUlL", "x y", "q\"\\", "ä,", "{}"].map(element);
        let parts: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let texts = array(&[1, 0, oids::TEXT, 7, 1], &parts);
        let expected = r#"{a,"","nUlL","x y","q\"\\","ä,","{}"}"#;
        assert_eq!(text(&texts).expect("it"), expected);
        let long = [1.5_f64, f64::INFINITY].map(f64::to_le_bytes);
        let floats = array(&[1, 0, oids::FLOAT8, 2, 1], &[&long[0], &long[1]]);
        assert_eq!(text(&floats).expect("it"), "{1.5,Infinity}");
        // Whatever the bytes, that is an error.
        for bytes in [&nulls, &texts, &floats] {
            for len in 0..bytes.len() - 3 {
                assert!(text(&bytes[..len]).is_err(), "{len}");
            }
        }
        let cubes = array(&[2, 0, oids::INT4, 1, 1, 1, 1], &[&ints[0]]);
        assert_eq!(text(&cubes).expect_err("two dimensions").sqlstate(), "0A000");
        let uuids = array(&[1, 0, 2950, 1, 1], &[&[0; 16]]);
        assert_eq!(text(&uuids).expect_err("only carried").sqlstate(), "0A000");
    }
}
