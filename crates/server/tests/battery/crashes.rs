//! PostgreSQL crashes under a load. Forebay recovers the directory, PostgreSQL a copy of it. The
//! pages of all indexes and sequences must be the same, as far as redo makes them. PostgreSQL goes
//! on with what Forebay has recovered, after its checks have found nothing wrong.
//!
//! Some logs are cut off at a place of the seed's choice, as if nothing behind it had been written:
//! anywhere, or behind a record of the load's choice. The server then must not have written pages,
//! so those runs have no checkpoint but one at their beginning, and a large pool.
//!
//! - [`clients`]: the load's clients
//! - [`compare`]: pages of the two directories

pub mod clients;
pub mod compare;

use std::collections::BTreeMap;
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
use clients::Load;

/// The data directory, and the copy that PostgreSQL recovers, in the folder that both servers see.
pub const DATA: &str = "data";
const COPY: &str = "copy";
/// `initdb --wal-segsize=1`
const SEGMENT: u64 = 1 << 20;

/// A server whose crash leaves a log that may be cut off anywhere behind its first checkpoint: it
/// writes no pages.
const WRITES_NOTHING: &str = "autovacuum=off shared_buffers=256MB checkpoint_timeout=1d \
    max_wal_size=8GB wal_keep_size=4GB bgwriter_lru_maxpages=0 vacuum_buffer_usage_limit=0";

