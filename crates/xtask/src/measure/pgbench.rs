//! Runs pgbench with a script against either server.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::servers::Running;
use crate::peers::Peer;
use crate::run::run;
use crate::watch::{self, Bounds, USUAL};

/// pgbench's threads: as many as a small machine has cores.
const THREADS: u32 = 2;

/// When a run ends.
#[derive(Clone, Copy)]
pub enum Length {
    /// After so many seconds.
    Seconds(u64),
    /// After so many transactions of each client.
    Transactions(u64),
}

/// What each transaction does.
#[derive(Clone, Copy)]
pub enum Script<'r> {
    /// Statements, and commands of pgbench's own.
    Own(&'r str),
    /// One of pgbench's scripts, by its name.
    BuiltIn(&'r str),
}

/// A run.
pub struct Run<'r> {
    /// A transaction.
    pub script: Script<'r>,
    /// How statements are sent: "simple" or "prepared". Only in a simple one may a variable stand
    /// inside a literal.
    pub mode: &'r str,
    /// Sessions.
    pub clients: u32,
    /// When it ends.
    pub length: Length,
}

/// What pgbench reports.
#[derive(Debug, PartialEq)]
pub struct Done {
    /// Transactions.
    pub transactions: u64,
    /// Transactions a second, without the time to connect.
    pub rate: f64,
}

