//! Encodings of the C library's locales.

use crate::error::CollationError;
use crate::libc_locale::Locale;

/// PostgreSQL's encodings that a database can have, by their numbers (pg_enc).
const ENCODINGS: [&str; 35] = [
    "SQL_ASCII",
    "EUC_JP",
    "EUC_CN",
    "EUC_KR",
    "EUC_TW",
    "EUC_JIS_2004",
    "UTF8",
    "MULE_INTERNAL",
    "LATIN1",
    "LATIN2",
    "LATIN3",
    "LATIN4",
    "LATIN5",
    "LATIN6",
    "LATIN7",
    "LATIN8",
    "LATIN9",
    "LATIN10",
    "WIN1256",
    "WIN1258",
    "WIN866",
    "WIN874",
    "KOI8R",
    "WIN1251",
    "WIN1252",
    "ISO_8859_5",
    "ISO_8859_6",
    "ISO_8859_7",
    "ISO_8859_8",
    "WIN1250",
    "WIN1253",
    "WIN1254",
    "WIN1255",
    "WIN1257",
    "KOI8U",
];

/// The C library's names of encodings, and PostgreSQL's.
const CODESETS: [(&str, &str); 38] = [
    ("EUC-JP", "EUC_JP"),
    ("EUC-CN", "EUC_CN"),
    ("GB2312", "EUC_CN"),
    ("EUC-KR", "EUC_KR"),
    ("EUC-TW", "EUC_TW"),
    ("UTF-8", "UTF8"),
    ("ISO-8859-1", "LATIN1"),
    ("ISO-8859-2", "LATIN2"),
    ("ISO-8859-3", "LATIN3"),
    ("ISO-8859-4", "LATIN4"),
    ("ISO-8859-9", "LATIN5"),
    ("ISO-8859-10", "LATIN6"),
    ("ISO-8859-13", "LATIN7"),
    ("ISO-8859-14", "LATIN8"),
    ("ISO-8859-15", "LATIN9"),
    ("ISO-8859-16", "LATIN10"),
    ("KOI8-R", "KOI8R"),
    ("KOI8-U", "KOI8U"),
    ("CP1250", "WIN1250"),
    ("CP1251", "WIN1251"),
    ("CP1252", "WIN1252"),
    ("CP1253", "WIN1253"),
    ("CP1254", "WIN1254"),
    ("CP1255", "WIN1255"),
    ("CP1256", "WIN1256"),
    ("CP1257", "WIN1257"),
    ("CP1258", "WIN1258"),
    ("CP866", "WIN866"),
    ("CP874", "WIN874"),
    ("TIS-620", "WIN874"),
    ("ISO-8859-5", "ISO_8859_5"),
    ("ISO-8859-6", "ISO_8859_6"),
    ("ISO-8859-7", "ISO_8859_7"),
    ("ISO-8859-8", "ISO_8859_8"),
    ("ANSI_X3.4-1968", "SQL_ASCII"),
    ("US-ASCII", "SQL_ASCII"),
    ("646", "SQL_ASCII"),
    ("ASCII", "SQL_ASCII"),
];

/// The name of an encoding that a database can have, by its number.
pub fn encoding_name(number: i32) -> Option<&'static str> {
    usize::try_from(number).ok().and_then(|number| ENCODINGS.get(number)).copied()
}

/// The number of the encoding of a locale of the C library. None: no database can have it.
///
/// # Errors
/// If there is no such locale.
pub fn libc_encoding(locale: &str) -> Result<Option<i32>, CollationError> {
    let codeset = Locale::open(locale, locale)?.codeset();
    let name = CODESETS.iter().find(|(known, _)| known.eq_ignore_ascii_case(&codeset));
    let number = name.and_then(|(_, name)| ENCODINGS.iter().position(|known| known == name));
    Ok(number.and_then(|number| i32::try_from(number).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locales_have_encodings() {
        assert_eq!(libc_encoding("C"), Ok(Some(0)));
        assert_eq!(libc_encoding("C.utf8"), Ok(Some(6)));
        assert!(libc_encoding("xx_XX").is_err());
        assert_eq!(encoding_name(6), Some("UTF8"));
        assert_eq!((encoding_name(-1), encoding_name(35)), (None, None));
    }

    #[test]
    fn every_codeset_has_an_encoding() {
        for (codeset, name) in CODESETS {
            assert!(ENCODINGS.contains(&name), "{codeset}");
        }
    }
}
