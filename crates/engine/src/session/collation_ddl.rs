//! CREATE, ALTER and DROP COLLATION; `pg_import_system_collations`.

use std::sync::Arc;

use forebay_catalog::ddl;
use forebay_catalog::schema::{DEFAULT_COLLATION, PG_COLLATION};
use forebay_catalog::syscache::{CollationRow, CollationsNamed, NamespaceByOid};
use forebay_catalog::{
    self as catalog, CollationChange, Created, Going, NewCollation, Reader, quoted,
};
use forebay_collation::{
    Collation, CollationError, Definition, Provider, actual_version, encoding_name, libc_encoding,
};
use forebay_format::ids::FIRST_UNPINNED_OID;
use forebay_txn::locks::LockMode;
use forebay_types::{Encoding, Oid};

use super::path::no_schema;
use super::referred::object_lock;
use super::state::Session;
use crate::core::InDatabase;
use crate::error::EngineError;
use crate::system_collations::system_collations;
use crate::warning::Warning;

/// What CREATE COLLATION says of a collation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollationDef {
    /// PROVIDER
    pub provider: Provider,
    /// LC_COLLATE, of libc's.
    pub collate: Option<String>,
    /// LC_CTYPE, of libc's.
    pub ctype: Option<String>,
    /// LOCALE, of others.
    pub locale: Option<String>,
    /// DETERMINISTIC
    pub deterministic: bool,
    /// VERSION; None: that of the provider's data.
    pub version: Option<String>,
    /// The encoding of the collation that it is a copy of.
    pub encoding: Option<i32>,
}

/// A collation by its schema and its name.
pub type CollationName<'a> = (Option<&'a str>, &'a str);

