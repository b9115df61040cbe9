//! Clients on a running engine, with checkpoints and background work between their steps.

use forebay_aio::sync::{Arc, Mutex};
use forebay_engine::types::oids;
use forebay_engine::{
    ColumnDef, ConstraintKind, EngineError, IndexDef, IndexKey, LockMode, Session, Table,
    VacuumOptions,
};
use forebay_testkit::Dice;

use super::client::{LONG, TABLE, TEXT, decoded};
use super::clients::Clients;
use super::committed::Committed;
use crate::care::autovacuum;
use crate::disk::SimDisk;
use crate::workload::{Life, disk_after};

/// A disk with a new data directory and an empty table, all of it durable.
///
/// # Errors
/// As the engine.
pub fn rows_disk() -> Result<SimDisk, EngineError> {
    rows_disk_with(&[])
}

/// The same; the table has a primary key, and an index on each of these columns. The second column
/// is one that every update changes. With an index on the third column all rows have long texts.
///
/// # Errors
/// As the engine.
pub fn indexed_rows_disk(columns: &[i16]) -> Result<SimDisk, EngineError> {
    let index = |&column| IndexDef { keys: vec![IndexKey::new(column)], ..IndexDef::default() };
    let primary = IndexDef { constraint: Some(ConstraintKind::Primary), ..index(&1) };
    let others = columns.iter().map(index);
    rows_disk_with(&std::iter::once(primary).chain(others).collect::<Vec<_>>())
}

fn rows_disk_with(indexes: &[IndexDef]) -> Result<SimDisk, EngineError> {
    disk_after(|session| {
        let number = |name| ColumnDef { not_null: true, ..ColumnDef::new(name, oids::INT8) };
        let columns = [number("id"), number("version"), ColumnDef::new("text", oids::TEXT)];
        session.create_table(None, TABLE, &columns)?;
        create_indexes(session, TABLE, indexes)
    })
}

/// Creates indexes of a table, each in a command of its own.
pub(super) fn create_indexes(
    session: &mut Session,
    table: &str,
    indexes: &[IndexDef],
) -> Result<(), EngineError> {
    for index in indexes {
        session.start_command()?;
        let table = session.open_table(None, table, LockMode::AccessExclusive)?;
        session.create_index(&table, index)?;
    }
    Ok(())
}

pub(super) fn in_transaction<T>(
    session: &mut Session,
    body: impl FnOnce(&mut Session, &Arc<Table>) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    session.begin()?;
    session.start_command()?;
    let table = session.open_table(None, TABLE, LockMode::AccessShare)?;
    let done = body(session, &table)?;
    session.commit()?;
    Ok(done)
}

/// The table.
pub(crate) fn table_of(life: &mut Life) -> Result<Arc<Table>, String> {
    let found = in_transaction(life.session(), |_, table| Ok(Arc::clone(table)));
    found.map_err(|error| error.to_string())
}

/// All rows that a new transaction sees.
pub(crate) fn found(life: &mut Life) -> Result<Vec<(i64, i64)>, String> {
    let read = |session: &mut Session, table: &Arc<Table>| -> Result<Vec<_>, EngineError> {
        let (mut scan, mut rows) = (session.scan(table)?, Vec::new());
        while let Some(row) = scan.next(session)? {
            rows.push(decoded(row)?);
        }
        Ok(rows)
    };
    let rows = in_transaction(life.session(), read).map_err(|error| error.to_string())?;
    rows.into_iter().collect()
}

/// The first number of a life in which rows of a table change.
pub(super) fn first_number(table: &Table) -> i64 {
    let has_texts = table.indexes.iter().any(|index| index.columns == [TEXT]);
    if has_texts { LONG } else { 0 }
}

/// Clients on a running engine.
pub(crate) struct RowLife {
    clients: Arc<Mutex<Clients>>,
    life: Life,
    table: Arc<Table>,
    disk: SimDisk,
}

impl RowLife {
    /// Starts clients. `faulty`: calls of the disk may fail at any time.
    pub(crate) fn begin(
        (life, table): (Life, Arc<Table>),
        disk: &SimDisk,
        mut committed: Committed,
        dice: Dice,
        faulty: bool,
    ) -> Result<RowLife, EngineError> {
        committed.skip_to(first_number(&table));
        let clients = Clients::new(life.engine(), committed, dice, faulty)?;
        let clients = Arc::new(Mutex::new(clients));
        Ok(RowLife { clients, life, table, disk: disk.clone() })
    }

    /// Does `steps` things, or fewer if the power or the engine fails.
    ///
    /// # Errors
    /// What contradicts the model.
    pub(crate) fn work(&mut self, dice: &mut Dice, steps: usize) -> Result<(), String> {
        for _ in 0..steps {
            if self.disk.is_off() || self.life.stopped().is_some() || self.clients.lock().over {
                break;
            }
            match dice.below(100) {
                0..3 => self.checkpoint(dice),
                3..6 => self.vacuum(dice)?,
                6..12 => drop(self.life.engine().step()),
                _ => self.clients.lock().step(|| self.disk.is_off()),
            }
            if let Some(wrong) = &self.clients.lock().wrong {
                return Err(wrong.clone());
            }
        }
        Ok(())
    }

    /// Vacuums the table, or lets autovacuum look after all tables. The table's end is cut off only
    /// if no transaction has locked it.
    fn vacuum(&mut self, dice: &mut Dice) -> Result<(), String> {
        if self.table.check_vacuumable().is_err() {
            return Ok(());
        }
        let (idle, faulty) = {
            let mut clients = self.clients.lock();
            if dice.chance(300) {
                clients.rest(|| self.disk.is_off());
            }
            (clients.are_idle(), clients.faulty)
        };
        let vacuumed = if dice.chance(400) {
            autovacuum(self.life.engine(), idle)
        } else {
            let options = VacuumOptions {
                freeze: dice.chance(400),
                disable_page_skipping: dice.chance(300),
                truncate: Some(idle),
                ..VacuumOptions::default()
            };
            let vacuumed = self.life.session().vacuum(&self.table, &options, &mut Vec::new());
            vacuumed.map_err(|error| error.to_string())
        };
        match vacuumed {
            Err(error) if !faulty && !self.disk.is_off() => Err(format!("vacuum: {error}")),
            _ => Ok(()),
        }
    }

    /// A checkpoint, at whose steps clients do something. What was committed before it is durable
    /// after it.
    fn checkpoint(&mut self, dice: &mut Dice) {
        let (clients, disk) = (Arc::clone(&self.clients), self.disk.clone());
        let mut order = Dice::new(dice.any());
        self.life.during_checkpoints(Some(Box::new(move |_| {
            for _ in 0..order.below(4) {
                clients.lock().step(|| disk.is_off());
            }
        })));
        let commits = self.clients.lock().committed.commits();
        let done = self.life.session().checkpoint();
        self.life.during_checkpoints(None);
        if done.is_ok() {
            self.clients.lock().committed.durable(commits);
        }
    }

    /// Ends the sessions, which aborts what runs. Returns what was committed, and the engine.
    pub(crate) fn end(self) -> (Committed, Life) {
        let RowLife { clients, life, .. } = self;
        let mut clients = clients.lock();
        clients.leave();
        (clients.committed.clone(), life)
    }
}
