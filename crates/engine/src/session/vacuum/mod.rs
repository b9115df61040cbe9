//! VACUUM: tables with their indexes and TOAST tables, each in a transaction of its own.
//!
//! - `cutoffs`: which ids are frozen
//! - `full`: VACUUM FULL, which gives a table a new file
//! - `indexes`: the indexes of a table
//! - `parallel`: several of them at once
//! - `table`: one table
//! - `tail`: cutting off its empty end
//! - `report`: what VERBOSE tells
//! - `rests`: rests by what pages cost
//!
//! The transaction takes no snapshot and, unless the table's end is cut off, no id. So it does not
//! hold back the horizon for others.

mod cutoffs;
mod full;
mod indexes;
mod parallel;
mod report;
mod rests;
mod table;
mod tail;

use std::sync::Arc;

use forebay_access::heap::IndexCleanup;
use forebay_catalog::Table;

pub use full::Told;
pub(super) use rests::Rests;
pub(super) use table::{Found, KB_PER_BUFFER};

use super::state::Session;
use crate::error::EngineError;

/// How tables are vacuumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VacuumOptions {
    /// Freezes all that can be frozen.
    pub freeze: bool,
    /// Reads all pages, whatever the visibility map says.
    pub disable_page_skipping: bool,
    /// Leaves out a table whose lock is not free.
    pub skip_locked: bool,
    /// Whether empty pages at the end are cut off; None: as the setting vacuum_truncate says.
    pub truncate: Option<bool>,
    /// Whether dead rows go from indexes; None: if there are more than a few.
    pub index_cleanup: Option<IndexCleanup>,
    /// kB of pages that it lets lie before it writes them; 0: it is not bulk work for the pool;
    /// None: as the setting vacuum_buffer_usage_limit says.
    pub buffer_usage_limit: Option<u32>,
    /// Tells what was done.
    pub verbose: bool,
    /// Vacuums the table itself.
    pub process_main: bool,
    /// Vacuums its TOAST table.
    pub process_toast: bool,
    /// Threads beside this one that vacuum indexes, at most. None: as many as there are large
    /// indexes, within the bounds of the settings.
    pub parallel: Option<u32>,
}

impl Default for VacuumOptions {
    fn default() -> VacuumOptions {
        VacuumOptions {
            freeze: false,
            disable_page_skipping: false,
            skip_locked: false,
            truncate: None,
            index_cleanup: None,
            buffer_usage_limit: None,
            verbose: false,
            process_main: true,
            process_toast: true,
            parallel: Some(0),
        }
    }
}

impl Session {
    /// Vacuums a table and its TOAST table, each in a transaction of its own. There must be none
    /// running. What it has done is added to `told`, if the options ask for that.
    pub fn vacuum(
        &mut self,
        table: &Arc<Table>,
        options: &VacuumOptions,
        told: &mut Vec<String>,
    ) -> Result<(), EngineError> {
        let toast = self.vacuum_one(table, options, told)?;
        if let Some(toast) = toast.filter(|_| options.process_toast) {
            let options = VacuumOptions { process_main: true, ..*options };
            self.vacuum_one(&toast, &options, told)?;
        }
        Ok(())
    }

    /// Vacuums a table in a transaction. Returns its TOAST table, if it has one.
    fn vacuum_one(
        &mut self,
        table: &Arc<Table>,
        options: &VacuumOptions,
        told: &mut Vec<String>,
    ) -> Result<Option<Arc<Table>>, EngineError> {
        self.alone(|session| session.vacuum_table(table, options, told))
    }
}
