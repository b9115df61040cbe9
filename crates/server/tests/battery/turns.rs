//! Taking turns with PostgreSQL 18 on one directory: Forebay serves it under load until `kill -9`,
//! PostgreSQL recovers it, goes on with the load until `pg_ctl stop -m immediate`, Forebay recovers
//! that, and so on.
//!
//! PostgreSQL makes the cluster, its tables and extensions. After each crash, all rows must be
//! those that were acknowledged; PostgreSQL also checks each page of the tables and their
//! visibility maps. In one run the tables have no indexes, and as the load changes no catalogs,
//! neither server writes records of indexes.
//!
//! In the other one all have indexes, one has long texts, and autovacuum is on on both servers; it
//! must have run on both. After each crash both servers look at the directory, one after the other:
//! amcheck checks the indexes, both must find the same rows with and without them, and `forebay
//! check` finds nothing after the stop between.
//!
//! - [`load`]: clients that change rows
//! - [`automatic`]: what autovacuum has done
//! - [`model`]: the rows that each client expects
//!
//! `FOREBAY_TURNS` and `FOREBAY_TURNS_SEED` make longer and other runs (`cargo xtask turns`).

mod automatic;
mod load;
mod model;

use std::path::PathBuf;
use std::process::Command;

use forebay_server::client::Client;
use forebay_testkit::peer::{Peer, Postgres};
use forebay_testkit::process::must;
use forebay_testkit::{Dice, env};
use rand::RngExt;

use super::forebay::{self, Forebay};
use automatic::Automatic;
use model::{INDEXES, Index, Model, TABLES, Table};

const TURNS: u64 = 6;
/// The data directory, in the folder that both servers see.
const DATA: &str = "data";
/// The other tables: hot rows that everyone changes, and the marks of transactions.
const SHARED: [&str; 2] = ["hot", "marks"];

/// Either server, running.
enum Server<'peer> {
    Forebay(Forebay),
    Postgres(Postgres<'peer>),
}

impl Server<'_> {
    fn port(&self) -> u16 {
        match self {
            Server::Forebay(server) => server.port,
            Server::Postgres(server) => server.port,
        }
    }

    fn crash(self) {
        match self {
            Server::Forebay(server) => server.kill(),
            Server::Postgres(server) => server.crash(),
        }
    }

    fn stop(self) {
        if let Server::Forebay(server) = self {
            server.stop();
        }
    }
}

fn forebay(peer: &Peer, dice: &mut Dice, autovacuum: bool) -> Forebay {
    peer.take_back();
    let settings = [
        if autovacuum { "autovacuum=on" } else { "autovacuum=off" },
        dice.pick(&["io_method=sync", "io_method=worker", "io_method=io_uring"]),
        dice.pick(&["io_direct=", "io_direct=data,wal,wal_init"]),
        dice.pick(&["shared_buffers=1MB", "shared_buffers=8MB", "shared_buffers=128MB"]),
        dice.pick(&["wal_compression=off", "wal_compression=pglz", "wal_compression=lz4"]),
    ];
    Forebay::start(&peer.outside(DATA), &[&settings[..], &automatic::SETTINGS].concat())
}

fn postgres<'peer>(peer: &'peer Peer, dice: &mut Dice, autovacuum: bool) -> Postgres<'peer> {
    peer.give_to_postgres();
    let settings = [
        if autovacuum { "autovacuum=on" } else { "autovacuum=off" },
        "checkpoint_timeout=1d",
        "deadlock_timeout=20ms",
        dice.pick(&["shared_buffers=1MB", "shared_buffers=8MB", "shared_buffers=128MB"]),
        dice.pick(&["wal_compression=off", "wal_compression=pglz", "wal_compression=lz4"]),
    ];
    let words = settings.iter().chain(&automatic::SETTINGS).map(|word| format!("-c {word}"));
    peer.start(DATA, &words.collect::<Vec<_>>().join(" "))
}

fn create(peer: &Peer, model: &Model, indexed: bool) {
    peer.init(DATA);
    let server = peer.start(DATA, "-c autovacuum=off");
    server.query("CREATE EXTENSION amcheck");
    server.query("CREATE EXTENSION pg_visibility");
    for statement in model.creation(indexed) {
        server.query(&statement);
    }
}