impl Session {
    /// Creates a collation (schema None: the first of the search path). 42710 if there is one of
    /// that name.
    pub fn create_collation(
        &mut self,
        (schema, name): CollationName<'_>,
        def: &CollationDef,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            core.database.check_event_triggers()?;
            let namespace = session.namespace_for_new(core, schema)?;
            let of = (namespace, session.acting.role);
            let new = new_collation(name, of, def, core.database.encoding)?;
            let tag = ddl::name_lock(core.database.oid, PG_COLLATION.oid, name);
            session.lock(core, tag, LockMode::AccessExclusive)?;
            let (tx, backend) = session.changing()?;
            match catalog::create_collation(&core.database, backend, tx, &new)? {
                Created::As(_) => Ok(()),
                Created::Taken => Err(exists(name, new.encoding, "")),
                Created::TakenByAnother => Err(exists(name, -1, "")),
            }
        })
    }

    /// A collation by its name. None: there is none.
    pub fn collation_named(
        &mut self,
        name: CollationName<'_>,
    ) -> Result<Option<Arc<CollationRow>>, EngineError> {
        self.call(|session, core| session.find_collation(core, name))
    }

    fn find_collation(
        &mut self,
        core: &InDatabase,
        (schema, name): CollationName<'_>,
    ) -> Result<Option<Arc<CollationRow>>, EngineError> {
        let namespaces = match schema {
            None => self.visible_namespaces(core)?,
            Some(schema) => {
                vec![self.namespace(core, schema)?.ok_or_else(|| no_schema(schema))?]
            }
        };
        let all = self.look_up(CollationsNamed(name.into()))?;
        let own = core.database.encoding;
        let find = |encoding, namespace| {
            all.iter().find(|row| row.encoding == encoding && row.namespace == namespace)
        };
        let mut found = namespaces
            .into_iter()
            .filter_map(|namespace| find(own.number(), namespace).or_else(|| find(-1, namespace)))
            .cloned();
        Ok(found.next())
    }

    /// Finds a collation that is to be changed or dropped, and locks it. 42704 if there is none.
    fn collation_to_change(
        &mut self,
        core: &InDatabase,
        name: CollationName<'_>,
    ) -> Result<Arc<CollationRow>, EngineError> {
        core.database.check_event_triggers()?;
        let find = |session: &mut Session| session.find_collation(core, name);
        let tag = |row: &Arc<CollationRow>| {
            Some(object_lock(core.database.oid, PG_COLLATION.oid, row.oid))
        };
        let found = self.lock_found(core, LockMode::AccessExclusive, find, tag)?;
        found.ok_or_else(|| no_collation(name, core.database.encoding))
    }

    /// Renames a collation.
    pub fn rename_collation(
        &mut self,
        name: CollationName<'_>,
        to: &str,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            let row = session.collation_to_change(core, name)?;
            let tag = ddl::name_lock(core.database.oid, PG_COLLATION.oid, to);
            session.lock(core, tag, LockMode::AccessExclusive)?;
            session.change_collation(core, &row, CollationChange::Name(to), to)
        })
    }

    /// Moves a collation to another schema.
    pub fn set_collation_schema(
        &mut self,
        name: CollationName<'_>,
        schema: &str,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            let row = session.collation_to_change(core, name)?;
            let namespace = session.namespace_for_new(core, Some(schema))?;
            if namespace == row.namespace {
                return Ok(());
            }
            let tag = ddl::name_lock(core.database.oid, PG_COLLATION.oid, &row.name);
            session.lock(core, tag, LockMode::AccessExclusive)?;
            let change = CollationChange::Namespace(namespace);
            session.change_collation(core, &row, change, &row.name)
        })
    }

    /// Gives a collation another owner.
    pub fn set_collation_owner(
        &mut self,
        name: CollationName<'_>,
        owner: &str,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            let row = session.collation_to_change(core, name)?;
            let owner = session.owner_named(core, owner)?;
            session.change_collation(core, &row, CollationChange::Owner(owner), &row.name)
        })
    }

    fn change_collation(
        &mut self,
        core: &InDatabase,
        row: &CollationRow,
        change: CollationChange<'_>,
        name: &str,
    ) -> Result<(), EngineError> {
        let (tx, backend) = self.changing()?;
        let clash = catalog::alter_collation(&core.database, backend, tx, row.oid, change)?;
        let Some(encoding) = clash else { return Ok(()) };
        let namespace = match change {
            CollationChange::Namespace(namespace) => namespace,
            _ => row.namespace,
        };
        let schema = self.look_up(NamespaceByOid(namespace))?;
        let schema = schema.map(|row| row.name.to_string()).unwrap_or_default();
        Err(exists(name, encoding, &format!(" in schema \"{schema}\"")))
    }

    /// Records the version of the data of a collation. Returns the versions before and now.
    pub fn refresh_collation_version(
        &mut self,
        name: CollationName<'_>,
    ) -> Result<(Option<String>, Option<String>), EngineError> {
        let row = self.call(|session, core| session.collation_to_change(core, name))?;
        if row.oid == DEFAULT_COLLATION {
            let message = "cannot refresh version of default collation";
            let error = EngineError::statement("XX000", message);
            let hint = "Use ALTER DATABASE ... REFRESH COLLATION VERSION instead.";
            return Err(error.with_hint(hint));
        }
        let now = self.collation_version(row.oid)?;
        let before = row.version.as_deref().map(str::to_owned);
        if before.is_none() != now.is_none() {
            return Err(EngineError::internal("invalid collation version change"));
        }
        if let Some(version) = now.as_ref().filter(|now| before.as_ref() != Some(*now)) {
            self.call(|session, core| {
                let change = CollationChange::Version(version);
                session.change_collation(core, &row, change, &row.name)
            })?;
        }
        Ok((before, now))
    }

    /// Drops collations; with `cascade` what depends on them. Returns what goes along, in words.
    pub fn drop_collations(
        &mut self,
        names: &[CollationName<'_>],
        cascade: bool,
    ) -> Result<Vec<String>, EngineError> {
        self.call(|session, core| {
            let mut oids = Vec::with_capacity(names.len());
            for name in names {
                let row = session.collation_to_change(core, *name)?;
                if row.oid < FIRST_UNPINNED_OID {
                    let shown = quoted(&row.name);
                    let message = format!(
                        "cannot drop collation {shown} because it is required by the database \
                         system"
                    );
                    return Err(EngineError::statement("2BP01", message));
                }
                oids.push(row.oid);
            }
            if cascade {
                for oid in &oids {
                    session.lock_what_goes(core, Going::Row(PG_COLLATION.oid, *oid))?;
                }
            }
            let path = session.visible_namespaces(core)?;
            let (tx, backend) = session.changing()?;
            let what = (&oids[..], path);
            Ok(catalog::drop_collations(&core.database, backend, tx, what, cascade)?.0)
        })
    }

    /// Adds the collations of the C library's locales to a namespace, as far as they are not there.
    /// Returns how many are new. ICU's languages are not listed.
    pub fn import_system_collations(&mut self, namespace: Oid) -> Result<i32, EngineError> {
        self.call(|session, core| {
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut session.backend, snapshot);
            if !reader.has_namespace(namespace)? {
                let message = format!("schema with OID {namespace} does not exist");
                return Err(EngineError::statement("3F000", message));
            }
            let (found, usable) = system_collations(namespace, session.acting.role);
            if !usable {
                session.warnings.push(Warning::new("no usable system locales were found"));
            }
            let mut made = 0;
            for new in found {
                session.check_cancel()?;
                let tag = ddl::name_lock(core.database.oid, PG_COLLATION.oid, &new.name);
                session.lock(core, tag, LockMode::AccessExclusive)?;
                let (tx, backend) = session.changing()?;
                let created = catalog::create_collation(&core.database, backend, tx, &new)?;
                made += i32::from(matches!(created, Created::As(_)));
            }
            Ok(made)
        })
    }
}

