//! `cargo xtask plots`: the plots of docs/performance.md, drawn from the newest results.
//!
//! - [`chart`]:   a bar chart as SVG
//! - [`lines`]:   rates over time as SVG
//! - [`series`]:  figures over time, as text
//! - [`results`]: the results under docs/results, written and read

use std::fs;
use std::path::Path;

use chart::{Chart, Group};
use lines::Lines;
use results::Newest;
use series::Series;

pub mod chart;
pub mod lines;
pub mod results;
pub mod series;

/// Where the plots are.
const FOLDER: &str = "docs/plots";

const SERVERS: [&str; 2] = ["Forebay", "PostgreSQL 18"];

/// A chart, and where its figures are found.
struct Plot {
    file: &'static str,
    title: &'static str,
    unit: &'static str,
    series: Vec<&'static str>,
    /// Where a line is drawn across all bars.
    reference: Option<f64>,
    groups: Vec<Source>,
}

/// Where the bars of one group are found.
struct Source {
    label: String,
    part: &'static str,
    table: &'static str,
    /// Row and column of each bar.
    bars: Vec<(String, &'static str)>,
}

fn plots() -> [Plot; 5] {
    [device(), commits(), copy(), reads(), archive()]
}

fn device() -> Plot {
    let reading = "A relation read cold, in order";
    let random = "Random block lists, cold";
    let updates = "Random updates over four times the pool";
    let checkpoint = "Checkpoint of a full dirty pool";
    let commits = "Commits by several committers";
    let bulk = "Bulk insertion, durable";
    let segments = "Segments of 16 MB to a directory";
    let checking = "Checking a cluster, cold";
    let rows = [
        ("cold scan", "pool", reading, "scan, io_uring, direct"),
        ("prewarm", "pool", reading, "prewarm read, io_uring, direct"),
        ("random reads", "pool", random, "random list, depth 64, io_uring, direct"),
        ("random updates", "pool", updates, "updates, io_uring, direct"),
        ("checkpoint", "pool", checkpoint, "checkpoint, io_uring, direct"),
        ("1 committer", "wal", commits, "1: 128 bytes each, gathered, fdatasync, direct"),
        ("8 committers", "wal", commits, "8: 128 bytes each, gathered, fdatasync, direct"),
        ("64 committers", "wal", commits, "64: 128 bytes each, gathered, fdatasync, direct"),
        ("log in bulk", "wal", bulk, "4 threads, fdatasync, direct"),
        ("archive to a directory", "archive", segments, "Forebay, direct, 4 at a time"),
        ("check of all checksums", "checksums", checking, "forebay, io_uring, direct"),
    ];
    let group = |(label, part, table, row): (&str, &'static str, &'static str, &str)| {
        let column = if part == "checksums" { "part of fio's rate" } else { "part of fio's" };
        Source { label: label.to_owned(), part, table, bars: vec![(row.to_owned(), column)] }
    };
    Plot {
        file: "device.svg",
        title: "Forebay's part of the rate that fio gets from the device",
        unit: "times fio's rate, direct I/O",
        series: vec!["Forebay"],
        reference: Some(1.0),
        groups: rows.map(group).into(),
    }
}

fn commits() -> Plot {
    let group = |clients: u32| {
        let row = format!("{clients} clients, fdatasync");
        let label = if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
        both_servers(label, "wal", "One-row inserts, commits a second", &row)
    };
    Plot {
        file: "commits.svg",
        title: "One-row inserts by pgbench, each a commit",
        unit: "commits a second, wal_sync_method = fdatasync",
        series: SERVERS.into(),
        reference: None,
        groups: [1, 2, 4, 8, 16, 32, 64].map(group).into(),
    }
}

fn copy() -> Plot {
    let one = |row: &str| {
        both_servers(format!("{row}, 1 client"), "servers", "COPY in, MB/s of the file", row)
    };
    let eight = |row: &str| {
        let label = format!("binary, {row}, 8 clients");
        both_servers(label, "servers", "COPY BINARY by 8 clients, MB/s of the files", row)
    };
    Plot {
        file: "copy.svg",
        title: "COPY FROM STDIN",
        unit: "MB/s of the files, io_method = io_uring",
        series: SERVERS.into(),
        reference: None,
        groups: vec![
            one("text, direct"),
            one("text, buffered"),
            one("binary, direct"),
            one("binary, buffered"),
            eight("direct"),
            eight("buffered"),
        ],
    }
}

fn reads() -> Plot {
    let ways = ["io_uring, direct", "worker, direct", "worker, buffered"];
    let of = |name: &'static str, table: &'static str| {
        ways.map(|way| both_servers(format!("{name}, {way}"), "servers", table, way))
    };
    let count = of("count(*)", "Cold count(*), seconds");
    let prewarm = of("pg_prewarm", "Cold pg_prewarm buffer, seconds");
    Plot {
        file: "reads.svg",
        title: "Cold reads of 5 million rows: less is better",
        unit: "seconds",
        series: SERVERS.into(),
        reference: None,
        groups: count.into_iter().chain(prewarm).collect(),
    }
}

fn archive() -> Plot {
    let table = "archive-push of PostgreSQL's segments, one call each";
    let group = |label: &str, rows: [&str; 2]| {
        let bars = rows.map(|row| (row.to_owned(), "MB/s")).into();
        Source { label: label.to_owned(), part: "archive", table, bars }
    };
    Plot {
        file: "archive.svg",
        title: table,
        unit: "MB/s",
        series: vec!["Forebay", "pgBackRest"],
        reference: None,
        groups: vec![
            group("by itself", ["Forebay, by itself", "pgBackRest, by itself"]),
            group("with one that works ahead", ["Forebay, archiverd", "pgBackRest, ahead"]),
        ],
    }
}

/// A row with a column for each server.
fn both_servers(label: String, part: &'static str, table: &'static str, row: &str) -> Source {
    Source { label, part, table, bars: SERVERS.map(|server| (row.to_owned(), server)).into() }
}

/// A rate over time beside a neighbour that takes memory.
///
/// # Errors
/// A column that is missing.
pub fn neighbour(series: &Series) -> Result<String, String> {
    let rates = |name: &str| series.column(&format!("{name}_rate"));
    let taken = series.column("forebay_taken")?;
    let lines = Lines {
        title: "Beside a program that takes and gives back 60 % of the memory",
        unit: "transactions a second",
        lines: vec![(SERVERS[0], rates("forebay")?), (SERVERS[1], rates("postgresql")?)],
        shade: "memory taken",
        marked: taken.iter().map(|taken| *taken > 0.0).collect(),
    };
    Ok(lines.to_string())
}

/// Draws all plots.
///
/// # Errors
/// A result that is missing or can't be read, or a plot that can't be written.
pub fn run(root: &Path) -> Result<(), String> {
    let folder = root.join(FOLDER);
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for (file, svg) in drawn(root)? {
        let path = folder.join(file);
        fs::write(&path, svg).map_err(|e| format!("{}: {e}", path.display()))?;
        println!("{FOLDER}/{file}");
    }
    Ok(())
}

/// Names and texts of all plots whose results there are.
fn drawn(root: &Path) -> Result<Vec<(&'static str, String)>, String> {
    let newest = Newest::read(root)?;
    let mut all = Vec::new();
    for plot in plots() {
        all.push((plot.file, plot.chart(&newest)?.to_string()));
    }
    if let Some(series) = results::newest_series(root, "neighbour")? {
        all.push(("neighbour.svg", neighbour(&series)?));
    }
    Ok(all)
}

impl Plot {
    fn chart(&self, newest: &Newest) -> Result<Chart, String> {
        let group = |source: &Source| {
            let bar = |(row, column): &(String, &str)| {
                newest.figure(source.part, source.table, row, column)
            };
            let bars = source.bars.iter().map(bar).collect::<Result<_, _>>()?;
            Ok(Group { label: source.label.clone(), bars })
        };
        Ok(Chart {
            title: self.title,
            unit: self.unit,
            series: self.series.clone(),
            reference: self.reference,
            groups: self.groups.iter().map(group).collect::<Result<_, String>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{FOLDER, Series, drawn, neighbour};

    /// The plots in the repository are those of its newest results.
    #[test]
    fn plots_are_current() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (file, svg) in drawn(&root).expect("all figures") {
            let kept = std::fs::read_to_string(root.join(FOLDER).join(file)).unwrap_or_default();
            assert!(svg == kept, "{file}: run `cargo xtask plots`");
        }
    }

    #[test]
    fn a_neighbour_is_drawn_behind_both_rates() {
        let text = "second,forebay_rate,forebay_taken,postgresql_rate\n0,9,0,8\n1,10,1,5\n";
        let svg = neighbour(&Series::parse(text).expect("a series")).expect("all columns");
        assert_eq!(svg.matches("<polyline").count(), 2, "{svg}");
        assert!(svg.contains("memory taken"), "{svg}");
        assert!(neighbour(&Series::new(vec!["second".to_owned()])).is_err());
    }
}
