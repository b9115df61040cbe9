//! What the catalogs say of a collation.

/// Who knows the order: `collprovider`, `datlocprovider`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Provider {
    /// PostgreSQL itself: `b`.
    Builtin,
    /// The C library: `c`.
    Libc,
    /// ICU: `i`.
    Icu,
}

impl Provider {
    /// The provider of a letter in the catalogs. None: there is no such provider, or it is `d`, the
    /// database's.
    pub fn of(letter: u8) -> Option<Provider> {
        match letter {
            b'b' => Some(Provider::Builtin),
            b'c' => Some(Provider::Libc),
            b'i' => Some(Provider::Icu),
            _ => None,
        }
    }

    /// Its name, as CREATE COLLATION takes it.
    pub fn name(self) -> &'static str {
        match self {
            Provider::Builtin => "builtin",
            Provider::Libc => "libc",
            Provider::Icu => "icu",
        }
    }
}

/// What the catalogs say of a collation.
#[derive(Clone, Copy, Debug)]
pub struct Definition<'a> {
    /// Its name, for messages.
    pub name: &'a str,
    /// `collprovider`
    pub provider: Provider,
    /// `collcollate` of libc's, `colllocale` of others
    pub locale: &'a str,
    /// `collctype` of libc's, `colllocale` of others
    pub ctype: &'a str,
    /// `collicurules`
    pub rules: Option<&'a str>,
    /// `collisdeterministic`
    pub deterministic: bool,
}

/// Whether a name of libc's means the order of bytes.
pub(crate) fn is_c_name(locale: &str) -> bool {
    matches!(locale, "C" | "POSIX")
}
