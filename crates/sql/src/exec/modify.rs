//! INSERT, UPDATE and DELETE at work: rows come in one after the other, and each is changed.

use super::eval::{Params, eval_all, is_true};
use super::host::Host;
use super::loader::{Loader, described};
use super::measure::Conflicts;
use super::recheck::recheck;
use super::row::{Flow, Row};
use super::rules::complete;
use super::scan::{fetch, place_value, system_value};
use super::sort::{Sorted, Sorter};
use crate::error::{Result, Severity, SqlError, state};
use crate::plan::{Change, Expr, Modify, OnConflict, SystemColumn, live_columns, version_width};
use forebay_engine::{Inserted, ItemPointer, Part, RowOutcome, StoredRow};
use forebay_types::Datum;
use std::borrow::Cow;

/// Values from this length on may be stored out of line or compressed: a pointer has as many bytes.
const SHORTEST_TOASTED: usize = 18;

/// Takes the rows in.
pub(super) struct Modifier<'m> {
    modify: &'m Modify,
    /// INSERT without RETURNING: rows go in by batches.
    loader: Option<Loader>,
    /// What RETURNING has returned.
    returned: Option<Sorter>,
    /// Whether RETURNING reads what only the stored rows tell.
    reads_headers: bool,
    /// The columns that RETURNING does not read, of each version.
    unread: [Vec<bool>; 2],
    /// The columns that an update leaves as they are, though it has read their values whole.
    left: Vec<bool>,
    count: u64,
    /// The indexes in which ON CONFLICT looks.
    arbiters: Vec<u32>,
    conflicts: Conflicts,
}

/// What came of it.
pub(super) struct Modified {
    /// How many rows were changed.
    pub count: u64,
    /// What RETURNING returns.
    pub returned: Option<Sorted>,
    /// What ON CONFLICT was done about.
    pub conflicts: Conflicts,
}

/// What to do next with a row that was tried.
enum Tried {
    /// It is done with.
    Settled,
    /// It was changed by another transaction: the newest version.
    Changed(StoredRow),
}

/// The columns that keep their values in an update that reads these whole.
fn left_as_they_are(modify: &Modify) -> Vec<bool> {
    let values = match &modify.change {
        Change::Update(values) => values,
        Change::Insert(Some(conflict)) => match &conflict.update {
            Some(update) => &update.values,
            None => return Vec::new(),
        },
        Change::Insert(None) | Change::Delete => return Vec::new(),
    };
    if modify.table.toasting.relation.is_none() {
        return Vec::new();
    }
    let columns = &modify.table.columns;
    let mut left = vec![false; columns.len()];
    let live = left.iter_mut().enumerate().filter(|(number, _)| !columns[*number].dropped);
    for ((number, left), value) in live.zip(values) {
        let stays = matches!(value, Expr::Column(column) if *column == number);
        *left = stays && modify.read_whole.get(number) == Some(&true);
    }
    left
}

/// Whether a value that was read may be stored out of line or compressed. Rows are made short by
/// values that are longer than a pointer.
fn may_be_toasted(value: &Datum<'_>) -> bool {
    match value {
        Datum::Text(text) => text.len() >= SHORTEST_TOASTED,
        Datum::Bytes(bytes) => bytes.len() >= SHORTEST_TOASTED,
        Datum::Numeric(_)
        | Datum::Carried(..)
        | Datum::Array(_)
        | Datum::Jsonb(_)
        | Datum::Bits(..) => true,
        _ => false,
    }
}

