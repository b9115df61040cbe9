//! Results under docs/results: `DATE-PART.json` for plots and `DATE-PART.md` for readers, and
//! `DATE-PART.csv` where figures follow each other in time.
//!
//! A JSON file has the fields `part`, `date`, `command`, `machine` and `tables`; a table has a
//! `title`, `columns`, and `rows` with a `name` and `cells`. A cell is `[median, low, high]` over
//! the rounds, or null.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::series::Series;
use crate::run::output;

const FOLDER: &str = "docs/results";

/// One figure of a table, over the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
}

/// Writes the tables of one part: as JSON, and as the text that was printed.
///
/// # Errors
/// When the date can't be had or a file can't be written.
pub fn keep(root: &Path, part: &str, tables: &[Value], printed: &str) -> Result<(), String> {
    let date = today()?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (command, machine) = (format!("cargo xtask {}", words.join(" ")), machine());
    let kept = json!({
        "part": part, "date": date, "command": command, "machine": machine, "tables": tables,
    });
    let machine = format!("Machine: {machine}. Command:\n\n{}", on_lines(&command));
    let text = format!("# {date}: {part}\n\n{machine}\n{printed}");
    for (end, text) in [("json", format!("{kept:#}\n")), ("md", text)] {
        write(root, &format!("{date}-{part}.{end}"), &text)?;
    }
    Ok(())
}

/// Writes the figures of one part over time.
///
/// # Errors
/// As [`keep`].
pub fn keep_series(root: &Path, part: &str, series: &Series) -> Result<(), String> {
    write(root, &format!("{}-{part}.csv", today()?), &series.to_string())
}

/// The newest figures of one part over time, if there are any.
///
/// # Errors
/// A file that can't be read, or is none of figures.
pub fn newest_series(root: &Path, part: &str) -> Result<Option<Series>, String> {
    let folder = root.join(FOLDER);
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(|e| failed(&e))? {
        names.push(entry.map_err(|e| failed(&e))?.file_name().to_string_lossy().into_owned());
    }
    // Names begin with dates.
    let ours = names.into_iter().filter(|name| name.ends_with(&format!("-{part}.csv"))).max();
    let Some(name) = ours else { return Ok(None) };
    let text = fs::read_to_string(folder.join(&name)).map_err(|e| failed(&e))?;
    Series::parse(&text).map(Some).map_err(|e| format!("{name}: {e}"))
}

fn today() -> Result<String, String> {
    let said = output(Command::new("date").args(["-u", "+%F"]))?;
    Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

fn write(root: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = root.join(FOLDER).join(name);
    fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("kept in {}", path.display());
    Ok(())
}

/// A command as a block of Markdown, in lines of at most 100 characters if its words allow that.
fn on_lines(command: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in command.split(' ') {
        match lines.last_mut() {
            None => lines.push(format!("    {word}")),
            Some(line) if line.len() + 1 + word.len() + " \\".len() <= 100 => {
                line.extend([" ", word]);
            }
            Some(_) => lines.push(format!("        {word}")),
        }
    }
    lines.join(" \\\n")
}

/// This machine in a line.
fn machine() -> String {
    let file = |path| fs::read_to_string(path).unwrap_or_default();
    let (cpus, memory) = (file("/proc/cpuinfo"), file("/proc/meminfo"));
    let after = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map_or("", |(_, rest)| rest.trim()).to_owned()
    };
    let cores = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let model = after(&cpus, "model name");
    let kib: f64 = after(&memory, "MemTotal").trim_end_matches(" kB").parse().unwrap_or(f64::NAN);
    let system = file("/proc/sys/kernel/osrelease");
    // Without the name of the build.
    let version = system.split('-').next().unwrap_or_default().trim();
    format!("{cores} cores ({model}), {:.0} GiB, Linux {version}", kib / 1048576.0)
}

/// The newest results of each part.
pub struct Newest(Vec<Value>);