/// The names of all tables.
fn names(tables: &[Table]) -> impl Iterator<Item = &'static str> {
    tables.iter().map(|table| table.name).chain(SHARED)
}

/// What PostgreSQL finds wrong in the pages of the tables, and in their visibility maps.
fn check_pages(server: &Postgres<'_>, tables: &[Table]) {
    for table in names(tables) {
        let heap = "verify_heapam(rel, check_toast => true)";
        for check in [heap, "pg_check_visible(rel)", "pg_check_frozen(rel)"] {
            let found = server.query(&format!(
                "SELECT rel::regclass, found FROM (SELECT unnest(array[oid, reltoastrelid]) AS rel
                   FROM pg_class WHERE oid = '{table}'::regclass) AS of, {check} AS found
                 WHERE rel <> 0"
            ));
            assert_eq!(found, "", "{check} of {table}");
        }
    }
}

/// What PostgreSQL finds wrong in the indexes of the tables and their TOAST tables.
fn check_indexes(server: &Postgres<'_>, tables: &[Table]) {
    for table in names(tables) {
        server.query(&format!(
            "SELECT bt_index_parent_check(indexrelid, heapallindexed => true, rootdescend => true)
             FROM pg_index, pg_class
             WHERE pg_class.oid = '{table}'::regclass AND indrelid IN (pg_class.oid, reltoastrelid)"
        ));
    }
}

/// Compares what a server finds by sequential scans with what it finds through each index.
fn compare_scans(server: &Server<'_>) {
    let [mut sequential, mut by_index] = [
        "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off",
        "SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off",
    ]
    .map(|settings| {
        let mut client = Client::tcp(server.port()).expect("a connection");
        client.query(settings).expect("known settings");
        client
    });
    for Index { table, column, .. } in &INDEXES {
        let order = if *column == "v" { "v DESC NULLS LAST" } else { column };
        let rows = |client: &mut Client, columns: &str| {
            let sql = format!("SELECT {columns} FROM {table} ORDER BY {order}");
            client.query(&sql).expect("rows").rows
        };
        // The values in their order, and then the rows in any.
        let values = [&mut sequential, &mut by_index].map(|client| rows(client, column));
        assert!(values[0] == values[1], "{column} of {table}: {values:?}");
        let [all, found] = [&mut sequential, &mut by_index].map(|client| {
            let mut rows = rows(client, "*");
            rows.sort();
            rows
        });
        assert!(all == found, "{table} by {column}: {found:?} instead of {all:?}");
    }
}

/// All rows of all tables.
fn all_rows(server: &Server<'_>, tables: &[Table]) -> Vec<String> {
    let mut client = Client::tcp(server.port()).expect("a connection");
    let mut rows = |table| {
        let answer = client.query(&format!("SELECT * FROM {table} ORDER BY 1, 2"));
        format!("{table}: {:?}", answer.expect("rows").rows)
    };
    names(tables).map(&mut rows).collect()
}

struct Run<'peer> {
    peer: &'peer Peer,
    dice: Dice,
    model: Model,
    /// Whether the tables have indexes.
    indexed: bool,
    /// A copy of the directory as the last crash left it.
    kept: PathBuf,
    acknowledged: u64,
    /// What autovacuum has done on Forebay and on PostgreSQL.
    automatic: [Automatic; 2],
}

