//! A running query: pulls rows from its input, filters, groups, sorts, limits, and can rest at any
//! row.

use super::eval::{eval, is_true};
use super::groups::Groups;
use super::host::Host;
use super::input::{Flow, Input, eval_all};
use super::sort::{Sorted, Sorter};
use crate::error::{Result, SqlError};
use crate::plan::{Expr, SelectPlan};
use forebay_types::Datum;
use std::sync::Arc;

/// What takes the rows of a result.
pub type Emit<'v> = &'v mut dyn FnMut(&[Datum<'_>], &mut Host) -> Result<Flow>;

enum State {
    Fresh,
    /// Rows go out as they come in.
    Streaming(Input),
    /// All rows were made first.
    Buffered(Sorted),
    Done,
}

/// A query being run.
pub struct Cursor {
    plan: Arc<SelectPlan>,
    params: Arc<[Datum<'static>]>,
    state: State,
    skip: u64,
    left: Option<u64>,
}

impl Cursor {
    /// A query about to be run.
    pub fn new(plan: Arc<SelectPlan>, params: Arc<[Datum<'static>]>) -> Cursor {
        Cursor { plan, params, state: State::Fresh, skip: 0, left: None }
    }

    /// Gives out rows until `emit` wants a rest, or none are left (then `Flow::Continue`).
    pub fn run(&mut self, host: &mut Host, emit: Emit<'_>) -> Result<Flow> {
        let plan = Arc::clone(&self.plan);
        let params = Arc::clone(&self.params);
        if matches!(self.state, State::Fresh) {
            self.limits(&plan, &params, host)?;
            self.state = State::Done;
            self.state = if self.left == Some(0) {
                State::Done
            } else if plan.grouping.is_some() || !plan.order.is_empty() {
                State::Buffered(self.buffered(&plan, &params, host)?)
            } else {
                State::Streaming(Input::open(&plan.source, &params, host)?)
            };
        }
        let (skip, left) = (&mut self.skip, &mut self.left);
        let width = plan.columns.len();
        let finished = match &mut self.state {
            State::Streaming(input) => {
                let mut ended = false;
                let flow = input.run(&plan.source, &params, host, &mut |row, host| {
                    if let Some(filter) = &plan.filter
                        && !is_true(filter, row, &params, host)?
                    {
                        return Ok(Flow::Continue);
                    }
                    if *skip > 0 {
                        *skip -= 1;
                        return Ok(Flow::Continue);
                    }
                    let values = eval_all(&plan.output, row, &params, host)?;
                    let flow = emit(&values, host)?;
                    ended = count_down(left);
                    Ok(if ended { Flow::Rest } else { flow })
                })?;
                ended || flow == Flow::Continue
            }
            State::Buffered(rows) => loop {
                let Some(row) = rows.next(host)? else { break true };
                if *skip > 0 {
                    *skip -= 1;
                    continue;
                }
                let flow = emit(row.get(..width).unwrap_or(&row), host)?;
                if count_down(left) {
                    break true;
                }
                if flow == Flow::Rest {
                    break false;
                }
            },
            State::Fresh | State::Done => true,
        };
        if finished {
            self.state = State::Done;
            return Ok(Flow::Continue);
        }
        Ok(Flow::Rest)
    }

    fn limits(
        &mut self,
        plan: &SelectPlan,
        params: &[Datum<'static>],
        host: &mut Host,
    ) -> Result<()> {
        let count = |e: &Option<Expr>, what: &str, sqlstate: &'static str, host: &mut Host| match e
        {
            None => Ok(None),
            Some(e) => match eval(e, &[], params, host)? {
                Datum::Int8(n) => u64::try_from(n)
                    .map(Some)
                    .map_err(|_| SqlError::new(sqlstate, format!("{what} must not be negative"))),
                _ => Ok(None),
            },
        };
        self.skip = count(&plan.offset, "OFFSET", "2201X", host)?.unwrap_or(0);
        self.left = count(&plan.limit, "LIMIT", "2201W", host)?;
        Ok(())
    }

    /// All rows of the result, grouped and sorted.
    fn buffered(
        &self,
        plan: &SelectPlan,
        params: &[Datum<'static>],
        host: &mut Host,
    ) -> Result<Sorted> {
        let keep = self.left.map(|n| n.saturating_add(self.skip));
        let mut sorter = Sorter::new(&plan.order, keep, host);
        match &plan.grouping {
            Some(_) => grouped(plan, params, &mut sorter, host)?,
            None => {
                let mut input = Input::open(&plan.source, params, host)?;
                input.run(&plan.source, params, host, &mut |row, host| {
                    if let Some(filter) = &plan.filter
                        && !is_true(filter, row, params, host)?
                    {
                        return Ok(Flow::Continue);
                    }
                    let values = eval_all(&plan.output, row, params, host)?;
                    sorter.push(values.into_iter().map(Datum::into_owned).collect(), host)?;
                    Ok(Flow::Continue)
                })?;
            }
        }
        sorter.finish(host)
    }
}

/// Counts a row that went out; true when it was the last.
fn count_down(left: &mut Option<u64>) -> bool {
    match left {
        Some(n) => {
            *n = n.saturating_sub(1);
            *n == 0
        }
        None => false,
    }
}

fn grouped(
    plan: &SelectPlan,
    params: &[Datum<'static>],
    sorter: &mut Sorter,
    host: &mut Host,
) -> Result<()> {
    let Some(grouping) = &plan.grouping else { return Ok(()) };
    let groups = match &plan.source {
        crate::plan::RowSource::Table { table, .. } if plan.counts_only() => {
            let count = host.session()?.count_rows(table)?;
            Groups::counted(grouping, count, host)
        }
        _ => {
            let mut groups = Groups::new(grouping, host);
            let mut input = Input::open(&plan.source, params, host)?;
            input.run(&plan.source, params, host, &mut |row, host| {
                if let Some(filter) = &plan.filter
                    && !is_true(filter, row, params, host)?
                {
                    return Ok(Flow::Continue);
                }
                groups.add(grouping, row, params, host)?;
                Ok(Flow::Continue)
            })?;
            groups
        }
    };
    groups.finish(grouping, host, &mut |group, host| {
        if let Some(having) = &grouping.having
            && !is_true(having, &group, params, host)?
        {
            return Ok(());
        }
        let values = eval_all(&plan.output, &group, params, host)?;
        sorter.push(values.into_iter().map(Datum::into_owned).collect(), host)
    })
}
