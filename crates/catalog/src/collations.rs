//! Collations of a database that were opened: its own, and those of pg_collation.
//!
//! What the catalogs say of a collation is opened once; its version is compared with that of the
//! provider's data here.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::HashMap;
use std::sync::Arc;

use forebay_aio::sync::Mutex;
use forebay_collation::{
    Collation, CollationError, Definition, Provider, actual_version, version_agrees,
};
use forebay_types::Encoding;

use crate::error::CatalogError;
use crate::syscache::CollationRow;

/// More collations than this are not kept open.
const MOST_OPEN: usize = 1000;

/// What is kept open: provider, locale and LC_CTYPE.
type Key = (Provider, Box<str>, Box<str>);

/// A collation that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCollation {
    /// How it compares.
    pub collation: Arc<Collation>,
    /// If the version that is recorded is not that of the provider's data.
    pub mismatch: Option<VersionMismatch>,
    /// Why indexes by it must be neither used nor changed.
    pub unsafe_in_indexes: Option<String>,
}

/// Versions that differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionMismatch {
    /// What the catalogs have.
    pub recorded: String,
    /// What the provider has.
    pub actual: String,
}

/// The collations of a database that were opened.
#[derive(Debug)]
pub(crate) struct Collations {
    default: OpenCollation,
    encoding: Encoding,
    open: Mutex<HashMap<Key, Arc<Collation>>>,
}

impl OpenCollation {
    /// The order of bytes.
    pub(crate) fn c() -> OpenCollation {
        let collation = Arc::new(Collation::c());
        OpenCollation { collation, mismatch: None, unsafe_in_indexes: None }
    }
}

impl Collations {
    /// Where there is no database, only the catalogs are read, whose texts are in collation C.
    pub(crate) fn of_none() -> Collations {
        let encoding = Encoding::SqlAscii;
        Collations { default: OpenCollation::c(), encoding, open: Mutex::default() }
    }

    /// With the database's own, and its encoding; `what` names the database.
    pub(crate) fn new(
        own: &Definition<'_>,
        recorded: Option<&str>,
        (encoding, what): (Encoding, &str),
    ) -> Result<Collations, CatalogError> {
        let collation = Arc::new(opened(own, encoding, what)?);
        let default = checked(collation, (own.provider, own.locale), recorded, what);
        Ok(Collations { default, encoding, open: Mutex::default() })
    }

    /// The database's own.
    pub(crate) fn default(&self) -> &OpenCollation {
        &self.default
    }

    /// Opens what a row of pg_collation describes.
    pub(crate) fn open(&self, row: &CollationRow) -> Result<OpenCollation, CatalogError> {
        let Some(provider) = Provider::of(row.provider) else {
            return match row.provider {
                b'd' => Ok(self.default.clone()),
                other => {
                    let (name, letter) = (&row.name, char::from(other));
                    let message = format!("collation \"{name}\" has the provider \"{letter}\"");
                    Err(CatalogError::corrupt(message))
                }
            };
        };
        let definition = definition(row, provider)?;
        if !definition.deterministic {
            let message = format!(
                "collation \"{}\" is not supported: it is not deterministic",
                definition.name
            );
            return Err(CatalogError::refused("0A000", message));
        }
        let key = (provider, definition.locale.into(), definition.ctype.into());
        let known = match definition.rules {
            None => self.open.lock().get(&key).cloned(),
            Some(_) => None,
        };
        let what = format!("collation \"{}\"", row.name);
        let collation = match known {
            Some(known) => known,
            None => {
                let opened = Arc::new(opened(&definition, self.encoding, &what)?);
                let mut open = self.open.lock();
                if open.len() < MOST_OPEN {
                    open.insert(key, Arc::clone(&opened));
                }
                opened
            }
        };
        let locale = (provider, definition.locale);
        Ok(checked(collation, locale, row.version.as_deref(), &what))
    }
}

/// Opens a collation of `what` in a database with an encoding.
fn opened(
    definition: &Definition<'_>,
    encoding: Encoding,
    what: &str,
) -> Result<Collation, CatalogError> {
    let collation = Collation::open(definition).map_err(refusal)?;
    // Others look at characters, which bytes without an encoding are not.
    if encoding == Encoding::SqlAscii && !(collation.is_c() && collation.is_ascii()) {
        let message = format!(
            "{what} has the locale \"{}\": with encoding SQL_ASCII, locales other than C are not \
             supported",
            definition.locale
        );
        return Err(CatalogError::refused("0A000", message));
    }
    Ok(collation)
}

fn checked(
    collation: Arc<Collation>,
    (provider, locale): (Provider, &str),
    recorded: Option<&str>,
    what: &str,
) -> OpenCollation {
    let agrees = version_agrees(provider, locale, recorded);
    let actual = actual_version(provider, locale);
    let mismatch = match (recorded, &actual) {
        (Some(recorded), Some(actual)) if !agrees => {
            Some(VersionMismatch { recorded: recorded.to_owned(), actual: actual.clone() })
        }
        _ => None,
    };
    // The order of ICU's data is compiled in, so an index of other data may be in another order.
    let unsafe_in_indexes = (provider == Provider::Icu && !agrees).then(|| {
        format!(
            "{what} has ICU's version {}, and this server {}",
            recorded.unwrap_or("unknown"),
            actual.as_deref().unwrap_or("unknown")
        )
    });
    OpenCollation { collation, mismatch, unsafe_in_indexes }
}

/// What a row of pg_collation says.
fn definition(row: &CollationRow, provider: Provider) -> Result<Definition<'_>, CatalogError> {
    let (locale, ctype) = match provider {
        Provider::Libc => (row.collate.as_deref(), row.ctype.as_deref()),
        _ => (row.locale.as_deref(), row.locale.as_deref()),
    };
    let (Some(locale), Some(ctype)) = (locale, ctype) else {
        let message = format!("collation \"{}\" has no locale", row.name);
        return Err(CatalogError::corrupt(message));
    };
    let (name, rules, deterministic) = (&*row.name, row.rules.as_deref(), row.deterministic);
    Ok(Definition { name, provider, locale, ctype, rules, deterministic })
}

pub(crate) fn refusal(error: CollationError) -> CatalogError {
    CatalogError::refused(error.sqlstate(), error.to_string())
}