impl<'peer> Run<'peer> {
    /// Starts the server of a turn, and looks whether all is as it must be.
    fn start(&mut self, turn: u64) -> Server<'peer> {
        let (peer, Run { dice, model, indexed, .. }) = (self.peer, self);
        let server = match turn % 2 {
            0 => Server::Forebay(forebay(peer, dice, *indexed)),
            _ => Server::Postgres(postgres(peer, dice, *indexed)),
        };
        if let Err(problems) = model.compare(server.port()) {
            panic!("turn {turn}: {problems}");
        }
        if let Server::Postgres(server) = &server {
            check_pages(server, model.tables);
            check_indexes(server, model.tables);
        }
        if *indexed {
            compare_scans(&server);
        }
        server
    }

    /// Starts the server of a turn on what the last crash has left. If there are indexes, `forebay
    /// check` and the other server look at that, too.
    fn recovered(&mut self, turn: u64) -> Server<'peer> {
        self.keep();
        println!("turn {turn}");
        let server = self.start(turn);
        if !self.indexed {
            return server;
        }
        server.stop();
        self.check_at_rest();
        self.start(turn + 1).stop();
        self.start(turn)
    }

    /// What `forebay check` finds wrong.
    fn check_at_rest(&self) {
        self.peer.take_back();
        let directory = self.peer.outside(DATA);
        let said = forebay::forebay(&["check", "-D", &directory.display().to_string()]);
        assert!(said.contains(" 0 findings"), "{said}");
    }

    fn keep(&self) {
        let _ = std::fs::remove_dir_all(&self.kept);
        must(Command::new("cp").arg("-a").arg(self.peer.outside(DATA)).arg(&self.kept));
    }

    fn turn(&mut self, turn: u64) {
        let server = self.recovered(turn);
        let port = server.port();
        let enough = 200 + self.dice.below(800);
        // Each server's first turn shows that autovacuum runs there.
        let automatic = self.indexed && (turn < 2 || self.dice.chance(500));
        let until = (enough, automatic);
        let done = load::run(port, &mut self.model, &mut self.dice, until, || server.crash())
            .unwrap_or_else(|problem| panic!("turn {turn}: {problem}"));
        println!("{done}");
        self.acknowledged += done.commits;
        self.automatic[turn as usize % 2] += done.automatic;
    }

    /// Both servers show the same rows, and PostgreSQL's programs find nothing wrong.
    fn end(mut self, turns: u64) {
        let mut rows = Vec::new();
        let mut server = self.recovered(turns);
        for next in [Some(turns + 1), None] {
            rows.push(all_rows(&server, self.model.tables));
            if let Server::Postgres(postgres) = &server {
                let port = postgres.port.to_string();
                let whom = ["-h", "127.0.0.1", "-U", "postgres", "-d", "postgres", "-p", &port];
                let checks = ["--heapallindexed", "--parent-check", "--rootdescend"];
                self.peer.run("pg_amcheck", &[&whom[..], &checks].concat());
            }
            server.stop();
            self.check_at_rest();
            let Some(next) = next else { break };
            server = self.start(next);
        }
        assert!(rows[0] == rows[1], "the servers show different rows");
        self.peer.give_to_postgres();
        self.peer.run("pg_checksums", &["--check", "-D", &self.peer.inside(DATA)]);
        std::fs::remove_dir_all(&self.kept).expect("it was made");
        let commits = self.acknowledged;
        println!("battery: turns: {turns} turns, {commits} commits acknowledged, 0 lost");
        let both = ["Forebay", "PostgreSQL"].into_iter().zip(self.automatic);
        for (server, done) in both.filter(|_| self.indexed) {
            println!("battery: turns: {server}: {done}");
            // Each has had a turn, if there was more than one.
            assert!(turns < 2 || done.is_complete(), "{server}: {done}");
        }
    }
}

/// Lets the servers take turns.
fn take_turns(test: &str, indexed: bool) {
    let Some(peer) = Peer::find(test) else { return };
    let seed = env::number("FOREBAY_TURNS_SEED").unwrap_or_else(|| rand::rng().random());
    let turns = env::number("FOREBAY_TURNS").unwrap_or(TURNS);
    let kept = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{seed}"));
    println!("seed {seed}; after a failure, {} holds what the last crash has left", kept.display());
    let mut dice = Dice::new(seed);
    // The last table has a TOAST table, and that has an index.
    let tables = if indexed { &TABLES[..] } else { &TABLES[..TABLES.len() - 1] };
    let model = Model::new(&mut dice, tables);
    create(&peer, &model, indexed);
    let mut run = Run {
        peer: &peer,
        dice,
        model,
        indexed,
        kept,
        acknowledged: 0,
        automatic: Default::default(),
    };
    for turn in 0..turns {
        run.turn(turn);
    }
    run.end(turns);
}

#[test]
#[ignore = "a minute long; run by cargo xtask test"]
fn forebay_and_postgresql_take_turns() {
    take_turns("forebay_and_postgresql_take_turns", false);
}

#[test]
#[ignore = "a minute long; run by cargo xtask test"]
fn forebay_and_postgresql_take_turns_with_indexes() {
    take_turns("forebay_and_postgresql_take_turns_with_indexes", true);
}
