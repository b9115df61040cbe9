//! Messages without their long values: these are sent from where they are, so that there is one
//! copy of them.
//!
//! The length of a message comes before it. So the bytes that a value becomes are counted first,
//! and made, a block at a time, when they are sent.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::error::Result;
use forebay_types::{
    Datum, MAX_ALLOC, SqlType, TextStyle, binary_out, check_enlarge, enlarge, is_text_in_binary,
    text_out_as,
};

/// Values from this length on are no part of a message.
pub(crate) const LONG: usize = 1 << 20;
/// Bytes of a value that are sent at once.
const BLOCK: usize = 32 * 1024;

/// What becomes of a value's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// They are sent as they are.
    AsIs,
    /// Escapes of COPY's text format.
    Escaped { delimiter: u8 },
    /// These two are escaped in a quoted field of CSV.
    Quoted { quote: u8, escape: u8 },
}

/// A long value, with the place in its message where it belongs.
#[derive(Clone, Copy, Debug)]
pub struct LongValue<'r> {
    at: usize,
    bytes: &'r [u8],
    form: Form,
    len: usize,
}

impl<'r> LongValue<'r> {
    /// A value that belongs behind the first `at` bytes of a message.
    pub(crate) fn new(at: usize, bytes: &'r [u8], form: Form) -> LongValue<'r> {
        let escaped = bytes.iter().filter(|byte| form.escape_of(**byte).is_some()).count();
        LongValue { at, bytes, form, len: bytes.len() + escaped }
    }

    /// Its length in the message.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Form {
    /// The two bytes that one becomes, if it must be escaped.
    #[inline]
    fn escape_of(self, byte: u8) -> Option<[u8; 2]> {
        match self {
            Form::AsIs => None,
            Form::Quoted { quote, escape } => {
                (byte == quote || byte == escape).then_some([escape, byte])
            }
            Form::Escaped { delimiter } => {
                let letter = match byte {
                    0x08 => b'b',
                    0x0c => b'f',
                    b'\n' => b'n',
                    b'\r' => b'r',
                    b'\t' => b't',
                    0x0b => b'v',
                    b'\\' => b'\\',
                    _ if byte == delimiter => byte,
                    _ => return None,
                };
                Some([b'\\', letter])
            }
        }
    }

    /// Appends what becomes of the bytes to `out`.
    #[inline]
    pub(crate) fn append(self, bytes: &[u8], out: &mut Vec<u8>) {
        // What may be escaped is found by simpler tests.
        match self {
            Form::AsIs => out.extend_from_slice(bytes),
            Form::Escaped { delimiter } => {
                let special = |byte| byte < 0x20 || byte == b'\\' || byte == delimiter;
                self.append_some(bytes, special, out);
            }
            Form::Quoted { quote, escape } => {
                self.append_some(bytes, |byte| byte == quote || byte == escape, out);
            }
        }
    }

    #[inline]
    fn append_some(self, bytes: &[u8], special: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| special(*byte)) {
            let (plain, tail) = rest.split_at(at);
            out.extend_from_slice(plain);
            let Some((byte, tail)) = tail.split_first() else { return };
            match self.escape_of(*byte) {
                Some(escaped) => out.extend_from_slice(&escaped),
                None => out.push(*byte),
            }
            rest = tail;
        }
        out.extend_from_slice(rest);
    }
}

/// The length of a message with its long values.
pub fn whole_length(message: &[u8], long: &[LongValue<'_>]) -> usize {
    message.len() + long.iter().map(LongValue::len).sum::<usize>()
}

/// How a field is written.
#[derive(Clone, Copy)]
pub(crate) struct FieldForm<'s> {
    /// The type of its value.
    pub ty: SqlType,
    /// In binary.
    pub binary: bool,
    /// What the text depends on.
    pub style: &'s TextStyle<'s>,
}

