//! Tables with their TOAST tables: the values out of line that rows have, and their chunks.
//!
//! The pages of a table come before those of its TOAST table. A thread that comes to a page of the
//! TOAST table waits until the other threads have done with the table. What was found is told when
//! the last page was read. Values for which there was no memory are looked at in another pass,
//! which reads both tables again.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_access::check::{Orphans, Root, ToastShare, ToastTally, chunk_rows, stored_values};
use forebay_aio::sync::{Condvar, Mutex};
use forebay_format::{AttrLayout, BlockNumber, Oid, Page, PageBytes};

use super::catalogs::Relation;
use super::groups::Findings;

/// A pass has this much memory at least, so that there are not too many.
const LEAST_MEMORY: u64 = 64 << 10;

/// A table that is compared with its TOAST table.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub table: Arc<Relation>,
    pub toast: Arc<Relation>,
}

/// One reading of a table and its TOAST table, for a share of the values.
pub(super) struct Pass {
    pub pair: Pair,
    memory: u64,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Pieces that are not done with.
    of_table: usize,
    of_toast: usize,
    /// Until the last piece is done with.
    tally: Option<ToastTally>,
    /// Rows of the table may have been overlooked, since something is wrong with its pages.
    overlooked: bool,
    outcome: Outcome,
}

/// What a pass has found.
#[derive(Default)]
pub(super) struct Outcome {
    pub findings: Findings,
    /// Values that were compared.
    pub values: u64,
    pub orphans: Orphans,
    pub put_off: Vec<ToastShare>,
}

/// Tells a pass that a piece is done with, when it is dropped.
pub(super) struct Ticket {
    pass: Arc<Pass>,
    of_toast: bool,
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("of_toast", &self.of_toast).finish_non_exhaustive()
    }
}

impl Ticket {
    pub(super) fn new(pass: &Arc<Pass>, of_toast: bool) -> Ticket {
        let mut state = pass.state.lock();
        *if of_toast { &mut state.of_toast } else { &mut state.of_table } += 1;
        Ticket { pass: Arc::clone(pass), of_toast }
    }

    /// Adds a page of the table or of the TOAST table. `roots` are those of its line pointers, if
    /// they are known; `sound`: nothing is wrong with it.
    pub(super) fn page(
        &self,
        block: BlockNumber,
        bytes: &PageBytes,
        roots: Option<&[Root<'_>]>,
        sound: bool,
    ) {
        let pass = &*self.pass;
        if self.of_toast {
            pass.add_chunks(Page::new(bytes), roots.unwrap_or_default());
        } else {
            pass.add_values(block, roots, sound);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.pass.state.lock();
        *if self.of_toast { &mut state.of_toast } else { &mut state.of_table } -= 1;
        // Pieces get their tickets before the first one is read.
        if state.of_table == 0 && state.of_toast == 0 {
            state.end(&self.pass.pair);
        }
        self.pass.changed.notify_all();
    }
}

impl Pass {
    pub(super) fn new(pair: &Pair, share: ToastShare, memory: u64) -> Pass {
        let bytes = usize::try_from(memory.max(LEAST_MEMORY)).unwrap_or(usize::MAX);
        let state = State {
            of_table: 0,
            of_toast: 0,
            tally: Some(ToastTally::new(pair.toast.told.oid, share, bytes)),
            overlooked: false,
            outcome: Outcome::default(),
        };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Pass { pair: pair.clone(), memory, state, changed }
    }

    fn columns(&self) -> &[AttrLayout] {
        self.pair.table.table.columns.as_deref().unwrap_or_default()
    }

    fn add_values(&self, block: BlockNumber, roots: Option<&[Root<'_>]>, sound: bool) {
        let toast = self.pair.toast.told.oid;
        let values = stored_values(self.columns(), toast, block, roots.unwrap_or_default());
        if values.is_empty() && sound {
            return;
        }
        let mut state = self.state.lock();
        state.overlooked |= !sound;
        if let Some(tally) = &mut state.tally {
            tally.add_values(&values);
        }
    }

    fn add_chunks(&self, page: Page<'_>, roots: &[Root<'_>]) {
        let rows = chunk_rows(page, roots);
        if rows.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        while state.of_table > 0 {
            self.changed.wait(&mut state);
        }
        if let Some(tally) = &mut state.tally {
            tally.add_chunks(&rows);
        }
    }

    /// Ends a pass whose pages have all been read.
    pub(super) fn end(&self) -> Outcome {
        let mut state = self.state.lock();
        state.end(&self.pair);
        std::mem::take(&mut state.outcome)
    }

    /// A pass for a share that this one has put off.
    pub(super) fn next(&self, share: ToastShare) -> Arc<Pass> {
        Arc::new(Pass::new(&self.pair, share, self.memory))
    }
}

impl State {
    fn end(&mut self, pair: &Pair) {
        let Some(mut tally) = self.tally.take() else { return };
        let Outcome { findings, values, orphans, put_off } = &mut self.outcome;
        let mut sink = |finding| findings.push((Arc::clone(&pair.table), finding));
        let found;
        (*values, found) = tally.finish(&mut sink);
        if !self.overlooked {
            *orphans = found;
        }
        *put_off = tally.put_off();
    }
}

/// The tables of a cluster that can be compared with their TOAST tables.
pub(super) fn pairs(found: &[Arc<Relation>]) -> Vec<Pair> {
    let key = |relation: &Relation, oid: Oid| (relation.told.database.clone(), oid);
    let toasts: HashMap<_, _> = found
        .iter()
        .filter(|relation| relation.is_toast)
        .map(|relation| (key(relation, relation.told.oid), relation))
        .collect();
    let pair = |table: &Arc<Relation>| {
        table.table.columns.as_ref()?;
        let toast = toasts.get(&key(table, table.table.toast?))?;
        Some(Pair { table: Arc::clone(table), toast: Arc::clone(toast) })
    };
    found.iter().filter_map(pair).collect()
}
