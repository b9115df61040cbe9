//! COPY by several clients into their own tables, and the rate at which checkpoints write.
//!
//! Checkpoints are not spread (checkpoint_completion_target = 0), so their time is the time of
//! writing. A table is dropped and created again after a few loads, since the disk would fill up.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::servers::{Running, Subject};
use super::table::{Better, Table};
use super::work::{self, word};

const CLIENTS: usize = 8;
/// Loads of a table before it is created again.
const LOADS: usize = 6;

/// The tables.
pub struct Copies {
    rate: Table,
    deviation: Table,
    meanwhile: Table,
    afterwards: Table,
    written: Table,
}

/// A row of pg_stat_checkpointer.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Checkpoints {
    done: f64,
    buffers: f64,
    milliseconds: f64,
}

impl Copies {
    /// Empty tables.
    pub fn new() -> Copies {
        let peers = ["Forebay", "PostgreSQL 18"];
        let rates = |title| Table::against_best(title, peers, Better::More);
        Copies {
            rate: rates("COPY BINARY by 8 clients, MB/s of the files"),
            deviation: Table::new("Deviation of a load's time, ms", &peers),
            meanwhile: rates("Checkpoints' writes meanwhile, MB/s"),
            afterwards: rates("CHECKPOINT's writes afterwards, MB/s"),
            written: Table::new("Written by CHECKPOINT afterwards, MB", &peers),
        }
    }

    /// The tables.
    pub fn into_tables(self) -> [Table; 5] {
        [self.rate, self.deviation, self.meanwhile, self.afterwards, self.written]
    }

    /// Loads the file again and again.
    ///
    /// # Errors
    /// When a load or a query fails.
    pub fn run(
        &mut self,
        subject: &Subject,
        direct: bool,
        file: &Path,
        definition: &str,
        seconds: u64,
    ) -> Result<(), String> {
        let settings = [
            "io_method=io_uring",
            &subject.direct_setting(direct),
            "checkpoint_completion_target=0",
        ];
        let server = subject.start(&settings)?;
        // Read once, so that both servers load it from memory.
        let bytes = fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?.len() as f64;
        (0..CLIENTS).try_for_each(|client| renew(&server, client, definition))?;
        server.query("CHECKPOINT")?;
        let begin = checkpoints(&server)?;
        let length = Duration::from_secs(seconds);
        let loads: Vec<Vec<f64>> = thread::scope(|scope| {
            let server = &server;
            let client = |client| move || load(server, client, file, definition, length);
            let running: Vec<_> = (0..CLIENTS).map(|n| scope.spawn(client(n))).collect();
            running
                .into_iter()
                .map(|client| client.join().map_err(|_| "a client panicked")?)
                .collect::<Result<_, String>>()
        })?;
        let end = checkpoints(&server)?;
        server.query("CHECKPOINT")?;
        // PostgreSQL's checkpointer answers first and counts later. psql's start is the pause.
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut after = checkpoints(&server)?;
        while after.done == end.done && Instant::now() < deadline {
            after = checkpoints(&server)?;
        }
        let (row, column) = (word(direct), subject.column());
        self.rate.add(row, column, loads_a_second(&loads) * bytes / 1e6);
        self.deviation.add(row, column, deviation(&loads.concat()) * 1e3);
        if let Some(rate) = end.rate_since(begin) {
            self.meanwhile.add(row, column, rate);
        }
        if let Some(rate) = after.rate_since(end) {
            self.afterwards.add(row, column, rate);
        }
        self.written.add(row, column, (after.buffers - end.buffers) * 8192.0 / 1e6);
        let drop_table = |client| server.query(&format!("DROP TABLE c{client}"));
        (0..CLIENTS).try_for_each(|client| drop_table(client).map(drop))
    }
}

fn renew(server: &Running<'_>, client: usize, definition: &str) -> Result<(), String> {
    let name = format!("c{client}");
    server.query(&format!("DROP TABLE IF EXISTS {name}"))?;
    server.query(&definition.replace("TABLE t ", &format!("TABLE {name} "))).map(drop)
}

/// One client: whole loads until the time is over. Returns the seconds of each load.
fn load(
    server: &Running<'_>,
    client: usize,
    file: &Path,
    definition: &str,
    length: Duration,
) -> Result<Vec<f64>, String> {
    let begin = Instant::now();
    let mut times = Vec::new();
    while begin.elapsed() < length {
        if !times.is_empty() && times.len().is_multiple_of(LOADS) {
            renew(server, client, definition)?;
        }
        let begin = Instant::now();
        work::load(server, &format!("c{client}"), "binary", file)?;
        times.push(begin.elapsed().as_secs_f64());
    }
    Ok(times)
}

/// Loads a second of all clients together, each by its own time: no load is cut off.
fn loads_a_second(clients: &[Vec<f64>]) -> f64 {
    clients.iter().map(|times| times.len() as f64 / times.iter().sum::<f64>()).sum()
}

fn deviation(times: &[f64]) -> f64 {
    let count = times.len().max(1) as f64;
    let mean = times.iter().sum::<f64>() / count;
    (times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / count).sqrt()
}

fn checkpoints(server: &Running<'_>) -> Result<Checkpoints, String> {
    let said =
        server.query("SELECT num_done, buffers_written, write_time FROM pg_stat_checkpointer")?;
    Checkpoints::parse(&said).ok_or_else(|| format!("pg_stat_checkpointer: {said}"))
}

impl Checkpoints {
    fn parse(said: &str) -> Option<Checkpoints> {
        let numbers: Option<Vec<f64>> =
            said.split('|').map(|field| field.trim().parse().ok()).collect();
        let [done, buffers, milliseconds] = numbers?[..] else { return None };
        Some(Checkpoints { done, buffers, milliseconds })
    }

    /// MB a second while writing; none if nothing was written.
    fn rate_since(self, before: Checkpoints) -> Option<f64> {
        let (buffers, time) =
            (self.buffers - before.buffers, self.milliseconds - before.milliseconds);
        (buffers > 0.0 && time > 0.0).then(|| buffers * 8192.0 / 1e6 / (time / 1e3))
    }
}

#[cfg(test)]
mod tests {
    use super::{Checkpoints, deviation, loads_a_second};

    #[test]
    fn checkpoints_are_read_and_rated() {
        let before = Checkpoints::parse("3|1000|50").expect("numbers");
        let after = Checkpoints::parse("4|126000|1050.5").expect("numbers");
        assert_eq!((after.done, before.milliseconds), (4.0, 50.0));
        let rate = after.rate_since(before).expect("something was written");
        assert!((rate - 1023.488).abs() < 0.001, "{rate}");
        assert_eq!(before.rate_since(before), None);
        assert_eq!((Checkpoints::parse(""), Checkpoints::parse("1|2")), (None, None));
    }

    #[test]
    fn clients_count_by_their_own_time() {
        let clients = [vec![2.0, 2.0], vec![4.0]];
        assert_eq!(loads_a_second(&clients), 0.75);
        assert!((deviation(&clients.concat()) - 0.9428).abs() < 0.001);
        assert_eq!(deviation(&[1.0, 1.0]), 0.0);
    }
}
