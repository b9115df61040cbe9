//! Turns with DDL: Forebay and PostgreSQL 18 serve one directory, each until a clean stop, an
//! immediate one or `kill -9`, while clients create, change and drop what they have.
//!
//! Each client has a schema of its own, so that what it is told does not depend on the others.
//! After each turn the transactions that have ended run again on a third server: a PostgreSQL that
//! began with a copy of the same directory and never crashes. The same statements must have failed,
//! with the same messages; `pg_dump` must print the same of both, byte for byte; and all rows must
//! be the same. PostgreSQL's amcheck checks all relations after each of Forebay's turns.
//!
//! What Forebay refuses as not supported (0A000) is printed and left out.
//!
//! - [`script`]: the transactions
//! - [`load`]: clients that run them, here and there
//!
//! `FOREBAY_DDL_TURNS` and `FOREBAY_DDL_TURNS_SEED` make longer and other runs.

mod load;
mod script;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use forebay_server::client::Client;
use forebay_testkit::peer::{Peer, Postgres};
use forebay_testkit::process::must;
use forebay_testkit::{Dice, env};
use rand::RngExt;

use super::clusters::run_scripts;
use super::forebay::{self, Forebay, scratch};
use load::Owner;

const TURNS: u64 = 6;
const CLIENTS: usize = 3;
/// The data directory, and that of the server which never crashes.
const DATA: &str = "data";
const REFERENCE: &str = "reference";

struct Run<'peer> {
    peer: &'peer Peer,
    reference: &'peer Postgres<'peer>,
    dice: Dice,
    owners: Vec<Owner>,
    /// A copy of the directory as the last turn left it.
    kept: PathBuf,
    transactions: usize,
}

/// Arguments that point PostgreSQL's programs to a server.
fn whom(port: u16) -> Vec<String> {
    ["-h", "127.0.0.1", "-U", "postgres", "-p", &port.to_string()].map(str::to_owned).into()
}

fn run_on(peer: &Peer, port: u16, program: &str, arguments: &[&str]) -> String {
    let whom = whom(port);
    let whom: Vec<&str> = whom.iter().map(String::as_str).collect();
    peer.run(program, &[&whom[..], arguments].concat())
}

fn dump(peer: &Peer, port: u16) -> String {
    let key = "--restrict-key=turns";
    let schema = run_on(peer, port, "pg_dump", &["--schema-only", key, "postgres"]);
    schema + &run_on(peer, port, "pg_dumpall", &["--globals-only", key])
}

/// The clients' rows, but for the values that sequences made: a crash skips some of those.
fn rows(port: u16, tables: &[Vec<Option<String>>]) -> Vec<(String, Vec<String>)> {
    let mut client = Client::tcp(port).expect("a connection");
    let mut read = |table: &Vec<Option<String>>| {
        let [Some(name), Some(columns)] = &table[..] else { panic!("{table:?}") };
        let answer = client.query(&format!("SELECT {columns} FROM {name}")).expect("rows");
        let mut rows: Vec<String> = answer.rows.iter().map(|row| format!("{row:?}")).collect();
        rows.sort();
        let numbers = client.query(&format!("SELECT s FROM {name}"));
        if let Ok(numbers) = numbers {
            let mut numbers = numbers.rows;
            let all = numbers.len();
            numbers.sort();
            numbers.dedup();
            assert_eq!(numbers.len(), all, "a sequence gave {name} a value twice");
        }
        (name.clone(), rows)
    };
    tables.iter().map(&mut read).collect()
}

impl<'peer> Run<'peer> {
    fn forebay(&mut self) -> Forebay {
        self.peer.take_back();
        let dice = &mut self.dice;
        let settings = [
            dice.pick(&["io_method=sync", "io_method=worker", "io_method=io_uring"]),
            dice.pick(&["io_direct=", "io_direct=data,wal,wal_init"]),
            dice.pick(&["shared_buffers=2MB", "shared_buffers=128MB"]),
            "autovacuum_naptime=1s",
        ];
        Forebay::start(&self.peer.outside(DATA), &settings)
    }

