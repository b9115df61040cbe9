//! Decoding of a client's messages. Every read is checked; nothing here can panic, whatever the
//! bytes.
#![deny(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use forebay_sql::{Encoding, Severity, SqlError};
use std::borrow::Cow;

/// Largest message of the kinds that carry data (Query, Parse, Bind, CopyData, password), its own
/// length included.
pub const LARGE_LIMIT: u32 = 0x3fff_fffe;
/// Largest message of every other kind.
pub const SMALL_LIMIT: u32 = 10_000;

/// A message of the client, borrowed from the read buffer.
#[derive(Debug, PartialEq, Eq)]
pub enum Frontend<'a> {
    /// Simple query.
    Query(Cow<'a, str>),
    /// Prepare a statement.
    Parse(Parse<'a>),
    /// Make a portal of a statement.
    Bind(Bind<'a>),
    /// Describe a statement or a portal.
    Describe(Target<'a>),
    /// Run a portal; zero or fewer rows mean all.
    Execute {
        /// The portal's name.
        portal: Cow<'a, str>,
        /// Most rows to send.
        max_rows: i32,
    },
    /// Forget a statement or a portal.
    Close(Target<'a>),
    /// Send what is pending.
    Flush,
    /// End of an extended-query cycle.
    Sync,
    /// Data of a COPY.
    CopyData(&'a [u8]),
    /// End of a COPY's data.
    CopyDone,
    /// The client aborts a COPY.
    CopyFail(Cow<'a, str>),
    /// The client ends the session.
    Terminate,
}

/// Body of a Parse message.
#[derive(Debug, PartialEq, Eq)]
pub struct Parse<'a> {
    /// Statement name; empty for the unnamed one.
    pub name: Cow<'a, str>,
    /// Query text.
    pub query: Cow<'a, str>,
    /// Types of the parameters, zero where unspecified.
    pub types: Vec<u32>,
}

/// Body of a Bind message.
#[derive(Debug, PartialEq, Eq)]
pub struct Bind<'a> {
    /// Portal name; empty for the unnamed one.
    pub portal: Cow<'a, str>,
    /// Statement name.
    pub statement: Cow<'a, str>,
    /// Formats of the parameters (none: all text; one: for all; else one each).
    pub param_formats: Vec<i16>,
    /// Parameter values, None for NULL.
    pub params: Vec<Option<&'a [u8]>>,
    /// Formats of the result columns, as above.
    pub result_formats: Vec<i16>,
}

/// The object of Describe and Close.
#[derive(Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// A prepared statement.
    Statement(Cow<'a, str>),
    /// A portal.
    Portal(Cow<'a, str>),
}

/// Largest length (its own four bytes included) that a message of this kind may claim, or None for
/// an unknown kind.
pub fn length_limit(kind: u8) -> Option<u32> {
    match kind {
        b'Q' | b'P' | b'B' | b'd' | b'p' | b'F' => Some(LARGE_LIMIT),
        b'D' | b'E' | b'C' | b'H' | b'S' | b'X' | b'c' | b'f' => Some(SMALL_LIMIT),
        _ => None,
    }
}

/// The encodings of texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encodings {
    /// The database's.
    pub database: Encoding,
    /// client_encoding
    pub client: Encoding,
}

/// Decodes the body (what follows the length) of a message of this kind.
pub fn decode(kind: u8, body: &[u8], encodings: Encodings) -> Result<Frontend<'_>, SqlError> {
    let mut r = Reader { rest: body, encodings };
    let message = match kind {
        b'Q' => Frontend::Query(r.string()?),
        b'P' => Frontend::Parse(parse(&mut r)?),
        b'B' => Frontend::Bind(bind(&mut r)?),
        b'D' => Frontend::Describe(target(&mut r, "DESCRIBE")?),
        b'C' => Frontend::Close(target(&mut r, "CLOSE")?),
        b'E' => Frontend::Execute { portal: r.string()?, max_rows: r.i32()? },
        b'H' => Frontend::Flush,
        b'S' => Frontend::Sync,
        b'X' => return Ok(Frontend::Terminate),
        b'd' => return Ok(Frontend::CopyData(body)),
        b'c' => Frontend::CopyDone,
        b'f' => Frontend::CopyFail(r.string()?),
        b'F' => return Err(SqlError::new("0A000", "function call messages are not supported")),
        other => return Err(unknown_kind(other)),
    };
    if r.rest.is_empty() { Ok(message) } else { Err(violation("invalid message format")) }
}

/// The FATAL for a message type that does not exist: the stream can't be trusted after it.
pub fn unknown_kind(kind: u8) -> SqlError {
    SqlError::report(Severity::Fatal, "08P01", format!("invalid frontend message type {kind}"))
}

fn violation(message: &str) -> SqlError {
    SqlError::new("08P01", message)
}

fn too_short() -> SqlError {
    violation("insufficient data left in message")
}

fn parse<'a>(r: &mut Reader<'a>) -> Result<Parse<'a>, SqlError> {
    let name = r.string()?;
    let query = r.string()?;
    let count = r.count()?;
    let mut types = Vec::with_capacity(count.min(r.rest.len() / 4));
    for _ in 0..count {
        types.push(r.u32()?);
    }
    Ok(Parse { name, query, types })
}

fn bind<'a>(r: &mut Reader<'a>) -> Result<Bind<'a>, SqlError> {
    let portal = r.string()?;
    let statement = r.string()?;
    let param_formats = r.formats()?;
    let count = r.count()?;
    let mut params = Vec::with_capacity(count.min(r.rest.len() / 4));
    for _ in 0..count {
        let len = r.i32()?;
        params.push(match usize::try_from(len) {
            Ok(len) => Some(r.take(len)?),
            Err(_) if len == -1 => None,
            Err(_) => return Err(too_short()),
        });
    }
    let result_formats = r.formats()?;
    Ok(Bind { portal, statement, param_formats, params, result_formats })
}

