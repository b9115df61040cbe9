//! Collations by what the catalogs say of them: of a database, and by OID.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use forebay_access::nbtree::KeyOrder;
use forebay_collation::{Collation, Definition, Provider};
use forebay_types::Oid;

use crate::cluster_rows::DatabaseRow;
use crate::collations::{Collations, OpenCollation};
use crate::database::Database;
use crate::error::CatalogError;
use crate::reader::Reader;
use crate::schema::DEFAULT_COLLATION;
use crate::syscache::{CollationByOid, CollationRow, Lookup};
use crate::table::Column;

/// The collations of a database, its own opened.
pub(crate) fn collations_of(row: &DatabaseRow) -> Result<Collations, CatalogError> {
    let what = format!("database \"{}\"", row.name);
    let encoding = row.known_encoding()?;
    Collations::new(&definition_of(row)?, row.collation_version.as_deref(), (encoding, &what))
}

impl Reader<'_> {
    /// A collation by its OID; 0 stands for the order of bytes.
    pub fn open_collation(&mut self, oid: Oid) -> Result<OpenCollation, CatalogError> {
        let collations = &self.database().collations;
        match oid {
            DEFAULT_COLLATION => return Ok(collations.default().clone()),
            0 => return Ok(OpenCollation::c()),
            _ => {}
        }
        let Some(row) = CollationByOid(oid).read(self)? else {
            let message = format!("cache lookup failed for collation {oid}");
            return Err(CatalogError::refused("XX000", message));
        };
        self.database().collations.open(&row)
    }

    /// How the values of a column are ordered. None: in no order, or in one that is not known.
    pub fn order_of(&mut self, column: &Column) -> Result<Option<KeyOrder>, CatalogError> {
        let collation = match self.open_collation(column.collation) {
            Ok(open) => open.collation,
            Err(CatalogError::Refused(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(KeyOrder::of_type_in(column.type_oid, &collation))
    }

    /// How an index orders texts by a collation; or why it must be left alone.
    pub(crate) fn index_collation(
        &mut self,
        oid: Oid,
    ) -> Result<Result<Arc<Collation>, String>, CatalogError> {
        match self.open_collation(oid) {
            Ok(OpenCollation { unsafe_in_indexes: Some(why), .. }) => Ok(Err(why)),
            Ok(open) => Ok(Ok(open.collation)),
            Err(CatalogError::Refused(refusal)) => Ok(Err(refusal.message)),
            Err(error) => Err(error),
        }
    }
}

impl Database {
    /// The collation of the database.
    pub fn default_collation(&self) -> &OpenCollation {
        self.collations.default()
    }

    /// Opens what a row of pg_collation describes.
    pub fn open_collation(&self, row: &CollationRow) -> Result<OpenCollation, CatalogError> {
        self.collations.open(row)
    }
}

/// What the row of a database says of its collation.
fn definition_of(row: &DatabaseRow) -> Result<Definition<'_>, CatalogError> {
    let DatabaseRow { name, provider, collate, ctype, locale, icu_rules, .. } = row;
    let provider = Provider::of(*provider).ok_or_else(|| {
        let message = format!("database \"{name}\" has the provider \"{}\"", char::from(*provider));
        CatalogError::corrupt(message)
    })?;
    let (locale, ctype) = match (provider, locale) {
        (Provider::Libc, _) => (collate.as_str(), ctype.as_str()),
        (_, Some(locale)) => (locale.as_str(), locale.as_str()),
        (_, None) => {
            let message = format!("database \"{name}\" has no locale");
            return Err(CatalogError::corrupt(message));
        }
    };
    let rules = icu_rules.as_deref();
    Ok(Definition { name: "default", provider, locale, ctype, rules, deterministic: true })
}
