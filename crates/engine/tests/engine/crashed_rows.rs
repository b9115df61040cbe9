//! Rows that PostgreSQL 18 changed before a crash: Forebay's recovery and its own give the same
//! pages (FOREBAY_PG18_RUN).

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crate::common::*;
use forebay_engine::{IoMethod, ShutdownMode};
use forebay_format::page::{ITEM_ID_SIZE, Page};
use forebay_format::{BLOCK_SIZE, ItemId};
use forebay_testkit::Dice;
use forebay_testkit::peer::{Peer, Postgres};

/// A session of psql. It is told statements one by one.
struct Psql {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    told: u32,
}

impl Psql {
    fn new(peer: &Peer, server: &Postgres<'_>) -> Psql {
        let mut command = peer.psql(server.port);
        command.args(["-v", "ON_ERROR_STOP=0"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("psql");
        let input = child.stdin.take().expect("its input");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let mut psql = Psql { child, input, output, told: 0 };
        psql.tell("set lock_timeout = 10");
        psql
    }

    /// Waits until the statement is done, well or not.
    fn tell(&mut self, statement: &str) {
        self.told += 1;
        let mark = format!("told {}", self.told);
        writeln!(self.input, "{statement};\n\\echo {mark}").expect("psql reads");
        let mut line = String::new();
        while line.trim_end() != mark {
            line.clear();
            assert!(self.output.read_line(&mut line).expect("psql writes") > 0, "psql has ended");
        }
    }

    fn end(mut self) {
        drop(self.input);
        assert!(self.child.wait().expect("psql").success());
    }
}

/// Random statements.
struct Statements {
    dice: Dice,
    /// A file with rows, as the server names it.
    copied: String,
}

impl Statements {
    fn next(&mut self) -> String {
        let (id, len) = (self.dice.below(600), self.dice.below(300));
        let range = format!("id between {id} and {}", id + self.dice.below(12));
        let lock = self.dice.pick(&["key share", "share", "no key update", "update"]);
        match self.dice.below(20) {
            0 | 1 => format!("insert into t values ({id}, 0, repeat('i', {len}))"),
            2 => format!(
                "insert into t select g, 1, repeat('j', {len}) \
                 from generate_series({id}, {id} + 20) g"
            ),
            3 => format!("copy t from '{}'", self.copied),
            4..=6 => format!("update t set n = n + 1 where id = {id}"),
            7 => format!("update t set s = repeat('u', {len}) where {range}"),
            8 => format!("update t set n = null where {range}"),
            9 => format!("delete from t where {range}"),
            10..=12 => format!("select from t where {range} for {lock} skip locked"),
            13 => format!("select from t where {range} for key share"),
            14 | 15 => "begin".to_owned(),
            16 => "savepoint a".to_owned(),
            17 => self.dice.pick(&["rollback to a", "release a"]).to_owned(),
            18 => "commit".to_owned(),
            _ => self.dice.pick(&["commit", "rollback", "select count(*) from t"]).to_owned(),
        }
    }
}

/// Two sessions change rows; a third one vacuums.
fn load(peer: &Peer, server: &Postgres<'_>, random: &mut Statements, count: u32) {
    let mut sessions = [Psql::new(peer, server), Psql::new(peer, server)];
    for n in 1..=count {
        let session = &mut sessions[random.dice.index(2)];
        session.tell(&random.next());
        if n % 100 == 0 {
            let options = random.dice.pick(&["freeze, truncate false", "truncate false"]);
            server.query(&format!("vacuum ({options}) t"));
        }
        // Sets of transactions with an updater: nobody in the way.
        if n % 25 == 0 {
            sessions.iter_mut().for_each(|session| session.tell("rollback"));
            let id = random.dice.below(600);
            for (session, what) in [
                (0, format!("begin; select from t where id = {id} for key share")),
                (1, format!("select from t where id = {id} for key share")),
                (1, format!("begin; update t set n = n + 10 where id = {id}")),
                (0, format!("select from t where id = {id} for key share")),
            ] {
                sessions[session].tell(&what);
            }
        }
    }
    sessions.into_iter().for_each(Psql::end);
}

/// The pages of a fork, without checksums, and without bytes that have no meaning: between line
/// pointers and tuples, and behind tuples up to their alignment.
fn pages(dir: &Path, fork: &str) -> Vec<[u8; BLOCK_SIZE]> {
    let bytes = std::fs::read(dir.join(fork)).expect("fork");
    let (pages, rest) = bytes.as_chunks::<BLOCK_SIZE>();
    assert!(rest.is_empty());
    pages.iter().map(meaning).collect()
}

fn meaning(bytes: &[u8; BLOCK_SIZE]) -> [u8; BLOCK_SIZE] {
    let (page, mut out) = (Page::new(bytes), *bytes);
    out[8..10].fill(0);
    if page.is_new() || page.lower() == page.upper() {
        return out;
    }
    let mut used = vec![false; BLOCK_SIZE];
    used[..page.lower()].fill(true);
    used[page.special()..].fill(true);
    for &stored in page.line_pointers() {
        let id = ItemId::from_bits(u32::from_le_bytes(stored));
        used[usize::from(id.offset)..][..usize::from(id.len)].fill(true);
    }
    assert_eq!(page.line_pointers().len() * ITEM_ID_SIZE, page.lower() - 24);
    out.iter_mut().zip(used).for_each(|(byte, used)| *byte = if used { *byte } else { 0 });
    out
}

/// Fails the test if two recoveries of one directory gave different forks.
fn assert_same_fork(ours: &Path, theirs: &Path, fork: &str) {
    let (ours, theirs) = (pages(ours, fork), pages(theirs, fork));
    assert_eq!(ours.len(), theirs.len(), "pages of {fork}");
    for (block, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        let differs = (0..BLOCK_SIZE).find(|&at| ours[at] != theirs[at]);
        if let Some(at) = differs {
            let (low, high) = (at.saturating_sub(24), (at + 24).min(BLOCK_SIZE));
            panic!(
                "block {block} of {fork} differs at {at}:\n{:02x?}\n{:02x?}",
                &ours[low..high],
                &theirs[low..high]
            );
        }
    }
}

const ROWS: &str = "select id, n, s from t order by 1, 2, 3";

fn crash_and_compare(seed: u64) {
    let Some(peer) = Peer::find("changed_rows_of_a_crashed_postgresql") else { return };
    peer.init_with("data", &["--wal-segsize=1"]);
    let options = "-c autovacuum=off -c bgwriter_lru_maxpages=0";
    let server = peer.start("data", options);
    server.query("create extension amcheck");
    server.query("create table t (id int8, n int8, s text storage plain)");
    server.query(
        "insert into t select g, 0, repeat('a', g::int % 90) from generate_series(0, 499) g",
    );
    server.query("vacuum (freeze)");
    server.query("checkpoint");
    let path = server.query("select pg_relation_filepath('t')");
    std::fs::write(peer.outside("rows"), "1\t2\tcopied\n2\t\\N\tcopied too\n").expect("file");
    peer.give_to_postgres();
    let mut random = Statements { dice: Dice::new(seed), copied: peer.inside("rows") };
    load(&peer, &server, &mut random, 400);
    server.query("checkpoint");
    load(&peer, &server, &mut random, 400);
    // The tail of the table goes, and its maps' with it.
    let half = "select max((ctid::text::point)[0]) / 2 from t";
    server.query(&format!("delete from t where (ctid::text::point)[0] > ({half})"));
    server.query("vacuum t");
    load(&peer, &server, &mut random, 100);
    server.crash();

    let scratch = scratch();
    let dir = scratch.path().join("data");
    peer.fetch("data", &dir);
    let engine = open(&dir, &config(IoMethod::Sync, false));
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    drop(engine);
    drop(peer.start("data", options));
    let theirs = peer.outside("data");
    assert_undamaged(&dir);
    assert_undamaged(&theirs);
    assert_same_fork(&dir, &theirs, &path);
    assert_same_fork(&dir, &theirs, &format!("{path}_vm"));
    for part in ["offsets", "members"] {
        let file = format!("pg_multixact/{part}/0000");
        let read = |dir: &Path| std::fs::read(dir.join(&file)).expect("file");
        assert!(read(&dir) == read(&theirs), "{file}");
    }
    compare_rows(&peer, &dir, options);
}

/// PostgreSQL finds the same rows in both directories, and nothing wrong in ours.
fn compare_rows(peer: &Peer, ours: &Path, options: &str) {
    let server = peer.start("data", options);
    let rows = server.query(ROWS);
    assert!(rows.lines().count() > 100);
    drop(server);
    peer.adopt(ours, "back");
    peer.run("pg_checksums", &["--check", "-D", &peer.inside("back")]);
    let server = peer.start("back", options);
    assert!(server.query(ROWS) == rows, "other rows");
    assert_eq!(server.query("select * from verify_heapam('t')"), "");
    server.query("insert into t values (1, 1, 'goes on')");
    server.query("vacuum (freeze) t");
}

#[test]
fn changed_rows_of_a_crashed_postgresql_are_recovered() {
    crash_and_compare(1);
}
