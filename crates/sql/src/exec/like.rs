//! LIKE.

use crate::error::{Result, SqlError, state};

/// A part of a pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Literal(char),
    AnyOne,
    AnyMany,
    /// An escape character with nothing after it.
    Dangling,
}

/// Matches a text against a LIKE pattern, without recursion: on a mismatch it goes back to the last
/// `%` only.
pub fn like(text: &str, pattern: &str, escape: Option<char>) -> Result<bool> {
    let pattern = parts(pattern, escape);
    let mut text_at = text.chars();
    let mut at = 0;
    let mut resume: Option<(usize, std::str::Chars<'_>)> = None;
    loop {
        let part = pattern.get(at).copied();
        if part == Some(Part::AnyMany) {
            at += 1;
            resume = Some((at, text_at.clone()));
            continue;
        }
        let mut ahead = text_at.clone();
        let matched = match (part, ahead.next()) {
            (None, None) => return Ok(true),
            (Some(Part::AnyOne), Some(_)) => true,
            (Some(Part::Literal(want)), Some(c)) => want == c,
            (Some(Part::Dangling), Some(_)) => {
                let message = "LIKE pattern must not end with escape character";
                return Err(SqlError::new(state::INVALID_ESCAPE_SEQUENCE, message));
            }
            _ => false,
        };
        if matched {
            at += 1;
            text_at = ahead;
            continue;
        }
        match &mut resume {
            Some((back, from)) => {
                if from.next().is_none() {
                    return Ok(false);
                }
                at = *back;
                text_at = from.clone();
            }
            None => return Ok(false),
        }
    }
}

fn parts(pattern: &str, escape: Option<char>) -> Vec<Part> {
    let mut parts = Vec::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        parts.push(if Some(c) == escape {
            chars.next().map_or(Part::Dangling, Part::Literal)
        } else {
            match c {
                '%' => Part::AnyMany,
                '_' => Part::AnyOne,
                c => Part::Literal(c),
            }
        });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns() {
        for (text, pattern, want) in [
            ("abc", "abc", true),
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "a_c", true),
            ("abc", "_b", false),
            ("", "%", true),
            ("", "_", false),
            ("a%c", "a\\%c", true),
            ("abc", "a\\%c", false),
            ("grün", "gr_n", true),
            ("aXbXc", "%X%X%", true),
            ("aaab", "%aab", true),
            ("ab", "%a%b%c%", false),
        ] {
            assert_eq!(like(text, pattern, Some('\\')).unwrap(), want, "{text} like {pattern}");
        }
        assert_eq!(like("ab", "a\\", Some('\\')).unwrap_err().sqlstate, "22025");
    }

    fn slow(text: &[char], pattern: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('%', rest)) => (0..=text.len()).any(|i| slow(&text[i..], rest)),
            Some((p, rest)) => text
                .split_first()
                .is_some_and(|(c, tail)| (*p == '_' || p == c) && slow(tail, rest)),
        }
    }

    proptest! {
        #[test]
        fn equals_a_recursive_matcher(text in "[ab]{0,8}", pattern in "[ab%_]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<char>>();
            let (t, p) = (chars(&text), chars(&pattern));
            prop_assert_eq!(like(&text, &pattern, Some('\\')).unwrap(), slow(&t, &p));
        }
    }
}
