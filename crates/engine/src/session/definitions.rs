//! What the catalogs say of an index or a constraint, to be shown as SQL.

use forebay_catalog::{ConstraintDefinition, IndexDefinition, Reader};
use forebay_types::Oid;

use super::state::Session;
use crate::error::EngineError;

impl Session {
    /// The definition of an index. None: there is no such index.
    pub fn index_definition(&mut self, oid: Oid) -> Result<Option<IndexDefinition>, EngineError> {
        self.call(|session, core| {
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut session.backend, snapshot);
            Ok(reader.index_definition(oid)?)
        })
    }

    /// The definition of a constraint. None: there is no such constraint.
    pub fn constraint_definition(
        &mut self,
        oid: Oid,
    ) -> Result<Option<ConstraintDefinition>, EngineError> {
        self.call(|session, core| {
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut session.backend, snapshot);
            Ok(reader.constraint_definition(oid)?)
        })
    }
}
