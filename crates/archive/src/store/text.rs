//! The small text files of an archive: what it is, and what each stored file is.
//!
//! ```text
//!   forebay archive manifest 1          what kind of file, which version of it
//!   name: 000000010000000000000003      one line for each thing to say, in any order
//!   size: 16777216
//!   ...
//!   check: 5f0c1e22                     CRC-32C of everything before this line, the last one
//! ```
//!
//! Lines whose word is unknown are passed over, so that later versions may say more.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fmt::{Display, Write as _};

use forebay_format::crc;

/// No such file is longer; what is, is something else.
pub(super) const LONGEST: u64 = 64 << 10;

/// Why a text is no manifest, or not that of an archive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// It begins with something else.
    #[error("it does not begin with \"{0}\"")]
    OtherKind(String),
    /// The last line is missing or is not the CRC of what is before it.
    #[error("its checksum does not match: it is cut off or damaged")]
    Check,
    /// A line without a colon.
    #[error("line {0} says nothing")]
    Line(usize),
    /// A word that must be there.
    #[error("it does not say its \"{0}\"")]
    Missing(&'static str),
    /// A word whose value makes no sense.
    #[error("it has the invalid {word} \"{value}\"")]
    Invalid {
        /// The word.
        word: &'static str,
        /// What it says.
        value: String,
    },
}

/// Writes such a text.
pub(super) struct Writer(String);

impl Writer {
    pub(super) fn new(title: &str) -> Writer {
        Writer(format!("{title}\n"))
    }

    pub(super) fn line(mut self, word: &str, value: impl Display) -> Writer {
        // Writing to a String does not fail.
        let _ = writeln!(self.0, "{word}: {value}");
        self
    }

    pub(super) fn optional(self, word: &str, value: Option<impl Display>) -> Writer {
        match value {
            Some(value) => self.line(word, value),
            None => self,
        }
    }

    /// What it says up to here.
    pub(super) fn so_far(&self) -> &str {
        &self.0
    }

    pub(super) fn finish(self) -> String {
        let check = crc::crc32c(self.0.as_bytes());
        self.line("check", format_args!("{check:08x}")).0
    }
}

/// The lines of such a text.
pub(super) struct Lines<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Lines<'a> {
    pub(super) fn parse(title: &str, bytes: &'a [u8]) -> Result<Lines<'a>, TextError> {
        let other = || TextError::OtherKind(title.to_owned());
        let text = std::str::from_utf8(bytes).map_err(|_| other())?;
        let body =
            text.strip_prefix(title).and_then(|rest| rest.strip_prefix('\n')).ok_or_else(other)?;
        before_check(text).ok_or(TextError::Check)?;
        let mut lines = Vec::new();
        for (number, line) in (2..).zip(body.lines()) {
            lines.push(line.split_once(": ").ok_or(TextError::Line(number))?);
        }
        Ok(Lines(lines))
    }

    pub(super) fn text(&self, word: &'static str) -> Option<&'a str> {
        self.0.iter().find(|(w, _)| *w == word).map(|&(_, value)| value)
    }

    /// A value, where the word is there.
    pub(super) fn read<T>(
        &self,
        word: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, TextError> {
        let Some(text) = self.text(word) else { return Ok(None) };
        let value =
            read(text).ok_or_else(|| TextError::Invalid { word, value: text.to_owned() })?;
        Ok(Some(value))
    }

    /// A value that must be there.
    pub(super) fn value<T>(
        &self,
        word: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, TextError> {
        self.read(word, read)?.ok_or(TextError::Missing(word))
    }
}

/// The text before its last line, if that line is its checksum.
pub(super) fn before_check(text: &str) -> Option<&str> {
    let (before, last) = text.split_at_checked(text.rfind("check: ")?)?;
    let digits =
        last.strip_prefix("check: ")?.strip_suffix('\n').filter(|digits| digits.len() == 8)?;
    let check = u32::from_str_radix(digits, 16).ok()?;
    (check == crc::crc32c(before.as_bytes()) && before.ends_with('\n')).then_some(before)
}

/// Whether a text is all there, as far as its check can tell.
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| before_check(text).is_some())
}

/// A number in decimal digits.
pub(super) fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// So many bytes from hexadecimal digits.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != N * 2 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut out = [0; N];
    for (n, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(n * 2..n * 2 + 2)?, 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read() {
        let text =
            Writer::new("kind 1").line("a", 5).optional("b", None::<u8>).line("c", "x: y").finish();
        let lines = Lines::parse("kind 1", text.as_bytes()).unwrap();
        assert_eq!(lines.value("a", number::<u32>), Ok(5));
        assert_eq!(lines.read("b", number::<u32>), Ok(None));
        let as_it_is = |value: &str| Some(value.to_owned());
        assert_eq!(lines.value("c", as_it_is), Ok("x: y".to_owned()));
        assert_eq!(lines.value("d", as_it_is), Err(TextError::Missing("d")));
        assert!(matches!(Lines::parse("kind 2", text.as_bytes()), Err(TextError::OtherKind(_))));
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_noticed() {
        let text = Writer::new("kind 1").line("a", 5).line("b", 77).finish();
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert!(Lines::parse("kind 1", &bytes).is_err(), "byte {at}");
            assert!(Lines::parse("kind 1", &text.as_bytes()[..at]).is_err(), "cut at {at}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, text: String) {
            let _ = Lines::parse("kind 1", &bytes).is_ok();
            let _ = Lines::parse("kind 1", format!("kind 1\n{text}").as_bytes()).is_ok();
            let _ = unhex::<4>(&text);
        }
    }
}