impl<'m> Modifier<'m> {
    pub(super) fn new(modify: &'m Modify, host: &mut Host) -> Modifier<'m> {
        let returning = modify.returning.as_deref();
        let batches = returning.is_none() && matches!(modify.change, Change::Insert(None));
        let mut read = Vec::new();
        returning.into_iter().flatten().for_each(|e| e.mark_columns(&mut read));
        let header = |column: usize| {
            let index = column % version_width(&modify.table);
            let system = index.checked_sub(modify.table.columns.len());
            let column = system.and_then(|i| SystemColumn::ALL.get(i));
            column.is_some_and(|c| !matches!(c, SystemColumn::Ctid | SystemColumn::TableOid))
        };
        let unread = [0, 1].map(|version| {
            let first = version * version_width(&modify.table);
            let column = |n: usize| read.get(first + n) != Some(&true);
            (0..modify.table.columns.len()).map(column).collect()
        });
        Modifier {
            modify,
            unread,
            left: left_as_they_are(modify),
            loader: batches.then(|| Loader::new(&modify.table)),
            returned: returning.map(|_| Sorter::new(&[], None, host)),
            reads_headers: (0..read.len()).any(|column| read[column] && header(column)),
            count: 0,
            arbiters: match &modify.change {
                Change::Insert(Some(conflict)) => conflict.arbiters.iter().map(|i| i.oid).collect(),
                _ => Vec::new(),
            },
            conflicts: Conflicts::default(),
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
        match &modify.change {
            Change::Insert(None) => {
                self.insert(row, params, host)?;
                return Ok(Flow::Continue);
            }
            Change::Insert(Some(conflict)) => {
                self.insert_or_update(row, conflict, params, host)?;
                return Ok(Flow::Continue);
            }
            Change::Update(_) | Change::Delete => {}
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

    /// A new row with its generated columns, if the table has rules for its rows.
    fn completed<'v>(
        &self,
        row: &'v [Datum<'v>],
        params: Params<'_>,
        host: &mut Host,
    ) -> Result<Option<Vec<Datum<'v>>>> {
        let Some(rules) = &self.modify.rules else { return Ok(None) };
        complete(rules, &self.modify.table, row, params, host).map(Some)
    }

    fn insert(&mut self, row: Row<'_>, params: Params<'_>, host: &mut Host) -> Result<()> {
        let completed = self.completed(row.values, params, host)?;
        let row = Row { values: completed.as_deref().unwrap_or(row.values), ctid: row.ctid };
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
        self.inserted(row, place, params, host)
    }

    /// A row was inserted at a place.
    fn inserted(
        &mut self,
        row: Row<'_>,
        place: ItemPointer,
        params: Params<'_>,
        host: &mut Host,
    ) -> Result<()> {
        self.count += 1;
        if self.returned.is_none() {
            return Ok(());
        }
        let new = self.version(row.values, place, host)?;
        self.give_back([&new, &[]], params, host)
    }

    /// Inserts a row, or does what ON CONFLICT says if a key is in use.
    fn insert_or_update(
        &mut self,
        row: Row<'_>,
        conflict: &OnConflict,
        params: Params<'_>,
        host: &mut Host,
    ) -> Result<()> {
        let modify = self.modify;
        let table = &modify.table;
        let completed = self.completed(row.values, params, host)?;
        let row = Row { values: completed.as_deref().unwrap_or(row.values), ctid: row.ctid };
        let (found, update) = loop {
            let inserted = host
                .call(|session| session.insert_unless_conflict(table, row.values, &self.arbiters))
                .map_err(|error| described(table, row.values, error))?;
            let place = match inserted {
                Inserted::Done(place) => return self.inserted(row, place, params, host),
                Inserted::Conflict(place) => place,
            };
            let Some(update) = &conflict.update else {
                self.conflicts.rows += 1;
                return host.call(|session| session.check_conflict_seen(table, place));
            };
            let key = update.key;
            let locked = host.call(|session| session.lock_conflicting(table, place, key))?;
            if let Some(found) = locked {
                break (found, update);
            }
        };
        self.conflicts.rows += 1;
        let view = found.view();
        let (mut values, unread) = (Vec::new(), update.unread(table.columns.len()));
        view.decode_wanted(&vec![true; table.columns.len()], &unread, &mut values)?;
        let system = SystemColumn::ALL.into_iter();
        values.extend(system.map(|column| system_value(&view, column, table.oid)));
        let there = values.len();
        fetch(&mut values, table, &unread, host)?;
        let mut proposed = row.values.iter();
        let columns = table.columns.iter();
        values.extend(columns.map(|column| match column.dropped {
            true => Datum::Null,
            false => proposed.next().map_or(Datum::Null, Datum::reborrow),
        }));
        if let Some(filter) = &update.filter
            && !is_true(filter, &values, params, host)?
        {
            self.conflicts.filtered += 1;
            return Ok(());
        }
        let new = eval_all(&update.values, &values, params, host)?;
        let old = Row { values: values.get(..there).unwrap_or(&values), ctid: Some(view.place()) };
        match self.replace(old, &new, params, host)? {
            Tried::Settled => Ok(()),
            Tried::Changed(_) => {
                let message = "a row was changed in spite of its lock";
                Err(SqlError::new(state::INTERNAL_ERROR, message))
            }
        }
    }

    /// Updates or deletes a row of the table.
    fn change(&mut self, row: Row<'_>, params: Params<'_>, host: &mut Host) -> Result<Tried> {
        let place = row.ctid.expect("rows that are changed come from a table");
        let modify = self.modify;
        let table = &modify.table;
        match &modify.change {
            Change::Update(values) => {
                let new = eval_all(values, row.values, params, host)?;
                self.replace(row, &new, params, host)
            }
            Change::Delete => {
                let outcome = host.call(|session| session.delete_row(table, place))?;
                self.changed(row, outcome, None, params, host)
            }
            Change::Insert(_) => unreachable!("rows of INSERT are new"),
        }
    }

    /// Updates a row of the table.
    fn replace(
        &mut self,
        row: Row<'_>,
        new: &[Datum<'_>],
        params: Params<'_>,
        host: &mut Host,
    ) -> Result<Tried> {
        let place = row.ctid.expect("rows that are changed come from a table");
        let table = &self.modify.table;
        let completed = self.completed(new, params, host)?;
        let new = completed.as_deref().unwrap_or(new);
        let stored = self.as_stored(new, place, host)?;
        let new = stored.as_deref().unwrap_or(new);
        let outcome = match host.call(|session| session.update_row(table, place, new)) {
            Ok(outcome) => outcome,
            Err(error) => return Err(self.failed(new, error, host)?),
        };
        self.changed(row, outcome, Some(new), params, host)
    }

    /// The values of a new version, those that stay what they are in the form in which the version
    /// at `place` has them. Compressed anew, they would count as changed ones. None: as they came.
    fn as_stored<'v>(
        &self,
        new: &'v [Datum<'v>],
        place: ItemPointer,
        host: &mut Host,
    ) -> Result<Option<Vec<Datum<'v>>>> {
        let table = &self.modify.table;
        let live = || table.columns.iter().enumerate().filter(|(_, column)| !column.dropped);
        let is_left = |number: usize| self.left.get(number) == Some(&true);
        let values = || new.iter().zip(live());
        if !values().any(|(value, (number, _))| is_left(number) && may_be_toasted(value)) {
            return Ok(None);
        }
        let found = host.call(|session| session.row_at(table, place))?;
        let Some(found) = found else { return Ok(None) };
        let mut stored = Vec::new();
        found.view().decode_wanted(&self.left, &self.left, &mut stored)?;
        let form = |(value, (number, _)): (&'v Datum<'v>, (usize, _))| match stored.get(number) {
            Some(Datum::Toasted(bytes)) => Datum::Toasted(Cow::Owned(bytes.to_vec())),
            _ => value.reborrow(),
        };
        Ok(Some(values().map(form).collect()))
    }

    /// Takes what became of a row that was to be changed.
    fn changed(
        &mut self,
        row: Row<'_>,
        outcome: RowOutcome,
        new: Option<&[Datum<'_>]>,
        params: Params<'_>,
        host: &mut Host,
    ) -> Result<Tried> {
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
                let new = self.version(new, done, host)?;
                self.give_back([&new, &old], params, host)?;
            }
        }
        Ok(Tried::Settled)
    }

    /// The error of a new version, with its values.
    fn failed(&self, new: &[Datum<'_>], error: SqlError, host: &mut Host) -> Result<SqlError> {
        let table = &self.modify.table;
        let mut row: Vec<Datum<'_>> = new.iter().map(Datum::reborrow).collect();
        for (value, column) in row.iter_mut().zip(live_columns(table)) {
            if matches!(value, Datum::Toasted(_)) {
                *value = host.fetch_value(value, column.repr, Part::Whole)?;
            }
        }
        Ok(described(table, &row, error))
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
            let first = row.len();
            row.extend(version.iter().map(Datum::reborrow));
            if let (Some(version), Some(unread)) = (row.get_mut(first..), self.unread.get(n)) {
                fetch(version, &self.modify.table, unread, host)?;
            }
            row.resize((n + 1) * width, Datum::Null);
        }
        let values = eval_all(exprs, &row, params, host)?;
        returned.push(values.into_iter().map(Datum::into_owned).collect(), host)
    }

    /// The error with which the statement ends, of one that a row met. PostgreSQL inserts each row
    /// before it computes the next one, so an error of a row that waits in the batch comes first.
    pub(super) fn ended_by(mut self, error: SqlError, host: &mut Host) -> SqlError {
        let interrupted =
            error.severity != Severity::Error || error.sqlstate == state::QUERY_CANCELED;
        match self.loader.take() {
            Some(mut loader) if !interrupted => loader.flush(host).err().unwrap_or(error),
            _ => error,
        }
    }

    /// No more rows come.
    pub(super) fn finish(mut self, host: &mut Host) -> Result<Modified> {
        if let Some(mut loader) = self.loader.take() {
            loader.flush(host)?;
            self.count = loader.inserted();
        }
        let returned = self.returned.take().map(|rows| rows.finish(host)).transpose()?;
        Ok(Modified { count: self.count, returned, conflicts: self.conflicts })
    }
}