/// What a load consists of, and what is asked after a crash.
pub trait Subject: Sync {
    /// Of the test, in messages and variables of the environment.
    fn name(&self) -> &'static str;
    /// Makes the tables.
    fn create(&self) -> &'static [&'static str];
    /// A statement, or several. If files must stay, it must not cut, replace or remove any.
    fn statements(&self, dice: &mut Dice, files_stay: bool) -> String;
    /// Records behind which a log is mostly cut off, as pg_waldump begins their descriptions.
    fn begun(&self) -> &'static [&'static str];
    /// Queries with the same answers after both recoveries.
    fn questions(&self) -> Vec<String>;
    /// Errors that a client may meet in the usual course, beside those of any load.
    fn conflicts(&self) -> &'static [&'static str] {
        &[]
    }
    /// Settings of PostgreSQL beside the usual ones.
    fn settings(&self, _dice: &mut Dice, _cut: bool) -> &'static str {
        ""
    }
    /// Called before a crash that is not followed by a cut.
    fn before_crash(&self, _peer: &Peer, _server: &Postgres<'_>, _dice: &mut Dice) {}
    /// Asks Forebay, once it has recovered; it must not write anything.
    fn ask_forebay(&self, _port: u16) {}
    /// Checks a server that runs on what Forebay has recovered.
    fn check(&self, peer: &Peer, server: &Postgres<'_>);
}

/// Asks for the number and hash of each table's rows.
pub fn rows(tables: &[&str]) -> Vec<String> {
    let hash = "count(*), coalesce(sum(hashtext(t::text)::int8), 0)";
    tables.iter().map(|table| format!("SELECT {hash} FROM {table} t")).collect()
}

/// Kinds of records, as pg_waldump names them, and how many were redone.
pub type Kinds = BTreeMap<String, u64>;

/// Runs rounds of a load and a crash. Returns the kinds of records that were redone.
pub fn run(peer: &Peer, subject: &dyn Subject, usual_rounds: u64) -> Kinds {
    let name = subject.name();
    let variable = format!("FOREBAY_{}", name.to_uppercase());
    let seed = env::number(&format!("{variable}_SEED")).unwrap_or_else(|| rand::rng().random());
    let rounds = env::number(&variable).unwrap_or(usual_rounds);
    let kept = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{seed}"));
    println!("seed {seed}; after a failure, {} holds what the last crash has left", kept.display());
    let mut dice = Dice::new(seed);
    peer.init_with(DATA, &["-k", "--wal-segsize=1"]);
    let created = peer.start(DATA, "-c autovacuum=off");
    subject.create().iter().for_each(|statement| drop(created.query(statement)));
    drop(created);
    let first = dice.below(2);
    let (compared, kinds) = (compare::Counts::default(), Kinds::new());
    let mut run = Run { peer, subject, dice, kept, compared, kinds };
    for round in 0..rounds {
        let cuts = (round + first).is_multiple_of(2);
        let server = run.postgres(cuts);
        run.round(round, server, cuts);
    }
    peer.run("pg_checksums", &["--check", "-D", &peer.inside(DATA)]);
    let _ = fs::remove_dir_all(&run.kept);
    println!("battery: {name}: {rounds} recoveries, {}", run.compared);
    run.kinds
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

struct Run<'a> {
    peer: &'a Peer,
    subject: &'a dyn Subject,
    dice: Dice,
    /// A copy of the directory as the last crash left it.
    kept: PathBuf,
    compared: compare::Counts,
    kinds: Kinds,
}

impl<'a> Run<'a> {
    fn postgres(&mut self, cut: bool) -> Postgres<'a> {
        self.peer.give_to_postgres();
        let dice = &mut self.dice;
        let buffers = dice.pick(&["shared_buffers=1MB", "shared_buffers=16MB"]);
        let autovacuum = dice.pick(&["off", "on autovacuum_naptime=1s"]);
        let often = format!(
            "{buffers} autovacuum={autovacuum} checkpoint_timeout=30s max_wal_size=8MB \
             min_wal_size=2MB"
        );
        let settings = [
            "deadlock_timeout=20ms",
            if cut { WRITES_NOTHING } else { &often },
            dice.pick(&["full_page_writes=on", "full_page_writes=off"]),
            dice.pick(&["wal_compression=off", "wal_compression=pglz", "wal_compression=lz4"]),
            self.subject.settings(dice, cut),
        ];
        println!("PostgreSQL with {}", settings[1..].join(" "));
        let words = settings.iter().flat_map(|setting| setting.split_whitespace());
        let options = words.map(|setting| format!("-c {setting}")).collect::<Vec<_>>();
        self.peer.start(DATA, &options.join(" "))
    }

    fn recover_by_forebay(&mut self) {
        self.peer.take_back();
        let settings = [
            self.dice.pick(&["io_method=sync", "io_method=worker", "io_method=io_uring"]),
            self.dice.pick(&["io_direct=", "io_direct=data,wal,wal_init"]),
            self.dice.pick(&["shared_buffers=1MB", "shared_buffers=64MB"]),
        ];
        let server = Forebay::start(&self.peer.outside(DATA), &settings);
        self.subject.ask_forebay(server.port);
        server.stop();
    }

    /// What pg_waldump prints of the crashed log. The last record may have been written in part.
    fn waldump(&self, from: Lsn, to: Lsn, more: &[&str]) -> String {
        let wal = format!("{}/pg_wal", self.peer.inside(DATA));
        let range = ["-s", &from.to_string(), "-e", &to.to_string()];
        let mut dump = self.peer.command("pg_waldump");
        let dump = dump.args(["-p", &wal]).args(range).args(more).output();
        String::from_utf8(dump.expect("pg_waldump runs").stdout).expect("text")
    }

    /// The places in the crashed log where one of the load's choice has been written, and the next
    /// record has not.
    fn halves(&self, from: Lsn, to: Lsn) -> Vec<Lsn> {
        let dump = self.waldump(from, to, &[]);
        let place = |line: &str| {
            let lsn = line.split_once("lsn: ").expect("each line has an LSN").1;
            lsn.split(',').next().expect("a field").parse().expect("an LSN")
        };
        let lines: Vec<_> = dump.lines().collect();
        let begun = self.subject.begun();
        let pairs = lines.windows(2).filter(|pair| begun.iter().any(|kind| pair[0].contains(kind)));
        pairs.map(|pair| place(pair[1])).collect()
    }

    /// Counts the records that recovery will redo.
    fn count_kinds(&mut self, to: Lsn) {
        let control = self.peer.run("pg_controldata", &[&self.peer.inside(DATA)]);
        let redo = control
            .lines()
            .find_map(|line| line.strip_prefix("Latest checkpoint's REDO location:"));
        let redo = redo.and_then(|lsn| lsn.trim().parse().ok()).expect("the redo location");
        for line in self.waldump(redo, to, &["--stats=record"]).lines() {
            let mut words = line.split_whitespace();
            let (Some(kind), Some(count)) = (words.next(), words.next()) else { continue };
            if let (true, Ok(count)) = (kind.contains('/'), count.parse::<u64>()) {
                *self.kinds.entry(kind.to_owned()).or_default() += count;
            }
        }
    }

    /// Lets PostgreSQL crash under load, both recover, and compares.
    fn round(&mut self, round: u64, server: Postgres<'a>, cuts: bool) {
        let flush_lsn = |server: &Postgres<'_>| {
            let lsn = server.query("SELECT pg_current_wal_flush_lsn()");
            lsn.parse::<Lsn>().expect("an LSN")
        };
        if self.dice.chance(500) {
            server.query("CHECKPOINT");
        }
        let from = flush_lsn(&server);
        let load = Load {
            port: server.port,
            subject: self.subject,
            files_stay: cuts,
            enough: 250 + self.dice.below(500),
        };
        let moment = Duration::from_millis(self.dice.below(50));
        let mut to = from;
        let mut dice = Dice::new(self.dice.any());
        let done = load.run(&mut self.dice, moment, || {
            if !cuts {
                self.subject.before_crash(self.peer, &server, &mut dice);
            }
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
        self.count_kinds(to);
        let _ = fs::remove_dir_all(&self.kept);
        must(Command::new("cp").arg("-a").arg(&directory).arg(&self.kept));
        let copy = self.peer.outside(COPY);
        let _ = fs::remove_dir_all(&copy);
        must(Command::new("cp").arg("-a").arg(&directory).arg(&copy));

        self.recover_by_forebay();
        self.peer.give_to_postgres();
        let settings = "-c autovacuum=off -c track_commit_timestamp=on";
        let other = self.peer.start(COPY, settings);
        let questions = self.subject.questions();
        let answers = |server: &Postgres<'_>| -> Vec<String> {
            questions.iter().map(|question| server.query(question)).collect()
        };
        let (relations, expected) = (compare::relations(&other), answers(&other));
        drop(other);
        self.compared += compare::directories(&directory, &copy, &relations, to)
            .unwrap_or_else(|difference| panic!("round {round}: {difference}"));
        let ours = self.peer.start(DATA, settings);
        assert_eq!(answers(&ours), expected, "round {round}");
        self.subject.check(self.peer, &ours);
    }
}
