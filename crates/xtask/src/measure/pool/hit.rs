//! A page that is in memory: find, pin, unpin. `cargo bench -p forebay-storage --bench hit`
//! measures it, and criterion's files are read.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::measure::table::{Mark, Table};
use crate::run::output;

/// The mark of a hit in nanoseconds.
const LIMIT: f64 = 60.0;
/// The mark for two threads, as a multiple of one thread's cost.
const BESIDE: f64 = 1.25;

/// Criterion's group, its benches, and the bench that each is compared with.
const GROUP: &str = "hit";
const BENCHES: [(&str, Option<&str>); 4] = [
    ("a page of its own, 1 threads", None),
    ("a page of its own, 2 threads", Some("a page of its own, 1 threads")),
    ("scattered pages of its own, 1 threads", None),
    ("scattered pages of its own, 2 threads", Some("scattered pages of its own, 1 threads")),
];

/// An empty table with its marks.
pub fn table() -> Table {
    let mut table =
        Table::marked("A page in memory, processor time", &["ns", "times one thread's"]);
    for (name, alone) in BENCHES {
        let mut marks = vec![Mark::at_most(0, LIMIT)];
        marks.extend(alone.map(|_| Mark::at_most(1, BESIDE)));
        table.mark(name, &marks);
    }
    table
}

/// Runs the benches and adds their figures.
///
/// # Errors
/// When criterion fails or leaves no estimates.
pub fn measure(root: &Path, table: &mut Table) -> Result<(), String> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).args([
        "bench",
        "--quiet",
        "-p",
        "forebay-storage",
        "--bench",
        "hit",
        "--",
    ]);
    cargo.args(["--warm-up-time", "0.5", "--measurement-time", "1", "^hit/.*threads$"]);
    let output = output(&mut cargo)?;
    if !output.status.success() {
        return Err(format!("{cargo:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let figure = |name: &str| {
        let path = root.join("target/criterion").join(GROUP).join(name).join("new/estimates.json");
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        median(&text).ok_or_else(|| format!("{}: no median", path.display()))
    };
    for (name, alone) in BENCHES {
        let nanoseconds = figure(name)?;
        table.add(name, 0, nanoseconds);
        if let Some(alone) = alone {
            table.add(name, 1, nanoseconds / figure(alone)?);
        }
    }
    Ok(())
}

/// The median of criterion's estimates, in nanoseconds.
fn median(json: &str) -> Option<f64> {
    serde_json::from_str::<Value>(json).ok()?["median"]["point_estimate"].as_f64()
}

#[cfg(test)]
mod tests {
    #[test]
    fn criterions_median_is_found() {
        let json = r#"{"mean":{"point_estimate":9.0},
            "median":{"confidence_interval":{},"point_estimate":31.5}}"#;
        assert_eq!(super::median(json), Some(31.5));
        assert_eq!(super::median("{}"), None);
    }
}
