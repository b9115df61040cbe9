//! What a name means, whatever kind of relation that is.

use forebay_catalog::Reader;
use forebay_types::Oid;

use super::state::Session;
use super::temp_tables::PG_TEMP;
use crate::core::InDatabase;
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
    /// The relation of a name, of any kind. Without a schema it is looked for along the search
    /// path. It takes no lock.
    pub fn relation_named(
        &mut self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<NamedRelation>, EngineError> {
        self.call(|session, core| session.find_relation(core, schema, name))
    }

    /// A relation of any kind by its OID: its namespace and its name.
    pub fn relation_name(&mut self, oid: Oid) -> Result<Option<(Oid, String)>, EngineError> {
        self.call(|session, core| {
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let class = Reader::new(&core.database, &mut session.backend, snapshot).class(oid)?;
            Ok(class.map(|class| (class.namespace, class.name)))
        })
    }

    pub(super) fn find_relation(
        &mut self,
        core: &InDatabase,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<NamedRelation>, EngineError> {
        match schema {
            Some(PG_TEMP) => return self.temporary_relation(core, name),
            Some(schema) => {
                return match self.namespace(core, schema)? {
                    Some(namespace) => self.relation_in(core, namespace, name),
                    None => Ok(None),
                };
            }
            None => {}
        }
        for entry in self.path(core)?.iter() {
            let found = match entry.namespace {
                Some(namespace) => self.relation_in(core, namespace, name)?,
                None => self.temporary_relation(core, name)?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn temporary_relation(
        &mut self,
        core: &InDatabase,
        name: &str,
    ) -> Result<Option<NamedRelation>, EngineError> {
        if !self.temp.may_have(name) {
            return Ok(None);
        }
        let own = self.temp.namespace();
        match self.namespace(core, &own)? {
            Some(namespace) => self.relation_in(core, namespace, name),
            None => Ok(None),
        }
    }

    fn relation_in(
        &mut self,
        core: &InDatabase,
        namespace: Oid,
        name: &str,
    ) -> Result<Option<NamedRelation>, EngineError> {
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        let class = reader.class_named(namespace, name)?;
        Ok(class.map(|class| NamedRelation { oid: class.oid, kind: class.kind, name: class.name }))
    }
}
