//! Redo of B-trees: PostgreSQL changes indexes under load and crashes. Forebay recovers the
//! directory, PostgreSQL a copy of it. Pages of all indexes and sequences must be the same, as far
//! as redo makes them. PostgreSQL goes on with what Forebay has recovered, after its amcheck has
//! found nothing wrong.
//!
//! Some logs are cut off at a place of the seed's choice, as if nothing behind it had been written:
//! anywhere, or behind the first record of a split or of a page's deletion. The server then must
//! not have written pages, so those runs have one checkpoint, at their beginning, and a large pool.
//!
//! - [`load`]: statements that change indexes
//! - [`compare`]: pages of the two directories
//!
//! `FOREBAY_TREES` and `FOREBAY_TREES_SEED` make longer and other runs.

mod compare;
mod load;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use forebay_format::Lsn;
use forebay_testkit::peer::{Peer, Postgres};
use forebay_testkit::process::must;
use forebay_testkit::{Dice, env};
use rand::RngExt;

use super::forebay::Forebay;
use load::Load;

const ROUNDS: u64 = 4;
/// The data directory, and the copy that PostgreSQL recovers, in the folder that both servers see.
const DATA: &str = "data";
const COPY: &str = "copy";
/// `initdb --wal-segsize=1`
const SEGMENT: u64 = 1 << 20;

/// A server whose crash leaves a log that may be cut off anywhere behind its first checkpoint: it
/// writes no pages.
const WRITES_NOTHING: &str = "autovacuum=off shared_buffers=256MB checkpoint_timeout=1d \
    max_wal_size=8GB wal_keep_size=4GB bgwriter_lru_maxpages=0 vacuum_buffer_usage_limit=0";

fn postgres<'peer>(peer: &'peer Peer, dice: &mut Dice, cut: bool) -> Postgres<'peer> {
    peer.give_to_postgres();
    let buffers = dice.pick(&["shared_buffers=1MB", "shared_buffers=16MB"]);
    let autovacuum = dice.pick(&["off", "on autovacuum_naptime=1s"]);
    let often = format!(
        "{buffers} autovacuum={autovacuum} checkpoint_timeout=30s max_wal_size=8MB min_wal_size=2MB"
    );
    let settings = [
        "deadlock_timeout=20ms",
        if cut { WRITES_NOTHING } else { &often },
        dice.pick(&["full_page_writes=on", "full_page_writes=off"]),
        dice.pick(&["wal_compression=off", "wal_compression=pglz", "wal_compression=lz4"]),
    ];
    println!("PostgreSQL with {}", settings[1..].join(" "));
    let words = settings.iter().flat_map(|setting| setting.split_whitespace());
    peer.start(DATA, &words.map(|setting| format!("-c {setting}")).collect::<Vec<_>>().join(" "))
}

fn recover_by_forebay(peer: &Peer, dice: &mut Dice) {
    peer.take_back();
    let settings = [
        dice.pick(&["io_method=sync", "io_method=worker", "io_method=io_uring"]),
        dice.pick(&["io_direct=", "io_direct=data,wal,wal_init"]),
        dice.pick(&["shared_buffers=1MB", "shared_buffers=64MB"]),
    ];
    Forebay::start(&peer.outside(DATA), &settings).stop();
}

/// Removes everything of a log behind an LSN.
fn cut(directory: &Path, at: Lsn) {
    let wal = directory.join("pg_wal");
    let number = at.0 / SEGMENT;
    let per_file = (1 << 32) / SEGMENT;
    let name = format!("{:08X}{:08X}{:08X}", 1, number / per_file, number % per_file);
    for entry in fs::read_dir(&wal).expect("pg_wal can be listed") {
        let path = entry.expect("an entry").path();
        let found = path.file_name().expect("a name").to_string_lossy().into_owned();
        if found.len() == name.len() && found > name {
            fs::remove_file(&path).expect("a segment can be removed");
        }
    }
    let segment = OpenOptions::new().write(true).open(wal.join(name)).expect("the segment exists");
    let offset = at.0 % SEGMENT;
    segment.write_all_at(&vec![0; (SEGMENT - offset) as usize], offset).expect("it is written");
}

struct Run<'peer> {
    peer: &'peer Peer,
    dice: Dice,
    /// A copy of the directory as the last crash left it.
    kept: PathBuf,
    compared: compare::Counts,
}

