//! Who uses an index: the flags indisvalid, indisready and indislive of pg_index.
//!
//! ```text
//!   CREATE INDEX CONCURRENTLY:  live ─▶ ready: kept by all changes ─▶ valid: read
//!   DROP INDEX CONCURRENTLY:    valid ─▶ ready, not read any more ─▶ not live ─▶ gone
//!   REINDEX CONCURRENTLY:       a twin as of the first, the index as of the second, which change
//!                               places when the twin is valid (`index_twin`)
//! ```
//!
//! An index that is live but not ready exists for updates only: they keep HOT chains in which its
//! columns do not change.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid};

use crate::catalog_oids::INDEXES;
use crate::database::Database;
use crate::error::CatalogError;
use crate::index_rows::IS_LIVE;
use crate::schema::{PG_INDEX, PG_INDEX_INDEXRELID_INDEX};
use crate::writer::Writer;

pub(crate) const IS_VALID: usize = PG_INDEX.place("indisvalid");
pub(crate) const CHECK_XMIN: usize = PG_INDEX.place("indcheckxmin");
pub(crate) const IS_READY: usize = PG_INDEX.place("indisready");
pub(crate) const IS_CLUSTERED: usize = PG_INDEX.place("indisclustered");
pub(crate) const IS_REPLICA_IDENTITY: usize = PG_INDEX.place("indisreplident");

/// A step in an index's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexStep {
    /// New rows are put into it from now on.
    Ready,
    /// Queries may use it from now on.
    Valid,
    /// Queries use it no more.
    Invalid,
    /// Nobody uses it any more.
    Dead,
    /// It was built anew while nobody changed its table. Older snapshots must not use it if they
    /// see rows which it lacks.
    Rebuilt {
        /// Whether they may.
        check_xmin: bool,
    },
}

/// Takes an index of a table a step on.
pub fn step_index(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    index: Oid,
    step: IndexStep,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    set_flags(&mut writer, index, step)?;
    writer.next_command()
}

/// The same. The row is left alone if it is as it should be.
pub(crate) fn set_flags(
    writer: &mut Writer<'_>,
    index: Oid,
    step: IndexStep,
) -> Result<(), CatalogError> {
    let flags: &[(usize, bool)] = match step {
        IndexStep::Ready => &[(IS_READY, true)],
        IndexStep::Valid => &[(IS_VALID, true)],
        IndexStep::Invalid => &[(IS_VALID, false), (IS_CLUSTERED, false)],
        IndexStep::Dead => &[(IS_READY, false), (IS_LIVE, false), (IS_REPLICA_IDENTITY, false)],
        IndexStep::Rebuilt { .. } => &[(IS_VALID, true), (IS_READY, true), (IS_LIVE, true)],
    };
    let check_xmin = match step {
        IndexStep::Rebuilt { check_xmin } => Some((CHECK_XMIN, check_xmin)),
        _ => None,
    };
    let mut found = writer.row(&PG_INDEX_INDEXRELID_INDEX, index)?;
    // Its transaction is the one whose end older snapshots do not see.
    let mut changed = step == IndexStep::Rebuilt { check_xmin: true };
    for (place, on) in flags.iter().copied().chain(check_xmin) {
        let value = found.values.get_mut(place).expect("pg_index has these columns");
        changed |= *value != Datum::Bool(on);
        *value = Datum::Bool(on);
    }
    if changed {
        writer.update(INDEXES, found.tid, &found.values)?;
    }
    Ok(())
}
