//! Two threads move money between accounts: each locks the rows that it changes, checks rows that
//! were changed meanwhile again, and rolls back to a savepoint where money is short.
//!
//!     cargo run -p forebay-engine --example transfer -- DIRECTORY

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use forebay_engine::types::oids;
use forebay_engine::{
    ColumnDef, Datum, Engine, EngineConfig, EngineError, InitOptions, ItemPointer, LockMode,
    RowOutcome, RowView, Session, ShutdownMode, Statement, Table,
};

const ACCOUNTS: i64 = 4;
const EACH: i64 = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).ok_or("usage: transfer DIRECTORY")?;
    run(Path::new(&dir))
}

/// Makes the directory, moves money, and counts it.
pub fn run(dir: &Path) -> Result<(), Box<dyn Error>> {
    Engine::init(dir, &InitOptions::default())?;
    let engine = Engine::open(dir, EngineConfig::default())?;
    open_accounts(&mut engine.session()?)?;
    std::thread::scope(|scope| {
        let threads = [0, 1].map(|first| {
            let engine = &engine;
            scope.spawn(move || {
                let mut session = engine.session()?;
                (first..first + 20).try_for_each(|n| {
                    // In the order of accounts, so that nobody waits for each other.
                    transfer(&mut session, n % (ACCOUNTS - 1), ACCOUNTS - 1, 30)
                })
            })
        });
        threads.into_iter().try_for_each(|thread| thread.join().expect("a thread"))
    })?;
    let total = total(&mut engine.session()?)?;
    println!("{total} in {ACCOUNTS} accounts");
    assert_eq!(total, ACCOUNTS * EACH);
    engine.shutdown(ShutdownMode::Fast)?;
    Ok(())
}

fn open_accounts(session: &mut Session) -> Result<(), EngineError> {
    let mut tx = session.transaction()?;
    let columns = ["id", "amount"].map(|name| ColumnDef::new(name, oids::INT8));
    tx.statement()?.create_table(None, "accounts", &columns)?;
    let mut insert = tx.statement()?;
    let table = insert.open_table(None, "accounts", LockMode::RowExclusive)?;
    for id in 0..ACCOUNTS {
        insert.insert_row(&table, &[Datum::Int8(id), Datum::Int8(EACH)])?;
    }
    tx.commit()
}

fn values(row: RowView<'_>) -> Result<(i64, i64), EngineError> {
    match row.decode()?[..] {
        [Datum::Int8(id), Datum::Int8(amount)] => Ok((id, amount)),
        _ => Err(EngineError::internal("the table has other columns")),
    }
}

/// UPDATE accounts SET amount = amount + by WHERE id = wanted. Returns the new amount.
fn add(statement: &mut Statement<'_>, wanted: i64, by: i64) -> Result<i64, EngineError> {
    let table = statement.open_table(None, "accounts", LockMode::RowExclusive)?;
    let Some((mut place, mut amount)) = find(statement, &table, wanted)? else {
        return Err(EngineError::internal("there is no such account"));
    };
    loop {
        let new = [Datum::Int8(wanted), Datum::Int8(amount + by)];
        match statement.update_row(&table, place, &new)? {
            RowOutcome::Done(_) => return Ok(amount + by),
            // Somebody else has changed it: what is added is added to the new amount.
            RowOutcome::Changed(newest) => {
                (place, amount) = (newest.place(), values(newest.view())?.1);
            }
            RowOutcome::Gone | RowOutcome::Held => {
                return Err(EngineError::internal("the account is gone"));
            }
        }
    }
}

fn find(
    statement: &mut Statement<'_>,
    table: &Arc<Table>,
    wanted: i64,
) -> Result<Option<(ItemPointer, i64)>, EngineError> {
    let mut scan = statement.scan(table)?;
    while let Some(row) = scan.next_row()? {
        let (id, amount) = values(row)?;
        if id == wanted {
            return Ok(Some((row.place(), amount)));
        }
    }
    Ok(None)
}

fn transfer(session: &mut Session, from: i64, to: i64, amount: i64) -> Result<(), EngineError> {
    let mut tx = session.transaction()?;
    let mut savepoint = tx.savepoint()?;
    let left = add(&mut savepoint.statement()?, from, -amount)?;
    if left < 0 {
        savepoint.rollback()?;
    } else {
        add(&mut savepoint.statement()?, to, amount)?;
        savepoint.release()?;
    }
    tx.commit()
}

fn total(session: &mut Session) -> Result<i64, EngineError> {
    let mut tx = session.transaction()?;
    let mut select = tx.statement()?;
    let table = select.open_table(None, "accounts", LockMode::AccessShare)?;
    let mut scan = select.scan(&table)?;
    let mut total = 0;
    while let Some(row) = scan.next_row()? {
        total += values(row)?.1;
    }
    drop(scan);
    tx.commit()?;
    Ok(total)
}
