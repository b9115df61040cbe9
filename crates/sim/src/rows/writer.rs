//! A client that changes rows as it is told, with a model of what is committed.

use forebay_aio::sync::Arc;
use forebay_engine::{
    EngineError, Fork, ItemPointer, LockMode, RowBatch, RowOutcome, Session, Table, VacuumOptions,
};

use super::client::{TABLE, decoded, with_values};
use super::committed::{Changes, Committed};
use super::life::{first_number, found, in_transaction, table_of};
use crate::workload::Life;

/// What becomes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Keep,
    Update,
    Delete,
}

/// What a transaction does: it inserts some rows, and the function decides for each of the others,
/// by its place.
pub(crate) type Plan<'a> = (usize, &'a dyn Fn(ItemPointer) -> Act);

/// Keeps the rows.
pub(crate) fn keep(_: ItemPointer) -> Act {
    Act::Keep
}

/// A client on a running engine. Nobody else changes rows.
pub(crate) struct Writer {
    pub(crate) life: Life,
    pub(crate) table: Arc<Table>,
    pub(crate) committed: Committed,
}

impl Writer {
    /// Begins after the start of an engine: compares the rows with those of `committed`.
    ///
    /// # Errors
    /// What contradicts the model.
    pub(crate) fn begin(life: Life, committed: Committed) -> Result<Writer, String> {
        let mut writer = Writer::open(life, committed)?;
        writer.compare()?;
        Ok(writer)
    }

    /// Opens the table, without a look at its rows: its pages are on the disk as the recovery left
    /// them.
    ///
    /// # Errors
    /// That it cannot be opened.
    pub(crate) fn open(mut life: Life, mut committed: Committed) -> Result<Writer, String> {
        let table = table_of(&mut life)?;
        committed.skip_to(first_number(&table));
        Ok(Writer { life, table, committed })
    }

    /// Compares the rows with the model.
    ///
    /// # Errors
    /// What contradicts the model.
    pub(crate) fn compare(&mut self) -> Result<(), String> {
        self.committed.settle(&found(&mut self.life)?)
    }

    /// Runs a transaction. Waits for it to be durable, or not.
    pub(crate) fn change(&mut self, waits: bool, plan: Plan<'_>) -> Result<(), EngineError> {
        let Writer { life, committed, .. } = self;
        let changes = apply(life.session(), committed, plan)?;
        commit(life.session(), committed, changes, waits)
    }

    /// Runs a transaction across a checkpoint, and does not wait for its commit: its changes are
    /// durable then, and the commit is not.
    pub(crate) fn change_across_a_checkpoint(&mut self, plan: Plan<'_>) -> Result<(), EngineError> {
        let mut other = self.life.engine().session()?;
        let changes = apply(&mut other, &mut self.committed, plan)?;
        self.checkpoint()?;
        commit(&mut other, &mut self.committed, changes, false)
    }

    /// A checkpoint: all commits are durable then.
    pub(crate) fn checkpoint(&mut self) -> Result<(), EngineError> {
        self.life.session().checkpoint()?;
        self.committed.durable(self.committed.commits());
        Ok(())
    }

    /// Vacuums the table, in a transaction that waits for its commit or not.
    pub(crate) fn vacuum(
        &mut self,
        options: VacuumOptions,
        waits: bool,
    ) -> Result<(), EngineError> {
        let session = self.life.session();
        session.settings_mut().synchronous_commit = waits;
        session.vacuum(&self.table, &options, &mut Vec::new())
    }

    /// Rewrites the table, in a transaction that waits for its commit or not.
    pub(crate) fn rewrite(&mut self, waits: bool) -> Result<(), EngineError> {
        let Writer { life, table, .. } = self;
        let session = life.session();
        session.settings_mut().synchronous_commit = waits;
        session.vacuum_full(table, &VacuumOptions::default(), &mut Vec::new())?;
        // It has another file now.
        *table = in_transaction(session, |_, table| Ok(Arc::clone(table)))?;
        Ok(())
    }

    /// Evicts the pages of a fork, which writes those that are dirty.
    pub(crate) fn evict(&mut self, fork: Fork) -> Result<(), EngineError> {
        let rel = self.table.locator;
        let of_fork = |tag: forebay_format::PageTag| tag.rel == rel && tag.fork == fork;
        let buffers = self.life.engine().buffers();
        let held = buffers.filter(|held| held.page.is_some_and(|page| of_fork(page.tag)));
        let held: Vec<u32> = held.map(|held| held.buffer).collect();
        held.into_iter().try_for_each(|buffer| self.life.session().evict_buffer(buffer).map(drop))
    }

    /// The number of blocks up to the last one with a row.
    pub(crate) fn blocks(&mut self) -> Result<u32, EngineError> {
        let session = self.life.session();
        session.begin()?;
        session.start_command()?;
        let table = session.open_table(None, TABLE, LockMode::AccessShare)?;
        let places = rows(session, &table)?;
        session.commit()?;
        Ok(places.into_iter().map(|(_, place)| place.block + 1).max().unwrap_or(0))
    }
}

/// Lets a writer change rows until something fails, and notes what it has committed till then.
///
/// # Errors
/// What has failed.
pub(crate) fn keep_writing(
    life: Life,
    committed: &mut Committed,
    work: impl FnOnce(&mut Writer) -> Result<(), EngineError>,
) -> Result<(), String> {
    let mut writer = Writer::begin(life, committed.clone())?;
    let worked = work(&mut writer);
    *committed = writer.committed;
    worked.map_err(|error| error.to_string())
}

/// The id and the place of each row.
fn rows(session: &mut Session, table: &Arc<Table>) -> Result<Vec<(i64, ItemPointer)>, EngineError> {
    let (mut scan, mut rows) = (session.scan(table)?, Vec::new());
    while let Some(row) = scan.next(session)? {
        let place = row.place();
        let (id, _) = decoded(row)?.expect("the rows were compared before");
        rows.push((id, place));
    }
    Ok(rows)
}

/// Begins a transaction and changes rows.
fn apply(
    session: &mut Session,
    committed: &mut Committed,
    (inserts, act): Plan<'_>,
) -> Result<Changes, EngineError> {
    session.begin()?;
    session.start_command()?;
    let table = session.open_table(None, TABLE, LockMode::RowExclusive)?;
    let mut changes = Changes::new();
    for (id, place) in rows(session, &table)? {
        let version = committed.fresh();
        let done = match act(place) {
            Act::Keep => continue,
            Act::Update => {
                changes.insert(id, Some(version));
                with_values(id, version, |values| session.update_row(&table, place, values))?
            }
            Act::Delete => {
                changes.insert(id, None);
                session.delete_row(&table, place)?
            }
        };
        assert!(matches!(done, RowOutcome::Done(_)), "nobody else changes rows: {done:?}");
    }
    let mut batch = RowBatch::new(&table);
    for _ in 0..inserts {
        let (id, version) = (committed.fresh(), committed.fresh());
        changes.insert(id, Some(version));
        with_values(id, version, |values| batch.push(values))?;
    }
    session.insert_batch(&table, &mut batch)?;
    Ok(changes)
}

/// Commits what was applied.
fn commit(
    session: &mut Session,
    committed: &mut Committed,
    changes: Changes,
    waits: bool,
) -> Result<(), EngineError> {
    session.settings_mut().synchronous_commit = waits;
    committed.commit(changes);
    session.commit()?;
    if waits {
        committed.durable(committed.commits());
    }
    Ok(())
}
