//! What a cursor over a plan can do: go backward, be run again, name the row it is on.

use super::expr::Expr;
use super::locks::locking_words;
use super::planner::Planner;
use super::tree::{Node, SelectPlan};
use crate::error::{Result, SqlError, state};
use crate::parse::Declare;
use crate::views::View;
use forebay_engine::Table;
use std::sync::Arc;

impl Planner<'_> {
    /// Plans the query of a cursor.
    pub fn cursor(&mut self, declare: &Declare) -> Result<SelectPlan> {
        let plan = self.query(&declare.query)?;
        let Some((_, lock)) = plan.root.locked() else { return Ok(plan) };
        let words = locking_words(lock.strength);
        let (invalid, not) = (state::INVALID_CURSOR_DEFINITION, state::FEATURE_NOT_SUPPORTED);
        for (given, sqlstate, what, detail) in [
            (declare.hold, not, "CURSOR WITH HOLD ... {} is not supported", "Holdable"),
            (
                declare.scroll == Some(true),
                not,
                "SCROLL CURSOR ... {} is not supported",
                "Scrollable",
            ),
            (declare.insensitive, invalid, "INSENSITIVE CURSOR ... {} is not valid", "Insensitive"),
        ] {
            if given {
                let message = format!("DECLARE {}", what.replace("{}", words));
                let detail = format!("{detail} cursors must be READ ONLY.");
                return Err(SqlError::new(sqlstate, message).detail(detail));
            }
        }
        Ok(plan)
    }
}

impl Node {
    /// Whether a cursor can go backward that was declared neither SCROLL nor NO SCROLL: as in
    /// PostgreSQL, where this costs nothing extra there.
    pub fn scrolls(&self) -> bool {
        match self {
            Node::Scan(_)
            | Node::TidScan(..)
            | Node::IndexScan(_)
            | Node::Series { .. }
            | Node::View(_)
            | Node::Function(_)
            | Node::Rows { .. }
            | Node::Sort { .. } => true,
            // PostgreSQL makes one row a plan of another kind.
            Node::Values(rows) => rows.len() > 1,
            Node::Filter { input, .. }
            | Node::Project { input, .. }
            | Node::Limit { input, .. } => input.scrolls(),
            _ => false,
        }
    }

    /// Whether it returns the same rows when it is run again with the same snapshot, without more
    /// than reading the table again.
    pub fn repeats(&self) -> bool {
        let same = |e: &Expr| {
            !e.any(&|e| matches!(e, Expr::Call(function, _) if !function.is_immutable()))
        };
        match self {
            Node::Scan(_) | Node::IndexScan(_) | Node::BitmapScan(_) => true,
            Node::Filter { input, condition } => same(condition) && input.repeats(),
            Node::Project { input, output } => output.iter().all(same) && input.repeats(),
            Node::Limit { input, limit, offset } => {
                limit.iter().chain(offset).all(same) && input.repeats()
            }
            _ => false,
        }
    }

    /// The table of which each row is a row, if the plan is so simple that UPDATE and DELETE can
    /// tell the current one (WHERE CURRENT OF).
    pub fn current_table(&self) -> Option<&Arc<Table>> {
        match self {
            Node::Scan(read) | Node::TidScan(read, _) => Some(&read.table),
            Node::IndexScan(scan) if !scan.entries_only => Some(&scan.read.table),
            Node::BitmapScan(scan) => Some(&scan.read.table),
            Node::Filter { input, .. }
            | Node::Project { input, .. }
            | Node::Limit { input, .. } => input.current_table(),
            _ => None,
        }
    }

    /// Whether it looks at the session's cursors.
    pub fn reads_cursors(&self) -> bool {
        let found = |node: &Node| matches!(node, Node::View(View::Cursors) | Node::CurrentRow(..));
        std::iter::successors(Some(self), |node| node.input()).any(found)
    }
}
