//! `forebay bench archive` with small sizes: fio runs before and after each run, on the same files.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

const SEGMENT: f64 = 16_777_216.0;

/// Runs it with a false fio, which finds the segments, records its arguments, and reports that it
/// has moved `kib` KiB.
fn measured(dir: &Path, kib: u32) -> Output {
    let (bin, place) = (dir.join("bin"), dir.join("place"));
    [&bin, &place].into_iter().for_each(|dir| std::fs::create_dir(dir).expect("made"));
    let zeros = |n: usize| "0;".repeat(n);
    // It has read in half a second, and written in a quarter.
    let line = format!("3;{}{kib};0;0;500;{}{kib};0;0;250;{}0", zeros(4), zeros(37), zeros(80));
    let calls = dir.join("calls");
    let text = format!(
        "#!/bin/sh\n[ -s old.0 ] && [ -s old.1 ] || exit 1\necho \"$@\" >> {}\necho '{line}'\n",
        calls.display()
    );
    std::fs::write(bin.join("fio"), text).expect("written");
    std::fs::set_permissions(bin.join("fio"), PermissionsExt::from_mode(0o755))
        .expect("executable");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a PATH"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.env("PATH", path).args(["bench", "archive", "-D"]).arg(&place);
    command.args(["--marks", "", "--segments", "2", "--transfers", "1,2", "--io-direct", ""]);
    let output = command.args(["--rounds", "1", "--json"]).output().expect("runs");
    assert_eq!(std::fs::read_dir(&place).expect("there").count(), 0, "nothing is left behind");
    output
}

#[test]
fn each_run_stands_between_two_of_fio_on_the_same_segments() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = measured(dir.path(), 2 << 14);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let device = 2.0 * SEGMENT / 0.5;
    assert_eq!(report["device_bytes_per_second"]["median"], device, "{report}");
    let rows = report["stores"].as_array().expect("rows");
    assert_eq!(rows.len(), 2, "{report}");
    for row in rows {
        let median = |name: &str| row[name]["median"].as_f64().expect("a number");
        assert!(
            (median("part_of_device") - median("bytes_per_second") / device).abs() < 1e-9,
            "{row}"
        );
    }
    let calls = std::fs::read_to_string(dir.path().join("calls")).expect("fio was called");
    assert_eq!(calls.lines().count(), 3, "before, between and after: {calls}");
    assert!(calls.lines().all(|call| call.matches("--rw=write").count() == 2), "{calls}");
}

#[test]
fn a_fio_that_moves_less_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = measured(dir.path(), 1 << 14);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("fio: it moved other than 2 files"),
        "{output:?}"
    );
}
