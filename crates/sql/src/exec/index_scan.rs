//! Rows of a table that an index finds.

use super::arrays::elements;
use super::eval::{Params, eval, eval_all};
use super::host::Host;
use super::row::{Flow, Row, Visit};
use super::scan::{Sieve, decode};
use crate::error::Result;
use crate::plan::{Comparison, IndexCondition, IndexRead};
use forebay_engine::{
    Condition, Direction, EngineError, EntrySource, IndexRows, IndexScanOptions, Operator,
    ScanStats, TableIndex,
};
use forebay_types::Datum;

/// A scan of a table through an index.
pub(super) struct IndexScan {
    rows: IndexRows,
    direction: Direction,
}

impl IndexScan {
    /// Evaluates the conditions, and starts the scan. `limit`: only so many rows are wanted.
    pub(super) fn open(
        scan: &IndexRead,
        limit: Option<u64>,
        params: Params<'_>,
        host: &mut Host,
    ) -> Result<IndexScan> {
        let mut conditions = Vec::with_capacity(scan.conditions.len());
        for condition in &scan.conditions {
            conditions.extend(evaluated(condition, &scan.index, params, host)?);
        }
        let options = IndexScanOptions { entries_only: scan.entries_only, limit };
        let (table, index) = (&scan.read.table, &scan.index);
        let rows = host.call(|session| session.index_scan(table, index, conditions, options))?;
        let direction = if scan.backward { Direction::Backward } else { Direction::Forward };
        Ok(IndexScan { rows, direction })
    }

    /// What it has read.
    pub(super) fn stats(&self) -> ScanStats {
        self.rows.stats()
    }

    /// Hands on the rows that pass the sieve, or all if there is none. The frames of operators
    /// above it need no room for this.
    #[inline(never)]
    pub(super) fn run(
        &mut self,
        scan: &IndexRead,
        sieve: Option<&Sieve<'_>>,
        host: &mut Host,
        visit: Visit<'_>,
    ) -> Result<Flow> {
        if scan.entries_only {
            return self.run_entries(scan, sieve, host, visit);
        }
        let IndexScan { rows, direction } = self;
        loop {
            let Some(row) = host.call(|session| rows.next(session, *direction))? else {
                return Ok(Flow::Continue);
            };
            let mut values: Vec<Datum<'_>> = Vec::with_capacity(scan.read.decode.len());
            if let Some(sieve) = sieve
                && !sieve.passes(&row, &scan.read, &mut values, host)?
            {
                continue;
            }
            decode(&row, &scan.read, &mut values, host)?;
            let ctid = Some(row.place());
            if visit(Row { values: &values, ctid }, host)? == Flow::Rest {
                return Ok(Flow::Rest);
            }
        }
    }

    /// The same, of rows with no columns but the index's.
    fn run_entries(
        &mut self,
        scan: &IndexRead,
        sieve: Option<&Sieve<'_>>,
        host: &mut Host,
        visit: Visit<'_>,
    ) -> Result<Flow> {
        let IndexScan { rows, direction } = self;
        let sources: Vec<EntrySource> = scan.index.sources().collect();
        loop {
            let Some(entry) = host.call(|session| rows.next_entry(session, *direction))? else {
                return Ok(Flow::Continue);
            };
            let mut found: Vec<Datum<'_>> = Vec::with_capacity(sources.len());
            entry.decode_into(sources.len(), &mut found)?;
            let mut values = vec![Datum::Null; scan.read.table.columns.len()];
            for (source, value) in sources.iter().zip(found) {
                if let EntrySource::Column(column) = source
                    && let Some(slot) = values.get_mut(*column)
                {
                    *slot = value;
                }
            }
            if let Some(sieve) = sieve
                && !sieve.is_true(&values, host)?
            {
                continue;
            }
            if visit(Row { values: &values, ctid: None }, host)? == Flow::Rest {
                return Ok(Flow::Rest);
            }
        }
    }
}

/// A condition with the values of its expressions, perhaps as several.
pub(super) fn evaluated(
    condition: &IndexCondition,
    index: &TableIndex,
    params: Params<'_>,
    host: &mut Host,
) -> Result<Vec<Condition>> {
    let shape = &index.shape;
    let made = match condition {
        IndexCondition::Compare { key, comparison, value } => {
            let value = eval(value, &[], params, host)?;
            Condition::new(shape, *key, operator(*comparison), &value)
        }
        IndexCondition::AnyOf { key, values } => {
            let values = eval_all(values, &[], params, host)?;
            Condition::any_of(shape, *key, &*values)
        }
        IndexCondition::AnyOfArray { key, array, elements: of } => {
            let array = eval(array, &[], params, host)?;
            let values = elements(&array, *of, &host.style)?;
            Condition::any_of(shape, *key, &values.unwrap_or_default())
        }
        IndexCondition::Row { keys, comparison, values, .. } => {
            let values = eval_all(values, &[], params, host)?;
            let made = Condition::row(shape, keys, operator(*comparison), &values);
            return Ok(made.map_err(EngineError::from)?);
        }
        IndexCondition::Null { key, is_null } => {
            let operator = if *is_null { Operator::IsNull } else { Operator::IsNotNull };
            Condition::new(shape, *key, operator, &Datum::Null)
        }
    };
    Ok(vec![made.map_err(EngineError::from)?])
}

fn operator(comparison: Comparison) -> Operator {
    match comparison {
        Comparison::Eq => Operator::Equal,
        Comparison::Lt => Operator::Less,
        Comparison::Le => Operator::LessOrEqual,
        Comparison::Gt => Operator::Greater,
        Comparison::Ge => Operator::GreaterOrEqual,
        Comparison::Ne => unreachable!("no index finds what differs from a value"),
    }
}
