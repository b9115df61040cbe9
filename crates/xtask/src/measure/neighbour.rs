//! A noisy neighbour: a program that takes 60 % of a memory cgroup and gives it back, again and
//! again, beside a server under load in the same cgroup. Forebay with direct I/O, then PostgreSQL
//! with the kernel's cache.
//!
//! - [`watch`]:    each second: the server's memory and the group's; the neighbour's comings
//! - [`recovery`]: what the rates of all seconds say
//!
//! The load looks up and updates preferred keys in a table of half the memory. A server that the
//! kernel kills is a result, no error.

use std::fs;
use std::path::Path;

use super::cgroup::Group;
use super::cold::Caches;
use super::contender::{CONTENDERS, Contender, Sizes};
use super::keyed::Keyed;
use super::pgbench::{Length, Run, Script, whole_seconds};
use super::servers::Subject;
use super::table::{Mark, Table, median, printed};
use crate::peers::Peer;
use crate::plots;
use crate::plots::series::Series;

mod recovery;
mod watch;

use watch::{Seen, Watch};

/// How much is measured.
pub struct Extent {
    /// Length of the load.
    pub seconds: u64,
    /// The memory of each server, with its neighbour.
    pub sizes: Sizes,
}

/// Sessions of the load.
const CLIENTS: u32 = 8;
/// Names of the servers in columns of the series.
const NAMES: [&str; 2] = ["forebay", "postgresql"];
/// What Forebay should hold: rows, and their limits.
const MARKS: [(&str, f64); 3] = [(LONGEST, 10.0), (KILLED, 0.0), (SWAPPED, 0.0)];
const LONGEST: &str = "seconds until 0.9 of the rate, longest";
const KILLED: &str = "processes killed for memory";
const SWAPPED: &str = "swapped, MB";
/// A rate that counts as that of before, as a part of it.
const AGAIN: f64 = 0.9;
const MEGABYTE: f64 = 1e6;

/// Measures, prints the table, and returns it with the figures of each second. Draws them under
/// target/measure, too.
///
/// # Errors
/// When something can't be made or run.
pub fn run(
    root: &Path,
    peer: &Peer,
    caches: &Caches,
    extent: &Extent,
) -> Result<(Vec<Table>, Series), String> {
    let (forebay, postgres) = (Subject::forebay(root)?, Subject::postgres(peer)?);
    let folder = root.join("target/measure");
    let keyed = Keyed::prepare(&postgres, &folder, extent.sizes.bytes(), true)?;
    let contenders = extent.sizes.contenders(&forebay, &postgres);
    let title = "Beside a program that takes and gives back 60 % of the memory";
    let mut table = Table::marked(title, &CONTENDERS[..NAMES.len()]);
    let mut all = Vec::new();
    for contender in &contenders[..NAMES.len()] {
        caches.drop()?;
        let seen = measure(contender, peer, &keyed, extent)?;
        seen.add_to(&mut table, contender.column);
        all.push(seen);
    }
    for (row, limit) in MARKS {
        table.mark(row, &[Mark::at_most(0, limit)]);
    }
    keyed.remove_input()?;
    forebay.remove();
    postgres.remove();
    let series = series(&all);
    let (text, drawn) = (series.to_string(), plots::neighbour(&series)?);
    for (name, text) in [("neighbour.csv", text), ("neighbour.svg", drawn)] {
        let file = folder.join(name);
        fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
        println!("{}", file.display());
    }
    Ok((printed(vec![table]), series))
}

