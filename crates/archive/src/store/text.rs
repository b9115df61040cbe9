//! The text format of an archive's manifests and of its marker file.
//!
//! ```text
//!   forebay archive manifest 1          kind and version of the file
//!   name: 000000010000000000000003      one line for each entry, in any order
//!   size: 16777216
//!   ...
//!   check: 5f0c1e22                     CRC-32C of everything before this last line
//! ```
//!
//! Unknown entries are ignored, so that later versions can add some.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fmt::{Display, Write as _};

use forebay_format::crc;

use crate::error::ManifestError;

/// Length limit of these files.
pub(super) const LONGEST: u64 = 64 << 10;

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

    /// The text up to here.
    pub(super) fn so_far(&self) -> &str {
        &self.0
    }

    pub(super) fn finish(self) -> String {
        let check = crc::crc32c(self.0.as_bytes());
        self.line("check", format_args!("{check:08x}")).0
    }
}

/// The entries of such a text.
pub(super) struct Lines<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Lines<'a> {
    pub(super) fn parse(title: &'static str, bytes: &'a [u8]) -> Result<Lines<'a>, ManifestError> {
        let other = || ManifestError::OtherKind(title);
        let text = std::str::from_utf8(bytes).map_err(|_| other())?;
        let body =
            text.strip_prefix(title).and_then(|rest| rest.strip_prefix('\n')).ok_or_else(other)?;
        before_check(text).ok_or(ManifestError::Check)?;
        let mut lines = Vec::new();
        for (number, line) in (2..).zip(body.lines()) {
            lines.push(line.split_once(": ").ok_or(ManifestError::Line(number))?);
        }
        Ok(Lines(lines))
    }

    /// The value of an optional entry.
    pub(super) fn read<T>(
        &self,
        word: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, ManifestError> {
        let Some((_, text)) = self.0.iter().find(|(found, _)| *found == word) else {
            return Ok(None);
        };
        let invalid = || ManifestError::Invalid { word, value: (*text).to_owned() };
        read(text).ok_or_else(invalid).map(Some)
    }

    /// The value of a required entry.
    pub(super) fn value<T>(
        &self,
        word: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, ManifestError> {
        self.read(word, read)?.ok_or(ManifestError::Missing(word))
    }
}

/// The text before its last line, if that line is a valid checksum.
pub(super) fn before_check(text: &str) -> Option<&str> {
    let (before, last) = text.split_at_checked(text.rfind("check: ")?)?;
    let digits =
        last.strip_prefix("check: ")?.strip_suffix('\n').filter(|digits| digits.len() == 8)?;
    let check = u32::from_str_radix(digits, 16).ok()?;
    (check == crc::crc32c(before.as_bytes()) && before.ends_with('\n')).then_some(before)
}

/// Whether the text's checksum is valid.
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| before_check(text).is_some())
}

/// Parses decimal digits.
pub(super) fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Parses exactly `N` bytes in hexadecimal digits.
pub(super) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    Some(bytes)
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
        assert_eq!(lines.value("d", as_it_is), Err(ManifestError::Missing("d")));
        assert!(matches!(
            Lines::parse("kind 2", text.as_bytes()),
            Err(ManifestError::OtherKind(_))
        ));
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
