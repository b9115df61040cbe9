//! pgbench, unaltered: its tables made in both ways, with foreign keys; all its scripts, all its
//! protocols, and pipelines, by few and many clients. The sums of its tables agree afterwards, also
//! when the server was killed meanwhile, and on a cluster of PostgreSQL 18's, which takes it back.
//!
//! `FOREBAY_PGBENCH_SCALE` and `FOREBAY_PGBENCH_TRANSACTIONS` (in all, of each run) make larger and
//! longer runs.

use std::path::Path;
use std::process::{Command, Stdio};

use forebay_testkit::env;
use forebay_testkit::peer::Peer;
use forebay_testkit::process::must;

use super::forebay::{Forebay, forebay, scratch};

/// pgbench's scale and the transactions of each run, if the environment does not say other ones.
const SCALE: u64 = 1;
const TRANSACTIONS: u64 = 192;
/// pgbench's steps of preparation: rows from the client, and made by the server.
const PREPARATIONS: [&str; 2] = ["dtgvpf", "dtGvpf"];
const PROTOCOLS: [&str; 3] = ["simple", "extended", "prepared"];
const CLIENTS: [u64; 3] = [1, 8, 64];
/// Transactions that are there before a server is killed.
const BEFORE_KILL: i64 = 500;

/// pgbench's usual transaction, sent at once. Rows are locked in one order: there is no deadlock.
const PIPELINE: &str = "\\set aid random(1, 100000 * :scale)
\\set bid random(1, 1 * :scale)
\\set tid random(1, 10 * :scale)
\\set delta random(-5000, 5000)
\\startpipeline
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, now());
END;
\\endpipeline
";

/// pgbench's runs on a server.
struct Load {
    port: u16,
    scale: u64,
    transactions: u64,
    /// Rows of history that there are to be.
    history: i64,
}

/// The balances of all tables, which transactions change alike, and how many rows of history.
fn balances(query: &dyn Fn(&str) -> String) -> (Vec<i64>, i64) {
    let number = |sql: &str| query(sql).trim().parse::<i64>().expect("a number");
    let sums = [
        "select coalesce(sum(abalance), 0) from pgbench_accounts",
        "select coalesce(sum(bbalance), 0) from pgbench_branches",
        "select coalesce(sum(tbalance), 0) from pgbench_tellers",
        "select coalesce(sum(delta), 0) from pgbench_history",
    ];
    (sums.map(number).to_vec(), number("select count(*) from pgbench_history"))
}

/// The balances must agree. Returns the rows of history.
fn check_balances(query: &dyn Fn(&str) -> String, when: &str) -> i64 {
    let (sums, history) = balances(query);
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{when}: {sums:?}");
    history
}

impl Load {
    fn on(port: u16) -> Load {
        Load {
            port,
            scale: env::number("FOREBAY_PGBENCH_SCALE").unwrap_or(SCALE),
            transactions: env::number("FOREBAY_PGBENCH_TRANSACTIONS").unwrap_or(TRANSACTIONS),
            history: 0,
        }
    }

