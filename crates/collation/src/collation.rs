//! A collation: how it compares.

use std::cmp::Ordering;
use std::fmt;

use icu_collator::CollatorBorrowed;

use crate::case::Casing;
use crate::definition::{Definition, Provider, is_c_name};
use crate::error::CollationError;
use crate::icu;
use crate::libc_locale::Locale;

/// How texts compare.
enum Order {
    Bytes,
    Libc(Locale),
    Icu(Box<CollatorBorrowed<'static>>),
}

/// A collation. Threads share it.
pub struct Collation {
    /// What it was opened by: provider and locales.
    of: (Provider, String, String),
    order: Order,
    casing: Casing,
    /// Whether only texts of the same bytes are equal.
    deterministic: bool,
}

impl Collation {
    /// Opens a collation.
    ///
    /// # Errors
    /// If there is no such locale, or it is not understood.
    pub fn open(definition: &Definition<'_>) -> Result<Collation, CollationError> {
        let unsupported = |what: &str| CollationError::Unsupported {
            what: what.to_owned(),
            name: definition.name.to_owned(),
        };
        if definition.rules.is_some() {
            return Err(unsupported("collicurules"));
        }
        let (order, casing) = match definition.provider {
            Provider::Builtin => (Order::Bytes, Casing::builtin(definition.locale)?),
            Provider::Icu => {
                let locale = icu::Locale::parse(definition)?;
                (Order::Icu(Box::new(locale.collator()?)), Casing::Icu(locale.language()))
            }
            Provider::Libc if !definition.deterministic => {
                return Err(unsupported("the nondeterministic order"));
            }
            Provider::Libc => libc(definition, unsupported)?,
        };
        let of = (definition.provider, definition.locale.to_owned(), definition.ctype.to_owned());
        Ok(Collation { of, order, casing, deterministic: definition.deterministic })
    }

    /// The collation "C".
    pub fn c() -> Collation {
        let of = (Provider::Libc, "C".to_owned(), "C".to_owned());
        Collation { of, order: Order::Bytes, casing: Casing::Ascii, deterministic: true }
    }

    /// Whether texts are in the order of their bytes.
    pub fn is_c(&self) -> bool {
        matches!(self.order, Order::Bytes)
    }

    /// Whether only letters of ASCII have cases.
    pub fn is_ascii(&self) -> bool {
        matches!(self.casing, Casing::Ascii)
    }

    /// Whether only texts of the same bytes are equal.
    pub fn is_deterministic(&self) -> bool {
        self.deterministic
    }

    /// The order of two texts without NUL bytes.
    pub fn compare(&self, a: &str, b: &str) -> Ordering {
        if a == b {
            return Ordering::Equal;
        }
        let order = match &self.order {
            Order::Bytes => Ordering::Equal,
            Order::Libc(locale) => locale.compare(a, b),
            Order::Icu(collator) => collator.compare(a, b),
        };
        match order {
            Ordering::Equal if self.deterministic => a.as_bytes().cmp(b.as_bytes()),
            order => order,
        }
    }

    /// A text in lower case.
    pub fn lower(&self, text: &str) -> String {
        self.casing.lower(text)
    }

    /// A text in upper case.
    pub fn upper(&self, text: &str) -> String {
        self.casing.upper(text)
    }

    /// A text whose words begin with an upper case letter. None: where words begin is not known
    /// (ICU, and PG_UNICODE_FAST).
    pub fn initcap(&self, text: &str) -> Option<String> {
        self.casing.initcap(text)
    }
}

impl fmt::Debug for Collation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (provider, locale, _) = &self.of;
        f.debug_tuple("Collation").field(&provider.name()).field(locale).finish()
    }
}

/// Two are the same if they were opened by the same provider and locales.
impl PartialEq for Collation {
    fn eq(&self, other: &Collation) -> bool {
        (&self.of, self.deterministic) == (&other.of, other.deterministic)
    }
}

impl Eq for Collation {}

