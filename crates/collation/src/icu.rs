//! ICU's locales: BCP 47 tags such as `de-u-co-phonebk-ks-level1`.

use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength};
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_locale_core::LanguageIdentifier;

use crate::definition::Definition;
use crate::error::CollationError;

/// A locale and the attributes of its order.
pub(crate) struct Locale {
    name: String,
    locale: icu_locale_core::Locale,
    options: CollatorOptions,
}

impl Locale {
    /// Reads a locale. Attributes that are not known here are refused by name.
    pub(crate) fn parse(definition: &Definition<'_>) -> Result<Locale, CollationError> {
        let name = definition.locale;
        // PostgreSQL calls the root locale both.
        let tag = if name.is_empty() { "und" } else { name };
        let locale: icu_locale_core::Locale =
            tag.parse().map_err(|error: icu_locale_core::ParseError| {
                CollationError::BadLocale { locale: name.to_owned(), reason: error.to_string() }
            })?;
        let unsupported =
            |what: String| CollationError::Unsupported { what, name: definition.name.to_owned() };
        let extensions = &locale.extensions;
        if !extensions.transform.is_empty()
            || !extensions.private.is_empty()
            || !extensions.other.is_empty()
            || !extensions.unicode.attributes.is_empty()
        {
            return Err(unsupported(format!("the locale \"{name}\"")));
        }
        let mut options = CollatorOptions::default();
        for (key, value) in extensions.unicode.keywords.iter() {
            let value = value.to_string();
            if !attribute(&mut options, key.as_str(), &value) {
                return Err(unsupported(format!("the attribute {}-{value}", key.as_str())));
            }
        }
        Ok(Locale { name: name.to_owned(), locale, options })
    }

    /// What compares texts.
    pub(crate) fn collator(&self) -> Result<CollatorBorrowed<'static>, CollationError> {
        let preferences = CollatorPreferences::from(&self.locale);
        CollatorBorrowed::try_new(preferences, self.options).map_err(|error| {
            CollationError::BadLocale { locale: self.name.clone(), reason: error.to_string() }
        })
    }

    /// Its language, which decides on cases.
    pub(crate) fn language(&self) -> LanguageIdentifier {
        self.locale.id.clone()
    }
}

/// The BCP 47 tag of a locale of ICU, in its standard form.
///
/// # Errors
/// If it is no locale.
pub fn language_tag(name: &str) -> Result<String, CollationError> {
    let tag = match name {
        "" => "und".to_owned(),
        "C" | "POSIX" => "en-US-u-va-posix".to_owned(),
        name => name.replace('_', "-"),
    };
    let locale: icu_locale_core::Locale =
        tag.parse().map_err(|error: icu_locale_core::ParseError| CollationError::BadLocale {
            locale: name.to_owned(),
            reason: error.to_string(),
        })?;
    Ok(locale.to_string())
}

/// Takes an attribute of the order. Returns whether it is known.
fn attribute(options: &mut CollatorOptions, key: &str, value: &str) -> bool {
    match (key, value) {
        // Those that ICU4X takes from the locale itself. An unknown order of a language would be
        // taken for its usual one.
        ("co", "standard" | "phonebk" | "trad" | "dict" | "compat" | "emoji" | "eor") => {}
        ("co", "pinyin" | "stroke" | "zhuyin" | "unihan" | "phonetic" | "searchjl") => {}
        ("kn", "" | "true" | "false") | ("kf", "upper" | "lower" | "false") => {}
        ("ks", "level1") => options.strength = Some(Strength::Primary),
        ("ks", "level2") => options.strength = Some(Strength::Secondary),
        ("ks", "level3") => options.strength = Some(Strength::Tertiary),
        ("ks", "level4") => options.strength = Some(Strength::Quaternary),
        ("ka", "shifted") => options.alternate_handling = Some(AlternateHandling::Shifted),
        ("ka", "noignore") => options.alternate_handling = Some(AlternateHandling::NonIgnorable),
        ("kc", "" | "true") => options.case_level = Some(CaseLevel::On),
        ("kc", "false") => options.case_level = Some(CaseLevel::Off),
        ("kv", "space") => options.max_variable = Some(MaxVariable::Space),
        ("kv", "punct") => options.max_variable = Some(MaxVariable::Punctuation),
        ("kv", "symbol") => options.max_variable = Some(MaxVariable::Symbol),
        ("kv", "currency") => options.max_variable = Some(MaxVariable::Currency),
        ("kk", "" | "true" | "false") => {}
        _ => return false,
    }
    true
}
