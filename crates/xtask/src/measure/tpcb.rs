//! pgbench's own transactions on its own tables: both servers, with the same durability.
//!
//! Rates and latencies in memory and with a table ten times the pool, the processor's time a
//! transaction, latencies while checkpoints run one after the other, connections, and DDL in small
//! and large catalogs. pgbench runs on the same processors.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::pgbench::{Done, Length, Run, Script, percentile};
use super::servers::{Running, Subject, order};
use super::table::Table;
use crate::peers::Peer;
use crate::run::run as command;

/// How much is measured.
#[derive(Clone, Copy)]
pub struct Extent {
    /// Interleaved rounds.
    pub rounds: usize,
    /// Length of a run.
    pub seconds: u64,
    /// pgbench's scale in memory; 1 is about 16 MB. 0: nothing in memory, and no DDL.
    pub scale: u32,
    /// Its scale with a pool of a tenth. 0: none.
    pub large_scale: u32,
}

const SERVERS: [&str; 2] = ["Forebay", "PostgreSQL 18"];
const CLIENTS: [u32; 3] = [1, 8, 50];
/// pgbench's scripts.
const LOADS: [&str; 3] = ["tpcb-like", "simple-update", "select-only"];
/// Clients of the runs with a table larger than the pool, and of those beside checkpoints.
const SEVERAL: u32 = 8;
/// MB of pgbench's tables for each step of the scale.
const MEGABYTES: u64 = 16;
const COMMON: [&str; 3] = ["io_method=io_uring", "wal_sync_method=fdatasync", "max_connections=80"];
/// Tables in the catalogs while DDL is measured.
const TABLES: [u32; 2] = [10, 10_000];
/// Tables that one statement of the preparation makes.
const AT_ONCE: u32 = 500;

/// The tables of figures.
struct Tables {
    rates: Table,
    processor: Table,
    latencies: Table,
    others: Table,
}

impl Tables {
    fn new() -> Tables {
        Tables {
            rates: Table::new("pgbench, transactions a second", &SERVERS),
            processor: Table::new("The server's processor time, µs a transaction", &SERVERS),
            latencies: Table::new("Latency of a transaction, milliseconds", &SERVERS),
            others: Table::new("Connections and DDL, a second", &SERVERS),
        }
    }

    fn all(self) -> Vec<Table> {
        vec![self.rates, self.processor, self.latencies, self.others]
    }

    /// Adds what a run has shown.
    fn add(&mut self, row: &str, column: usize, measured: &Measured) {
        let Measured { done, milliseconds, processor } = measured;
        self.rates.add(row, column, done.rate);
        self.processor.add(row, column, processor * 1e6 / done.transactions.max(1) as f64);
        for (name, part) in [("p99", 0.99), ("p99.9", 0.999)] {
            let figure = percentile(milliseconds, part);
            self.latencies.add(&format!("{row}, {name}"), column, figure);
        }
    }
}

/// A run, with the latencies in ascending order and the seconds of the server's processor time.
struct Measured {
    done: Done,
    milliseconds: Vec<f64>,
    processor: f64,
}

/// Measures, prints the tables, and returns them.
///
/// # Errors
/// When a server does not start, pgbench fails, or balances differ.
pub fn run(root: &std::path::Path, peer: &Peer, extent: Extent) -> Result<Vec<Table>, String> {
    let (forebay, postgres) = (Subject::forebay(root)?, Subject::postgres(peer)?);
    let mut tables = Tables::new();
    if extent.scale > 0 {
        in_memory([&forebay, &postgres], peer, extent, &mut tables)?;
        ddl([&forebay, &postgres], peer, extent, &mut tables.others)?;
    }
    if extent.large_scale > 0 {
        larger_than_the_pool([&forebay, &postgres], peer, extent, &mut tables)?;
    }
    forebay.remove();
    postgres.remove();
    Ok(super::table::printed(tables.all()))
}

/// Both servers run at once, one idle while the other works, so that drift falls on both.
fn in_memory(
    subjects: [&Subject; 2],
    peer: &Peer,
    extent: Extent,
    tables: &mut Tables,
) -> Result<(), String> {
    let megabytes = u64::from(extent.scale) * MEGABYTES;
    let pool = format!("shared_buffers={}MB", megabytes * 3 / 2);
    let settings = [&COMMON[..], &[&pool]].concat();
    let servers = [subjects[0].start(&settings)?, subjects[1].start(&settings)?];
    for server in &servers {
        initialize(server, peer, extent.scale)?;
    }
    let length = Length::Seconds(extent.seconds);
    for round in 0..extent.rounds {
        println!("round {} of {}", round + 1, extent.rounds);
        for (n, clients) in CLIENTS.into_iter().enumerate() {
            for load in LOADS {
                let script = Script::BuiltIn(load);
                let run = Run { script, mode: "prepared", clients, length };
                for server in order(&servers[0], &servers[1], round + n) {
                    let row = format!("{load}, {clients} clients");
                    tables.add(&row, server.column(), &measure(server, peer, &run)?);
                }
            }
        }
        for server in order(&servers[0], &servers[1], round) {
            let measured = beside_checkpoints(server, peer, length)?;
            let row = format!("tpcb-like, {SEVERAL} clients, during checkpoints");
            tables.add(&row, server.column(), &measured);
            let script = Script::Own("SELECT 1;\n");
            let run = Run { script, mode: "simple", clients: 1, length };
            let done = run.connecting(server, peer)?;
            tables.others.add("connections, 1 client", server.column(), done.rate);
        }
    }
    servers.iter().try_for_each(balances_agree)
}

