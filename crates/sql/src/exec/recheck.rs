//! A plan evaluated again over one row: what PostgreSQL calls EvalPlanQual.
//!
//! READ COMMITTED: a statement finds a row with its snapshot, waits for the transaction that is
//! changing it, and then sees a newer version. The version counts if the conditions still hold.

use super::eval::{Params, eval_all, is_true};
use super::host::Host;
use super::row::{Flow, Row, Visit};
use super::scan::decode;
use crate::error::{Result, SqlError, state};
use crate::plan::Node;
use forebay_engine::StoredRow;

/// Hands what the plan makes of a row of its table to `visit`, if it makes anything of it.
pub(super) fn recheck(
    node: &Node,
    row: &StoredRow,
    params: Params<'_>,
    host: &mut Host,
    visit: Visit<'_>,
) -> Result<Flow> {
    match node {
        Node::Scan(read) | Node::TidScan(read, _) | Node::CurrentRow(read, _) => {
            let view = row.view();
            let mut values = Vec::with_capacity(read.decode.len());
            decode(&view, read, &mut values, host)?;
            visit(Row { values: &values, ctid: Some(view.place()) }, host)
        }
        Node::IndexScan(scan) => {
            let view = row.view();
            let mut values = Vec::with_capacity(scan.read.decode.len());
            decode(&view, &scan.read, &mut values, host)?;
            for test in &scan.tests {
                if !is_true(test, &values, params, host)? {
                    return Ok(Flow::Continue);
                }
            }
            visit(Row { values: &values, ctid: Some(view.place()) }, host)
        }
        Node::BitmapScan(scan) => {
            let view = row.view();
            let mut values = Vec::with_capacity(scan.read.decode.len());
            decode(&view, &scan.read, &mut values, host)?;
            if let Some(condition) = &scan.recheck
                && !is_true(condition, &values, params, host)?
            {
                return Ok(Flow::Continue);
            }
            visit(Row { values: &values, ctid: Some(view.place()) }, host)
        }
        Node::Filter { input, condition } => recheck(input, row, params, host, &mut |row, host| {
            if is_true(condition, row.values, params, host)? {
                visit(row, host)
            } else {
                Ok(Flow::Continue)
            }
        }),
        Node::Project { input, output } => recheck(input, row, params, host, &mut |row, host| {
            let values = eval_all(output, row.values, params, host)?;
            visit(Row { values: &values, ctid: row.ctid }, host)
        }),
        Node::Sort { input, width, .. } => recheck(input, row, params, host, &mut |row, host| {
            let (visible, _) = row.values.split_at(*width);
            visit(Row { values: visible, ctid: row.ctid }, host)
        }),
        _ => Err(SqlError::new(state::INTERNAL_ERROR, "a row can't be traced through this plan")),
    }
}
