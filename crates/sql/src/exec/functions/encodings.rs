//! Encodings: what the database's is, and conversions. Only UTF8 and SQL_ASCII are known, between
//! which bytes stay as they are.

use super::Area;
use super::arguments::{bytes, int, text};
use crate::error::{Result, SqlError, state};
use crate::exec::host::Host;
use forebay_collation::encoding_name;
use forebay_types::{Datum, Encoding};

pub(super) const TABLE: Area = &[
    (1039, |_, _, host| Ok(Datum::text(host.encoding().name()))), // getdatabaseencoding
    (810, |_, _, host| Ok(Datum::string(host.show("client_encoding")?.value))),
    (1597, |_, args, _| Ok(Datum::text(name_of(int(args, 0)?)))), // pg_encoding_to_char
    (1714, |_, args, host| convert_from(args, host)),
    (1717, |_, args, host| convert_to(args, host)),
    (1845, |_, _, host| Err(not_to_ascii(host.encoding()))),
];

/// Those that only clients can have, by their numbers from 35.
const OF_CLIENTS: [&str; 7] = ["SJIS", "BIG5", "GBK", "UHC", "GB18030", "JOHAB", "SHIFT_JIS_2004"];

/// The name of an encoding by its number; empty if there is none.
fn name_of(number: i32) -> &'static str {
    let of_client = || OF_CLIENTS.get(usize::try_from(number.checked_sub(35)?).ok()?).copied();
    encoding_name(number).or_else(of_client).unwrap_or_default()
}

/// An encoding by its name.
fn named(name: &str, what: &str) -> Result<Encoding> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    match plain.to_ascii_lowercase().as_str() {
        "utf8" | "unicode" => Ok(Encoding::Utf8),
        "sqlascii" => Ok(Encoding::SqlAscii),
        _ => Err(SqlError::unsupported(format!("the {what} encoding \"{name}\""))),
    }
}

fn convert_from<'a>(args: &[Datum<'_>], host: &Host) -> Result<Datum<'a>> {
    let (bytes, from) = (bytes(args, 0)?, named(text(args, 1)?, "source")?);
    from.checked(bytes)?;
    Ok(Datum::string(host.encoding().checked(bytes)?.into_owned()))
}

fn convert_to<'a>(args: &[Datum<'_>], host: &Host) -> Result<Datum<'a>> {
    let (text, to) = (text(args, 0)?, named(text(args, 1)?, "destination")?);
    let bytes = host.encoding().encode(text)?;
    to.checked(&bytes)?;
    Ok(Datum::Bytes(bytes.into_owned().into()))
}

/// to_ascii() knows neither UTF8 nor SQL_ASCII, in PostgreSQL either.
fn not_to_ascii(encoding: Encoding) -> SqlError {
    let encoding = encoding.name();
    let message = format!("encoding conversion from {encoding} to ASCII not supported");
    SqlError::new(state::FEATURE_NOT_SUPPORTED, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_have_names() {
        let names = [0, 6, 8, 35, 41, 42, -1].map(name_of);
        assert_eq!(names, ["SQL_ASCII", "UTF8", "LATIN1", "SJIS", "SHIFT_JIS_2004", "", ""]);
    }
}
