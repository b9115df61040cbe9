//! A running plan, which can be interrupted after any row and resumed.

use super::host::Host;
use super::operator::Operator;
use super::row::{Flow, Visit};
use crate::error::Result;
use crate::plan::Node;
use forebay_types::Datum;
use std::sync::Arc;

enum Progress {
    Fresh,
    Open(Operator),
    Done,
}

/// A plan that is being run.
pub struct Cursor {
    plan: Arc<Node>,
    params: Arc<[Datum<'static>]>,
    progress: Progress,
    changed: u64,
    uses_workers: bool,
}

impl Cursor {
    /// A plan about to be run.
    pub fn new(plan: &Arc<Node>, params: Arc<[Datum<'static>]>) -> Cursor {
        let (plan, progress) = (Arc::clone(plan), Progress::Fresh);
        Cursor { plan, params, progress, changed: 0, uses_workers: false }
    }

    /// Lets worker threads help: the plan is run once, and to its end. As in PostgreSQL, they do
    /// not if it changes or locks rows.
    pub fn use_workers(&mut self) {
        let changes = matches!(*self.plan, Node::Modify(_));
        self.uses_workers = !changes && self.plan.locked().is_none();
    }

    /// How many rows the plan has changed so far.
    pub fn changed(&self) -> u64 {
        self.changed
    }

    /// Opens the plan, unless it was run before: all changes are made then.
    pub fn open(&mut self, host: &mut Host) -> Result<()> {
        if let Progress::Fresh = self.progress {
            self.progress = Progress::Done;
            host.uses_workers = self.uses_workers;
            let opened = Operator::open(&self.plan, &self.params, host);
            host.uses_workers = false;
            let operator = opened?;
            self.changed = operator.changed();
            self.progress = Progress::Open(operator);
        }
        Ok(())
    }

    /// Hands rows to `visit` until it wants a rest, or none are left (then `Flow::Continue`). After
    /// an error there are none.
    pub fn run(&mut self, host: &mut Host, visit: Visit<'_>) -> Result<Flow> {
        self.open(host)?;
        let Cursor { plan, params, progress, .. } = self;
        let Progress::Open(mut operator) = std::mem::replace(progress, Progress::Done) else {
            return Ok(Flow::Continue);
        };
        let flow = operator.run(plan, params, host, visit)?;
        if flow == Flow::Rest {
            *progress = Progress::Open(operator);
        }
        Ok(flow)
    }
}
