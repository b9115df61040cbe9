//! The locale of a new database, and versions of collations.

use forebay_catalog::syscache::CollationByOid;
use forebay_catalog::{DatabaseRow, check_locale, quoted};
use forebay_collation::{
    Collation, CollationError, Definition, Provider, actual_version, version_agrees,
};
use forebay_txn::locks::LockMode;
use forebay_types::{Datum, Oid};

use forebay_catalog::bootstrap::NewLocale;

use super::databases::NewDatabase;
use super::state::Session;
use crate::config::LocaleOptions;
use crate::error::EngineError;

fn invalid(message: impl Into<String>) -> EngineError {
    EngineError::statement("22023", message)
}

fn contradiction(message: &str) -> EngineError {
    EngineError::statement("42P17", message)
}

/// Gives the row of a new database, a copy of its template's, the locale that was asked for.
pub(super) fn set_locale(
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
    for (name, locale) in [("LC_COLLATE", &row.collate), ("LC_CTYPE", &row.ctype)] {
        check_libc(name, locale)?;
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
fn provided(row: &DatabaseRow) -> Result<(Provider, &str), EngineError> {
    let provider = Provider::of(row.provider)
        .ok_or_else(|| EngineError::corrupt("pg_database has a bad datlocprovider"))?;
    Ok(match (provider, &row.locale) {
        (Provider::Libc, _) | (_, None) => (provider, row.collate.as_str()),
        (_, Some(locale)) => (provider, locale.as_str()),
    })
}

/// Refuses a locale that the C library does not have, or one of another encoding.
fn check_libc(name: &str, locale: &str) -> Result<(), EngineError> {
    let (provider, rules, deterministic) = (Provider::Libc, None, true);
    let definition =
        Definition { name: locale, provider, locale, ctype: locale, rules, deterministic };
    match Collation::open(&definition) {
        Ok(_) => Ok(()),
        Err(CollationError::Unsupported { .. }) => {
            Err(invalid(format!("encoding \"UTF8\" does not match locale \"{locale}\"")))
        }
        Err(_) => {
            let message = format!("invalid {name} locale name: \"{locale}\"");
            let error = EngineError::statement("42809", message);
            Err(error.with_hint("If the locale name is specific to ICU, use ICU_LOCALE."))
        }
    }
}

impl Session {
    /// The version of the data of a database's collation. None: it has none.
    pub fn database_collation_version(&mut self, oid: Oid) -> Result<Option<String>, EngineError> {
        self.call(|session, core| {
            let row = session.database_by_oid(core, oid)?.ok_or_else(|| {
                let message = format!("database with OID {oid} does not exist");
                EngineError::statement("42704", message)
            })?;
            let (provider, locale) = provided(&row)?;
            Ok(actual_version(provider, locale))
        })
    }

    /// The version of the data of a collation. None: it has none.
    pub fn collation_version(&mut self, oid: Oid) -> Result<Option<String>, EngineError> {
        let row = self.look_up(CollationByOid(oid))?.ok_or_else(|| {
            let message = format!("collation with OID {oid} does not exist");
            EngineError::statement("42704", message)
        })?;
        if row.provider == b'd' {
            let database = self.core.database.oid;
            return self.database_collation_version(database);
        }
        let provider = Provider::of(row.provider)
            .ok_or_else(|| EngineError::corrupt("pg_collation has a bad collprovider"))?;
        let locale = if provider == Provider::Libc { &row.collate } else { &row.locale };
        Ok(actual_version(provider, locale.as_deref().unwrap_or_default()))
    }

    /// Records the version of the data of a database's collation. Returns the versions before and
    /// now. Whether indexes by ICU are used again is decided when the server starts next.
    pub fn refresh_database_version(
        &mut self,
        name: &str,
    ) -> Result<(Option<String>, Option<String>), EngineError> {
        self.call(|session, core| {
            let row = session.database_to_change(core, name, LockMode::RowExclusive)?;
            let (provider, locale) = provided(&row)?;
            let (before, now) = (row.collation_version.clone(), actual_version(provider, locale));
            if before.is_none() != now.is_none() {
                return Err(EngineError::internal("invalid collation version change"));
            }
            if let Some(now) = now.as_ref().filter(|now| before.as_ref() != Some(*now)) {
                let change = ("datcollversion", Datum::string(now.clone()));
                session.change_row(core, row.oid, &[change])?;
            }
            Ok((before, now))
        })
    }
}

/// The locale of a new cluster's databases; None: C, as the initial rows have it.
pub fn new_locale(options: &LocaleOptions) -> Result<Option<NewLocale>, EngineError> {
    if *options == LocaleOptions::default() {
        return Ok(None);
    }
    let c = || "C".to_owned();
    let source = DatabaseRow {
        oid: 0,
        name: "template0".to_owned(),
        owner: 0,
        encoding: 6,
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
    let DatabaseRow { provider, collate, ctype, locale, collation_version: version, .. } = row;
    Ok(Some(NewLocale { provider, collate, ctype, locale, version }))
}