impl<'peer> Run<'peer> {
    /// The places in the crashed log where one record of a split or of a page's deletion has been
    /// written, and the next one has not.
    fn halves(&self, from: Lsn, to: Lsn) -> Vec<Lsn> {
        let wal = format!("{}/pg_wal", self.peer.inside(DATA));
        let range = ["-s", &from.to_string(), "-e", &to.to_string()];
        // The last record may have been written in part.
        let dump = self.peer.command("pg_waldump").args(["-p", &wal]).args(range).output();
        let dump = String::from_utf8(dump.expect("pg_waldump runs").stdout).expect("text");
        let place = |line: &str| {
            let lsn = line.split_once("lsn: ").expect("each line has an LSN").1;
            lsn.split(',').next().expect("a field").parse().expect("an LSN")
        };
        let lines: Vec<_> = dump.lines().collect();
        let begun = ["desc: SPLIT_", "desc: MARK_PAGE_HALFDEAD", "desc: UNLINK_PAGE"];
        let pairs = lines.windows(2).filter(|pair| begun.iter().any(|kind| pair[0].contains(kind)));
        pairs.map(|pair| place(pair[1])).collect()
    }

    /// Lets PostgreSQL crash under load, both recover, and compares.
    fn round(&mut self, round: u64, server: Postgres<'peer>, cuts: bool) {
        let flush_lsn = |server: &Postgres<'_>| {
            let lsn = server.query("SELECT pg_current_wal_flush_lsn()");
            lsn.parse::<Lsn>().expect("an LSN")
        };
        server.query("CHECKPOINT");
        let from = flush_lsn(&server);
        let load = Load { port: server.port, files_stay: cuts, enough: 250 + self.dice.below(500) };
        let moment = Duration::from_millis(self.dice.below(50));
        let mut to = from;
        let done = load.run(&mut self.dice, moment, || {
            to = flush_lsn(&server);
            server.crash();
        });
        let statements = done.unwrap_or_else(|problem| panic!("round {round}: {problem}"));
        let directory = self.peer.outside(DATA);
        if cuts {
            let halves = self.halves(from, to);
            to = match self.dice.chance(250) || halves.is_empty() {
                true => Lsn(from.0 + self.dice.below(to.0 - from.0 + 1)),
                false => halves[self.dice.index(halves.len())],
            };
            cut(&directory, to);
        }
        println!("round {round}: {statements} statements, log from {from} to {to}");
        let _ = fs::remove_dir_all(&self.kept);
        must(Command::new("cp").arg("-a").arg(&directory).arg(&self.kept));
        let copy = self.peer.outside(COPY);
        let _ = fs::remove_dir_all(&copy);
        must(Command::new("cp").arg("-a").arg(&directory).arg(&copy));

        recover_by_forebay(self.peer, &mut self.dice);
        self.peer.give_to_postgres();
        let other = self.peer.start(COPY, "-c autovacuum=off");
        let (relations, rows) = (compare::relations(&other), load::rows(&other));
        drop(other);
        self.compared += compare::directories(&directory, &copy, &relations, to)
            .unwrap_or_else(|difference| panic!("round {round}: {difference}"));
        let ours = self.peer.start(DATA, "-c autovacuum=off");
        assert_eq!(load::rows(&ours), rows, "round {round}");
        let port = ours.port.to_string();
        let whom = ["-h", "127.0.0.1", "-U", "postgres", "-d", "postgres", "-p", &port];
        let checks = ["--heapallindexed", "--parent-check", "--rootdescend", "--checkunique"];
        self.peer.run("pg_amcheck", &[&whom[..], &checks].concat());
    }
}

#[test]
#[ignore = "half a minute long; run by cargo xtask test"]
fn trees_are_recovered_as_postgresql_recovers_them() {
    let Some(peer) = Peer::find("trees_are_recovered_as_postgresql_recovers_them") else { return };
    let seed = env::number("FOREBAY_TREES_SEED").unwrap_or_else(|| rand::rng().random());
    let rounds = env::number("FOREBAY_TREES").unwrap_or(ROUNDS);
    let kept = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("trees-{seed}"));
    println!("seed {seed}; after a failure, {} holds what the last crash has left", kept.display());
    let mut dice = Dice::new(seed);
    peer.init_with(DATA, &["-k", "--wal-segsize=1"]);
    let created = peer.start(DATA, "-c autovacuum=off");
    created.query("CREATE EXTENSION amcheck");
    load::create(&created);
    drop(created);
    let first = dice.below(2);
    let mut run = Run { peer: &peer, dice, kept, compared: compare::Counts::default() };
    for round in 0..rounds {
        let cuts = (round + first).is_multiple_of(2);
        let server = postgres(&peer, &mut run.dice, cuts);
        run.round(round, server, cuts);
    }
    peer.run("pg_checksums", &["--check", "-D", &peer.inside(DATA)]);
    let _ = fs::remove_dir_all(&run.kept);
    println!("battery: trees: {rounds} recoveries, {}", run.compared);
}
