//! Functions of texts.

use super::Area;
use super::arguments::{int, int8, text};
use super::text as long;
use crate::error::{Result, SqlError};
use forebay_types::functions::strings as f;
use forebay_types::{Datum, SqlType, TextStyle, to_text_as};
use std::ops::Range;

pub(super) const TABLE: Area = &[
    (1317, |_, args, _| Ok(count(text(args, 0)?.chars().count()))), // length
    (1369, |_, args, _| Ok(count(text(args, 0)?.chars().count()))),
    (1381, |_, args, _| Ok(count(text(args, 0)?.chars().count()))),
    (1318, |_, args, _| Ok(count(unpadded(args)?.chars().count()))), // of bpchar
    (1367, |_, args, _| Ok(count(unpadded(args)?.chars().count()))),
    (1372, |_, args, _| Ok(count(unpadded(args)?.chars().count()))),
    (1374, |_, args, host| Ok(count(host.encoding().stored_len(text(args, 0)?)))), // octet_length
    (1375, |_, args, host| Ok(count(host.encoding().stored_len(text(args, 0)?)))),
    (870, |function, args, _| {
        let text = text(args, 0)?;
        Ok(Datum::string(match &function.collation {
            Some(collation) => collation.lower(text),
            None => text.to_ascii_lowercase(),
        }))
    }),
    (871, |function, args, _| {
        let text = text(args, 0)?;
        Ok(Datum::string(match &function.collation {
            Some(collation) => collation.upper(text),
            None => text.to_ascii_uppercase(),
        }))
    }),
    (885, |_, args, _| Ok(owned(text(args, 0)?.trim_matches(' ')))), // btrim
    (881, |_, args, _| Ok(owned(text(args, 0)?.trim_start_matches(' ')))), // ltrim
    (882, |_, args, _| Ok(owned(text(args, 0)?.trim_end_matches(' ')))), // rtrim
    (884, |_, args, _| {
        let set = text(args, 1)?;
        Ok(owned(text(args, 0)?.trim_matches(|c| set.contains(c))))
    }),
    (875, |_, args, _| {
        let set = text(args, 1)?;
        Ok(owned(text(args, 0)?.trim_start_matches(|c| set.contains(c))))
    }),
    (876, |_, args, _| {
        let set = text(args, 1)?;
        Ok(owned(text(args, 0)?.trim_end_matches(|c| set.contains(c))))
    }),
    (2087, |_, args, _| long::replace(text(args, 0)?, text(args, 1)?, text(args, 2)?)),
    (3696, |_, args, _| Ok(Datum::Bool(text(args, 0)?.starts_with(text(args, 1)?)))),
    (868, |_, args, _| place(text(args, 0)?, text(args, 1)?)), // strpos
    (849, |_, args, _| place(text(args, 0)?, text(args, 1)?)), // position
    (3060, |_, args, _| Ok(left(text(args, 0)?, int(args, 1)?))),
    (3061, |_, args, _| Ok(right(text(args, 0)?, int(args, 1)?))),
    (877, |_, args, _| substr(args)),
    (883, |_, args, _| substr(args)),
    (936, |_, args, _| substr(args)),
    (937, |_, args, _| substr(args)),
    (3062, |_, args, _| Ok(Datum::string(f::reverse(text(args, 0)?)))),
    (878, |_, args, _| {
        Ok(Datum::string(f::translate(text(args, 0)?, text(args, 1)?, text(args, 2)?)))
    }),
    (873, |_, args, _| Ok(Datum::string(f::lpad(text(args, 0)?, int(args, 1)?, text(args, 2)?)?))),
    (879, |_, args, _| Ok(Datum::string(f::lpad(text(args, 0)?, int(args, 1)?, " ")?))),
    (874, |_, args, _| Ok(Datum::string(f::rpad(text(args, 0)?, int(args, 1)?, text(args, 2)?)?))),
    (880, |_, args, _| Ok(Datum::string(f::rpad(text(args, 0)?, int(args, 1)?, " ")?))),
    (2088, |_, args, _| Ok(owned(f::split_part(text(args, 0)?, text(args, 1)?, int(args, 2)?)?))),
    (1620, |_, args, _| Ok(Datum::Int4(f::ascii(text(args, 0)?)))),
    (1621, |_, args, host| Ok(Datum::string(f::chr(int(args, 0)?, host.encoding())?))),
    (872, |function, args, _| {
        let text = text(args, 0)?;
        let changed = match &function.collation {
            Some(collation) => collation.initcap(text),
            None => Some(f::initcap_c(text)),
        };
        let refused = || SqlError::unsupported("initcap() in this collation");
        changed.map(Datum::string).ok_or_else(refused)
    }),
    (1404, |_, args, _| {
        let (part, at) = (text(args, 1)?, int(args, 2)?);
        Ok(Datum::string(f::overlay(text(args, 0)?, part, at, Some(int(args, 3)?))?))
    }),
    (1405, |_, args, _| {
        Ok(Datum::string(f::overlay(text(args, 0)?, text(args, 1)?, int(args, 2)?, None)?))
    }),
    (2089, |_, args, _| Ok(Datum::string(f::to_hex(int(args, 0)?.cast_unsigned().into())))),
    (2090, |_, args, _| Ok(Datum::string(f::to_hex(int8(args, 0)?.cast_unsigned())))),
    (1283, |_, args, _| Ok(Datum::string(f::quote_literal(text(args, 0)?)))),
    (1289, |_, args, _| match args.first() {
        Some(Datum::Text(text)) => Ok(Datum::string(f::quote_literal(text))),
        _ => Ok(Datum::text("NULL")),
    }),
    (1282, |_, args, _| Ok(Datum::string(forebay_engine::quoted(text(args, 0)?).into_owned()))),
    (1622, |_, args, _| long::repeat(text(args, 0)?, int(args, 1)?)),
    (3058, |function, args, host| concat(&function.args, args, None, &host.style)),
    (3059, |function, args, host| match args.split_first() {
        Some((Datum::Null, _)) | None => Ok(Datum::Null),
        Some((between, rest)) => {
            let types = function.args.get(1..).unwrap_or_default();
            concat(types, rest, between.as_str(), &host.style)
        }
    }),
    (2003, |function, args, host| joined(&function.args, args, &host.style)), // text || anynonarray
    (2004, |function, args, host| joined(&function.args, args, &host.style)), // anynonarray || text
];

