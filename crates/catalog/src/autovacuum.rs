//! What autovacuum needs to know of the tables of a database.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_txn::CountedRelation;
use forebay_types::Oid;

use crate::class::Class;
use crate::error::CatalogError;
use crate::inplace::ClassFigures;
use crate::options::AutovacuumOptions;
use crate::reader::{Reader, Rows};
use crate::row::Row;
use crate::schema::{PG_CLASS, POSTGRES_DB};

/// A table, a materialized view or a TOAST table, not a temporary one.
#[derive(Clone, Debug)]
pub struct MaintainedTable {
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
}

impl MaintainedTable {
    /// The table in statistics.
    pub fn counted(&self) -> CountedRelation {
        CountedRelation { db: if self.shared { 0 } else { POSTGRES_DB }, rel: self.oid }
    }
}

impl Reader<'_> {
    /// The tables that autovacuum may have to look after. A TOAST table without settings of its own
    /// has those of its table.
    pub fn maintained_tables(&mut self) -> Result<Vec<MaintainedTable>, CatalogError> {
        let mut found = Vec::new();
        self.read(Rows::All(&PG_CLASS), PG_CLASS.columns.len() - 3, &mut |tid, row, tuple| {
            let class = Class::read(tid, row, tuple)?;
            if class.is_table() && !class.is_temporary() {
                found.push(MaintainedTable {
                    oid: class.oid,
                    is_toast: class.kind == b't',
                    shared: class.is_shared(),
                    figures: ClassFigures::read(&Row(row, PG_CLASS.name))?,
                    options: class.has_options.then_some(class.options.autovacuum),
                });
            }
            Ok(true)
        })?;
        let of_toast: Vec<_> = found
            .iter()
            .filter_map(|table| Some((table.figures.toast, table.options?)))
            .filter(|(toast, _)| *toast != 0)
            .collect();
        for table in found.iter_mut().filter(|table| table.is_toast && table.options.is_none()) {
            let main = of_toast.iter().find(|(toast, _)| *toast == table.oid);
            table.options = main.map(|(_, options)| *options);
        }
        Ok(found)
    }
}
