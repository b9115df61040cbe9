//! pgbench's TPC-B-like transaction in one process, without a network: transactions a second.
//!
//! ```text
//! cargo run --release -p forebay-sql --example tpcb -- DIRECTORY [scale [sessions [seconds]]]
//! ```
//!
//! DIRECTORY is made, and must not be there. Each transaction is five prepared statements and a
//! commit that waits until it is durable, as in `pgbench -M prepared`. The sums of the four tables
//! are compared at the end.

#[path = "../tests/support/mod.rs"]
mod support;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use forebay_engine::{Engine, EngineConfig, InitOptions, ShutdownMode};
use forebay_sql::Connection;
use forebay_testkit::Dice;

const ACCOUNTS: u64 = 100_000;
const TELLERS: u64 = 10;

/// The statements, by name: `$1` is what the balance changes by.
const STATEMENTS: [(&str, &str); 5] = [
    ("account", "UPDATE accounts SET balance = balance + $1 WHERE id = $2"),
    ("look", "SELECT balance FROM accounts WHERE id = $1"),
    ("teller", "UPDATE tellers SET balance = balance + $1 WHERE id = $2"),
    ("branch", "UPDATE branches SET balance = balance + $1 WHERE id = $2"),
    ("history", "INSERT INTO history VALUES ($1, $2, $3, $4)"),
];

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut args = std::env::args().skip(1);
    let directory = args.next().ok_or("usage: tpcb DIRECTORY [scale [sessions [seconds]]]")?;
    let numbers: Vec<u64> = args.map(|arg| arg.parse()).collect::<Result<_, _>>()?;
    let number = |n: usize, usual| numbers.get(n).copied().unwrap_or(usual);
    let (scale, sessions, seconds) = (number(0, 10), number(1, 1), number(2, 10));

    Engine::init(Path::new(&directory), &InitOptions::default())?;
    let engine = Engine::open(Path::new(&directory), EngineConfig::default())?;
    fill(&mut connect(&engine)?, scale);
    let begun = Instant::now();
    let end = begun + Duration::from_secs(seconds);
    let runs: Vec<_> = (0..sessions)
        .map(|seed| {
            let engine = Arc::clone(&engine);
            thread::spawn(move || run(&engine, Dice::new(seed), scale, end))
        })
        .collect();
    let mut count = 0;
    for run in runs {
        count += run.join().expect("no session panics")?;
    }
    let rate = count as f64 / begun.elapsed().as_secs_f64();
    println!("{rate:.0} transactions a second, {sessions} sessions, scale {scale}");
    compare(&mut connect(&engine)?);
    engine.shutdown(ShutdownMode::Fast)?;
    Ok(())
}

fn connect(engine: &Arc<Engine>) -> Result<Connection, Box<dyn Error + Send + Sync>> {
    let settings = Box::new(support::FewSettings::new());
    Ok(Connection::new(engine.session()?, settings, support::identity()))
}

/// Makes the tables of pgbench.
fn fill(conn: &mut Connection, scale: u64) {
    let tables =
        [("accounts", ACCOUNTS * scale), ("tellers", TELLERS * scale), ("branches", scale)];
    for (table, rows) in tables {
        for sql in [
            format!("create table {table} (id int8, balance int8, filler text)"),
            format!(
                "insert into {table} select g, 0, '                                        ' \
                 from generate_series(1::int8, {rows}) g"
            ),
            format!("alter table {table} add primary key (id)"),
            format!("vacuum analyze {table}"),
        ] {
            done(conn, &sql);
        }
    }
    done(conn, "create table history (tid int8, bid int8, aid int8, delta int8)");
}

/// Runs a statement, which must succeed; what it answered.
fn done(conn: &mut Connection, sql: &str) -> Vec<String> {
    let lines = support::run(conn, sql);
    assert!(lines.iter().any(|line| line.starts_with("= ")), "{sql}: {lines:?}");
    lines
}

/// Runs transactions until the end. Returns how many.
fn run(
    engine: &Arc<Engine>,
    mut dice: Dice,
    scale: u64,
    end: Instant,
) -> Result<u64, Box<dyn Error + Send + Sync>> {
    let mut conn = connect(engine)?;
    for (name, sql) in STATEMENTS {
        conn.parse(name, sql, &[])?;
    }
    conn.sync()?;
    let mut count = 0;
    while Instant::now() < end {
        let delta = format!("{}", dice.below(10_001) as i64 - 5000);
        let mut one = |count: u64| (1 + dice.below(count * scale)).to_string();
        let (account, teller, branch) = (one(ACCOUNTS), one(TELLERS), one(1));
        done(&mut conn, "begin");
        execute(&mut conn, "account", &[&delta, &account])?;
        execute(&mut conn, "look", &[&account])?;
        execute(&mut conn, "teller", &[&delta, &teller])?;
        execute(&mut conn, "branch", &[&delta, &branch])?;
        execute(&mut conn, "history", &[&teller, &branch, &account, &delta])?;
        done(&mut conn, "commit");
        count += 1;
    }
    conn.close();
    Ok(count)
}

fn execute(
    conn: &mut Connection,
    statement: &str,
    values: &[&String],
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut sink = support::Recorder::default();
    let values: Vec<_> = values.iter().map(|value| Some(value.as_bytes())).collect();
    conn.bind("", statement, &[], &values, &[])?;
    conn.execute("", 0, &mut sink)?;
    conn.sync()?;
    Ok(())
}

/// Money neither comes nor goes: all tables have the same sum.
fn compare(conn: &mut Connection) {
    let mut sum =
        |column: &str, table: &str| done(conn, &format!("select sum({column}) from {table}"));
    let history = sum("delta", "history");
    for table in ["accounts", "tellers", "branches"] {
        assert_eq!(sum("balance", table), history, "{table}");
    }
}