fn target<'a>(r: &mut Reader<'a>, what: &str) -> Result<Target<'a>, SqlError> {
    let kind = r.u8()?;
    let name = r.string()?;
    match kind {
        b'S' => Ok(Target::Statement(name)),
        b'P' => Ok(Target::Portal(name)),
        other => Err(violation(&format!("invalid {what} message subtype {other}"))),
    }
}

/// Reads a message's body front to back.
struct Reader<'a> {
    rest: &'a [u8],
    encodings: Encodings,
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], SqlError> {
        let (head, tail) = self.rest.split_at_checked(n).ok_or_else(too_short)?;
        self.rest = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SqlError> {
        let (head, tail) = self.rest.split_first_chunk().ok_or_else(too_short)?;
        self.rest = tail;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, SqlError> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    fn i32(&mut self) -> Result<i32, SqlError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, SqlError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// A 16-bit count; the protocol's counts are unsigned.
    fn count(&mut self) -> Result<usize, SqlError> {
        Ok(usize::from(u16::from_be_bytes(self.array()?)))
    }

    fn formats(&mut self) -> Result<Vec<i16>, SqlError> {
        let count = self.count()?;
        let mut formats = Vec::with_capacity(count.min(self.rest.len() / 2));
        for _ in 0..count {
            let code = i16::from_be_bytes(self.array()?);
            if code != 0 && code != 1 {
                return Err(SqlError::new("22023", format!("unsupported format code: {code}")));
            }
            formats.push(code);
        }
        Ok(formats)
    }

    fn string(&mut self) -> Result<Cow<'a, str>, SqlError> {
        let end = self
            .rest
            .iter()
            .position(|&b| b == 0)
            .ok_or_else(|| violation("invalid string in message"))?;
        let bytes = self.take(end)?;
        self.take(1)?;
        let Encodings { database, client } = self.encodings;
        Ok(database.received(client, bytes)?)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn a_short_bind_is_an_error_at_every_length() {
        let whole: &[u8] = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02ab\xff\xff\xff\xff\0\x01\0\x00";
        assert!(matches!(
            decode(b'B', whole, Encodings::default()),
            Ok(Frontend::Bind(b)) if b.params == [Some(&b"ab"[..]), None]
        ));
        for n in 0..whole.len() {
            assert!(decode(b'B', &whole[..n], Encodings::default()).is_err(), "{n} bytes");
        }
        let mut longer = whole.to_vec();
        longer.push(0);
        let error = decode(b'B', &longer, Encodings::default()).unwrap_err();
        assert_eq!(error.message, "invalid message format");
    }

    #[test]
    fn random_bodies_never_panic() {
        use rand::{RngExt, SeedableRng};
        let mut rng = rand::rngs::StdRng::seed_from_u64(18);
        for _ in 0..20_000 {
            let len = rng.random_range(0..64);
            let body: Vec<u8> =
                (0..len).map(|_| rng.random::<u8>() & if rng.random() { 3 } else { 255 }).collect();
            for kind in *b"QPBDCEHSXdcfF?" {
                for database in [Encoding::Utf8, Encoding::SqlAscii] {
                    let encodings = Encodings { database, ..Encodings::default() };
                    let _ = decode(kind, &body, encodings);
                }
            }
        }
    }

    #[test]
    fn text_that_is_not_utf8_names_the_bytes() {
        let query = b"select '\xff'\0";
        let e = decode(b'Q', query, Encodings::default()).unwrap_err();
        assert_eq!(
            (e.sqlstate, e.message.as_str()),
            ("22021", "invalid byte sequence for encoding \"UTF8\": 0xff")
        );
        let bytes = Encodings { database: Encoding::SqlAscii, client: Encoding::SqlAscii };
        let read = decode(b'Q', query, bytes).unwrap();
        assert_eq!(read, Frontend::Query("select '\u{ff}'".into()));
        let utf8 = Encodings { client: Encoding::Utf8, ..bytes };
        assert_eq!(decode(b'Q', query, utf8).unwrap_err().sqlstate, "22021");
    }

    /// The pgwire crate encodes, this module decodes.
    #[test]
    fn agrees_with_an_independent_encoder() {
        use pgwire::messages::{Message, extendedquery as ext};
        let mut buf = bytes::BytesMut::new();
        ext::Bind::new(
            Some("portal".into()),
            Some("stmt".into()),
            vec![1],
            vec![Some(bytes::Bytes::from_static(b"\0\0\0\x07")), None],
            vec![0, 1],
        )
        .encode(&mut buf)
        .unwrap();
        let bind = Bind {
            portal: "portal".into(),
            statement: "stmt".into(),
            param_formats: vec![1],
            params: vec![Some(b"\0\0\0\x07"), None],
            result_formats: vec![0, 1],
        };
        assert_eq!(decode(buf[0], &buf[5..], Encodings::default()).unwrap(), Frontend::Bind(bind));

        buf.clear();
        ext::Parse::new(None, "select $1".into(), vec![23]).encode(&mut buf).unwrap();
        let parse = Parse { name: "".into(), query: "select $1".into(), types: vec![23] };
        assert_eq!(
            decode(buf[0], &buf[5..], Encodings::default()).unwrap(),
            Frontend::Parse(parse)
        );

        buf.clear();
        ext::Execute::new(Some("c".into()), i32::MAX).encode(&mut buf).unwrap();
        assert_eq!(
            decode(buf[0], &buf[5..], Encodings::default()).unwrap(),
            Frontend::Execute { portal: "c".into(), max_rows: i32::MAX }
        );
    }
}
