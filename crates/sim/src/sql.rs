//! Statements in SQL on a simulated disk.

use std::sync::Arc;

use forebay_aio::sync::Duration;
use forebay_engine::{Session, SessionSettings};
use forebay_sql::pieces::{LongValue, show_pieces};
use forebay_sql::{
    ColumnDesc, Connection, Format, Identity, IsolationLevel, PlanSettings, RowRef, RowSink,
    SetScope, SettingRow, Settings, Shown, SqlError, Step, TransactionModes, TransactionStatus,
};

use crate::disk::SimDisk;
use crate::workload::{Life, Setup};

/// The defaults, which can't be changed.
struct Defaults;

impl Settings for Defaults {
    fn show(&self, name: &str) -> Result<Shown, SqlError> {
        match name {
            "allow_in_place_tablespaces" => Ok(Shown { name: name.into(), value: "on".into() }),
            "work_mem" => Ok(Shown { name: name.into(), value: "4MB".into() }),
            _ => {
                let message = format!("unrecognized configuration parameter \"{name}\"");
                Err(SqlError::new("42704", message))
            }
        }
    }
    fn set(&mut self, name: &str, _: Option<&str>, _: SetScope) -> Result<(), SqlError> {
        self.show(name).map(drop)
    }
    fn check(&self, name: &str, _: &str) -> Result<(), SqlError> {
        self.show(name).map(drop)
    }
    fn reset_all(&mut self) -> Result<(), SqlError> {
        Ok(())
    }
    fn all(&self) -> Vec<SettingRow> {
        Vec::new()
    }
    fn change_count(&self) -> u64 {
        0
    }
    fn transaction_defaults(&self) -> TransactionModes {
        let isolation = IsolationLevel::ReadCommitted;
        TransactionModes { isolation, read_only: false, deferrable: false }
    }
    fn engine(&self) -> SessionSettings {
        // A wait would be for ever: there is one thread.
        SessionSettings { lock_timeout: Duration::from_secs(1), ..SessionSettings::default() }
    }
    fn planning(&self) -> PlanSettings {
        PlanSettings::default()
    }
    fn share(&self) -> Box<dyn Settings> {
        Box::new(Defaults)
    }
    fn reload_server(&mut self) -> bool {
        false
    }
    fn begin_subtransaction(&mut self) {}
    fn end_subtransaction(&mut self, _: bool) {}
    fn end_transaction(&mut self, _: bool) {}
}

/// Keeps rows, their values as text.
#[derive(Default)]
struct Rows(Vec<Vec<String>>);

impl RowSink for Rows {
    fn columns(&mut self, _: &[ColumnDesc], _: &[Format]) -> Result<(), SqlError> {
        Ok(())
    }
    fn row(&mut self, row: &RowRef<'_>) -> Result<(), SqlError> {
        let (mut encoded, mut long, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        row.encode_data_row(&mut encoded, &mut long)?;
        show_pieces(&encoded, &long, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        self.0.push(values(&bytes).ok_or_else(|| SqlError::new("XX000", "a row of no values"))?);
        Ok(())
    }
    fn copy_out_start(&mut self, _: Format, _: usize) -> Result<(), SqlError> {
        Ok(())
    }
    fn copy_data(&mut self, _: &[u8]) -> Result<(), SqlError> {
        Ok(())
    }
    fn copy_pieces(&mut self, _: &[u8], _: &[LongValue<'_>]) -> Result<(), SqlError> {
        Ok(())
    }
    fn copy_out_end(&mut self) -> Result<(), SqlError> {
        Ok(())
    }
    fn notice(&mut self, _: &SqlError) -> Result<(), SqlError> {
        Ok(())
    }
}

/// The values of a DataRow message. NULL is the word.
fn values(message: &[u8]) -> Option<Vec<String>> {
    let (count, mut rest) = message.split_first_chunk::<2>()?;
    let mut found = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, tail) = rest.split_first_chunk::<4>()?;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            found.push("NULL".to_owned());
            rest = tail;
            continue;
        };
        let (value, tail) = tail.split_at_checked(length)?;
        found.push(String::from_utf8_lossy(value).into_owned());
        rest = tail;
    }
    Some(found)
}

/// A connection that runs statements.
pub(crate) struct Sql(Option<Connection>);

impl Sql {
    /// A connection to the database `postgres`.
    ///
    /// # Errors
    /// As the engine.
    pub(crate) fn connect(life: &Life) -> Result<Sql, String> {
        Ok(Sql::over(life.engine().session().map_err(|error| error.to_string())?))
    }

    fn over(session: Session) -> Sql {
        let identity = Identity {
            user: "postgres".into(),
            database: "postgres".into(),
            pid: 1,
            version: "PostgreSQL 18".into(),
        };
        Sql(Some(Connection::new(session, Box::new(Defaults), identity)))
    }

    /// Runs a string of statements. The rows of all.
    ///
    /// # Errors
    /// That of a statement, with its SQLSTATE.
    pub(crate) fn run(&mut self, text: &str) -> Result<Vec<Vec<String>>, String> {
        let told = |error: SqlError| format!("{text}: {} {}", error.sqlstate, error.message);
        let Some(connection) = &mut self.0 else { return Err("closed".to_owned()) };
        let mut rows = Rows::default();
        let mut script = connection.start_script(text).map_err(told)?;
        loop {
            match connection.step(&mut script, &mut rows).map_err(told)? {
                Step::Completed(_) | Step::EmptyQuery => {}
                Step::CopyIn(_) => return Err(format!("{text}: it wants data")),
                Step::Finished => return Ok(rows.0),
            }
        }
    }

    /// Whether a transaction block is open.
    pub(crate) fn in_block(&self) -> bool {
        let status = self.0.as_ref().map(Connection::transaction_status);
        status.is_some_and(|status| status != TransactionStatus::Idle)
    }

    /// The first column of a query.
    ///
    /// # Errors
    /// As [`Sql::run`].
    pub(crate) fn column(&mut self, query: &str) -> Result<Vec<String>, String> {
        Ok(self.run(query)?.into_iter().filter_map(|row| row.into_iter().next()).collect())
    }
}

impl Drop for Sql {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            connection.close();
        }
    }
}

/// Opens the data directory of a disk, with what SQL needs.
///
/// # Errors
/// As the engine.
pub(crate) fn begin(disk: &SimDisk, setup: Setup) -> Result<Life, String> {
    let dir = crate::workload::data_dir(disk);
    let life = Life::begin_in(disk, setup, &dir, |config| {
        config.index_compiler = Some(Arc::new(forebay_sql::IndexCompiler));
    });
    life.map_err(|error| error.to_string())
}
