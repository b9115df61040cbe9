//! A bound on the memory for a query string: its tokens, its tree and its plan are many times its
//! length.
//!
//! The estimate needs no tokens: a token ends only where a byte is no letter, digit or underscore.
//! Such bytes in strings do not count, as long as it is sure what a string is: from the first
//! backslash, dollar, minus or slash outside of strings on (escapes, dollar quotes, comments), and
//! from a string with a backslash on, all count. So the estimate is rather too high.

use crate::error::{Result, SqlError, state};

/// Memory that a query string may take. It is enough for 8 million tokens.
pub(super) const MOST: usize = 4 << 30;
/// A token with its part of the tree and of the plan. Lists of short expressions were measured at
/// 230 to 460 bytes while they are planned, and 170 to 340 when they are kept.
const TOKEN: usize = 512;

/// The memory that a query string may take, parsed and planned.
pub fn estimated_memory(text: &str) -> usize {
    text.len().saturating_mul(2).saturating_add((ends(text.as_bytes()) + 1).saturating_mul(TOKEN))
}

/// Bytes at which a token may end.
fn ends(text: &[u8]) -> usize {
    let is_end = |b: &u8| !(b.is_ascii_alphanumeric() || *b == b'_' || *b >= 0x80);
    let (mut ends, mut rest, mut last) = (0, text, 0);
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            // Backslashes or dollars may have quoted what follows.
            b'\\' | b'$' => return ends + 1 + rest.iter().filter(|b| is_end(b)).count(),
            b'\'' => {
                // A quote right behind a string goes on with it.
                ends += usize::from(last != b'\'');
                let (inside, behind) = split_after(rest, b'\'');
                // It may be an escape string: then quotes in it need not end it.
                if inside.contains(&b'\\') {
                    return ends + rest.iter().filter(|b| is_end(b)).count();
                }
                rest = behind;
            }
            b'"' => {
                ends += 1;
                rest = split_after(rest, b'"').1;
            }
            // What is no comment counts too high.
            b'-' | b'/' => return ends + 1 + rest.iter().filter(|b| is_end(b)).count(),
            _ => ends += usize::from(is_end(&byte)),
        }
        last = byte;
    }
    ends
}

/// What is before the first such byte, and what is behind it.
fn split_after(text: &[u8], byte: u8) -> (&[u8], &[u8]) {
    let mut parts = text.splitn(2, |b| *b == byte);
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

/// Refuses a query string that may take more than `most`.
pub(super) fn check(text: &str, most: usize) -> Result<()> {
    let memory = estimated_memory(text);
    if memory <= most {
        return Ok(());
    }
    let detail = format!(
        "The query string may take {memory} bytes to parse and plan; it may not take more than \
         {most}."
    );
    Err(SqlError::new(state::OUT_OF_MEMORY, "out of memory").detail(detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_tokens_are_refused_and_long_strings_are_not() {
        let numbers = "1,".repeat(10_000);
        assert_eq!(check(&numbers, 1 << 20).expect_err("too many tokens").sqlstate, "53200");
        assert!(check(&numbers, 8 << 20).is_ok());
        for inside in ["a", ",", "{\"a\": [1, 2]} ", "''", "- "] {
            let text = format!("insert into \"t\" values ('{}')", inside.repeat(10_000));
            assert!(check(&text, 1 << 20).is_ok(), "{inside}");
        }
        // Where a string might end elsewhere than it seems, all counts.
        for before in ["e'\\'',", "$$'$$,", "--'\n", "/*'*/", "\"'\""] {
            let text = format!("select {before}{numbers}'");
            assert!(check(&text, 1 << 20).is_err(), "{before}");
        }
    }
}
