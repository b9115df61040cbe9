//! Look-ups of preferred keys: alone, beside scans of a table twice the memory, and beside COPY.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use super::scans::{COUNT, Scanned};
use crate::measure::cgroup::Group;
use crate::measure::cold::Caches;
use crate::measure::contender::{CONTENDERS, Contender};
use crate::measure::counters::{Blocks, Counted, bytes_read};
use crate::measure::keyed::{COLUMNS, Keyed};
use crate::measure::pgbench::{Length, Run, Script, percentile};
use crate::measure::servers::Running;
use crate::measure::table::{Better, Table};
use crate::measure::warming::warm;
use crate::peers::Peer;

/// Sessions that look up.
const CLIENTS: u32 = 8;

/// What another session does meanwhile, again and again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    Scan,
    Copy,
}

impl Beside {
    fn name(self) -> &'static str {
        match self {
            Beside::Nothing => "alone",
            Beside::Scan => "beside count(*)",
            Beside::Copy => "beside COPY",
        }
    }
}

/// The tables.
pub struct Tables {
    rates: Table,
    latencies: Table,
    hits: Table,
    beside: Table,
    device: Table,
}

impl Tables {
    /// Empty tables.
    pub fn new() -> Tables {
        let compared = |title, better| Table::against_others(title, &CONTENDERS, better);
        Tables {
            rates: compared("Look-ups by key, a second", Better::More),
            latencies: compared("Latency of a look-up, milliseconds", Better::Less),
            hits: Table::new("Blocks of the look-ups found in the pool, %", &CONTENDERS),
            beside: compared("Work beside the look-ups, MB/s", Better::More),
            device: Table::new("Read from the device, MB/s", &CONTENDERS),
        }
    }

    /// The tables.
    pub fn into_tables(self) -> Vec<Table> {
        vec![self.rates, self.latencies, self.hits, self.beside, self.device]
    }
}

/// What is measured.
pub struct LookUps<'l> {
    /// Has pgbench.
    pub peer: &'l Peer,
    /// The kernel's cache.
    pub caches: &'l Caches,
    /// Bytes of the cgroup.
    pub memory: u64,
    /// Length of a run.
    pub seconds: u64,
}

impl LookUps<'_> {
    /// Measures a server.
    ///
    /// # Errors
    /// When it does not start, or a statement fails.
    pub fn measure(
        &self,
        contender: &Contender<'_>,
        keyed: &Keyed,
        scanned: &Scanned,
        tables: &mut Tables,
    ) -> Result<(), String> {
        for beside in [Beside::Nothing, Beside::Scan, Beside::Copy] {
            self.caches.drop()?;
            let group = Group::make(self.memory)?;
            let server = contender.start(&group, &[])?;
            warm(|| keyed.read_all(&server))?;
            let ended = AtomicBool::new(false);
            thread::scope(|scope| {
                let other = scope.spawn(|| repeat(&server, beside, scanned, &ended));
                let looked_up = self.look_up(&server, (beside, contender.column), keyed, tables);
                ended.store(true, Ordering::Relaxed);
                let other = other.join().map_err(|_| "the other session panicked".to_owned())?;
                looked_up?;
                if let Some(rate) = other? {
                    tables.beside.add(beside.name(), contender.column, rate / 1e6);
                }
                Ok::<_, String>(())
            })?;
        }
        Ok(())
    }

    /// Looks up as long until caches are as they stay, and then measures.
    fn look_up(
        &self,
        server: &Running<'_>,
        (beside, column): (Beside, usize),
        keyed: &Keyed,
        tables: &mut Tables,
    ) -> Result<(), String> {
        let script = keyed.look_up();
        let run = Run {
            script: Script::Own(&script),
            mode: "prepared",
            clients: CLIENTS,
            length: Length::Seconds(self.seconds),
        };
        run.done(server, self.peer)?;
        let process = server.process()?;
        let (read, blocks) = (bytes_read(process)?, Blocks::count(server, Counted::LookUps)?);
        let begun = Instant::now();
        let (done, milliseconds) = run.latencies(server, self.peer)?;
        let rate = (bytes_read(process)? - read) / 1e6 / begun.elapsed().as_secs_f64();
        let row = beside.name();
        tables.rates.add(row, column, done.rate);
        for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
            let figure = percentile(&milliseconds, part);
            tables.latencies.add(&format!("{row}, {name}"), column, figure);
        }
        if let Some(hits) = Blocks::count(server, Counted::LookUps)?.hits_since(blocks) {
            tables.hits.add(row, column, hits);
        }
        tables.device.add(row, column, rate);
        Ok(())
    }
}

/// The other session: whole statements until it is told to end. Returns bytes a second, of the
/// table or of the file.
fn repeat(
    server: &Running<'_>,
    beside: Beside,
    scanned: &Scanned,
    ended: &AtomicBool,
) -> Result<Option<f64>, String> {
    let bytes = match beside {
        Beside::Nothing => return Ok(None),
        Beside::Scan => server.number("SELECT pg_relation_size('scanned')")?,
        Beside::Copy => scanned.input_bytes()? as f64,
    };
    let (mut times, mut seconds) = (0.0, 0.0);
    while times == 0.0 || !ended.load(Ordering::Relaxed) {
        if beside == Beside::Copy {
            server.query("DROP TABLE IF EXISTS copied")?;
            server.query(&format!("CREATE TABLE copied {COLUMNS}"))?;
        }
        let begun = Instant::now();
        match beside {
            Beside::Copy => scanned.load(server, "copied")?,
            _ => server.query(COUNT).map(drop)?,
        }
        times += 1.0;
        seconds += begun.elapsed().as_secs_f64();
    }
    if beside == Beside::Copy {
        server.query("DROP TABLE copied")?;
    }
    Ok(Some(bytes * times / seconds))
}