impl Run<'_> {
    /// Runs it.
    ///
    /// # Errors
    /// When a client fails.
    pub fn done(&self, server: &Running<'_>, peer: &Peer) -> Result<Done, String> {
        self.call(server, peer, &[])
    }

    /// Runs it. Returns the milliseconds of each transaction too, in ascending order.
    ///
    /// # Errors
    /// When a client fails, or its log can't be read.
    pub fn latencies(&self, server: &Running<'_>, peer: &Peer) -> Result<(Done, Vec<f64>), String> {
        let folder = make_folder(peer)?;
        let done = self.call(server, peer, &["--log", PREFIX])?;
        let mut milliseconds = read_logs(&folder, latency)?;
        milliseconds.sort_by(f64::total_cmp);
        Ok((done, milliseconds))
    }

    /// Runs it. Returns the transactions of each second since the start, and the error if it ended
    /// before its time, as when the server has gone.
    ///
    /// # Errors
    /// When its log can't be read.
    pub fn by_second(
        &self,
        server: &Running<'_>,
        peer: &Peer,
    ) -> Result<(Vec<f64>, Option<String>), String> {
        let folder = make_folder(peer)?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|e| e.to_string())?;
        let done = self.call(server, peer, &["--log", PREFIX, "--aggregate-interval=1"]);
        let mut seconds = BTreeMap::new();
        for (second, transactions) in read_logs(&folder, interval)? {
            *seconds.entry(second.saturating_sub(since.as_secs())).or_insert(0.0) += transactions;
        }
        let length = match self.length {
            Length::Seconds(seconds) => seconds,
            Length::Transactions(_) => seconds.keys().last().map_or(0, |last| last + 1),
        };
        let rates = (0..length).map(|second| seconds.get(&second).copied().unwrap_or(0.0));
        Ok((rates.collect(), done.err()))
    }

    /// Runs it with a connection for each transaction; its rate includes the time to connect.
    ///
    /// # Errors
    /// When a client fails.
    pub fn connecting(&self, server: &Running<'_>, peer: &Peer) -> Result<Done, String> {
        self.call(server, peer, &["--connect"])
    }

    fn call(&self, server: &Running<'_>, peer: &Peer, more: &[&str]) -> Result<Done, String> {
        let mut pgbench = Command::new(&peer.runner);
        pgbench.args(["postgres", "/usr/lib/postgresql/18/bin/pgbench", "-n", "-M", self.mode]);
        let port = server.port.to_string();
        pgbench.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &port]);
        match self.script {
            Script::Own(text) => {
                let script = peer.runner.with_file_name("x").join("pgbench.sql");
                fs::write(&script, text).map_err(|e| format!("{}: {e}", script.display()))?;
                pgbench.args(["-f", "/x/pgbench.sql"])
            }
            Script::BuiltIn(name) => pgbench.args(["-b", name]),
        };
        let (threads, clients) = (self.clients.min(THREADS).to_string(), self.clients.to_string());
        pgbench.args(["-c", &clients, "-j", &threads]).args(more);
        let minutes = match self.length {
            Length::Seconds(seconds) => {
                pgbench.args(["-T", &seconds.to_string()]);
                seconds / 60
            }
            Length::Transactions(each) => {
                pgbench.args(["-t", &each.to_string()]);
                0
            }
        };
        let bounds = Bounds { total: USUAL.total + Duration::from_secs(60 * minutes), ..USUAL };
        let output = watch::output(pgbench.arg("postgres").stdin(Stdio::null()), &bounds)?;
        match parse(&String::from_utf8_lossy(&output.stdout)) {
            Some(done) if output.status.success() => Ok(done),
            _ => Err(format!("pgbench: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }
}

/// The value below which this part of the figures lies. They are in ascending order.
pub fn percentile(figures: &[f64], part: f64) -> f64 {
    let rank = (figures.len() as f64 * part).ceil() as usize;
    figures.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

fn parse(said: &str) -> Option<Done> {
    let number = |name: &str| -> Option<&str> {
        let rest = said.lines().find_map(|line| line.strip_prefix(name))?;
        rest.trim_start().split([' ', '/']).next()
    };
    let transactions = number("number of transactions actually processed:")?.parse().ok()?;
    Some(Done { transactions, rate: number("tps =")?.parse().ok()? })
}

/// The folder of pgbench's logs, as pgbench sees it, and the option that names it.
const FOLDER: &str = "/x/pgbench";
const PREFIX: &str = "--log-prefix=/x/pgbench/log";

/// All but the first and the last second, in which the load begins and ends.
pub fn whole_seconds(rates: &[f64]) -> &[f64] {
    rates.get(1..rates.len().saturating_sub(1)).unwrap_or_default()
}

/// Makes an empty folder for logs, and returns its path outside.
fn make_folder(peer: &Peer) -> Result<PathBuf, String> {
    let make = format!("rm -rf {FOLDER}; mkdir {FOLDER} && chown postgres:postgres {FOLDER}");
    run(Command::new(&peer.runner).args(["root", "sh", "-c", &make]))?;
    Ok(peer.runner.with_file_name("x").join("pgbench"))
}

/// Reads all lines of the logs, one of each thread, and removes them.
fn read_logs<T>(folder: &Path, parse: fn(&str) -> Option<T>) -> Result<Vec<T>, String> {
    let text = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(text)? {
        let log = fs::read_to_string(entry.map_err(text)?.path()).map_err(text)?;
        for line in log.lines() {
            found.push(parse(line).ok_or_else(|| format!("pgbench's log: {line}"))?);
        }
    }
    fs::remove_dir_all(folder).map_err(text)?;
    Ok(found)
}

/// A line of the log: client, transaction, microseconds, script, end in seconds and microseconds.
fn latency(line: &str) -> Option<f64> {
    line.split(' ').nth(2)?.parse::<f64>().ok().map(|microseconds| microseconds / 1e3)
}

/// A line about a second: when it began, and its transactions.
fn interval(line: &str) -> Option<(u64, f64)> {
    let mut fields = line.split(' ');
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{Done, interval, latency, parse, percentile, whole_seconds};

    #[test]
    fn reports_are_read() {
        let said = "transaction type: /x/pgbench.sql\nnumber of clients: 8\n\
            number of transactions actually processed: 1200/1200\n\
            number of failed transactions: 0 (0.000%)\nlatency average = 0.200 ms\n\
            tps = 4000.500000 (without initial connection time)\n";
        assert_eq!(parse(said), Some(Done { transactions: 1200, rate: 4000.5 }));
        let timed = said.replace("1200/1200", "1200");
        assert_eq!(parse(&timed).map(|done| done.transactions), Some(1200));
        assert_eq!(parse("number of clients: 8\n"), None);
    }

    #[test]
    fn latencies_have_percentiles() {
        assert_eq!(latency("0 199 2241 0 1175850568 995598"), Some(2.241));
        assert_eq!((latency("0 199 failed 0 1 2"), latency("")), (None, None));
        assert_eq!(interval("1175850568 240 100 200 3 4"), Some((1_175_850_568, 240.0)));
        assert_eq!(interval("1175850568"), None);
        let figures: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!((percentile(&figures, 0.5), percentile(&figures, 0.99)), (100.0, 198.0));
        assert_eq!((percentile(&[7.0], 0.01), percentile(&[7.0, 8.0], 1.0)), (7.0, 8.0));
        assert!(percentile(&[], 0.5).is_nan());
    }

    #[test]
    fn seconds_at_the_ends_are_cut_off() {
        assert_eq!(whole_seconds(&[1.0, 2.0, 3.0, 4.0]), [2.0, 3.0]);
        for short in [&[][..], &[1.0], &[1.0, 2.0]] {
            assert!(whole_seconds(short).is_empty(), "{short:?}");
        }
    }
}
