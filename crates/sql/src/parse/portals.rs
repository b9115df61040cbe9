//! DECLARE, FETCH, MOVE and CLOSE, parsed by hand.

use super::cursor::{Cursor, is_reserved};
use super::queries::with_parser;
use super::source::Source;
use crate::error::{Result, SqlError, state};
use sqlparser::ast;
use sqlparser::tokenizer::Token;

/// DECLARE.
#[derive(Debug)]
pub struct Declare {
    /// The cursor.
    pub name: String,
    /// BINARY.
    pub binary: bool,
    /// SCROLL or NO SCROLL, if one of them was given.
    pub scroll: Option<bool>,
    /// INSENSITIVE. Every cursor is, except that FOR UPDATE reads the newest rows.
    pub insensitive: bool,
    /// WITH HOLD.
    pub hold: bool,
    /// The query.
    pub query: Box<ast::Query>,
}

/// Where FETCH and MOVE go. A negative number goes the other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// So many rows on; None is ALL.
    Forward(Option<i32>),
    /// So many rows back; None is ALL.
    Backward(Option<i32>),
    /// To the row of that number, counted from the end if negative.
    Absolute(i32),
    /// To the row that far away.
    Relative(i32),
}

/// FETCH or MOVE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The cursor.
    pub name: String,
    /// Where to.
    pub direction: Direction,
    /// MOVE: the rows are not wanted.
    pub is_move: bool,
}

pub(super) fn declare(c: &mut Cursor<'_>, source: &Source) -> Result<Declare> {
    c.advance();
    let name = c.name()?;
    let (mut scroll, mut no_scroll, mut binary) = (false, false, false);
    let (mut asensitive, mut insensitive) = (false, false);
    loop {
        if c.accept_all(&["no", "scroll"]) {
            no_scroll = true;
        } else if c.accept("scroll") {
            scroll = true;
        } else if c.accept("binary") {
            binary = true;
        } else if c.accept("asensitive") {
            asensitive = true;
        } else if c.accept("insensitive") {
            insensitive = true;
        } else {
            break;
        }
    }
    c.expect("cursor")?;
    let hold = c.accept_all(&["with", "hold"]);
    if !hold {
        c.accept_all(&["without", "hold"]);
    }
    c.expect("for")?;
    let begins = |word: &str| matches!(word, "select" | "values" | "with" | "table");
    if c.peek() != Some(&Token::LParen) && !c.peek_word().is_some_and(|word| begins(&word)) {
        return Err(c.error());
    }
    let (tokens, end) = c.rest();
    let (query, _) = with_parser(tokens, end, source, |p| p.parse_query())?;
    for (both, one, other) in [
        (scroll && no_scroll, "SCROLL", "NO SCROLL"),
        (asensitive && insensitive, "ASENSITIVE", "INSENSITIVE"),
    ] {
        if both {
            let message = format!("cannot specify both {one} and {other}");
            return Err(SqlError::new(state::INVALID_CURSOR_DEFINITION, message));
        }
    }
    let scroll = (scroll || no_scroll).then_some(scroll);
    Ok(Declare { name, binary, scroll, insensitive, hold, query })
}

pub(super) fn fetch(c: &mut Cursor<'_>, is_move: bool) -> Result<Fetch> {
    c.advance();
    let direction = direction(c)?;
    let _ = c.accept("from") || c.accept("in");
    let name = c.name()?;
    c.expect_end()?;
    Ok(Fetch { name, direction, is_move })
}

