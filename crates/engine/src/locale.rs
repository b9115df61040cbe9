//! The locale of a new database, and of a new cluster.

use forebay_catalog::bootstrap::NewLocale;
use forebay_catalog::{DatabaseRow, check_locale, quoted};
use forebay_collation::{
    Collation, CollationError, Definition, Provider, actual_version, version_agrees,
};
use forebay_types::Encoding;

use crate::config::LocaleOptions;
use crate::error::EngineError;
use crate::new_database::NewDatabase;

fn invalid(message: impl Into<String>) -> EngineError {
    EngineError::statement("22023", message)
}

fn contradiction(message: &str) -> EngineError {
    EngineError::statement("42P17", message)
}

/// Gives the row of a new database, a copy of its template's, the locale that was asked for.
pub(crate) fn set_locale(
    row: &mut DatabaseRow,
    new: &NewDatabase,
    source: &DatabaseRow,
) -> Result<(), EngineError> {
    row.encoding = new.encoding.unwrap_or(source.encoding);
    row.provider = new.provider.unwrap_or(source.provider);
    let both = |given: &Option<String>, source: &String| {
        given.clone().or_else(|| new.both_locales.clone()).unwrap_or_else(|| source.clone())
    };
    row.collate = both(&new.collate, &source.collate);
    row.ctype = both(&new.ctype, &source.ctype);
    for locale in [&mut row.collate, &mut row.ctype] {
        // The C library's own name of it.
        if locale == "POSIX" {
            "C".clone_into(locale);
        }
    }
    let encoding = Encoding::of(row.encoding).unwrap_or_default();
    for (name, locale) in [("LC_COLLATE", &row.collate), ("LC_CTYPE", &row.ctype)] {
        check_libc(name, locale, (row.provider, encoding))?;
    }
    if encoding == Encoding::SqlAscii && row.provider == b'i' {
        let message = "encoding \"SQL_ASCII\" is not supported with ICU provider";
        return Err(invalid(message));
    }
    let own = match (&new.builtin_locale, &new.icu_locale) {
        (Some(_), _) if row.provider != b'b' => {
            let message = "BUILTIN_LOCALE cannot be specified unless locale provider is builtin";
            return Err(contradiction(message));
        }
        (_, Some(_)) if row.provider != b'i' => {
            let message = "ICU locale cannot be specified unless locale provider is ICU";
            return Err(contradiction(message));
        }
        (builtin, icu) => builtin.clone().or_else(|| icu.clone()),
    };
    row.locale = match row.provider {
        b'c' => None,
        provider => {
            let kept = source.locale.clone().filter(|_| source.provider == provider);
            own.or_else(|| new.both_locales.clone()).or(kept)
        }
    };
    if row.locale.is_none() && row.provider != b'c' {
        let own = if row.provider == b'b' { "BUILTIN_LOCALE" } else { "ICU_LOCALE" };
        return Err(contradiction(&format!("LOCALE or {own} must be specified")));
    }
    if row.provider != source.provider {
        row.icu_rules = None;
    }
    if *row != *source {
        check_locale(row)?;
    }
    set_version(row, new, source)
}

/// The version of the collation: what was asked for, or the template's, or the provider's.
fn set_version(
    row: &mut DatabaseRow,
    new: &NewDatabase,
    source: &DatabaseRow,
) -> Result<(), EngineError> {
    if let Some(version) = &new.collation_version {
        row.collation_version = Some(version.clone());
        return Ok(());
    }
    let (provider, locale) = provided(row)?;
    let actual = actual_version(provider, locale);
    let Some(recorded) = &source.collation_version else {
        row.collation_version = actual;
        return Ok(());
    };
    let name = &source.name;
    let Some(actual) = actual else {
        return Err(invalid(format!(
            "template database \"{name}\" has a collation version, but no actual collation \
             version could be determined"
        )));
    };
    if !version_agrees(provider, locale, Some(recorded)) {
        let message = format!("template database \"{name}\" has a collation version mismatch");
        let detail = format!(
            "The template database was created using collation version {recorded}, but the \
             operating system provides version {actual}."
        );
        let hint = format!(
            "Rebuild all objects in the template database that use the default collation and run \
             ALTER DATABASE {} REFRESH COLLATION VERSION, or build PostgreSQL with the right \
             library version.",
            quoted(name)
        );
        return Err(invalid(message).with_detail(detail).with_hint(hint));
    }
    Ok(())
}

/// The provider of a database's collation, and the locale that has a version.
pub(crate) fn provided(row: &DatabaseRow) -> Result<(Provider, &str), EngineError> {
    let provider = Provider::of(row.provider)
        .ok_or_else(|| EngineError::corrupt("pg_database has a bad datlocprovider"))?;
    Ok(match (provider, &row.locale) {
        (Provider::Libc, _) | (_, None) => (provider, row.collate.as_str()),
        (_, Some(locale)) => (provider, locale.as_str()),
    })
}

/// Refuses a locale that the C library does not have, or one of another encoding. Every locale goes
/// with SQL_ASCII, as for PostgreSQL's superusers; what cannot be served is refused later.
fn check_libc(name: &str, locale: &str, (of, encoding): (u8, Encoding)) -> Result<(), EngineError> {
    let (provider, rules, deterministic) = (Provider::Libc, None, true);
    let definition =
        Definition { name: locale, provider, locale, ctype: locale, rules, deterministic };
    match Collation::open(&definition) {
        Ok(_) => Ok(()),
        Err(CollationError::Unsupported { .. }) if encoding == Encoding::SqlAscii => Ok(()),
        Err(CollationError::Unsupported { .. }) => {
            Err(invalid(format!("encoding \"UTF8\" does not match locale \"{locale}\"")))
        }
        Err(_) => {
            let message = format!("invalid {name} locale name: \"{locale}\"");
            let error = EngineError::statement("42809", message);
            let (whose, option) = match of {
                b'b' => ("the builtin provider", "BUILTIN_LOCALE"),
                b'i' => ("ICU", "ICU_LOCALE"),
                _ => return Err(error),
            };
            let hint = format!("If the locale name is specific to {whose}, use {option}.");
            Err(error.with_hint(hint))
        }
    }
}

/// The locale of a new cluster's databases; None: C, as the initial rows have it.
pub(crate) fn new_locale(options: &LocaleOptions) -> Result<Option<NewLocale>, EngineError> {
    if *options == LocaleOptions::default() {
        return Ok(None);
    }
    let c = || "C".to_owned();
    let source = DatabaseRow {
        oid: 0,
        name: "template0".to_owned(),
        owner: 0,
        encoding: Encoding::Utf8.number(),
        provider: b'c',
        is_template: true,
        allows_connections: false,
        has_login_triggers: false,
        connection_limit: -1,
        frozen_xid: 0,
        min_multi: 0,
        tablespace: 0,
        collate: c(),
        ctype: c(),
        locale: None,
        icu_rules: None,
        collation_version: None,
    };
    let new = NewDatabase {
        encoding: Some(options.encoding.number()),
        provider: options.provider,
        collate: options.collate.clone(),
        ctype: options.ctype.clone(),
        both_locales: options.locale.clone(),
        builtin_locale: options.builtin_locale.clone(),
        icu_locale: options.icu_locale.clone(),
        ..NewDatabase::default()
    };
    let mut row = source.clone();
    set_locale(&mut row, &new, &source)?;
    let DatabaseRow { encoding, provider, collate, ctype, locale, .. } = row;
    let version = row.collation_version;
    Ok(Some(NewLocale { encoding, provider, collate, ctype, locale, version }))
}