/// A pool of a tenth of the tables, and a checkpoint every 30 seconds; direct I/O for one that can
/// do without the kernel's cache.
fn larger_than_the_pool(
    subjects: [&Subject; 2],
    peer: &Peer,
    extent: Extent,
    tables: &mut Tables,
) -> Result<(), String> {
    let megabytes = u64::from(extent.large_scale) * MEGABYTES;
    let pool = format!("shared_buffers={}MB", megabytes / 10);
    for (n, direct) in [true, false].into_iter().enumerate() {
        let kind = if direct { "direct" } else { "buffered" };
        for round in 0..extent.rounds {
            for subject in order(subjects[0], subjects[1], round + n) {
                let io = subject.direct_setting(direct);
                let paced = ["max_wal_size=16GB", "checkpoint_timeout=30s"];
                let settings = [&COMMON[..], &[&pool, &io], &paced].concat();
                let server = subject.start(&settings)?;
                if n == 0 && round == 0 {
                    initialize(&server, peer, extent.large_scale)?;
                }
                let run = Run {
                    script: Script::BuiltIn("tpcb-like"),
                    mode: "prepared",
                    clients: SEVERAL,
                    length: Length::Seconds(extent.seconds),
                };
                let row = format!("tpcb-like, {SEVERAL} clients, ten times the pool, {kind}");
                tables.add(&row, server.column(), &measure(&server, peer, &run)?);
                balances_agree(&server)?;
            }
        }
    }
    Ok(())
}

/// Tables made and dropped, with few and with many others in the catalogs.
fn ddl(
    subjects: [&Subject; 2],
    peer: &Peer,
    extent: Extent,
    others: &mut Table,
) -> Result<(), String> {
    let settings = [&COMMON[..], &["synchronous_commit=off"]].concat();
    let servers = [subjects[0].start(&settings)?, subjects[1].start(&settings)?];
    let script = Script::Own("CREATE TABLE made (id int4, name text);\nDROP TABLE made;\n");
    let length = Length::Seconds(extent.seconds);
    let run = Run { script, mode: "simple", clients: 1, length };
    let mut made = 0;
    for tables in TABLES {
        for server in &servers {
            for first in (made..tables).step_by(AT_ONCE as usize) {
                let last = tables.min(first + AT_ONCE);
                let make = |n| format!("CREATE TABLE t{n} (id int4);");
                server.query(&(first..last).map(make).collect::<String>())?;
            }
        }
        made = tables;
        for round in 0..extent.rounds {
            for server in order(&servers[0], &servers[1], round) {
                let done = run.done(server, peer)?;
                let row = format!("CREATE and DROP TABLE, {tables} tables");
                others.add(&row, server.column(), done.rate);
            }
        }
    }
    for server in &servers {
        for first in (0..made).step_by(AT_ONCE as usize) {
            let drop = |n| format!("DROP TABLE t{n};");
            server.query(&(first..made.min(first + AT_ONCE)).map(drop).collect::<String>())?;
        }
    }
    Ok(())
}

/// Makes pgbench's tables with the server's own statements.
fn initialize(server: &Running<'_>, peer: &Peer, scale: u32) -> Result<(), String> {
    let (port, scale) = (server.port.to_string(), scale.to_string());
    let mut pgbench = Command::new(&peer.runner);
    pgbench.args(["postgres", "/usr/lib/postgresql/18/bin/pgbench", "-i", "-q", "-s", &scale]);
    pgbench.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &port, "postgres"]);
    command(&mut pgbench)?;
    server.query("CHECKPOINT").map(drop)
}

fn measure(server: &Running<'_>, peer: &Peer, run: &Run<'_>) -> Result<Measured, String> {
    let before = server.processor_time()?;
    let (done, milliseconds) = run.latencies(server, peer)?;
    let processor = server.processor_time()? - before;
    Ok(Measured { done, milliseconds, processor })
}

/// While transactions run, one checkpoint begins when the one before has ended.
fn beside_checkpoints(
    server: &Running<'_>,
    peer: &Peer,
    length: Length,
) -> Result<Measured, String> {
    let ended = AtomicBool::new(false);
    let script = Script::BuiltIn("tpcb-like");
    let run = Run { script, mode: "prepared", clients: SEVERAL, length };
    thread::scope(|scope| {
        let checkpoints = scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                server.query("CHECKPOINT")?;
            }
            Ok::<_, String>(())
        });
        let measured = measure(server, peer, &run);
        ended.store(true, Ordering::Relaxed);
        checkpoints.join().map_err(|_| "the thread of checkpoints panicked".to_owned())??;
        measured
    })
}

/// Each transaction adds the same to an account and the history, or to these, a teller and a
/// branch.
fn balances_agree(server: &Running<'_>) -> Result<(), String> {
    let sum = |column: &str, table: &str| {
        server.number(&format!("SELECT coalesce(sum({column}), 0) FROM pgbench_{table}"))
    };
    let (accounts, history) = (sum("abalance", "accounts")?, sum("delta", "history")?);
    let (tellers, branches) = (sum("tbalance", "tellers")?, sum("bbalance", "branches")?);
    if accounts == history && tellers == branches {
        return Ok(());
    }
    Err(format!(
        "balances differ: accounts {accounts}, history {history}; tellers {tellers}, branches \
         {branches}"
    ))
}
