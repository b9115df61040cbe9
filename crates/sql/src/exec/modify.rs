//! INSERT, UPDATE and DELETE at work: rows come in one after the other, and each is changed.

use super::eval::{Params, eval_all};
use super::host::Host;
use super::loader::{Loader, described};
use super::recheck::recheck;
use super::row::{Flow, Row};
use super::scan::{place_value, system_value};
use super::sort::{Sorted, Sorter};
use crate::error::{Result, SqlError, state};
use crate::plan::{Change, Modify, SystemColumn, version_width};
use forebay_engine::{ItemPointer, RowOutcome, StoredRow};
use forebay_types::Datum;

/// Takes the rows in.
pub(super) struct Modifier<'m> {
    modify: &'m Modify,
    /// INSERT without RETURNING: rows go in by batches.
    loader: Option<Loader>,
    /// What RETURNING has returned.
    returned: Option<Sorter>,
    /// Whether RETURNING reads what only the stored rows tell.
    reads_headers: bool,
    count: u64,
}

/// What came of it.
pub(super) struct Modified {
    /// How many rows were changed.
    pub count: u64,
    /// What RETURNING returns.
    pub returned: Option<Sorted>,
}

/// What to do next with a row that was tried.
enum Tried {
    /// It is done with.
    Settled,
    /// It was changed by another transaction: the newest version.
    Changed(StoredRow),
}