impl Newest {
    /// Reads all results.
    ///
    /// # Errors
    /// A file that can't be read, or is none of results.
    pub fn read(root: &Path) -> Result<Newest, String> {
        let folder = root.join(FOLDER);
        let failed = |path: &Path, e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let mut all = Vec::new();
        for entry in fs::read_dir(&folder).map_err(|e| failed(&folder, &e))? {
            let path = entry.map_err(|e| failed(&folder, &e))?.path();
            if path.extension().is_some_and(|end| end == "json") {
                let text = fs::read_to_string(&path).map_err(|e| failed(&path, &e))?;
                let value = serde_json::from_str(&text).map_err(|e| failed(&path, &e))?;
                all.push((path, value));
            }
        }
        // Names begin with dates.
        all.sort_by(|(one, _), (other, _)| other.cmp(one));
        Ok(Newest(all.into_iter().map(|(_, value)| value).collect()))
    }

    /// A figure of the newest results of a part.
    ///
    /// # Errors
    /// What is not there.
    pub fn figure(
        &self,
        part: &str,
        table: &str,
        row: &str,
        column: &str,
    ) -> Result<Figure, String> {
        let missing = || format!("no \"{column}\" of \"{row}\" in \"{table}\" of part {part}");
        let part = self.0.iter().find(|results| results["part"] == part).ok_or_else(missing)?;
        let table = named(&part["tables"], "title", table).ok_or_else(missing)?;
        let row = named(&table["rows"], "name", row).ok_or_else(missing)?;
        let columns = table["columns"].as_array().ok_or_else(missing)?;
        let column = columns.iter().position(|name| name == column).ok_or_else(missing)?;
        let cell = &row["cells"][column];
        let number = |at: usize| cell[at].as_f64().ok_or_else(missing);
        Ok(Figure { median: number(0)?, low: number(1)?, high: number(2)? })
    }
}

/// The element of a list whose field has this text.
fn named<'v>(list: &'v Value, field: &str, text: &str) -> Option<&'v Value> {
    list.as_array()?.iter().find(|element| element[field] == text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{FOLDER, Figure, Newest, json, machine, newest_series, on_lines};

    #[test]
    fn a_long_command_has_several_lines() {
        assert_eq!(on_lines("cargo xtask measure"), "    cargo xtask measure");
        let command = format!("cargo {} --keep", "x".repeat(85));
        let first = format!("    cargo {}", "x".repeat(85));
        assert_eq!(on_lines(&command), format!("{first} \\\n        --keep"));
        let short = format!("cargo {} --keep", "x".repeat(80));
        assert_eq!(on_lines(&short), format!("    {short}"));
    }

    #[test]
    fn the_newest_figure_is_found() {
        let results = |median: f64| {
            let row = json!({"name": "r", "cells": [null, [median, 1.0, 9.0]]});
            json!({"part": "p", "tables": [{"title": "t", "columns": ["a", "b"], "rows": [row]}]})
        };
        let newest = Newest(vec![results(2.0), results(3.0)]);
        let figure = Figure { median: 2.0, low: 1.0, high: 9.0 };
        assert_eq!(newest.figure("p", "t", "r", "b"), Ok(figure));
        for (part, table, row, column) in
            [("x", "t", "r", "b"), ("p", "x", "r", "b"), ("p", "t", "x", "b"), ("p", "t", "r", "a")]
        {
            assert!(newest.figure(part, table, row, column).is_err(), "{part} {table} {row}");
        }
    }

    #[test]
    fn the_newest_series_of_a_part_is_found() {
        let root = std::env::temp_dir().join(format!("xtask-series-{}", std::process::id()));
        fs::create_dir_all(root.join(FOLDER)).expect("a folder");
        let none = newest_series(&root, "p");
        for (name, rate) in [("2026-01-02-p", 2), ("2026-01-01-p", 1), ("2026-01-03-q", 3)] {
            let file = root.join(FOLDER).join(name).with_extension("csv");
            fs::write(file, format!("rate\n{rate}\n")).expect("a file");
        }
        let newest = newest_series(&root, "p").expect("numbers").expect("a series");
        fs::remove_dir_all(&root).expect("removed");
        assert_eq!((none, newest.column("rate")), (Ok(None), Ok(vec![2.0])));
    }

    #[test]
    fn the_machine_is_described() {
        assert!(machine().contains(" cores ("), "{}", machine());
    }
}