fn owned<'a>(text: &str) -> Datum<'a> {
    Datum::string(text.to_owned())
}

pub(super) fn count(n: usize) -> Datum<'static> {
    Datum::Int4(i32::try_from(n).unwrap_or(i32::MAX))
}

/// A text without the blanks at its end, which do not count in bpchar.
fn unpadded<'v>(args: &'v [Datum<'_>]) -> Result<&'v str> {
    Ok(text(args, 0)?.trim_end_matches(' '))
}

/// Where a part begins, counted from 1; 0 if it is not there.
fn place<'a>(whole: &str, part: &str) -> Result<Datum<'a>> {
    let before = |at: usize| whole.get(..at).unwrap_or("").chars().count();
    Ok(count(whole.find(part).map_or(0, |at| before(at) + 1)))
}

/// Values in text form, by their output functions; NULLs are left out.
fn concat<'a>(
    types: &[u32],
    args: &[Datum<'_>],
    between: Option<&str>,
    style: &TextStyle<'_>,
) -> Result<Datum<'a>> {
    let mut pieces = Vec::with_capacity(args.len());
    for (arg, ty) in args.iter().zip(types) {
        match arg {
            Datum::Null => {}
            // One that was given as an array is taken apart.
            Datum::Text(text) => pieces.push(text.to_string()),
            arg => pieces.push(to_text_as(arg, SqlType::of(*ty), style)?),
        }
    }
    let between = between.unwrap_or("");
    let mut texts = Vec::with_capacity(pieces.len() * 2);
    for (n, piece) in pieces.iter().enumerate() {
        if n > 0 {
            texts.push(Datum::text(between));
        }
        texts.push(Datum::text(piece));
    }
    long::concat(&texts)
}

/// A text and another value, each as a text.
fn joined<'a>(types: &[u32], args: &[Datum<'_>], style: &TextStyle<'_>) -> Result<Datum<'a>> {
    let mut whole: Option<Datum<'a>> = None;
    for (arg, ty) in args.iter().zip(types) {
        let text = crate::exec::cast::cast(arg.reborrow(), SqlType::of(*ty), SqlType::Text, style)?;
        let text = text.as_str().unwrap_or_default();
        whole = Some(match whole {
            Some(Datum::Text(first)) => long::join(first, text)?,
            _ => owned(text),
        });
    }
    Ok(whole.unwrap_or(Datum::Null))
}

fn left<'a>(whole: &str, n: i32) -> Datum<'a> {
    let length = whole.chars().count();
    let take = if n >= 0 { n as usize } else { length.saturating_sub(n.unsigned_abs() as usize) };
    Datum::string(whole.chars().take(take).collect())
}

fn right<'a>(whole: &str, n: i32) -> Datum<'a> {
    let length = whole.chars().count();
    // As in PostgreSQL, the least number stays what it is without its sign, and skips nothing.
    let skip = match n {
        0.. => length.saturating_sub(n as usize),
        n => usize::try_from(n.wrapping_neg()).unwrap_or(0),
    };
    Datum::string(whole.chars().skip(skip).collect())
}

/// The characters that substr() takes, by number from 0, which may be none.
pub(in crate::exec) fn substr_range(args: &[Datum<'_>]) -> Result<Range<usize>> {
    let from = i64::from(int(args, 1)?);
    let end = match args.get(2).map(|_| int(args, 2)).transpose()? {
        Some(n) if n < 0 => {
            return Err(SqlError::new("22011", "negative substring length not allowed"));
        }
        Some(n) => from + i64::from(n),
        None => i64::MAX,
    };
    Ok((from - 1).max(0) as usize..(end - 1).max(0) as usize)
}

fn substr<'a>(args: &[Datum<'_>]) -> Result<Datum<'a>> {
    let (whole, Range { start, end }) = (text(args, 0)?, substr_range(args)?);
    Ok(Datum::string(whole.chars().skip(start).take(end.saturating_sub(start)).collect()))
}