impl<'m> Modifier<'m> {
    pub(super) fn new(modify: &'m Modify, host: &mut Host) -> Modifier<'m> {
        let returning = modify.returning.as_deref();
        let batches = returning.is_none() && matches!(modify.change, Change::Insert);
        let mut read = Vec::new();
        returning.into_iter().flatten().for_each(|e| e.mark_columns(&mut read));
        let header = |column: usize| {
            let index = column % version_width(&modify.table);
            let system = index.checked_sub(modify.table.columns.len());
            let column = system.and_then(|i| SystemColumn::ALL.get(i));
            column.is_some_and(|c| !matches!(c, SystemColumn::Ctid | SystemColumn::TableOid))
        };
        Modifier {
            modify,
            loader: batches.then(|| Loader::new(&modify.table)),
            returned: returning.map(|_| Sorter::new(&[], None, host)),
            reads_headers: (0..read.len()).any(|column| read[column] && header(column)),
            count: 0,
        }
    }

    /// Takes a row.
    pub(super) fn take(
        &mut self,
        row: Row<'_>,
        params: Params<'_>,
        host: &mut Host,
    ) -> Result<Flow> {
        let modify = self.modify;
        if let Change::Insert = modify.change {
            self.insert(row, params, host)?;
            return Ok(Flow::Continue);
        }
        let mut tried = self.change(row, params, host)?;
        while let Tried::Changed(newest) = tried {
            tried = Tried::Settled;
            recheck(&modify.input, &newest, params, host, &mut |row, host| {
                tried = self.change(row, params, host)?;
                Ok(Flow::Continue)
            })?;
        }
        Ok(Flow::Continue)
    }

    fn insert(&mut self, row: Row<'_>, params: Params<'_>, host: &mut Host) -> Result<()> {
        if let Some(loader) = &mut self.loader {
            loader.push(row.values)?;
            // The snapshot of a scan below does not see the new rows.
            return if loader.is_full() { loader.flush(host) } else { Ok(()) };
        }
        let modify = self.modify;
        let table = &modify.table;
        let place = host
            .call(|session| session.insert_row(table, row.values))
            .map_err(|error| described(table, row.values, error))?;
        self.count += 1;
        let new = self.version(row.values, place, host)?;
        self.give_back([&new, &[]], params, host)
    }

    /// Updates or deletes a row of the table.
    fn change(&mut self, row: Row<'_>, params: Params<'_>, host: &mut Host) -> Result<Tried> {
        let place = row.ctid.expect("rows that are changed come from a table");
        let modify = self.modify;
        let table = &modify.table;
        let (outcome, new) = match &modify.change {
            Change::Update(values) => {
                let new = eval_all(values, row.values, params, host)?;
                let outcome = host
                    .call(|session| session.update_row(table, place, &new))
                    .map_err(|error| described(table, &new, error))?;
                (outcome, Some(new))
            }
            Change::Delete => (host.call(|session| session.delete_row(table, place))?, None),
            Change::Insert => unreachable!("rows of INSERT are new"),
        };
        let done = match outcome {
            RowOutcome::Done(done) => done,
            RowOutcome::Gone => return Ok(Tried::Settled),
            RowOutcome::Changed(newest) => return Ok(Tried::Changed(newest)),
            RowOutcome::Held => {
                let message = "a row that is changed is waited for";
                return Err(SqlError::new(state::INTERNAL_ERROR, message));
            }
        };
        self.count += 1;
        if self.returned.is_none() {
            return Ok(Tried::Settled);
        }
        let old = self.old_version(row, host)?;
        match new {
            None => self.give_back([&old, &[]], params, host)?,
            Some(new) => {
                let new = self.version(&new, done, host)?;
                self.give_back([&new, &old], params, host)?;
            }
        }
        Ok(Tried::Settled)
    }

    /// A new version: its columns, from the values of the live ones, and its system columns.
    fn version<'v>(
        &self,
        live: &'v [Datum<'v>],
        place: ItemPointer,
        host: &mut Host,
    ) -> Result<Vec<Datum<'v>>> {
        let table = &self.modify.table;
        let mut live = live.iter();
        let column = |dropped: bool| if dropped { None } else { live.next() };
        let values = table.columns.iter().map(|c| c.dropped).map(column);
        let mut version: Vec<Datum<'v>> =
            values.map(|value| value.map_or(Datum::Null, Datum::reborrow)).collect();
        self.add_system(&mut version, place, host)?;
        Ok(version)
    }

    /// The old version. As in PostgreSQL, its system columns are those that it has now.
    fn old_version<'v>(&self, row: Row<'v>, host: &mut Host) -> Result<Vec<Datum<'v>>> {
        let place = row.ctid.expect("rows that are changed come from a table");
        let columns = self.modify.table.columns.len();
        let mut version: Vec<Datum<'v>> =
            row.values.iter().take(columns).map(Datum::reborrow).collect();
        version.resize(columns, Datum::Null);
        self.add_system(&mut version, place, host)?;
        Ok(version)
    }

    fn add_system(
        &self,
        version: &mut Vec<Datum<'_>>,
        place: ItemPointer,
        host: &mut Host,
    ) -> Result<()> {
        let table = &self.modify.table;
        let stored = match self.reads_headers {
            true => host.call(|session| session.row_at(table, place))?,
            false => None,
        };
        version.extend(SystemColumn::ALL.into_iter().map(|column| match (&stored, column) {
            (Some(stored), column) => system_value(&stored.view(), column, table.oid),
            (None, SystemColumn::Ctid) => place_value(place),
            (None, SystemColumn::TableOid) => Datum::Oid(table.oid),
            (None, _) => Datum::Null,
        }));
        Ok(())
    }

    /// Evaluates RETURNING over two versions of a row; one that there is not is empty.
    fn give_back(
        &mut self,
        versions: [&[Datum<'_>]; 2],
        params: Params<'_>,
        host: &mut Host,
    ) -> Result<()> {
        let (Some(exprs), Some(returned)) = (&self.modify.returning, &mut self.returned) else {
            return Ok(());
        };
        let width = version_width(&self.modify.table);
        let mut row = Vec::with_capacity(2 * width);
        for (n, version) in versions.into_iter().enumerate() {
            row.extend(version.iter().map(Datum::reborrow));
            row.resize((n + 1) * width, Datum::Null);
        }
        let values = eval_all(exprs, &row, params, host)?;
        returned.push(values.into_iter().map(Datum::into_owned).collect(), host)
    }

    /// No more rows come.
    pub(super) fn finish(mut self, host: &mut Host) -> Result<Modified> {
        if let Some(mut loader) = self.loader.take() {
            loader.flush(host)?;
            self.count = loader.inserted();
        }
        let returned = self.returned.take().map(|rows| rows.finish(host)).transpose()?;
        Ok(Modified { count: self.count, returned })
    }
}
