//! Collations that statements use, and warnings of their versions.

use std::sync::Arc;

use forebay_catalog::schema::DEFAULT_COLLATION;
use forebay_catalog::syscache::CollationByOid;
use forebay_catalog::{DatabaseRow, OpenCollation, VersionMismatch, quoted};
use forebay_collation::Collation;
use forebay_types::Oid;

use super::state::Session;
use crate::error::EngineError;
use crate::warning::Warning;

impl Session {
    /// A collation by its OID. On its first use in the session the client is warned if its version
    /// is not that of the provider.
    pub fn collation(&mut self, oid: Oid) -> Result<Arc<Collation>, EngineError> {
        if oid == DEFAULT_COLLATION {
            return Ok(Arc::clone(&self.core.database.default_collation().collation));
        }
        let Some(row) = self.look_up(CollationByOid(oid))? else {
            let message = format!("cache lookup failed for collation {oid}");
            return Err(EngineError::statement("XX000", message));
        };
        let OpenCollation { collation, mismatch, .. } = self.core.database.open_collation(&row)?;
        if let Some(VersionMismatch { recorded, actual }) = mismatch
            && !self.warned_collations.contains(&oid)
        {
            self.warned_collations.push(oid);
            let name = quoted(&row.name);
            self.warnings.push(Warning {
                sqlstate: "01000",
                message: format!("collation \"{}\" has version mismatch", row.name),
                detail: Some(format!(
                    "The collation in the database was created using version {recorded}, but the \
                     operating system provides version {actual}."
                )),
                hint: Some(format!(
                    "Rebuild all objects affected by this collation and run ALTER COLLATION \
                     {name} REFRESH VERSION, or build PostgreSQL with the right library version."
                )),
            });
        }
        Ok(collation)
    }

    /// Warns of the version of the database's collation, which the session is about to enter.
    pub(super) fn warn_of_version(&mut self, row: &DatabaseRow, collation: &OpenCollation) {
        let Some(VersionMismatch { recorded, actual }) = &collation.mismatch else { return };
        let name = quoted(&row.name);
        self.warnings.push(Warning {
            sqlstate: "01000",
            message: format!("database \"{}\" has a collation version mismatch", row.name),
            detail: Some(format!(
                "The database was created using collation version {recorded}, but the operating \
                 system provides version {actual}."
            )),
            hint: Some(format!(
                "Rebuild all objects in this database that use the default collation and run \
                 ALTER DATABASE {name} REFRESH COLLATION VERSION, or build PostgreSQL with the \
                 right library version."
            )),
        });
    }
}
