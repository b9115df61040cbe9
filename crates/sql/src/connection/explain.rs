//! EXPLAIN.

use super::sink::RowSink;
use super::state::{Connection, tell};
use super::statement::Plan;
use crate::error::{Result, SqlError, state};
use crate::exec::{Cursor, Flow, Measures, Row, RowStore};
use crate::parse::{Explain, Statement};
use crate::plan::{Bitmap, Estimator, Node, ParamTypes, Shown, explain};
use forebay_aio::sync::Instant;
use forebay_types::Datum;
use std::sync::Arc;

impl Connection {
    /// Plans a statement, runs it if that is asked for, and returns its plan as text.
    pub(super) fn explain(
        &mut self,
        asked: &Explain,
        within: &Statement,
        sink: &mut dyn RowSink,
    ) -> Result<RowStore> {
        let kind = Arc::clone(&asked.statement);
        let statement = Statement { kind, source: Arc::clone(&within.source) };
        let pages = self.host.page_usage();
        let planning = Instant::now();
        let mut params = ParamTypes::default();
        let plan = self.plan(&statement, &mut params)?;
        params.finish()?;
        let planning = planning.elapsed();
        let planned = self.host.page_usage().since(&pages).lines();
        let root = match plan {
            Plan::Select(plan) => Arc::clone(&plan.root),
            Plan::Change(plan) => Arc::clone(&plan.root),
            Plan::Declare(_) | Plan::Utility => {
                return Err(SqlError::new(state::INTERNAL_ERROR, "there is no plan to explain"));
            }
        };
        let execution = Instant::now();
        let measures = match asked.analyze {
            true => Some(self.measured(&root, sink)?),
            false => None,
        };
        let execution = execution.elapsed();
        let actual = |node: &Node| measures.as_ref().and_then(|m| m.actual(node, asked.io));
        let bitmaps = |part: &Bitmap| measures.as_ref().and_then(|m| m.actual_bitmap(part));
        let shown = Shown {
            costs: asked.costs,
            timing: asked.timing,
            buffers: asked.buffers,
            actual: if asked.analyze { Some(&actual) } else { None },
            bitmaps: if asked.analyze { Some(&bitmaps) } else { None },
        };
        let mut lines = explain(&root, &shown, &mut Estimator::new(&mut self.host))?;
        if asked.buffers && !planned.is_empty() {
            lines.push("Planning:".to_owned());
            lines.extend(planned.iter().map(|line| format!("  {line}")));
        }
        if asked.summary {
            lines.push(format!("Planning Time: {:.3} ms", planning.as_secs_f64() * 1000.0));
            if asked.analyze {
                lines.push(format!("Execution Time: {:.3} ms", execution.as_secs_f64() * 1000.0));
            }
        }
        let mut rows = RowStore::new(&self.host);
        for line in lines {
            rows.push(Row { values: &[Datum::string(line)], ctid: None }, &mut self.host)?;
        }
        Ok(rows)
    }

    /// Runs a plan to its end.
    fn measured(&mut self, root: &Arc<Node>, sink: &mut dyn RowSink) -> Result<Measures> {
        self.check_changes(root)?;
        self.show_cursors(root, None);
        let mut cursor = Cursor::new(root, Arc::from([]));
        self.host.measures = Some(Measures::default());
        let ran = cursor.run(&mut self.host, &mut |_, _| Ok(Flow::Continue));
        let measures = self.host.measures.take().unwrap_or_default();
        ran?;
        tell(&mut self.host, sink)?;
        Ok(measures)
    }
}