/// Appends a field of a binary row, or of a DataRow: its length, and its bytes unless it is long.
/// The row begins at `start` of `out`.
pub(crate) fn append_field<'r>(
    value: &'r Datum<'_>,
    FieldForm { ty, binary, style }: FieldForm<'_>,
    out: &mut Vec<u8>,
    start: usize,
    long: &mut Vec<LongValue<'r>>,
) -> Result<()> {
    if value.is_null() {
        out.extend_from_slice(&(-1i32).to_be_bytes());
        return Ok(());
    }
    let bytes: &[u8] = match value {
        // Other texts are made what is sent.
        Datum::Text(text)
            if (!binary || is_text_in_binary(ty)) && style.encoding.is_plain(text.as_bytes()) =>
        {
            text.as_bytes()
        }
        Datum::Bytes(bytes) if binary => bytes,
        _ => &[],
    };
    if bytes.len() >= LONG {
        check_enlarge(whole_length(out, long) - start, bytes.len() + 4, MAX_ALLOC)?;
        out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
        long.push(LongValue::new(out.len(), bytes, Form::AsIs));
        return Ok(());
    }
    enlarge(out, start, value.text_size() + 4, MAX_ALLOC)?;
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    match binary {
        true => binary_out(value, ty, style.encoding, out)?,
        false => {
            text_out_as(value, ty, style, out)?;
            style.encoding.encode_tail(out, at + 4);
        }
    }
    if !binary || matches!(value, Datum::Text(_)) {
        style.encoding.check_sent(style.client, out.get(at + 4..).unwrap_or_default())?;
    }
    let len = (out.len() - at - 4) as i32;
    if let Some(field) = out.get_mut(at..at + 4) {
        field.copy_from_slice(&len.to_be_bytes());
    }
    Ok(())
}

/// Shows a message with its long values, a block at a time.
pub fn show_pieces(
    message: &[u8],
    long: &[LongValue<'_>],
    show: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let (mut shown, mut block) = (0, Vec::new());
    for value in long {
        show(message.get(shown..value.at).unwrap_or_default())?;
        shown = value.at;
        for bytes in value.bytes.chunks(BLOCK) {
            if value.form == Form::AsIs {
                show(bytes)?;
                continue;
            }
            block.clear();
            value.form.append(bytes, &mut block);
            show(&block)?;
        }
    }
    show(message.get(shown..).unwrap_or_default())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_long_array_has_no_binary_form_either() {
        for len in [2, LONG] {
            let value = Datum::string("1".repeat(len));
            let (mut out, mut long) = (Vec::new(), Vec::new());
            let style = &TextStyle::default();
            let ty = SqlType::Int4.array().unwrap();
            let form = FieldForm { ty, binary: true, style };
            assert!(append_field(&value, form, &mut out, 0, &mut long).is_err() && long.is_empty());
            out.clear();
            let form = FieldForm { ty: SqlType::Text, binary: true, style };
            append_field(&value, form, &mut out, 0, &mut long).unwrap();
            assert_eq!(whole_length(&out, &long), 4 + len);
        }
    }

    #[test]
    fn pieces_are_as_long_as_they_say_and_come_in_their_order() {
        let text = "a\tb\\c\n\"d\u{8}\u{b}\u{c}\r,'é\u{1}".repeat(4000);
        let forms = [
            (Form::AsIs, text.clone()),
            (
                Form::Escaped { delimiter: b',' },
                "a\\tb\\\\c\\n\"d\\b\\v\\f\\r\\,'é\u{1}".repeat(4000),
            ),
            (
                Form::Quoted { quote: b'"', escape: b'\'' },
                "a\tb\\c\n'\"d\u{8}\u{b}\u{c}\r,''é\u{1}".repeat(4000),
            ),
        ];
        for (form, expected) in forms {
            let long = [
                LongValue::new(2, text.as_bytes(), form),
                LongValue::new(2, b"x", form),
                LongValue::new(5, text.as_bytes(), form),
            ];
            let mut shown = Vec::new();
            show_pieces(b"12345", &long, &mut |piece| {
                assert!(piece.len() <= 2 * BLOCK);
                shown.extend_from_slice(piece);
                Ok(())
            })
            .unwrap();
            assert_eq!(shown.len(), whole_length(b"12345", &long), "{form:?}");
            assert!(shown == format!("12{expected}x345{expected}").as_bytes(), "{form:?}");
            let mut appended = Vec::new();
            form.append(text.as_bytes(), &mut appended);
            assert!(appended == expected.as_bytes());
        }
    }
}