    /// The host's pgbench, pointed at the server.
    fn pgbench(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("pgbench");
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "postgres"]);
        command.args(arguments).arg("postgres").stdout(Stdio::null());
        command
    }

    /// Runs transactions by so many clients.
    fn run(&self, clients: u64, arguments: &[&str]) {
        let (each, clients) =
            (self.transactions.div_ceil(clients).to_string(), clients.to_string());
        let threads = if clients == "1" { "1" } else { "2" };
        let fixed = ["-n", "-c", &clients, "-j", threads, "-t", &each];
        must(&mut self.pgbench(&[&fixed, arguments].concat()));
    }

    /// Runs all scripts by all protocols, and pipelines of the script in a file.
    fn run_all(&mut self, pipeline: &Path, query: &dyn Fn(&str) -> String) {
        let (scale, pipeline) = (self.scale.to_string(), pipeline.to_str().expect("a text"));
        for clients in CLIENTS {
            let added = i64::try_from(self.transactions.div_ceil(clients) * clients).expect("few");
            for protocol in PROTOCOLS {
                let when = format!("{protocol}, {clients} clients");
                self.run(clients, &["-M", protocol]);
                self.history += added;
                assert_eq!(check_balances(query, &when), self.history, "{when}");
                self.run(clients, &["-S", "-M", protocol]);
                if protocol != "simple" {
                    self.run(clients, &["-M", protocol, "-s", &scale, "-f", pipeline]);
                    self.history += added;
                    assert_eq!(check_balances(query, &when), self.history, "pipelines, {when}");
                }
            }
        }
    }

    /// Runs transactions until the server is killed. Returns how many were acknowledged.
    fn run_to_the_kill(&self, folder: &Path, server: Forebay) -> i64 {
        let prefix = folder.join("acknowledged");
        let prefix = format!("--log-prefix={}", prefix.display());
        let mut pgbench =
            self.pgbench(&["-n", "-c", "8", "-j", "2", "-T", "3600", "--log", &prefix]);
        let mut running = pgbench.stderr(Stdio::null()).spawn().expect("pgbench starts");
        let enough = self.history + BEFORE_KILL;
        let question = format!("select count(*) >= {enough} from pgbench_history");
        while server.query(&question).trim() != "t" {
            let ended = running.try_wait().expect("pgbench can be waited for");
            assert!(ended.is_none(), "pgbench has ended: {ended:?}");
        }
        server.kill();
        running.wait().expect("pgbench ends without its server");
        let logs =
            std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("a file"));
        let logs =
            logs.filter(|file| file.file_name().to_string_lossy().starts_with("acknowledged"));
        let lines = logs.map(|log| {
            let text = std::fs::read_to_string(log.path()).expect("a log of pgbench's");
            std::fs::remove_file(log.path()).expect("it can be removed");
            text.lines().count()
        });
        i64::try_from(lines.sum::<usize>()).expect("few")
    }

    /// Kills the server amid transactions and starts it again: what was acknowledged is there.
    fn survive_a_kill(&mut self, folder: &Path, server: Forebay) -> Forebay {
        let data = server.directory.clone();
        let acknowledged = self.run_to_the_kill(folder, server);
        assert!(acknowledged > 0, "pgbench has logged nothing");
        let server = Forebay::start(&data, &[]);
        self.port = server.port;
        let history = check_balances(&|sql| server.query(sql), "after a kill");
        let added = history - self.history;
        // Each of the eight clients may have had one on the way.
        assert!((acknowledged..=acknowledged + 8).contains(&added), "{acknowledged}, {added}");
        self.history = history;
        server
    }
}

/// A file with the script of pipelines.
fn pipeline_in(folder: &Path) -> std::path::PathBuf {
    let file = folder.join("pipeline.sql");
    std::fs::write(&file, PIPELINE).expect("the script is written");
    file
}

#[test]
#[ignore = "run by cargo xtask test"]
fn balances_agree_whatever_the_protocol() {
    let dir = scratch("pgbench");
    let data = dir.path().join("data");
    forebay(&["init", "-D", data.to_str().expect("a path of text")]);
    let mut server = Forebay::start(&data, &[]);
    let pipeline = pipeline_in(dir.path());
    for made in PREPARATIONS {
        let mut load = Load::on(server.port);
        must(&mut load.pgbench(&["-i", "-s", &load.scale.to_string(), "-q", "-I", made]));
        let accounts = server.query("select count(*), min(length(filler)) from pgbench_accounts");
        assert_eq!(accounts.trim(), format!("{}|0", 100_000 * load.scale), "{made}");
        load.run_all(&pipeline, &|sql| server.query(sql));
        // Simple updates leave branches and tellers alone.
        load.run(8, &["-N"]);
        let (sums, history) = balances(&|sql| server.query(sql));
        assert_eq!((sums[0], sums[1]), (sums[3], sums[2]), "{made}");
        assert!(history > load.history, "{made}");
        must(&mut load.pgbench(&["-i", "-s", &load.scale.to_string(), "-q", "-I", made]));
        load.history = 0;
        server = load.survive_a_kill(dir.path(), server);
    }
    server.stop();
}

#[test]
#[ignore = "run by cargo xtask test"]
fn pgbench_runs_on_a_cluster_of_postgresql_served_in_place() {
    let Some(peer) = Peer::find("pgbench_runs_on_a_cluster_of_postgresql_served_in_place") else {
        return;
    };
    peer.init("pgbench");
    let postgres = peer.start("pgbench", "-c fsync=off");
    let scale = Load::on(postgres.port).scale.to_string();
    must(&mut postgres.pgbench(&["-i", "-s", &scale, "-q", "-I", "dtgvpf"]));
    drop(postgres);
    peer.take_back();

    let folder = scratch("pgbench-served");
    let server = Forebay::start(&peer.outside("pgbench"), &[]);
    let mut load = Load::on(server.port);
    load.run_all(&pipeline_in(folder.path()), &|sql| server.query(sql));
    let server = load.survive_a_kill(folder.path(), server);
    load.survive_a_kill(folder.path(), server).kill();

    peer.give_to_postgres();
    let postgres = peer.start("pgbench", "");
    let query = |sql: &str| postgres.query(sql);
    assert_eq!(check_balances(&query, "in PostgreSQL"), load.history);
    must(&mut postgres.pgbench(&["-c", "8", "-t", "50"]));
    assert_eq!(check_balances(&query, "after PostgreSQL's turn"), load.history + 400);
}
