//! What the bytes of texts are: the encoding of a database.
//!
//! A text is a `str` in memory, whatever its database. In UTF8 its characters are those of the
//! stored bytes. In SQL_ASCII each stored byte is a character of its own, U+0000 to U+00FF, as
//! PostgreSQL has it there: so length, order in collation C and case mapping of ASCII come out as
//! those of the bytes. Whoever stores such a text, or sends it, encodes it again.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::borrow::Cow;

use crate::error::{Problem, Result, ValueError};

/// Bytes of a stored name, its terminating zero included.
pub const NAME_LEN: usize = 64;

/// The encoding of a database's texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8
    #[default]
    Utf8,
    /// Any bytes but zeros.
    SqlAscii,
}

impl Encoding {
    /// The encoding with PostgreSQL's number (pg_enc), if texts can be in it.
    pub fn of(number: i32) -> Option<Encoding> {
        [Encoding::Utf8, Encoding::SqlAscii].into_iter().find(|known| known.number() == number)
    }

    /// PostgreSQL's number.
    pub fn number(self) -> i32 {
        match self {
            Encoding::Utf8 => 6,
            Encoding::SqlAscii => 0,
        }
    }

    /// PostgreSQL's name.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Utf8 => "UTF8",
            Encoding::SqlAscii => "SQL_ASCII",
        }
    }

    /// Most bytes of a character.
    pub fn longest(self) -> usize {
        match self {
            Encoding::Utf8 => 4,
            Encoding::SqlAscii => 1,
        }
    }

    /// Whether the bytes of a text in memory are those that are stored and sent.
    pub fn is_plain(self, bytes: &[u8]) -> bool {
        self == Encoding::Utf8 || bytes.is_ascii()
    }

    /// The text that is stored as these bytes. Borrowed, unless bytes of SQL_ASCII are above 127.
    ///
    /// # Errors
    /// If they are not in the encoding.
    pub fn decode(self, bytes: &[u8]) -> Result<Cow<'_, str>> {
        match self {
            Encoding::SqlAscii if !bytes.is_ascii() => Ok(Cow::Owned(latin(bytes))),
            _ => utf8(bytes).map(Cow::Borrowed),
        }
    }

    /// The same of bytes that the text takes over.
    ///
    /// # Errors
    /// As of [`Encoding::decode`].
    pub fn decode_owned(self, bytes: Vec<u8>) -> Result<String> {
        match self {
            Encoding::SqlAscii if !bytes.is_ascii() => Ok(latin(&bytes)),
            _ => String::from_utf8(bytes).map_err(|error| not_utf8(error.as_bytes())),
        }
    }

    /// The bytes as which a text is stored. Borrowed, unless they are not the text's own.
    ///
    /// # Errors
    /// If a character is none of the encoding's: nothing makes such a text.
    pub fn encode(self, text: &str) -> Result<Cow<'_, [u8]>> {
        if self.is_plain(text.as_bytes()) {
            return Ok(Cow::Borrowed(text.as_bytes()));
        }
        let byte = |c| u8::try_from(c).map_err(|_| foreign(c));
        text.chars().map(byte).collect::<Result<_>>().map(Cow::Owned)
    }

    /// The bytes of a text that is sent. A character that is none of the encoding's comes from
    /// another database, and is sent as that has it.
    pub fn sent(self, text: &str) -> Cow<'_, [u8]> {
        if self.is_plain(text.as_bytes()) {
            return Cow::Borrowed(text.as_bytes());
        }
        let mut out = text.as_bytes().to_vec();
        self.encode_tail(&mut out, 0);
        Cow::Owned(out)
    }

    /// Makes what stands from a position on, which is text, the bytes that are sent.
    pub fn encode_tail(self, out: &mut Vec<u8>, from: usize) {
        if self.is_plain(out.get(from..).unwrap_or_default()) {
            return;
        }
        let text = String::from_utf8_lossy(out.get(from..).unwrap_or_default()).into_owned();
        out.truncate(from);
        for c in text.chars() {
            match u8::try_from(c) {
                Ok(byte) => out.push(byte),
                Err(_) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }

    /// Bytes of a client as a text. Text has no zero bytes.
    ///
    /// # Errors
    /// PostgreSQL's of its encoding check.
    pub fn checked(self, bytes: &[u8]) -> Result<Cow<'_, str>> {
        match self {
            Encoding::Utf8 => checked_utf8(bytes).map(Cow::Borrowed),
            Encoding::SqlAscii if bytes.contains(&0) => {
                let (encoding, bytes) = (self.name(), "0x00".to_owned());
                Err(Problem::InvalidBytes { encoding, bytes }.into())
            }
            Encoding::SqlAscii => self.decode(bytes),
        }
    }

    /// The same of a client with an encoding of its own. Nothing is converted, but what is said to
    /// be UTF-8 must be.
    ///
    /// # Errors
    /// PostgreSQL's of its encoding check.
    pub fn received(self, client: Encoding, bytes: &[u8]) -> Result<Cow<'_, str>> {
        if client == Encoding::Utf8 && self != client {
            checked_utf8(bytes)?;
        }
        self.checked(bytes)
    }

    /// Refuses bytes of a text that are not what a client with an encoding of its own expects.
    ///
    /// # Errors
    /// PostgreSQL's of its encoding check.
    pub fn check_sent(self, client: Encoding, bytes: &[u8]) -> Result<()> {
        match (self, client) {
            (Encoding::SqlAscii, Encoding::Utf8) => checked_utf8(bytes).map(drop),
            _ => Ok(()),
        }
    }

    /// A text of another encoding with the same bytes.
    ///
    /// # Errors
    /// If these are not in the encoding.
    pub fn adopted(self, other: Encoding, text: String) -> Result<String> {
        if self == other {
            return Ok(text);
        }
        self.decode_owned(other.encode(&text)?.into_owned())
    }

    /// A text of this encoding for a log, and for errors where there is no database: as UTF-8, if
    /// it is; else with its bytes above 127 escaped.
    pub fn shown(self, text: &str) -> String {
        match String::from_utf8(self.sent(text).into_owned()) {
            Ok(text) => text,
            Err(error) => {
                error.as_bytes().iter().fold(String::new(), |shown, byte| match byte.is_ascii() {
                    true => shown + char::from(*byte).encode_utf8(&mut [0; 4]),
                    false => format!("{shown}\\x{byte:02x}"),
                })
            }
        }
    }

    /// How many bytes are stored of a text.
    pub fn stored_len(self, text: &str) -> usize {
        match self {
            Encoding::Utf8 => text.len(),
            Encoding::SqlAscii => text.chars().count(),
        }
    }

    /// A name's first 63 bytes at most, cut between characters.
    pub fn truncate_name(self, text: &str) -> &str {
        if text.len() < NAME_LEN {
            return text;
        }
        let end = match self {
            Encoding::Utf8 => text.floor_char_boundary(NAME_LEN - 1),
            Encoding::SqlAscii => {
                text.char_indices().nth(NAME_LEN - 1).map_or(text.len(), |(at, _)| at)
            }
        };
        text.get(..end).unwrap_or(text)
    }

    /// The refusal of values that can only be in ASCII.
    pub(crate) fn beyond_ascii(self, what: &str) -> ValueError {
        let message = format!(
            "{what} with characters beyond ASCII in a database with encoding {} is not supported",
            self.name()
        );
        ValueError::new("0A000", message)
    }
}

