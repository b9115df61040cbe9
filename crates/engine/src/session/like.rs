//! CREATE TABLE (LIKE ...): what a table's indexes, sequences and comments are.

use forebay_catalog::{self as catalog, CommentedPart, IndexDef, Table};
use forebay_types::Oid;

use super::state::Session;
use crate::error::EngineError;

impl Session {
    /// What the indexes of a table are, by OID and without names.
    pub fn index_definitions(
        &mut self,
        table: &Table,
    ) -> Result<Vec<(Oid, IndexDef)>, EngineError> {
        self.call(|session, core| {
            let (tx, backend) = session.changing()?;
            Ok(catalog::index_definitions(&core.database, backend, tx, table)?)
        })
    }

    /// Whether a table has extended statistics.
    pub fn has_extended_statistics(&mut self, table: Oid) -> Result<bool, EngineError> {
        self.call(|session, core| {
            let (tx, backend) = session.changing()?;
            Ok(catalog::has_extended_statistics(&core.database, backend, tx, table)?)
        })
    }

    /// Gives the parts of a new table the comments of those of another one.
    pub fn copy_comments(
        &mut self,
        tables: (Oid, Oid),
        parts: &[CommentedPart],
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            let (tx, backend) = session.changing()?;
            Ok(catalog::copy_comments(&core.database, backend, tx, tables, parts)?)
        })
    }
}