fn direction(c: &mut Cursor<'_>) -> Result<Direction> {
    use Direction::{Absolute, Backward, Forward, Relative};
    if let Some(rows) = number(c)? {
        return Ok(Forward(Some(rows)));
    }
    // As the last word, one that is not reserved names the cursor.
    let word = |c: &mut Cursor<'_>, word| (is_reserved(word) || !c.is_last()) && c.accept(word);
    Ok(if word(c, "next") {
        Forward(Some(1))
    } else if word(c, "prior") {
        Backward(Some(1))
    } else if word(c, "first") {
        Absolute(1)
    } else if word(c, "last") {
        Absolute(-1)
    } else if word(c, "absolute") {
        Absolute(number(c)?.ok_or_else(|| c.error())?)
    } else if word(c, "relative") {
        Relative(number(c)?.ok_or_else(|| c.error())?)
    } else if word(c, "all") {
        Forward(None)
    } else if word(c, "forward") {
        Forward(rows(c)?)
    } else if word(c, "backward") {
        Backward(rows(c)?)
    } else {
        Forward(Some(1))
    })
}

/// `[n | ALL]`
fn rows(c: &mut Cursor<'_>) -> Result<Option<i32>> {
    Ok(if c.accept("all") { None } else { Some(number(c)?.unwrap_or(1)) })
}

/// An integer with an optional sign, if one is next.
fn number(c: &mut Cursor<'_>) -> Result<Option<i32>> {
    let error = c.error();
    match c.accept_number() {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| error),
    }
}

/// The name of the cursor that CLOSE closes; None: all.
pub(super) fn close(c: &mut Cursor<'_>) -> Result<Option<String>> {
    c.advance();
    let name = if c.accept("all") { None } else { Some(c.name()?) };
    c.expect_end()?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, parse_script};
    use super::*;
    use forebay_types::Encoding;

    fn parsed(text: &str) -> Result<Fetch, String> {
        let statements = parse_script(text, Encoding::Utf8, None);
        let mut statements = statements.map_err(|e| e.message.clone())?;
        match &*statements.pop().expect("a statement").kind {
            Kind::Fetch(fetch) => Ok(fetch.clone()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn directions() {
        use Direction::{Absolute, Backward, Forward, Relative};
        for (text, direction) in [
            ("fetch c", Forward(Some(1))),
            ("fetch from c", Forward(Some(1))),
            ("move in c", Forward(Some(1))),
            ("fetch next c", Forward(Some(1))),
            ("fetch prior from c", Backward(Some(1))),
            ("fetch first in c", Absolute(1)),
            ("fetch last c", Absolute(-1)),
            ("fetch absolute -2 from c", Absolute(-2)),
            ("fetch relative +3 c", Relative(3)),
            ("fetch 5 c", Forward(Some(5))),
            ("fetch -5 from c", Forward(Some(-5))),
            ("fetch all c", Forward(None)),
            ("fetch forward c", Forward(Some(1))),
            ("fetch forward 7 in c", Forward(Some(7))),
            ("fetch forward all from c", Forward(None)),
            ("move backward c", Backward(Some(1))),
            ("move backward 2 c", Backward(Some(2))),
            ("move backward all c", Backward(None)),
        ] {
            let fetch = parsed(text).expect(text);
            assert_eq!((fetch.direction, fetch.name.as_str()), (direction, "c"), "{text}");
            assert_eq!(fetch.is_move, text.starts_with("move"), "{text}");
        }
        // Words that are not reserved name cursors.
        for name in ["next", "absolute", "forward"] {
            let fetch = parsed(&format!("fetch {name}")).expect(name);
            assert_eq!((fetch.direction, fetch.name.as_str()), (Forward(Some(1)), name));
            let fetch = parsed(&format!("fetch prior from {name}")).expect(name);
            assert_eq!((fetch.direction, fetch.name.as_str()), (Backward(Some(1)), name));
        }
        for (text, near) in [
            ("fetch", "at end of input"),
            ("fetch all", "at end of input"),
            ("fetch 3000000000 c", "at or near \"3000000000\""),
            ("fetch absolute from c", "at or near \"from\""),
            ("fetch c d", "at or near \"d\""),
        ] {
            assert_eq!(parsed(text).expect_err(text), format!("syntax error {near}"), "{text}");
        }
    }
}
