//! Functions that build texts, within PostgreSQL's limit of their length, which is checked before
//! memory is allocated.

use crate::error::{Result, SqlError, state};
use forebay_types::{
    Datum, HEADER, MAX_ALLOC, check_alloc, check_enlarge, out_of_memory, push_repeated, text_of,
};
use std::borrow::Cow;

/// `a || b`
pub fn join<'a>(a: Cow<'_, str>, b: &str) -> Result<Datum<'a>> {
    joined_length(a.len(), b.len())?;
    let mut joined = a.into_owned();
    joined.try_reserve(b.len()).map_err(|_| out_of_memory(b.len()))?;
    joined.push_str(b);
    Ok(Datum::string(joined))
}

fn joined_length(a: usize, b: usize) -> Result<usize> {
    check_alloc(a.saturating_add(b).saturating_add(HEADER))?;
    Ok(a + b)
}

/// concat()
pub fn concat<'a>(args: &[Datum<'_>]) -> Result<Datum<'a>> {
    let pieces = || args.iter().filter_map(Datum::as_str);
    let mut whole = text_of(length_of(pieces().map(str::len), MAX_ALLOC)?)?;
    pieces().for_each(|piece| whole.push_str(piece));
    Ok(Datum::string(whole))
}

/// The length of concatenated pieces.
fn length_of(pieces: impl Iterator<Item = usize>, most: usize) -> Result<usize> {
    let mut pieces = pieces;
    pieces.try_fold(0, |len, piece| {
        check_enlarge(len, piece, most)?;
        Ok(len + piece)
    })
}

/// repeat()
pub fn repeat<'a>(piece: &str, times: i32) -> Result<Datum<'a>> {
    let times = usize::try_from(times).unwrap_or(0);
    let mut whole = text_of(repeated_length(piece.len(), times)?)?;
    push_repeated(&mut whole, piece, times);
    Ok(Datum::string(whole))
}

fn repeated_length(piece: usize, times: usize) -> Result<usize> {
    let length = piece.saturating_mul(times);
    if length.saturating_add(HEADER) <= MAX_ALLOC {
        return Ok(length);
    }
    Err(SqlError::new(state::PROGRAM_LIMIT_EXCEEDED, "requested length too large"))
}

/// replace()
pub fn replace<'a>(whole: &str, from: &str, to: &str) -> Result<Datum<'a>> {
    if from.is_empty() || !whole.contains(from) {
        return Ok(Datum::string(whole.to_owned()));
    }
    let between = whole.split(from).map(str::len);
    let pieces =
        between.enumerate().flat_map(|(i, piece)| [if i == 0 { 0 } else { to.len() }, piece]);
    let mut replaced = text_of(length_of(pieces, MAX_ALLOC)?)?;
    for (i, piece) in whole.split(from).enumerate() {
        replaced.push_str(if i == 0 { "" } else { to });
        replaced.push_str(piece);
    }
    Ok(Datum::string(replaced))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_postgresqls_limits() {
        assert_eq!(joined_length(536_870_912, 536_870_907).ok(), Some(1_073_741_819));
        let e = joined_length(600_000_000, 600_000_000).expect_err("too long");
        assert_eq!(
            (e.sqlstate, &*e.message),
            ("XX000", "invalid memory alloc request size 1200000004")
        );
        assert_eq!(repeated_length(1, 1_073_741_819).ok(), Some(1_073_741_819));
        let e = repeated_length(1, 1_073_741_820).expect_err("too long");
        assert_eq!((e.sqlstate, &*e.message), ("54000", "requested length too large"));
        // As PostgreSQL 18 says of replace(repeat('x', 600000000), 'x', 'yy').
        let e = length_of((0..600_000_000).map(|_| 2), MAX_ALLOC).expect_err("too long");
        let detail = "Cannot enlarge string buffer containing 1073741822 bytes by 2 more bytes.";
        assert_eq!((e.sqlstate, e.detail.as_deref()), ("54000", Some(detail)));
        assert_eq!(length_of([3, 0, 4].into_iter(), 8).ok(), Some(7));
        assert!(length_of([3, 0, 5].into_iter(), 8).is_err());
    }

    #[test]
    fn texts_are_put_together() {
        let text = |d: Result<Datum<'_>>| {
            d.expect("short").as_str().map(str::to_owned).unwrap_or_default()
        };
        assert_eq!(text(replace("abcabc", "b", "xy")), "axycaxyc");
        assert_eq!(text(replace("bb", "b", "")), "");
        assert_eq!(text(replace("a", "", "x")), "a");
        assert_eq!(text(repeat("ab", 3)), "ababab");
        assert_eq!(text(repeat("", i32::MAX)) + &text(repeat("a", -1)), "");
        assert_eq!(text(concat(&[Datum::text("a"), Datum::Null, Datum::text("b")])), "ab");
    }
}