/// Loads the table and runs the load beside the neighbour.
fn measure(
    contender: &Contender<'_>,
    peer: &Peer,
    keyed: &Keyed,
    extent: &Extent,
) -> Result<Seen, String> {
    let group = Group::make(extent.sizes.bytes())?;
    let server = contender.start(&group, &["autovacuum=on"])?;
    keyed.load(&server)?;
    let script = keyed.look_ups_and_update();
    let load = |seconds| Run {
        script: Script::Own(&script),
        mode: "prepared",
        clients: CLIENTS,
        length: Length::Seconds(seconds),
    };
    load(watch::period(extent.seconds) / 2).done(&server, peer)?;
    let before = group.memory()?;
    let mut watch = Watch::new(&group, extent.sizes.memory, extent.seconds)?;
    let (rates, failed) = watch.beside(|| load(extent.seconds).by_second(&server, peer))?;
    let mut seen = watch.seen(&before, rates)?;
    seen.failed = failed;
    Ok(seen)
}

impl Seen {
    /// Adds what one server has shown.
    fn add_to(&self, table: &mut Table, column: usize) {
        let rates = &self.rates;
        let of = |taken: bool| {
            let chosen = rates.iter().zip(&self.seconds).filter(|(_, at)| at.taken == taken);
            median(&chosen.map(|(rate, _)| *rate).collect::<Vec<_>>())
        };
        let taken: Vec<bool> = self.seconds.iter().map(|second| second.taken).collect();
        let (free, again) = (of(false), recovery::seconds(rates, &taken, AGAIN * of(false)));
        let extreme = |pick: fn(f64, f64) -> f64, of: fn(&watch::Second) -> f64| {
            self.seconds.iter().map(of).reduce(pick).unwrap_or(f64::NAN)
        };
        let waited: f64 = self.seconds.iter().map(|second| second.waited).sum();
        let whole = whole_seconds(rates);
        let idle = whole.iter().filter(|rate| **rate == 0.0).count();
        let slowest = whole.iter().copied().reduce(f64::min).unwrap_or(f64::NAN);
        let ran = rates.iter().rposition(|rate| *rate > 0.0).map_or(0, |last| last + 1);
        let longest = again.iter().copied().reduce(f64::max).unwrap_or(f64::NAN);
        let rows = [
            ("transactions a second, memory free", free),
            ("transactions a second, memory taken", of(true)),
            ("transactions in the slowest second", slowest),
            ("seconds without a transaction", idle as f64),
            ("seconds until 0.9 of the rate, median", median(&again)),
            (LONGEST, longest),
            ("server's memory, MB, most", extreme(f64::max, |second| second.server) / MEGABYTE),
            ("server's memory, MB, least", extreme(f64::min, |second| second.server) / MEGABYTE),
            ("waited for memory, % of the time", waited / self.seconds.len().max(1) as f64),
            ("the bound was hit, times", self.failures as f64),
            (KILLED, self.oom_kills as f64),
            ("of them the neighbour", self.neighbours_killed as f64),
            (SWAPPED, self.swapped as f64 / MEGABYTE),
            ("seconds until the last transaction", ran as f64),
        ];
        for (row, figure) in rows.into_iter().filter(|(_, figure)| !figure.is_nan()) {
            table.add(row, column, figure);
        }
        if let Some(failed) = &self.failed {
            println!("{}: the load ended early: {failed}", CONTENDERS[column]);
        }
    }
}

/// The figures of each second.
fn series(all: &[Seen]) -> Series {
    let figures = ["rate", "taken", "server_mb", "group_mb", "failures", "waited_percent"];
    let of = |name: &&str| figures.map(|figure| format!("{name}_{figure}"));
    let names = NAMES.iter().flat_map(of);
    let mut series = Series::new([vec!["second".to_owned()], names.collect()].concat());
    let length = all.iter().map(|seen| seen.rates.len()).min().unwrap_or(0);
    for second in 0..length {
        let mut row = vec![second as f64];
        for seen in all {
            let at = seen.seconds.get(second).copied().unwrap_or_default();
            row.extend([
                seen.rates[second],
                f64::from(u8::from(at.taken)),
                (at.server / MEGABYTE).round(),
                (at.group / MEGABYTE).round(),
                at.failures as f64,
                at.waited.round(),
            ]);
        }
        series.push(row);
    }
    series
}