/// A new collation, if its locale is there.
fn new_collation(
    name: &str,
    (namespace, owner): (Oid, Oid),
    def: &CollationDef,
    of_database: Encoding,
) -> Result<NewCollation, EngineError> {
    let CollationDef { provider, collate, ctype, locale, deterministic, version, encoding } = def;
    let missing = |what: &str| {
        EngineError::statement("42P17", format!("parameter \"{what}\" must be specified"))
    };
    let (collate, ctype) = match provider {
        Provider::Libc => (
            Some(collate.clone().ok_or_else(|| missing("lc_collate"))?),
            Some(ctype.clone().ok_or_else(|| missing("lc_ctype"))?),
        ),
        _ => (None, None),
    };
    let locale = match provider {
        Provider::Libc => None,
        _ => Some(locale.clone().ok_or_else(|| missing("locale"))?),
    };
    check_deterministic(def)?;
    let first = collate.as_deref().or(locale.as_deref()).unwrap_or_default();
    let second = ctype.as_deref().or(locale.as_deref()).unwrap_or_default();
    let encoding = match (encoding, provider) {
        (Some(copied), _) => *copied,
        (None, Provider::Libc) => {
            check_encoding(second, of_database)?;
            check_encoding(first, of_database)?;
            of_database.number()
        }
        (None, Provider::Builtin) if first == "C" => -1,
        (None, Provider::Builtin) => of_database.number(),
        (None, Provider::Icu) => -1,
    };
    // One that is not deterministic is kept for PostgreSQL, and refused where it would be used.
    let definition = Definition {
        name,
        provider: *provider,
        locale: first,
        ctype: second,
        rules: None,
        deterministic: true,
    };
    check_opened(&Collation::open(&definition).map_err(not_opened)?, of_database)?;
    let actual = actual_version(*provider, first);
    if version.is_some() && actual.is_none() {
        let message =
            format!("collation \"{name}\" has no actual version, but a version was recorded");
        return Err(EngineError::internal(message));
    }
    let version = version.clone().or(actual);
    Ok(NewCollation {
        name: name.to_owned(),
        namespace,
        owner,
        provider: match provider {
            Provider::Builtin => b'b',
            Provider::Libc => b'c',
            Provider::Icu => b'i',
        },
        deterministic: *deterministic,
        encoding,
        collate,
        ctype,
        locale,
        version,
    })
}

/// Refuses a collation of characters where texts are bytes.
fn check_opened(opened: &Collation, of_database: Encoding) -> Result<(), EngineError> {
    if of_database != Encoding::SqlAscii || opened.is_c() && opened.is_ascii() {
        return Ok(());
    }
    let message = format!(
        "collations of other locales than C are not supported in a database with encoding {}",
        of_database.name()
    );
    Err(EngineError::statement("0A000", message))
}

fn check_deterministic(def: &CollationDef) -> Result<(), EngineError> {
    if def.deterministic || def.provider == Provider::Icu {
        return Ok(());
    }
    let message = "nondeterministic collations not supported with this provider";
    Err(EngineError::statement("0A000", message))
}

/// Refuses a locale of the C library for another encoding than the database's.
fn check_encoding(locale: &str, of_database: Encoding) -> Result<(), EngineError> {
    let of_locale = libc_encoding(locale).map_err(not_opened)?;
    match of_locale {
        // Those of ASCII go with every encoding.
        Some(0) => Ok(()),
        Some(own) if own == of_database.number() => Ok(()),
        other => {
            let encoding = of_database.name();
            let message = format!("encoding \"{encoding}\" does not match locale \"{locale}\"");
            let name = other.and_then(encoding_name).unwrap_or("unknown");
            let detail = format!("The chosen LC_CTYPE setting requires encoding \"{name}\".");
            Err(EngineError::statement("22023", message).with_detail(detail))
        }
    }
}

fn not_opened(error: CollationError) -> EngineError {
    let refused = EngineError::statement(error.sqlstate(), error.to_string());
    match error {
        CollationError::NoLocale { locale, .. } => refused.with_detail(format!(
            "The operating system could not find any locale data for the locale name \"{locale}\"."
        )),
        _ => refused,
    }
}

/// The error of a name that is taken.
fn exists(name: &str, encoding: i32, place: &str) -> EngineError {
    let for_encoding = match encoding_name(encoding) {
        Some(encoding) => format!(" for encoding \"{encoding}\""),
        None => String::new(),
    };
    let message = format!("collation \"{name}\"{for_encoding} already exists{place}");
    EngineError::statement("42710", message)
}

fn no_collation((schema, name): CollationName<'_>, encoding: Encoding) -> EngineError {
    let schema = schema.map_or_else(String::new, |schema| format!("{schema}."));
    let encoding = encoding.name();
    let message =
        format!("collation \"{schema}{name}\" for encoding \"{encoding}\" does not exist");
    EngineError::statement("42704", message)
}
