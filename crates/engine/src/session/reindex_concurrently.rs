//! REINDEX CONCURRENTLY: indexes get twins, which take their places.
//!
//! ```text
//!   twins in the catalogs, not used ─▶ filled as new indexes are (`concurrent_indexes`)
//!   ─▶ each twin valid, under the index's name; the index not valid, to be dropped
//!   ─▶ the indexes dropped as DROP INDEX CONCURRENTLY does
//! ```
//!
//! What fails, or a crash, leaves twins (`_ccnew`) or the old indexes (`_ccold`), which are not
//! valid. DROP INDEX drops them.

use std::sync::Arc;

use forebay_access::progress::Statement;
use forebay_catalog::{self as catalog, Table, TableIndex};
use forebay_format::ids::FIRST_UNPINNED_OID;
use forebay_storage::progress::Started;
use forebay_txn::CountedRelation;
use forebay_types::Oid;

use super::concurrent_indexes::MODE;
use super::indexes::check_indexable;
use super::state::Session;
use crate::core::InDatabase;
use crate::error::EngineError;
use crate::warning::Warning;

/// An index with its twin.
struct Twins {
    table: Arc<Table>,
    index: Arc<TableIndex>,
    twin: Oid,
}

impl Session {
    /// Builds an index anew beside readers and writers. There must be no transaction running.
    ///
    /// # Errors
    /// PostgreSQL's: 42704, 42809, 0A000, 23505. Afterwards there may be an index that is not
    /// valid.
    pub fn reindex_index_concurrently(
        &mut self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<(), EngineError> {
        let replaced = self.replace_indexes(|session, core| {
            let (table, _, index) = session.lock_index(core, (schema, name), MODE)?;
            check_table(&table)?;
            let index = index.ok_or_else(|| {
                let message = format!("cannot rebuild index \"{name}\": it is being dropped");
                EngineError::statement("0A000", message)
            })?;
            if table.kind == b't' && !index.valid {
                let message = "cannot reindex invalid index on TOAST table";
                return Err(EngineError::statement("0A000", message));
            }
            Ok(vec![(table, index)])
        })?;
        assert!(replaced, "the index was found");
        Ok(())
    }

    /// Builds the valid indexes of a table and of its TOAST table anew beside readers and writers.
    /// There must be no transaction running. Warns of the others. False if there are none.
    ///
    /// # Errors
    /// As above; 42P01 if the table is gone.
    pub fn reindex_table_concurrently(&mut self, table: &Table) -> Result<bool, EngineError> {
        self.replace_indexes(|session, core| {
            session.check_own(table)?;
            let now = session.locked_now(core, table)?;
            check_table(&now)?;
            let toast = now.toasting.relation;
            let mut found = session.valid_indexes(Arc::new(now));
            if let Some(toast) = toast {
                let toast = session.locked_toast(core, toast, MODE)?;
                found.extend(session.valid_indexes(toast));
            }
            Ok(found)
        })
    }

    /// The indexes of a table that can be replaced, with it.
    fn valid_indexes(&mut self, table: Arc<Table>) -> Vec<(Arc<Table>, Arc<TableIndex>)> {
        let mut found = Vec::with_capacity(table.indexes.len());
        for index in &table.indexes {
            let name = format!("\"{}.{}\"", table.schema, index.name);
            let (sqlstate, message, hint) = if !index.valid {
                let hint = "Use DROP INDEX or REINDEX INDEX.".to_owned();
                ("55000", format!("skipping reindex of invalid index {name}"), Some(hint))
            } else if index.exclusion {
                let what = format!("exclusion constraint index {name}");
                ("0A000", format!("cannot reindex {what} concurrently, skipping"), None)
            } else {
                found.push((Arc::clone(&table), Arc::clone(index)));
                continue;
            };
            self.warnings.push(Warning { sqlstate, message, detail: None, hint });
        }
        found
    }

    /// Replaces indexes whose tables are locked when they are found. False if there are none.
    fn replace_indexes(
        &mut self,
        find: impl FnOnce(
            &mut Session,
            &InDatabase,
        ) -> Result<Vec<(Arc<Table>, Arc<TableIndex>)>, EngineError>,
    ) -> Result<bool, EngineError> {
        let mut started = None;
        let mut locked = Vec::new();
        let made = self.alone_in(|session, core| {
            let found = find(session, core)?;
            let mut twins = Vec::with_capacity(found.len());
            for (table, index) in found {
                twins.push(session.make_twin(core, (table, index), &mut started)?);
            }
            for Twins { table, .. } in &twins {
                if !locked.iter().any(|other: &Arc<Table>| other.oid == table.oid) {
                    session.lock_for_ddl(core, table)?;
                    locked.push(Arc::clone(table));
                }
            }
            Ok(twins)
        });
        let done = made.and_then(|twins| {
            self.replace_by_twins(&twins, started.as_ref()).map(|()| !twins.is_empty())
        });
        locked.iter().for_each(|table| self.unlock_for_ddl(table));
        done
    }

    /// Makes the twin of an index in the catalogs, and shows it.
    fn make_twin(
        &mut self,
        core: &InDatabase,
        (table, index): (Arc<Table>, Arc<TableIndex>),
        started: &mut Option<Started>,
    ) -> Result<Twins, EngineError> {
        let statement = Statement::ReindexConcurrently;
        match started {
            None => *started = Some(self.show_building(&table, statement, index.oid)),
            Some(started) => {
                started.on_another(table.oid);
                self.show_index(statement, index.oid);
            }
        }
        let name = self.lock_twin_name(core, &table, (&index.name, "ccnew"))?;
        let place = table.place_in(index.locator.spc);
        let twin = self.with_files(core, place, |session, files| {
            let (tx, backend) = session.changing()?;
            let of = (&*table, &*index);
            Ok(catalog::copy_index(&core.database, backend, tx, of, &name, files)?)
        })?;
        Ok(Twins { table, index, twin })
    }

    /// Locks a free name for a twin, or for the index that it replaces.
    fn lock_twin_name(
        &mut self,
        core: &InDatabase,
        table: &Table,
        of: (&str, &str),
    ) -> Result<String, EngineError> {
        self.lock_chosen_name(core, table.namespace, |backend, tx| {
            catalog::twin_name(&core.database, backend, tx, table, of)
        })
    }

    fn replace_by_twins(
        &mut self,
        twins: &[Twins],
        started: Option<&Started>,
    ) -> Result<(), EngineError> {
        if twins.is_empty() {
            return Ok(());
        }
        let new: Vec<_> = twins.iter().map(|of| (&*of.table, of.twin)).collect();
        self.fill_indexes(&new, started)?;
        let names = self.alone_in(|session, core| {
            let mut names = Vec::with_capacity(twins.len());
            for Twins { table, index, twin } in twins {
                let name = session.lock_twin_name(core, table, (&index.name, "ccold"))?;
                let (tx, backend) = session.changing()?;
                let both = (index.oid, *twin);
                catalog::swap_indexes(&core.database, backend, tx, both, &name)?;
                names.push(name);
            }
            Ok(names)
        })?;
        for Twins { index, twin, .. } in twins {
            let [from, to] =
                [index.oid, *twin].map(|rel| CountedRelation { db: self.core.database.oid, rel });
            self.core.statistics.copy(from, to);
        }
        let old = twins.iter().zip(&names);
        let old: Vec<_> =
            old.map(|(of, name)| (&*of.table, (of.index.oid, name.as_str()))).collect();
        self.remove_indexes(&old)
    }
}

/// Refuses tables whose indexes cannot be built anew beside writers.
fn check_table(table: &Table) -> Result<(), EngineError> {
    let refuse = |message: &str| Err(EngineError::statement("0A000", message));
    if table.oid < FIRST_UNPINNED_OID {
        return refuse("cannot reindex system catalogs concurrently");
    }
    if table.is_temporary() {
        return refuse("cannot reindex a temporary table concurrently");
    }
    check_indexable(table)
}