/// Bytes as characters, one each.
fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

fn foreign(c: char) -> ValueError {
    let message = format!("character U+{:04X} has no equivalent in SQL_ASCII", u32::from(c));
    ValueError::new("22P05", message)
}

/// Stored text in UTF-8.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| not_utf8(bytes))
}

/// The error of bytes that are not UTF-8.
#[cold]
fn not_utf8(bytes: &[u8]) -> ValueError {
    let Err(error) = std::str::from_utf8(bytes) else { return foreign(' ') };
    // `valid_up_to` is within the bytes.
    let (_, bad) = bytes.split_at(error.valid_up_to());
    let shown = bad.iter().take(error.error_len().unwrap_or(bad.len()));
    let bytes = shown.map(|b| format!("0x{b:02x}")).collect::<Vec<_>>().join(" ");
    Problem::InvalidBytes { encoding: "UTF8", bytes }.into()
}

/// Bytes as text in UTF-8, or the error of PostgreSQL's encoding check. Text has no zero bytes.
fn checked_utf8(bytes: &[u8]) -> Result<&str> {
    let bad = match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.contains(&0) => return Ok(text),
        Ok(_) => bytes.len(),
        Err(error) => error.valid_up_to(),
    };
    let (_, rest) = bytes.split_at(bytes.iter().position(|b| *b == 0).unwrap_or(bad).min(bad));
    Err(invalid_sequence(rest))
}

