//! Runs pgbench with a script against either server.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::servers::Running;
use crate::peers::Peer;
use crate::run::{output, run};

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
        let (folder, name) = (peer.runner.with_file_name("x").join("pgbench"), "/x/pgbench");
        let make = format!("rm -rf {name}; mkdir {name} && chown postgres:postgres {name}");
        run(Command::new(&peer.runner).args(["root", "sh", "-c", &make]))?;
        let done = self.call(server, peer, &["--log", &format!("--log-prefix={name}/log")])?;
        let milliseconds = read_logs(&folder)?;
        fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok((done, milliseconds))
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
        match self.length {
            Length::Seconds(seconds) => pgbench.args(["-T", &seconds.to_string()]),
            Length::Transactions(each) => pgbench.args(["-t", &each.to_string()]),
        };
        let output = output(pgbench.arg("postgres"))?;
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

/// Each thread of pgbench writes a file, with a line for each transaction.
fn read_logs(folder: &Path) -> Result<Vec<f64>, String> {
    let text = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut milliseconds = Vec::new();
    for entry in fs::read_dir(folder).map_err(text)? {
        let log = fs::read_to_string(entry.map_err(text)?.path()).map_err(text)?;
        for line in log.lines() {
            milliseconds.push(latency(line).ok_or_else(|| format!("pgbench's log: {line}"))?);
        }
    }
    milliseconds.sort_by(f64::total_cmp);
    Ok(milliseconds)
}

/// A line of the log: client, transaction, microseconds, script, end in seconds and microseconds.
fn latency(line: &str) -> Option<f64> {
    line.split(' ').nth(2)?.parse::<f64>().ok().map(|microseconds| microseconds / 1e3)
}

#[cfg(test)]
mod tests {
    use super::{Done, latency, parse, percentile};

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
        let figures: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!((percentile(&figures, 0.5), percentile(&figures, 0.99)), (100.0, 198.0));
        assert_eq!((percentile(&[7.0], 0.01), percentile(&[7.0, 8.0], 1.0)), (7.0, 8.0));
        assert!(percentile(&[], 0.5).is_nan());
    }
}
