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
}

impl Cursor {
    /// A plan about to be run.
    pub fn new(plan: &Arc<Node>, params: Arc<[Datum<'static>]>) -> Cursor {
        Cursor { plan: Arc::clone(plan), params, progress: Progress::Fresh, changed: 0 }
    }

    /// How many rows the plan has changed so far.
    pub fn changed(&self) -> u64 {
        self.changed
    }

    /// Opens the plan, unless it was run before: all changes are made then.
    pub fn open(&mut self, host: &mut Host) -> Result<()> {
        if let Progress::Fresh = self.progress {
            self.progress = Progress::Done;
            let operator = Operator::open(&self.plan, &self.params, host)?;
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