/// `invalid byte sequence for encoding "UTF8"`, naming the bytes of one character as its first byte
/// promises.
fn invalid_sequence(rest: &[u8]) -> ValueError {
    let promised = match rest.first() {
        Some(0xc0..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf7) => 4,
        _ => 1,
    };
    let shown: Vec<String> = rest.iter().take(promised).map(|b| format!("0x{b:02x}")).collect();
    Problem::InvalidBytes { encoding: "UTF8", bytes: shown.join(" ") }.into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use Encoding::{SqlAscii, Utf8};

    fn all_bytes() -> Vec<u8> {
        (1..=255).collect()
    }

    #[test]
    fn every_byte_is_a_character_of_sql_ascii() {
        let bytes = all_bytes();
        let text = SqlAscii.decode(&bytes).unwrap();
        assert_eq!((text.chars().count(), SqlAscii.stored_len(&text)), (255, 255));
        assert_eq!(SqlAscii.encode(&text).unwrap(), bytes);
        assert_eq!(SqlAscii.sent(&text), bytes);
        assert_eq!(SqlAscii.decode_owned(bytes.clone()).unwrap(), text);
        assert_eq!(SqlAscii.checked(&bytes).unwrap(), text);
        // The order of texts is that of their bytes.
        let mut words = vec![&b"\xff"[..], b"z", b"\x80", b"a\xe9", b"a", b"\xc3\xa9"];
        let mut texts: Vec<_> = words.iter().map(|word| SqlAscii.decode(word).unwrap()).collect();
        words.sort();
        texts.sort();
        let sorted: Vec<_> = texts.iter().map(|text| SqlAscii.encode(text).unwrap()).collect();
        assert_eq!(sorted, words);
    }

    #[test]
    fn ascii_is_borrowed() {
        for encoding in [Utf8, SqlAscii] {
            assert!(matches!(encoding.decode(b"plain"), Ok(Cow::Borrowed("plain"))));
            assert!(matches!(encoding.encode("plain"), Ok(Cow::Borrowed(b"plain"))));
            assert!(matches!(encoding.sent("plain"), Cow::Borrowed(b"plain")));
        }
        assert!(matches!(Utf8.encode("grün"), Ok(Cow::Borrowed(_))));
    }

    #[test]
    fn a_character_of_another_encoding_is_sent_and_not_stored() {
        assert_eq!(SqlAscii.encode("a\u{100}").unwrap_err().sqlstate(), "22P05");
        assert_eq!(*SqlAscii.sent("\u{e9}\u{100}"), *b"\xe9\xc4\x80");
        let mut out = b"\xc3\xa9".to_vec();
        out.extend_from_slice("\u{e9}x".as_bytes());
        SqlAscii.encode_tail(&mut out, 2);
        assert_eq!(out, b"\xc3\xa9\xe9x");
    }

    #[test]
    fn zeros_and_bytes_that_are_not_utf8_are_refused() {
        let message =
            |encoding: Encoding, bytes: &[u8]| encoding.checked(bytes).unwrap_err().to_string();
        let invalid =
            |name, bytes| format!("invalid byte sequence for encoding \"{name}\": {bytes}");
        for bytes in [&b"\xff\0"[..], b"a\0"] {
            assert_eq!(message(SqlAscii, bytes), invalid("SQL_ASCII", "0x00"));
        }
        assert_eq!(message(Utf8, b"\xff"), invalid("UTF8", "0xff"));
        assert_eq!(SqlAscii.received(SqlAscii, b"\xff").unwrap(), "\u{ff}");
        assert!(SqlAscii.received(Utf8, b"\xff").is_err());
        assert!(SqlAscii.check_sent(Utf8, b"\xff").is_err());
        assert!(SqlAscii.check_sent(SqlAscii, b"\xff").is_ok());
        assert_eq!(SqlAscii.received(Utf8, "é".as_bytes()).unwrap(), "\u{c3}\u{a9}");
        assert_eq!(Utf8.decode(b"a\xe9").unwrap_err().sqlstate(), "22021");
        assert_eq!(Utf8.decode_owned(b"a\xe9".to_vec()).unwrap_err().sqlstate(), "22021");
    }

    #[test]
    fn names_are_cut_at_63_bytes() {
        let long = "\u{e9}".repeat(70);
        assert_eq!(SqlAscii.truncate_name(&long).chars().count(), 63);
        assert_eq!(Utf8.truncate_name(&long).chars().count(), 31);
        let short = "\u{e9}".repeat(40);
        assert_eq!(SqlAscii.truncate_name(&short), short);
    }

    #[test]
    fn texts_keep_their_bytes_from_one_encoding_to_another() {
        let text = SqlAscii.adopted(Utf8, "é".to_owned()).unwrap();
        assert_eq!(text, "\u{c3}\u{a9}");
        assert_eq!(Utf8.adopted(SqlAscii, text).unwrap(), "é");
        assert!(Utf8.adopted(SqlAscii, "\u{e9}".to_owned()).is_err());
        assert_eq!(SqlAscii.shown("caf\u{c3}\u{a9}"), "café");
        assert_eq!(SqlAscii.shown("caf\u{e9}"), "caf\\xe9");
        assert_eq!(Utf8.shown("café"), "café");
    }

    #[test]
    fn the_bytes_of_a_bad_character_are_named() {
        for (bytes, shown) in [
            (&b"ab\xe2\x28\xa1"[..], "0xe2 0x28 0xa1"),
            (b"a\0\xff", "0x00"),
            (b"\xff", "0xff"),
            (b"\xc3", "0xc3"),
        ] {
            let error = checked_utf8(bytes).expect_err("no text").to_string();
            assert_eq!(error, format!("invalid byte sequence for encoding \"UTF8\": {shown}"));
        }
    }
}
