//! The search path: where names without a schema are looked for, and where new objects go.

use std::sync::Arc;

use forebay_catalog::schema::{PG_CATALOG, PG_NAMESPACE};
use forebay_txn::locks::LockMode;
use forebay_types::Oid;

use super::known_path::{KnownPath, PathEntry};
use super::referred::object_lock;
use super::state::Session;
use super::temp_tables::PG_TEMP;
use crate::core::InDatabase;
use crate::error::EngineError;

impl Session {
    /// The namespaces in which names without a schema are looked for, in this order. The session's
    /// temporary tables are looked for in the entry without an OID; nothing else is in it.
    pub fn search_path(&mut self) -> Result<Arc<[PathEntry]>, EngineError> {
        self.call(|session, core| session.path(core))
    }

    /// The schema into which new objects go without one. None: there is none.
    pub fn creation_schema(&mut self) -> Result<Option<PathEntry>, EngineError> {
        let path = self.search_path()?;
        Ok(path.iter().find(|entry| !entry.implicit).cloned())
    }

    pub(super) fn path(&mut self, core: &InDatabase) -> Result<Arc<[PathEntry]>, EngineError> {
        let version = core.database.cache.moved();
        let shared = !self.running()?.changed_catalogs;
        let known = &self.known_path;
        if shared
            && known.version == version
            && (Arc::ptr_eq(&known.of, &self.settings.search_path)
                || known.of == self.settings.search_path)
            && !known.entries.is_empty()
        {
            return Ok(Arc::clone(&known.entries));
        }
        let of = Arc::clone(&self.settings.search_path);
        let user = Arc::clone(self.current_user());
        let mut entries: Vec<PathEntry> = Vec::new();
        for name in of.iter() {
            let entry = match name.as_str() {
                PG_TEMP => Some((None, PG_TEMP)),
                "$user" => {
                    let found = self.namespace(core, &user)?;
                    found.map(|oid| (Some(oid), &*user))
                }
                name => self.namespace(core, name)?.map(|oid| (Some(oid), name)),
            };
            let Some((namespace, name)) = entry else { continue };
            if !entries.iter().any(|entry| entry.namespace == namespace) {
                entries.push(PathEntry { namespace, name: name.into(), implicit: false });
            }
        }
        let implicit = [(Some(PG_CATALOG), "pg_catalog"), (None, PG_TEMP)];
        for (namespace, name) in implicit {
            if !entries.iter().any(|entry| entry.namespace == namespace) {
                entries.insert(0, PathEntry { namespace, name: name.into(), implicit: true });
            }
        }
        let entries: Arc<[PathEntry]> = entries.into();
        if shared {
            self.known_path = KnownPath { version, of, entries: Arc::clone(&entries) };
        }
        Ok(entries)
    }

    /// The namespaces of the path that messages leave out.
    pub(super) fn visible_namespaces(
        &mut self,
        core: &InDatabase,
    ) -> Result<Vec<Oid>, EngineError> {
        Ok(self.path(core)?.iter().filter_map(|entry| entry.namespace).collect())
    }

    /// The namespace for a new object: of that schema, or the first of the search path. Nobody
    /// drops it before the transaction ends.
    pub(super) fn namespace_for_new(
        &mut self,
        core: &InDatabase,
        schema: Option<&str>,
    ) -> Result<Oid, EngineError> {
        let find = |session: &mut Session| session.find_for_new(core, schema).map(Some);
        let tag = |oid: &Oid| Some(object_lock(core.database.oid, PG_NAMESPACE.oid, *oid));
        let found = self.lock_found(core, LockMode::AccessShare, find, tag)?;
        let lost = || EngineError::internal("a schema that was found is none");
        let found = found.ok_or_else(lost)?;
        self.check_schema_owned(core, found)?;
        Ok(found)
    }

    fn find_for_new(
        &mut self,
        core: &InDatabase,
        schema: Option<&str>,
    ) -> Result<Oid, EngineError> {
        let Some(schema) = schema else {
            let path = self.path(core)?;
            let Some(first) = path.iter().find(|entry| !entry.implicit) else {
                let message = "no schema has been selected to create in";
                return Err(EngineError::statement("3F000", message));
            };
            return first.namespace.ok_or_else(|| {
                let message = "pg_temp as the first schema of search_path is not supported";
                EngineError::statement("0A000", message)
            });
        };
        self.namespace(core, schema)?.ok_or_else(|| no_schema(schema))
    }
}

pub(super) fn no_schema(name: &str) -> EngineError {
    EngineError::statement("3F000", format!("schema \"{name}\" does not exist"))
}