    fn postgres(&self) -> Postgres<'peer> {
        self.peer.give_to_postgres();
        self.peer.start(DATA, "-c autovacuum_naptime=1s")
    }

    fn keep(&self) {
        let _ = std::fs::remove_dir_all(&self.kept);
        must(Command::new("cp").arg("-a").arg(self.peer.outside(DATA)).arg(&self.kept));
    }

    /// Lets the clients work on a server until `end`.
    fn work(&mut self, turn: u64, port: u16, end: impl FnOnce()) {
        let until = (40 + self.dice.below(120), Duration::from_millis(self.dice.below(50)));
        load::run(port, &mut self.owners, until, end)
            .unwrap_or_else(|problem| panic!("turn {turn}: {problem}"));
        self.keep();
    }

    /// Compares what a server shows after a turn with what the transactions make of the reference.
    fn compare(&mut self, turn: u64, port: u16) {
        let mut client = Client::tcp(port).expect("a connection");
        let marks = client.query("SELECT client, mark FROM marks").expect("marks").rows;
        let mut reference = Client::tcp(self.reference.port).expect("a connection");
        for owner in &mut self.owners {
            let number = Some(owner.number.to_string());
            owner.settle(|mark| marks.contains(&vec![number.clone(), Some(mark.to_string())]));
            self.transactions += owner.attempts.len();
            let differing = load::replay(&mut reference, owner);
            assert!(differing.is_empty(), "turn {turn}:\n{}", differing.join("\n"));
        }
        let tables = reference
            .query(
                "SELECT attrelid::regclass, string_agg(quote_ident(attname), ', ' ORDER BY attnum)
                 FROM pg_attribute, pg_class, pg_namespace
                 WHERE attrelid = pg_class.oid AND relnamespace = pg_namespace.oid
                   AND relkind = 'r' AND (nspname ~ '^c[0-9]' OR relname = 'marks')
                   AND attnum > 0 AND NOT attisdropped AND attname <> 's' GROUP BY 1 ORDER BY 1",
            )
            .expect("tables")
            .rows;
        let [found, expected] = [port, self.reference.port].map(|port| rows(port, &tables));
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "turn {turn}");
        }
    }

    /// PostgreSQL finds all in order, and what it would dump is what the reference would.
    fn check(&mut self, turn: u64, server: &Postgres<'_>) {
        let checks = ["--all", "--heapallindexed", "--parent-check", "--rootdescend"];
        run_on(self.peer, server.port, "pg_amcheck", &checks);
        let [found, expected] =
            [server.port, self.reference.port].map(|port| dump(self.peer, port));
        if found != expected {
            let (found, expected) = (found.lines(), expected.lines());
            let first = found.zip(expected).find(|(found, expected)| found != expected);
            panic!("turn {turn}: the dumps differ: {first:?}");
        }
    }

    fn turn(&mut self, turn: u64) {
        println!("turn {turn}");
        let how = self.dice.below(3);
        if turn.is_multiple_of(2) {
            let server = self.forebay();
            self.compare(turn, server.port);
            let port = server.port;
            self.work(turn, port, || if how == 0 { server.stop() } else { server.kill() });
        } else {
            let server = self.postgres();
            self.compare(turn, server.port);
            self.check(turn, &server);
            let port = server.port;
            self.work(turn, port, || if how == 0 { drop(server) } else { server.crash() });
        }
    }

    /// Forebay's check at rest after a clean stop, and PostgreSQL at last.
    fn end(mut self, turns: u64) {
        let server = self.forebay();
        self.compare(turns, server.port);
        server.stop();
        let directory = self.peer.outside(DATA);
        let said = forebay::forebay(&["check", "-D", &directory.display().to_string()]);
        assert!(said.contains(" 0 findings"), "{said}");
        let server = self.postgres();
        self.compare(turns, server.port);
        self.check(turns, &server);
        drop(server);
        std::fs::remove_dir_all(&self.kept).expect("it was made");
        println!("battery: ddl turns: {turns} turns, {} transactions", self.transactions);
    }
}

/// Prepares the directory, and its copy for the reference; then lets the servers take turns.
fn take_turns(test: &str, begin: impl FnOnce(&Peer)) {
    let Some(peer) = Peer::find(test) else { return };
    let seed = env::number("FOREBAY_DDL_TURNS_SEED").unwrap_or_else(|| rand::rng().random());
    let turns = env::number("FOREBAY_DDL_TURNS").unwrap_or(TURNS);
    let kept = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{seed}"));
    println!("seed {seed}; after a failure, {} holds what the last turn has left", kept.display());
    let mut dice = Dice::new(seed);
    begin(&peer);
    let owners: Vec<Owner> = (0..CLIENTS).map(|n| Owner::new(n, Dice::new(dice.any()))).collect();
    let server = peer.start(DATA, "");
    server.query("CREATE TABLE marks (client int4, mark int8)");
    for owner in &owners {
        server.query(&owner.creation());
    }
    run_on(&peer, server.port, "pg_amcheck", &["--all", "--install-missing"]);
    drop(server);
    // In a folder of its own: the other one changes its owner at each turn.
    let others = Peer::find(test).expect("it was found before");
    others.adopt(&peer.outside(DATA), REFERENCE);
    let reference = others.start(REFERENCE, "-c fsync=off");
    let mut run = Run { peer: &peer, reference: &reference, dice, owners, kept, transactions: 0 };
    for turn in 0..turns {
        run.turn(turn);
    }
    run.end(turns);
}

#[test]
#[ignore = "a minute long; run by cargo xtask test"]
fn a_cluster_of_initdb_is_reshaped_by_turns() {
    take_turns("a_cluster_of_initdb_is_reshaped_by_turns", |peer| peer.init(DATA));
}

#[test]
#[ignore = "a minute long; run by cargo xtask test"]
fn a_cluster_of_forebay_init_is_reshaped_by_turns() {
    take_turns("a_cluster_of_forebay_init_is_reshaped_by_turns", |peer| {
        let folder = scratch("ddl-turns");
        let made = folder.path().join("made");
        forebay::forebay(&["init", "-D", made.to_str().expect("UTF-8"), "--no-sync"]);
        peer.adopt(&made, DATA);
        run_scripts(peer, DATA);
    });
}
