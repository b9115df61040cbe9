//! Checks of indexes while the cluster runs: amcheck's functions.

use std::sync::Arc;

use forebay_access::IndexCheck;
use forebay_access::heap::{Author, Changer, IndexableScan};
use forebay_catalog::{Class, Reader, Table, TableIndex};
use forebay_format::FullXid;
use forebay_format::ids::INVALID_XID;
use forebay_txn::locks::{LockMode, LockTag};
use forebay_types::Oid;

use super::indexes::row_source;
use super::scan::horizon_of;
use super::state::{Session, no_transaction};
use crate::core::InDatabase;
use crate::error::EngineError;

/// What to check of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexCheckOptions {
    /// How its pages hang together, which excludes changes meanwhile.
    pub parents: bool,
    /// Whether it has all rows of its table; this excludes changes too.
    pub all_rows: bool,
    /// Whether keys are unique that must be; this excludes changes too.
    pub distinct: bool,
}

impl Session {
    /// The OID of an index. Without a schema it is looked for along the search path.
    pub fn index_named(
        &mut self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<Oid>, EngineError> {
        let found = self.relation_named(schema, name)?;
        Ok(found.filter(|relation| relation.kind == b'i').map(|relation| relation.oid))
    }

    /// Checks a B-tree index, by its OID.
    ///
    /// # Errors
    /// XX002 for the first thing that is wrong with it.
    pub fn check_index(&mut self, oid: Oid, options: IndexCheckOptions) -> Result<(), EngineError> {
        let IndexCheckOptions { parents, all_rows, distinct } = options;
        let locked = parents || all_rows || distinct;
        let mode = if locked { LockMode::Share } else { LockMode::AccessShare };
        self.call(|session, core| {
            let (table, _) = session.find_index(core, oid)?;
            session.check_own(&table)?;
            session.lock_table(core, &table, mode)?;
            session.lock(
                core,
                LockTag::Relation { database: core.database.oid, relation: oid },
                mode,
            )?;
            // It may have been dropped or rebuilt meanwhile.
            let (table, index) = session.find_index(core, oid)?;
            check_checkable(&index)?;
            session.run_check(core, (&table, &index), (locked, all_rows || distinct, distinct))
        })
    }

    fn run_check(
        &mut self,
        core: &InDatabase,
        (table, index): (&Arc<Table>, &Arc<TableIndex>),
        (locked, with_rows, distinct): (bool, bool, bool),
    ) -> Result<(), EngineError> {
        let heap = self.heap(core, table)?;
        let (ahead, interrupt) = (self.read_ahead(), self.interrupt.clone());
        let mut source = row_source(table, index, &[])?;
        if let Some(toast) = table.toasting.relation.filter(|_| with_rows) {
            source.toast = Some(self.toast_table(core, toast, LockMode::AccessShare)?);
        }
        let open_index = index.open(&heap);
        let Session { open: Some(open), backend, .. } = self else { return Err(no_transaction()) };
        let own = open.tx.full_xid();
        let author = Author { xid: own.map_or(INVALID_XID, FullXid::xid), command: 0 };
        let sets = &mut open.sets;
        let changer = Changer { xacts: &core.xacts, tx: &open.tx, author, sets, queues: None };
        let horizon = (horizon_of(table), core.database.oid, own);
        let rows: Option<IndexableScan<'_>> =
            with_rows.then(|| heap.indexable(changer, horizon, ahead)).transpose()?;
        let check = IndexCheck {
            index: &open_index,
            unique: index.unique,
            table: &table.name,
            locked,
            ahead,
            interrupt: &interrupt,
        };
        Ok(check.run(backend, rows.map(|rows| (rows, &source)), distinct)?)
    }

    /// An index with its table, as the transaction sees them now.
    pub(super) fn find_index(
        &mut self,
        core: &InDatabase,
        oid: Oid,
    ) -> Result<IndexOfTable, EngineError> {
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        let class = reader.class(oid)?.ok_or_else(|| gone(oid))?;
        if class.kind != b'i' {
            let message = format!("\"{}\" is not an index", class.name);
            return Err(EngineError::statement("42809", message));
        }
        index_of(&mut reader, &class)?.ok_or_else(|| gone(oid))
    }
}

/// An index with its table.
pub(super) type IndexOfTable = (Arc<Table>, Arc<TableIndex>);

/// An index with its table. None: a DROP INDEX CONCURRENTLY has left it dead, or both are gone.
pub(super) fn index_of(
    reader: &mut Reader<'_>,
    class: &Class,
) -> Result<Option<IndexOfTable>, EngineError> {
    let Some(of) = reader.table_of_index(class)? else { return Ok(None) };
    let Some(table) = reader.table_by_oid(of)? else { return Ok(None) };
    let index = table.indexes.iter().find(|index| index.oid == class.oid).map(Arc::clone);
    Ok(index.map(|index| (Arc::new(table), index)))
}

fn gone(oid: Oid) -> EngineError {
    EngineError::statement("42P01", format!("could not open relation with OID {oid}"))
}

/// Refuses indexes that are not understood, and those that need not have all rows.
fn check_checkable(index: &TableIndex) -> Result<(), EngineError> {
    let refused =
        || EngineError::statement("0A000", format!("cannot check index \"{}\"", index.name));
    match &index.unknown {
        Some(why) => Err(refused().with_detail(format!("Not supported: {why}."))),
        None if !index.valid => Err(refused().with_detail("Index is not valid.")),
        None => Ok(()),
    }
}
