//! What a name means, whatever kind of relation that is.

use forebay_catalog::Reader;
use forebay_types::Oid;

use super::state::Session;
use super::temp_tables::PG_TEMP;
use crate::core::Core;
use crate::error::EngineError;

/// A relation that a name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRelation {
    /// pg_class.oid
    pub oid: Oid,
    /// pg_class.relkind
    pub kind: u8,
    /// Its name.
    pub name: String,
}

impl Session {
    /// The relation of a name, of any kind. Without a schema it looks among the session's temporary
    /// relations, then in pg_catalog, then in public. It takes no lock.
    pub fn relation_named(
        &mut self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<NamedRelation>, EngineError> {
        self.call(|session, core| {
            let own = session.temp.namespace();
            let schemas = match schema {
                None if session.temp.may_have(name) => vec![own.as_str(), "pg_catalog", "public"],
                None => vec!["pg_catalog", "public"],
                Some(PG_TEMP) => vec![own.as_str()],
                Some(schema) => vec![schema],
            };
            for schema in schemas {
                if let Some(found) = session.relation_in(core, schema, name)? {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        })
    }

    fn relation_in(
        &mut self,
        core: &Core,
        schema: &str,
        name: &str,
    ) -> Result<Option<NamedRelation>, EngineError> {
        let Some(namespace) = self.namespace(core, schema)? else { return Ok(None) };
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        let class = reader.class_named(namespace, name)?;
        Ok(class.map(|class| NamedRelation { oid: class.oid, kind: class.kind, name: class.name }))
    }
}
