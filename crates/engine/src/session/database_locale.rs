//! Versions of collations: of a database's, and of those in pg_collation.

use forebay_catalog::syscache::CollationByOid;
use forebay_collation::{Provider, actual_version};
use forebay_txn::locks::LockMode;
use forebay_types::{Datum, Oid};

use super::state::Session;
use crate::error::EngineError;
use crate::locale::provided;

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
