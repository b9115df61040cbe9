//! Lower and upper case.

use std::borrow::Cow;

use icu_casemap::CaseMapper;
use icu_locale_core::LanguageIdentifier;

use crate::error::CollationError;
use crate::libc_locale::Locale;

/// Letters that have two cases since Unicode 17, and in PostgreSQL 18, which has Unicode 16, one.
fn is_newer(letter: char) -> bool {
    matches!(letter, '\u{a7ce}'..='\u{a7cf}' | '\u{a7d2}'..='\u{a7d5}' | '\u{16ea0}'..='\u{16ed3}')
}

/// How letters change their case.
#[derive(Debug)]
pub(crate) enum Casing {
    /// Only those of ASCII.
    Ascii,
    /// One letter for one: Unicode's simple mappings.
    Simple,
    /// Unicode's full mappings, without a language.
    Full,
    /// ICU's: full mappings, in a language.
    Icu(LanguageIdentifier),
    /// One letter for one, as the C library has it.
    Libc(Locale),
}

impl Casing {
    /// That of a locale of the builtin provider.
    pub(crate) fn builtin(locale: &str) -> Result<Casing, CollationError> {
        match locale {
            "C" => Ok(Casing::Ascii),
            "C.UTF-8" => Ok(Casing::Simple),
            "PG_UNICODE_FAST" => Ok(Casing::Full),
            _ => Err(CollationError::NotBuiltin { locale: locale.to_owned() }),
        }
    }

    pub(crate) fn lower(&self, text: &str) -> String {
        let cases = CaseMapper::new();
        match self {
            Casing::Ascii => text.to_ascii_lowercase(),
            Casing::Simple => {
                text.chars().map(|c| simple(c, |c| cases.simple_lowercase(c))).collect()
            }
            Casing::Full => full(text, |part| cases.lowercase_to_string(part, &NO_LANGUAGE)),
            Casing::Icu(language) => cases.lowercase_to_string(text, language).into_owned(),
            Casing::Libc(locale) => text.chars().map(|c| locale.lower(c)).collect(),
        }
    }

    /// Each word with its first letter in upper case. None: words are not known for this locale.
    pub(crate) fn initcap(&self, text: &str) -> Option<String> {
        let cases = CaseMapper::new();
        let mut inside = false;
        let mut changed = String::with_capacity(text.len());
        for c in text.chars() {
            let (of_word, letter) = match self {
                Casing::Ascii if inside => (c.is_ascii_alphanumeric(), c.to_ascii_lowercase()),
                Casing::Ascii => (c.is_ascii_alphanumeric(), c.to_ascii_uppercase()),
                Casing::Simple => {
                    let of_word = c.is_alphabetic() || c.is_ascii_digit();
                    let change = |c| match inside {
                        true => cases.simple_lowercase(c),
                        // PostgreSQL takes titlecase letters in full mappings only.
                        false => cases.simple_uppercase(c),
                    };
                    (of_word, simple(c, change))
                }
                Casing::Libc(locale) if inside => (locale.is_alphanumeric(c), locale.lower(c)),
                Casing::Libc(locale) => (locale.is_alphanumeric(c), locale.upper(c)),
                Casing::Full | Casing::Icu(_) => return None,
            };
            changed.push(letter);
            inside = of_word;
        }
        Some(changed)
    }

    pub(crate) fn upper(&self, text: &str) -> String {
        let cases = CaseMapper::new();
        match self {
            Casing::Ascii => text.to_ascii_uppercase(),
            Casing::Simple => {
                text.chars().map(|c| simple(c, |c| cases.simple_uppercase(c))).collect()
            }
            Casing::Full => full(text, |part| cases.uppercase_to_string(part, &NO_LANGUAGE)),
            Casing::Icu(language) => cases.uppercase_to_string(text, language).into_owned(),
            Casing::Libc(locale) => text.chars().map(|c| locale.upper(c)).collect(),
        }
    }
}

const NO_LANGUAGE: LanguageIdentifier = LanguageIdentifier::UNKNOWN;

fn simple(letter: char, change: impl Fn(char) -> char) -> char {
    if is_newer(letter) { letter } else { change(letter) }
}

/// Changes what stands between letters that are not changed.
fn full<'t>(text: &'t str, change: impl Fn(&'t str) -> Cow<'t, str>) -> String {
    let mut changed = String::with_capacity(text.len());
    for part in text.split_inclusive(is_newer) {
        let kept = part.chars().next_back().filter(|letter| is_newer(*letter));
        let length = part.len() - kept.map_or(0, char::len_utf8);
        changed.push_str(&change(part.get(..length).unwrap_or(part)));
        changed.extend(kept);
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_beyond_ascii() {
        let text = "Straße ÄÖ ΣΑΣ ǆ";
        assert_eq!(Casing::Ascii.upper(text), "STRAßE ÄÖ ΣΑΣ ǆ");
        let simple = Casing::builtin("C.UTF-8").expect("a locale");
        assert_eq!(simple.upper(text), "STRAßE ÄÖ ΣΑΣ Ǆ");
        assert_eq!(simple.lower(text), "straße äö σασ ǆ");
        let full = Casing::builtin("PG_UNICODE_FAST").expect("a locale");
        assert_eq!(full.upper(text), "STRASSE ÄÖ ΣΑΣ Ǆ");
        assert_eq!(full.lower(text), "straße äö σας ǆ");
    }
}
