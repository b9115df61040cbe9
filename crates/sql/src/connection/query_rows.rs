//! The rows of a portal: forward, backward, and after the end of its transaction.
//!
//! ```text
//!   place:  0 (before the first)   1 .. n (on a row)   n + 1 (after the last)
//! ```
//!
//! Rows come from the running plan in order. To go back, they must have been kept:
//!
//! | Kept | Cursors | |
//! |---|---|---|
//! | never | NO SCROLL, the protocol's portals | going back is refused |
//! | when needed | scans of a table | the first step back runs the plan again, and keeps its rows |
//! | from the first row on | others with SCROLL | |

use crate::error::{Result, SqlError, state};
use crate::exec::{Cursor, Flow, Host, RowStore, Visit};
use crate::plan::Node;
use forebay_engine::{ItemPointer, StatementSnapshot};
use forebay_types::Datum;
use std::sync::Arc;

/// Takes a row.
pub(super) type Take<'t> = &'t mut dyn FnMut(&[Datum<'_>], &mut Host) -> Result<()>;

/// Takes rows that are passed over.
pub(super) fn skip(_: &[Datum<'_>], _: &mut Host) -> Result<()> {
    Ok(())
}

/// A query's rows, and the place in them.
pub(super) struct QueryRows {
    /// The plan, until the rows are held over the end of the transaction. None if they came without
    /// one.
    running: Option<Running>,
    kept: Kept,
    scrolls: bool,
    /// Rows before the first one that is kept.
    passed: u64,
    place: u64,
    /// The number of rows, once the end was reached.
    total: Option<u64>,
    /// The place in the table of the row it is on, if that is a table's row.
    ctid: Option<ItemPointer>,
}

struct Running {
    plan: Arc<Node>,
    params: Arc<[Datum<'static>]>,
    /// None without an engine.
    snapshot: Option<StatementSnapshot>,
    cursor: Cursor,
}

enum Kept {
    Never,
    WhenNeeded,
    Rows(Box<RowStore>),
}

impl Running {
    /// Runs it under its snapshot, until `visit` wants a rest.
    fn run(&mut self, host: &mut Host, visit: Visit<'_>) -> Result<Flow> {
        if let Some(snapshot) = &self.snapshot {
            host.call(|session| session.use_snapshot(snapshot))?;
        }
        self.cursor.run(host, visit)
    }
}

impl QueryRows {
    /// The rows of a plan, which sees what the snapshot sees.
    pub(super) fn new(
        plan: &Arc<Node>,
        params: &Arc<[Datum<'static>]>,
        snapshot: Option<StatementSnapshot>,
        scrolls: bool,
        host: &Host,
    ) -> QueryRows {
        let kept = match scrolls {
            false => Kept::Never,
            true if plan.repeats() => Kept::WhenNeeded,
            true => Kept::Rows(Box::new(RowStore::new(host))),
        };
        let cursor = Cursor::new(plan, Arc::clone(params));
        let (plan, params) = (Arc::clone(plan), Arc::clone(params));
        let running = Some(Running { plan, params, snapshot, cursor });
        QueryRows { running, kept, scrolls, passed: 0, place: 0, total: None, ctid: None }
    }

    /// Lets worker threads help, unless it has begun: all rows are read at once.
    pub(super) fn use_workers(&mut self) {
        if let Some(running) = &mut self.running {
            running.cursor.use_workers();
        }
    }

    /// Rows that are complete already, and can't be read backward.
    pub(super) fn complete(rows: RowStore) -> QueryRows {
        let total = Some(rows.len());
        let kept = Kept::Rows(Box::new(rows));
        QueryRows { running: None, kept, scrolls: false, passed: 0, place: 0, total, ctid: None }
    }

    /// The number of the row it is on; 0 before the first.
    pub(super) fn place(&self) -> u64 {
        self.place
    }

    /// Whether it is after the last row.
    pub(super) fn is_after_last(&self) -> bool {
        self.total.is_some_and(|total| self.place > total)
    }

    /// Whether it is on a row.
    pub(super) fn is_on_row(&self) -> bool {
        self.place > 0 && !self.is_after_last()
    }

    /// The plan, unless the rows are complete, or held over the end of its transaction.
    pub(super) fn plan(&self) -> Option<&Arc<Node>> {
        self.running.as_ref().map(|running| &running.plan)
    }

    /// The place in its table of the row it is on.
    pub(super) fn ctid(&self) -> Option<ItemPointer> {
        self.ctid.filter(|_| self.is_on_row())
    }

    /// Goes forward over so many rows (None: all that are left), and hands them over. Returns their
    /// number. If there are fewer, it is after the last row.
    pub(super) fn forward(
        &mut self,
        count: Option<u64>,
        host: &mut Host,
        take: Take<'_>,
    ) -> Result<u64> {
        let count = count.unwrap_or(u64::MAX);
        let mut done = 0;
        if count == 0 || self.is_after_last() {
            return Ok(0);
        }
        if let Kept::Rows(store) = &mut self.kept {
            while done < count
                && let Some(row) = store.get(self.place - self.passed, host)?
            {
                take(row.values, host)?;
                (self.place, self.ctid, done) = (self.place + 1, row.ctid, done + 1);
            }
        }
        if done < count
            && let Some(running) = &mut self.running
        {
            let (kept, place, ctid) = (&mut self.kept, &mut self.place, &mut self.ctid);
            running.run(host, &mut |row, host| {
                if let Kept::Rows(store) = kept {
                    store.push(row, host)?;
                }
                take(row.values, host)?;
                (*place, *ctid, done) = (*place + 1, row.ctid, done + 1);
                Ok(if done == count { Flow::Rest } else { Flow::Continue })
            })?;
        }
        if done < count {
            self.total = Some(self.place);
            self.place += 1;
        }
        Ok(done)
    }

    /// Goes backward over so many rows (None: all), and hands them over. Returns their number. If
    /// there are fewer, it is before the first row.
    pub(super) fn backward(
        &mut self,
        count: Option<u64>,
        host: &mut Host,
        take: Take<'_>,
    ) -> Result<u64> {
        if !self.scrolls {
            return Err(forward_only());
        }
        let before = self.place.saturating_sub(1);
        let count = count.unwrap_or(u64::MAX);
        if count == 0 || self.place == 0 {
            return Ok(0);
        }
        self.keep(host)?;
        let Kept::Rows(store) = &mut self.kept else { return Err(too_few()) };
        for _ in 0..count.min(before) {
            let row = store.get(self.place - 2, host)?.ok_or_else(too_few)?;
            take(row.values, host)?;
            (self.place, self.ctid) = (self.place - 1, row.ctid);
        }
        if count > before {
            self.place = 0;
        }
        Ok(count.min(before))
    }

    /// Goes to a row on the way back, or before the first.
    pub(super) fn rewind(&mut self, to: u64, host: &mut Host) -> Result<()> {
        debug_assert!(to <= self.place, "that is forward");
        if to == self.place {
            return Ok(());
        }
        if !self.scrolls {
            return Err(forward_only());
        }
        self.keep(host)?;
        let Kept::Rows(store) = &mut self.kept else { return Err(too_few()) };
        if let Some(index) = to.checked_sub(1) {
            self.ctid = store.get(index, host)?.ok_or_else(too_few)?.ctid;
        }
        self.place = to;
        Ok(())
    }

    /// Makes sure that the rows up to its place are kept: runs the plan again, if they were not.
    fn keep(&mut self, host: &mut Host) -> Result<()> {
        let (Kept::WhenNeeded, Some(running)) = (&self.kept, &mut self.running) else {
            return Ok(());
        };
        let mut store = RowStore::new(host);
        let rows = self.place.min(self.total.unwrap_or(u64::MAX));
        if rows > 0 {
            running.cursor = Cursor::new(&running.plan, Arc::clone(&running.params));
            running.run(host, &mut |row, host| {
                store.push(row, host)?;
                Ok(if store.len() == rows { Flow::Rest } else { Flow::Continue })
            })?;
            if store.len() != rows {
                return Err(too_few());
            }
        }
        self.kept = Kept::Rows(Box::new(store));
        Ok(())
    }

    /// Keeps the rows that are left, and those before them if it can go back, for later
    /// transactions. Ends the plan.
    pub(super) fn hold(&mut self, host: &mut Host) -> Result<()> {
        self.keep(host)?;
        if !matches!(self.kept, Kept::Rows(_)) {
            self.kept = Kept::Rows(Box::new(RowStore::new(host)));
            self.passed = self.place;
        }
        let (Kept::Rows(store), Some(running)) = (&mut self.kept, &mut self.running) else {
            return Ok(());
        };
        if self.total.is_none() {
            running.run(host, &mut |row, host| {
                store.push(row, host)?;
                Ok(Flow::Continue)
            })?;
            self.total = Some(self.passed + store.len());
        }
        store.finish(host)?;
        self.running = None;
        Ok(())
    }
}

/// Going back is refused.
fn forward_only() -> SqlError {
    SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, "cursor can only scan forward")
        .hint("Declare it with SCROLL option to enable backward scan.")
}

fn too_few() -> SqlError {
    SqlError::new(state::INTERNAL_ERROR, "unexpected end of tuple stream")
}
