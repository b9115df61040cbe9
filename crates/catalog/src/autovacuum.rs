//! What autovacuum needs to know of the tables of a database.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::{HeapTuple, ItemPointer};
use forebay_txn::CountedRelation;
use forebay_types::{Datum, Oid};

use crate::class::Class;
use crate::error::CatalogError;
use crate::inplace::ClassFigures;
use crate::options::AutovacuumOptions;
use crate::reader::{Reader, Rows};
use crate::row::Row;
use crate::schema::{PG_CLASS, PG_CLASS_OID_INDEX};

/// A table, a materialized view or a TOAST table, not a temporary one.
#[derive(Clone, Debug)]
pub struct MaintainedTable {
    /// The database that it was found in.
    pub database: Oid,
    /// pg_class.oid
    pub oid: Oid,
    /// Whether it is a TOAST table.
    pub is_toast: bool,
    /// Whether all databases share it.
    pub shared: bool,
    /// What pg_class says of its size and its ids.
    pub figures: ClassFigures,
    /// Its own settings. None: it has none, not even ones that have nothing to do with autovacuum.
    pub options: Option<AutovacuumOptions>,
    /// Those of the table that it is the TOAST table of. They count if it has none of its own.
    pub of_main: Option<AutovacuumOptions>,
}

impl MaintainedTable {
    fn read(
        database: Oid,
        tid: ItemPointer,
        row: &[Datum<'_>],
        tuple: HeapTuple<'_>,
    ) -> Result<Self, CatalogError> {
        let class = Class::read(tid, row, tuple)?;
        Ok(MaintainedTable {
            database,
            oid: class.oid,
            is_toast: class.kind == b't',
            shared: class.is_shared(),
            figures: ClassFigures::read(&Row(row, PG_CLASS.name))?,
            options: class.has_options.then_some(class.options.autovacuum),
            of_main: None,
        })
    }

    /// The settings that count for it.
    pub fn settings(&self) -> AutovacuumOptions {
        self.options.or(self.of_main).unwrap_or_default()
    }

    /// The table in statistics.
    pub fn counted(&self) -> CountedRelation {
        CountedRelation { db: if self.shared { 0 } else { self.database }, rel: self.oid }
    }
}

impl Reader<'_> {
    /// The tables that autovacuum may have to look after.
    pub fn maintained_tables(&mut self) -> Result<Vec<MaintainedTable>, CatalogError> {
        let (mut found, database) = (Vec::new(), self.database().oid);
        self.read(Rows::All(&PG_CLASS), PG_CLASS.columns.len() - 3, &mut |tid, row, tuple| {
            let class = Class::read(tid, row, tuple)?;
            if class.is_table() && !class.is_temporary() {
                found.push(MaintainedTable::read(database, tid, row, tuple)?);
            }
            Ok(true)
        })?;
        let of_toast: Vec<_> = found
            .iter()
            .filter_map(|table| Some((table.figures.toast, table.options?)))
            .filter(|(toast, _)| *toast != 0)
            .collect();
        for table in found.iter_mut().filter(|table| table.is_toast) {
            let main = of_toast.iter().find(|(toast, _)| *toast == table.oid);
            table.of_main = main.map(|(_, options)| *options);
        }
        Ok(found)
    }

    /// One of them as it is now, but for the settings of its main table. None: it is gone.
    pub fn maintained_table(
        &mut self,
        known: &MaintainedTable,
    ) -> Result<Option<MaintainedTable>, CatalogError> {
        let mut found = None;
        let rows = Rows::Of((&PG_CLASS_OID_INDEX, &[Datum::Oid(known.oid)]));
        self.read(rows, PG_CLASS.columns.len() - 3, &mut |tid, row, tuple| {
            let now = MaintainedTable::read(known.database, tid, row, tuple)?;
            found = Some(MaintainedTable { of_main: known.of_main, ..now });
            Ok(false)
        })?;
        Ok(found)
    }
}
