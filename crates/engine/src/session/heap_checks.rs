//! Checks of tables while the cluster runs: amcheck's `verify_heapam`.

use std::sync::Arc;

use forebay_access::check::{Finding, HeapTable};
use forebay_access::{AccessError, SkipPages, TableCheck};
use forebay_catalog::{Reader, Table};
use forebay_format::{BlockNumber, Fork};
use forebay_txn::locks::LockMode;
use forebay_types::Oid;

use super::state::{Session, no_transaction};
use crate::core::InDatabase;
use crate::error::EngineError;

/// Findings that are kept, at most.
const MOST_FINDINGS: usize = 1_000_000;

/// What to check of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCheckOptions {
    /// End with the first block in which something is wrong.
    pub stop_on_error: bool,
    /// The chunks of values out of line too.
    pub check_toast: bool,
    /// Which pages are left out.
    pub skip: SkipPages,
    /// The first block and the last one; `None`: those of the table.
    pub blocks: [Option<i64>; 2],
}

impl Session {
    /// Checks a table, by its OID. Returns what is wrong with it.
    pub fn check_table(
        &mut self,
        oid: Oid,
        options: &TableCheckOptions,
    ) -> Result<Vec<Finding>, EngineError> {
        self.call(|session, core| {
            let table = session.checkable(core, oid)?;
            session.check_own(&table)?;
            session.lock_table(core, &table, LockMode::AccessShare)?;
            // It may have been truncated or rewritten meanwhile.
            let table = session.checkable(core, oid)?;
            session.run_table_check(core, &table, options)
        })
    }

    fn run_table_check(
        &mut self,
        core: &InDatabase,
        table: &Arc<Table>,
        options: &TableCheckOptions,
    ) -> Result<Vec<Finding>, EngineError> {
        let heap = self.heap(core, table)?;
        let blocks = heap.pool.nblocks(heap.locator, Fork::Main)?;
        if blocks == 0 {
            return Ok(Vec::new());
        }
        let blocks = blocks_of(options.blocks, blocks)?;
        let toast = match table.toasting.relation.filter(|_| options.check_toast) {
            Some(toast) => Some(self.toast_table(core, toast, LockMode::AccessShare)?),
            None => None,
        };
        let (ahead, interrupt) = (self.read_ahead(), self.interrupt.clone());
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot.clone());
        let figures = reader.figures(table.oid)?.ok_or_else(|| gone(table.oid))?;
        let described = HeapTable {
            columns: Some(table.layouts.clone()),
            toast: table.toasting.relation,
            frozen_xid: figures.frozen_xid,
            min_multi: figures.min_multi,
            is_sequence: false,
        };
        let check = TableCheck {
            table: &described,
            heap: &heap,
            toast: toast.as_ref(),
            xacts: &core.xacts,
            multis: &core.multis,
            snapshot: &snapshot,
            skip: options.skip,
            blocks,
            stop_on_error: options.stop_on_error,
            ahead,
            interrupt: &interrupt,
        };
        let Session { open: Some(open), backend, .. } = self else { return Err(no_transaction()) };
        let (mut found, mut full) = (Vec::new(), false);
        let checked = check.run(backend, &mut open.sets, &mut |finding| {
            full = found.len() == MOST_FINDINGS;
            if full {
                return Err(AccessError::Internal("too many findings".to_owned()));
            }
            found.push(finding);
            Ok(())
        });
        if full {
            return Err(too_many(&table.name));
        }
        checked?;
        Ok(found)
    }

    /// A table with rows, as the transaction sees it now.
    fn checkable(&mut self, core: &InDatabase, oid: Oid) -> Result<Arc<Table>, EngineError> {
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        let class = reader.class(oid)?.ok_or_else(|| gone(oid))?;
        let what = match class.kind {
            b'i' | b'I' => "indexes",
            b'v' => "views",
            b'c' => "composite types",
            b'f' => "foreign tables",
            b'p' => "partitioned tables",
            _ => return Ok(Arc::new(reader.table_by_oid(oid)?.ok_or_else(|| gone(oid))?)),
        };
        let message = format!("cannot check relation \"{}\"", class.name);
        Err(EngineError::statement("42809", message)
            .with_detail(format!("This operation is not supported for {what}.")))
    }
}

fn gone(oid: Oid) -> EngineError {
    EngineError::statement("42P01", format!("could not open relation with OID {oid}"))
}

fn too_many(name: &str) -> EngineError {
    let message = format!("more than {MOST_FINDINGS} findings in relation \"{name}\"");
    EngineError::statement("54000", message)
        .with_hint("Check fewer blocks, or stop with the first one that is damaged.")
}

/// The blocks between the first and the last that were asked for.
fn blocks_of(
    [first, last]: [Option<i64>; 2],
    blocks: BlockNumber,
) -> Result<std::ops::Range<BlockNumber>, EngineError> {
    let checked = |given: Option<i64>, default: BlockNumber, what: &str| match given {
        None => Ok(default),
        Some(block) => {
            let within = u32::try_from(block).ok().filter(|block| *block < blocks);
            within.ok_or_else(|| {
                let message = format!("{what} block number must be between 0 and {}", blocks - 1);
                EngineError::statement("22023", message)
            })
        }
    };
    let first = checked(first, 0, "starting")?;
    Ok(first..checked(last, blocks - 1, "ending")? + 1)
}