fn libc(
    definition: &Definition<'_>,
    unsupported: impl Fn(&str) -> CollationError,
) -> Result<(Order, Casing), CollationError> {
    let Definition { locale, ctype, .. } = *definition;
    if is_c_name(locale) && is_c_name(ctype) {
        return Ok((Order::Bytes, Casing::Ascii));
    }
    let casing = match is_c_name(ctype) {
        true => Casing::Ascii,
        false => {
            let letters = Locale::open("C", ctype)?;
            if !letters.is_utf8() {
                return Err(unsupported(&format!("the encoding of locale \"{ctype}\"")));
            }
            Casing::Libc(letters)
        }
    };
    let order = match is_c_name(locale) {
        true => Order::Bytes,
        // The letters' encoding counts when texts are compared.
        false => Order::Libc(Locale::open(locale, locale)?),
    };
    Ok((order, casing))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(provider: Provider, locale: &str) -> Result<Collation, CollationError> {
        Collation::open(&Definition {
            name: "test",
            provider,
            locale,
            ctype: locale,
            rules: None,
            deterministic: true,
        })
    }

    #[test]
    fn bytes_decide_in_c() {
        for (provider, locale) in [
            (Provider::Libc, "C"),
            (Provider::Libc, "POSIX"),
            (Provider::Builtin, "C"),
            (Provider::Builtin, "C.UTF-8"),
            (Provider::Builtin, "PG_UNICODE_FAST"),
        ] {
            let collation = open(provider, locale).expect("always there");
            assert!(collation.is_c() && collation.is_deterministic());
            assert_eq!(collation.compare("Z", "a"), Ordering::Less);
            assert_eq!(collation.compare("é", "z"), Ordering::Greater);
        }
        assert!(open(Provider::Builtin, "C.UTF8").is_err());
        assert!(open(Provider::Builtin, "en_US").is_err());
    }

    #[test]
    fn letters_decide_before_their_case_in_icu() {
        let collation = open(Provider::Icu, "en-US").expect("a locale");
        assert!(!collation.is_c());
        let mut words = ["b", "A", "a", "B", "ä", "z", "Ä", "10", "9"];
        words.sort_by(|a, b| collation.compare(a, b));
        assert_eq!(words, ["10", "9", "a", "A", "ä", "Ä", "b", "B", "z"]);
        let swedish = open(Provider::Icu, "sv").expect("a locale");
        assert_eq!(swedish.compare("ä", "z"), Ordering::Greater);
    }

    #[test]
    fn equal_texts_have_the_same_bytes_unless_nondeterministic() {
        let mut definition = Definition {
            name: "test",
            provider: Provider::Icu,
            locale: "und-u-ks-level1",
            ctype: "und-u-ks-level1",
            rules: None,
            deterministic: true,
        };
        let collation = Collation::open(&definition).expect("a locale");
        assert_eq!(collation.compare("a", "A"), Ordering::Greater, "by their bytes");
        definition.deterministic = false;
        let collation = Collation::open(&definition).expect("a locale");
        assert_eq!(collation.compare("a", "Á"), Ordering::Equal);
        definition.rules = Some("&a < b");
        let error = Collation::open(&definition).expect_err("rules");
        assert_eq!(error.to_string(), "collicurules of collation \"test\" is not supported");
    }

    fn nondeterministic(locale: &str) -> Result<Collation, CollationError> {
        Collation::open(&Definition {
            name: "test",
            provider: Provider::Icu,
            locale,
            ctype: locale,
            rules: None,
            deterministic: false,
        })
    }

    #[test]
    fn attributes_change_the_order() {
        let order =
            |locale: &str, a: &str, b: &str| nondeterministic(locale).expect(locale).compare(a, b);
        assert_eq!(order("und", "a", "A"), Ordering::Less);
        assert_eq!(order("und-u-kf-upper", "a", "A"), Ordering::Greater);
        assert_eq!(order("und-u-ks-level2", "a", "A"), Ordering::Equal);
        assert_eq!(order("und-u-ks-level1", "a", "á"), Ordering::Equal);
        assert_eq!(order("und-u-ks-level1-kc", "a", "A"), Ordering::Less);
        assert_eq!(order("und", "id-9", "id-10"), Ordering::Greater);
        assert_eq!(order("und-u-kn", "id-9", "id-10"), Ordering::Less);
        assert_eq!(order("und-u-ka-shifted-ks-level3", "a-b", "ab"), Ordering::Equal);
        assert_eq!(order("de-u-co-phonebk", "ä", "ad"), Ordering::Greater);
        assert_eq!(order("de", "ä", "ad"), Ordering::Less);
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let refused = |locale: &str| nondeterministic(locale).expect_err(locale).to_string();
        assert_eq!(
            refused("und-u-ks-identic"),
            "the attribute ks-identic of collation \"test\" is not supported"
        );
        assert_eq!(
            refused("und-u-co-search"),
            "the attribute co-search of collation \"test\" is not supported"
        );
        assert!(refused("en-t-de").contains("the locale \"en-t-de\""));
        assert!(refused("not a locale").starts_with("could not open collator"));
    }
}
