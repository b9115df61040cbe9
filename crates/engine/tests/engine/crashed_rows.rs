//! Rows that PostgreSQL 18 changed before a crash: Forebay's recovery and its own give the same
//! pages (FOREBAY_PG18_ROOT, FOREBAY_PG18_RUN).

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crate::common::peer::Peer;
use crate::common::*;
use forebay_engine::{IoMethod, ShutdownMode};
use forebay_format::page::{ITEM_ID_SIZE, Page};
use forebay_format::{BLOCK_SIZE, ItemId};

/// A session of psql. It is told statements one by one.
struct Psql {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    told: u32,
}

impl Psql {
    fn new(peer: &Peer) -> Psql {
        let mut command = peer.command("psql");
        command.args(["-h", &peer.path(""), "-U", "postgres", "-qAtX", "postgres"]);
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

/// Statements, random by a seed.
struct Statements {
    seed: u64,
    /// A file with rows, as the server names it.
    copied: String,
}

impl Statements {
    fn below(&mut self, limit: u64) -> u64 {
        let next = self.seed.wrapping_mul(6_364_136_223_846_793_005);
        self.seed = next.wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % limit
    }

    fn next(&mut self) -> String {
        let (id, len) = (self.below(600), self.below(300));
        let range = format!("id between {id} and {}", id + self.below(12));
        let lock = ["key share", "share", "no key update", "update"][self.below(4) as usize];
        match self.below(20) {
            0 | 1 => format!("insert into t values ({id}, 0, repeat('i', {len}))"),
            2 => format!(
                "insert into t select g, 1, repeat('j', {len}) from generate_series({id}, {id} + 20) g"
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
            17 => ["rollback to a", "release a"][self.below(2) as usize].to_owned(),
            18 => "commit".to_owned(),
            _ => {
                ["commit", "rollback", "select count(*) from t"][self.below(3) as usize].to_owned()
            }
        }
    }
}

/// Two sessions change rows; a third one vacuums.
fn load(peer: &Peer, random: &mut Statements, count: u32) {
    let mut sessions = [Psql::new(peer), Psql::new(peer)];
    for n in 1..=count {
        let session = &mut sessions[random.below(2) as usize];
        session.tell(&random.next());
        if n % 100 == 0 {
            let options = ["freeze, truncate false", "truncate false"][random.below(2) as usize];
            peer.sql(&format!("vacuum ({options}) t"));
        }
        // Sets of transactions with an updater: nobody in the way.
        if n % 25 == 0 {
            sessions.iter_mut().for_each(|session| session.tell("rollback"));
            let id = random.below(600);
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
    let Some(mut peer) = Peer::find("changed_rows_of_a_crashed_postgresql") else { return };
    peer.prints(
        "initdb",
        &["-k", "--no-sync", "--no-locale", "-EUTF8", "--wal-segsize=1", "-D", &peer.path("data")],
    );
    let options = "-c autovacuum=off -c bgwriter_lru_maxpages=0";
    peer.start("data", options);
    peer.sql("create extension amcheck");
    peer.sql("create table t (id int8, n int8, s text storage plain)");
    peer.sql("insert into t select g, 0, repeat('a', g::int % 90) from generate_series(0, 499) g");
    peer.sql("vacuum (freeze)");
    peer.sql("checkpoint");
    let path = peer.sql("select pg_relation_filepath('t')").trim().to_owned();
    std::fs::write(peer.outside("rows"), "1\t2\tcopied\n2\t\\N\tcopied too\n").expect("file");
    peer.own("rows");
    let mut random = Statements { seed, copied: peer.path("rows") };
    load(&peer, &mut random, 400);
    peer.sql("checkpoint");
    load(&peer, &mut random, 400);
    // The tail of the table goes, and its maps' with it.
    peer.sql("delete from t where ctid > (select max(ctid) from t where id = 0)");
    peer.sql("vacuum t");
    load(&peer, &mut random, 100);
    peer.crash();

    let scratch = scratch();
    let dir = scratch.path().join("data");
    peer.fetch("data", &dir);
    let engine = open(&dir, &config(IoMethod::Sync, false));
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    drop(engine);
    peer.start("data", options);
    peer.stop();
    let theirs = peer.outside("data");
    assert_same_fork(&dir, &theirs, &path);
    assert_same_fork(&dir, &theirs, &format!("{path}_vm"));
    for part in ["offsets", "members"] {
        let file = format!("pg_multixact/{part}/0000");
        let read = |dir: &Path| std::fs::read(dir.join(&file)).expect("file");
        assert!(read(&dir) == read(&theirs), "{file}");
    }

    peer.start("data", options);
    let rows = peer.sql(ROWS);
    assert!(rows.lines().count() > 100);
    peer.stop();
    peer.bring(&dir, "back");
    peer.prints("pg_checksums", &["--check", "-D", &peer.path("back")]);
    peer.start("back", options);
    assert!(peer.sql(ROWS) == rows, "other rows");
    assert_eq!(peer.sql("select * from verify_heapam('t')"), "");
    peer.sql("insert into t values (1, 1, 'goes on')");
    peer.sql("vacuum (freeze) t");
}

#[test]
fn changed_rows_of_a_crashed_postgresql_are_recovered() {
    crash_and_compare(1);
}
