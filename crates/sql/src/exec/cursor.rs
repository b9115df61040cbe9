//! A running plan, which can be interrupted after any row and resumed.

use super::host::Host;
use super::operator::{Operator, Visit};
use super::row::Flow;
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
}

impl Cursor {
    /// A plan about to be run.
    pub fn new(plan: &Arc<Node>, params: Arc<[Datum<'static>]>) -> Cursor {
        Cursor { plan: Arc::clone(plan), params, progress: Progress::Fresh }
    }

    /// Hands rows to `visit` until it wants a rest, or none are left (then `Flow::Continue`). After
    /// an error there are none.
    pub fn run(&mut self, host: &mut Host, visit: Visit<'_>) -> Result<Flow> {
        let Cursor { plan, params, progress } = self;
        let mut operator = match std::mem::replace(progress, Progress::Done) {
            Progress::Fresh => Operator::open(plan, params, host)?,
            Progress::Open(operator) => operator,
            Progress::Done => return Ok(Flow::Continue),
        };
        let flow = operator.run(plan, params, host, visit)?;
        if flow == Flow::Rest {
            *progress = Progress::Open(operator);
        }
        Ok(flow)
    }
}
