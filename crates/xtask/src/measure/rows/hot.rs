//! A table of few rows on few pages, each changed again and again. Without an index, the servers
//! scan it for each change.

use super::extent::{SERVERS, SESSIONS};
use crate::measure::pgbench::{Length, Run, Script, percentile};
use crate::measure::servers::{Running, Subject, WITHOUT_AUTOVACUUM, order};
use crate::measure::table::Table;
use crate::peers::Peer;

/// Sessions that update before the size is measured.
const UPDATERS: u32 = 8;

/// A load by key. pgbench numbers its clients from 0.
struct Load {
    name: &'static str,
    rows: fn(u32) -> u32,
    /// `CLIENTS` stands for their number.
    script: &'static str,
    /// Whether each transaction adds to a row's count.
    adds: bool,
}

/// Rows that are deleted come back in the same transaction, and no two sessions delete the same.
const LOADS: [Load; 4] = [
    Load {
        name: "update of one's own row",
        rows: one_each,
        script: "UPDATE hot SET n = n + 1 WHERE id = :client_id;\n",
        adds: true,
    },
    Load { name: "update of one in 100 rows", rows: hundred, script: UPDATE, adds: true },
    Load {
        name: "delete and insert of one's own row",
        rows: one_each,
        script: "BEGIN;\nDELETE FROM hot WHERE id = :client_id;\n\
            INSERT INTO hot VALUES (:client_id, 1, 'a row that changes');\nEND;\n",
        adds: false,
    },
    Load {
        name: "delete and insert of one in 100 rows",
        rows: hundred,
        script: "\\set id :client_id + CLIENTS * random(0, (99 - :client_id) / CLIENTS)\n\
            BEGIN;\nDELETE FROM hot WHERE id = :id;\n\
            INSERT INTO hot VALUES (:id, 1, 'a row that changes');\nEND;\n",
        adds: false,
    },
];

const UPDATE: &str = "\\set id random(0, 99)\nUPDATE hot SET n = n + 1 WHERE id = :id;\n";

fn one_each(clients: u32) -> u32 {
    clients
}

fn hundred(_: u32) -> u32 {
    100
}

/// The tables.
pub struct Tables {
    rates: Table,
    queue: Table,
    size: Table,
}

impl Tables {
    /// Empty tables.
    pub fn new() -> Tables {
        Tables {
            rates: Table::new("A small table by key, transactions a second", &SERVERS),
            queue: Table::new("One row updated in turns, milliseconds", &SERVERS),
            size: Table::new("The table of 100 rows after many updates, MB", &SERVERS),
        }
    }

    /// The tables.
    pub fn all(self) -> Vec<Table> {
        vec![self.rates, self.queue, self.size]
    }
}

/// Runs both servers at once, one idle while the other works, so that drift falls on both.
///
/// # Errors
/// When a server does not start, pgbench fails, or a change is lost.
pub fn measure(
    subjects: [&Subject; 2],
    peer: &Peer,
    round: usize,
    seconds: u64,
    tables: &mut Tables,
) -> Result<(), String> {
    let servers = [start(subjects[0], &[])?, start(subjects[1], &[])?];
    let length = Length::Seconds(seconds);
    for (n, clients) in SESSIONS.into_iter().enumerate() {
        for load in &LOADS {
            let script = load.script.replace("CLIENTS", &clients.to_string());
            let run = Run { script: Script::Own(&script), mode: "prepared", clients, length };
            for server in order(&servers[0], &servers[1], round + n) {
                let rows = (load.rows)(clients);
                make(server, rows)?;
                let done = run.done(server, peer)?;
                check(server, rows, if load.adds { done.transactions } else { 1 })?;
                let row = format!("{}, {clients} sessions", load.name);
                tables.rates.add(&row, server.column(), done.rate);
            }
        }
        let script = "UPDATE hot SET n = n + 1 WHERE id = 0;\n";
        let run = Run { script: Script::Own(script), mode: "prepared", clients, length };
        for server in order(&servers[0], &servers[1], round + n) {
            make(server, 1)?;
            let (done, milliseconds) = run.latencies(server, peer)?;
            check(server, 1, done.transactions)?;
            let (row, column) = (format!("{clients} sessions"), server.column());
            tables.rates.add(&format!("update of one row by all, {row}"), column, done.rate);
            for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
                let figure = percentile(&milliseconds, part);
                tables.queue.add(&format!("{row}, {name}"), column, figure);
            }
        }
    }
    Ok(())
}

/// Updates random rows of 100, not waiting for the disk, and measures the size afterwards, without
/// and with autovacuum.
///
/// # Errors
/// When a server does not start, or pgbench fails.
pub fn bloat(
    subjects: [&Subject; 2],
    peer: &Peer,
    updates: u64,
    tables: &mut Tables,
) -> Result<(), String> {
    let length = Length::Transactions(updates / u64::from(UPDATERS));
    let run = Run { script: Script::Own(UPDATE), mode: "prepared", clients: UPDATERS, length };
    let [forebay, postgres] = subjects;
    let ways = [(forebay, "off"), (postgres, "off"), (forebay, "on"), (postgres, "on")];
    for (subject, autovacuum) in ways {
        let setting = format!("autovacuum={autovacuum}");
        let server = start(subject, &["synchronous_commit=off", &setting])?;
        make(&server, 100)?;
        let done = run.done(&server, peer)?;
        check(&server, 100, done.transactions)?;
        let column = subject.column();
        let row = format!("{} updates, autovacuum {autovacuum}", done.transactions);
        tables.size.add(&row, column, server.number("SELECT pg_relation_size('hot')")? / 1e6);
        let row = format!(
            "update of one in 100 rows, {UPDATERS} sessions, not durable, autovacuum {autovacuum}"
        );
        tables.rates.add(&row, column, done.rate);
    }
    Ok(())
}

fn start<'s>(subject: &'s Subject, more: &[&str]) -> Result<Running<'s>, String> {
    let common = ["io_method=io_uring", "wal_sync_method=fdatasync"];
    subject.start(&[&common[..], &[WITHOUT_AUTOVACUUM], more].concat())
}

/// Makes the table, with ids from 0.
fn make(server: &Running<'_>, rows: u32) -> Result<(), String> {
    server.query("DROP TABLE IF EXISTS hot")?;
    server.query("CREATE TABLE hot (id int4, n int4, name text)")?;
    let rows: Vec<String> =
        (0..rows).map(|id| format!("({id}, 0, 'a row that changes')")).collect();
    server.query(&format!("INSERT INTO hot VALUES {}", rows.join(", ")))?;
    server.query("CHECKPOINT").map(drop)
}

/// Each row is there, and no change is lost.
fn check(server: &Running<'_>, rows: u32, changes: u64) -> Result<(), String> {
    let found = server.number("SELECT count(*) FROM hot")?;
    let counted = server.number("SELECT sum(n) FROM hot")?;
    if found == f64::from(rows) && counted >= changes as f64 {
        return Ok(());
    }
    Err(format!("{found} of {rows} rows are there, and {counted} of {changes} changes"))
}
