//! `forebay bench` with small sizes: every command runs, prints tables and the documented JSON, and
//! leaves nothing behind.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

pub fn run(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    let output = command.arg("bench").args(arguments).output().expect("runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("exits"), text(&output.stdout), text(&output.stderr))
}

pub fn json(arguments: &[&str]) -> Value {
    let (code, said, errors) = run(arguments);
    assert_eq!((code, errors.as_str()), (0, ""), "{said}");
    serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"))
}

/// The names of an object's fields.
pub fn fields(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// A spread of positive numbers in order.
pub fn assert_spread(value: &Value) {
    let [least, median, most] =
        ["least", "median", "most"].map(|name| value[name].as_f64().expect("a number"));
    assert!(0.0 < least && least <= median && median <= most, "{value}");
}

pub fn assert_empty(dir: &Path) {
    let left: Vec<_> =
        dir.read_dir().expect("listed").map(|entry| entry.expect("an entry").path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

const SMALL_CHECKSUM: [&str; 5] = ["checksum", "--size", "1MB", "--rounds", "1"];

#[test]
fn checksums_are_measured() {
    let (code, said, errors) = run(&SMALL_CHECKSUM);
    assert_eq!((code, errors.as_str()), (0, ""));
    for expected in
        ["page checksum", "reading alone, 1 page", "scalar, 1 page", "CRC-32C of", "8192 bytes"]
    {
        assert!(said.contains(expected), "{expected}: {said}");
    }

    let report = json(&[&SMALL_CHECKSUM[..], &["--json"]].concat());
    let names =
        ["bench", "cold_bytes", "crc32c", "hot_bytes", "rounds", "touch", "variants", "version"];
    assert_eq!(fields(&report), names);
    assert_eq!((&report["bench"], &report["version"]), (&Value::from("checksum"), &Value::from(1)));
    assert_eq!(report["cold_bytes"], 1 << 20);
    let list = |name: &str| report[name].as_array().expect("a list").clone();
    for row in list("touch").iter().chain(&list("variants")) {
        assert_spread(&row["hot_bytes_per_second"]);
        assert_spread(&row["cold_bytes_per_second"]);
    }
    assert_eq!(list("variants").iter().filter(|row| row["chosen"] == true).count(), 1);
    list("crc32c").iter().for_each(|row| assert_spread(&row["bytes_per_second"]));
}

const SMALL_IO: [&str; 13] = [
    "--size",
    "1MB",
    "--seconds",
    "0.001",
    "--rounds",
    "2",
    "--io-combine-limit",
    "1,4",
    "--depths",
    "1,33",
    "--depth",
    "4",
    "--json",
];

#[test]
fn io_is_measured_by_every_method_and_nothing_is_left() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().to_str().expect("text");
    let report = json(&[&["io", path], &SMALL_IO[..]].concat());
    assert_empty(dir.path());
    let names = [
        "alignment",
        "bench",
        "block_bytes",
        "direct",
        "file_bytes",
        "filesystem",
        "methods",
        "path",
        "results",
        "rounds",
        "run_seconds",
        "version",
    ];
    assert_eq!(fields(&report), names);
    assert_eq!(
        (&report["file_bytes"], &report["block_bytes"]),
        (&Value::from(1 << 20), &Value::from(8192))
    );
    let methods = report["methods"].as_array().expect("a list");
    let usable: Vec<&str> = methods
        .iter()
        .filter(|said| said["refusal"].is_null())
        .map(|said| said["method"].as_str().expect("text"))
        .collect();
    assert!(usable.contains(&"sync") && usable.contains(&"worker"), "{methods:?}");

    let results = report["results"].as_array().expect("a list");
    for row in results {
        assert_spread(&row["bytes_per_second"]);
        assert_spread(&row["ios_per_second"]);
        let cpu = row["cpu_seconds_per_gb"]["median"].as_f64().expect("a number");
        assert!(cpu >= 0.0, "{row}");
    }
    let modes = if report["direct"]["refusal"].is_null() { 2 } else { 1 };
    let count = |table: &str| results.iter().filter(|row| row["table"] == table).count();
    for table in ["read", "write", "checksums"] {
        assert_eq!(count(table), 2 * modes * usable.len(), "{table}");
    }
    // Method sync has one I/O at a time.
    let depths = modes * (2 * usable.len() - 1);
    assert_eq!((count("read-depth"), count("write-depth")), (depths, depths));
    let alignment = report["alignment"].as_array().expect("a list");
    assert_eq!(alignment.len(), 9);
    for row in alignment {
        assert_spread(&row["buffered_bytes_per_cpu_second"]);
        assert_spread(&row["checksum_bytes_per_cpu_second"]);
        let refused = !row["direct_refusal"].is_null();
        assert_ne!(refused, !row["direct_bytes_per_second"].is_null(), "{row}");
    }
}

#[test]
fn a_file_is_only_read() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("relation");
    let bytes: Vec<u8> = (0..40 * 8192_u32).map(|n| (n * 7 % 251) as u8).collect();
    std::fs::write(&path, &bytes).expect("written");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o400)).expect("read-only");
    let (code, said, errors) = run(&[
        "io",
        path.to_str().expect("text"),
        "--seconds",
        "0.001",
        "--rounds",
        "1",
        "--depth",
        "3",
    ]);
    assert_eq!((code, errors.as_str()), (0, ""));
    assert!(
        said.contains("Sequential reads, by combine limit") && said.contains("CPU s/GB"),
        "{said}"
    );
    assert!(!said.contains("writes"), "{said}");
    assert_eq!(std::fs::read(&path).expect("there"), bytes);
    assert_eq!(dir.path().read_dir().expect("listed").count(), 1);
}

#[test]
fn nothing_is_left_after_a_kill() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command
        .args(["bench", "io", "--size", "8MB", "--seconds", "60", "--tables", "read"])
        .arg(dir.path());
    let mut child = command.stdout(Stdio::null()).spawn().expect("runs");
    // Its file is there while it has a name, and open afterwards.
    let holds = |child: u32| {
        let descriptors =
            std::fs::read_dir(format!("/proc/{child}/fd")).into_iter().flatten().flatten();
        let names = descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        names.into_iter().any(|name| {
            let name = name.to_string_lossy().into_owned();
            name.contains("forebay-bench-") && name.ends_with("(deleted)")
        })
    };
    while !holds(child.id()) {
        assert!(child.try_wait().expect("can be asked").is_none(), "it ended before it measured");
        std::thread::yield_now();
    }
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert_empty(dir.path());
}

#[test]
fn bad_options_are_one_line() {
    let dir = tempfile::tempdir().expect("a folder");
    let short = dir.path().join("short");
    std::fs::write(&short, [0; 100]).expect("written");
    let (here, short) = (dir.path().to_str().expect("text"), short.to_str().expect("text"));
    let unit = "a size is a number and B, kB, MB, GB or TB";
    for (arguments, expected) in [
        (&["io", "/nowhere/at/all"][..], "\"/nowhere/at/all\" does not exist".to_owned()),
        (&["io", "/dev/null"], "\"/dev/null\" is neither a directory nor a file".to_owned()),
        (&["io", short], format!("\"{short}\" is shorter than a page (8192 bytes)")),
        (&["io", here, "--size", "x"], format!("invalid value \"x\" for option --size: {unit}")),
        (&["io", here, "--size", "8kB"], "a file of at least 1048576 bytes is needed".to_owned()),
        (&["io", here, "--depth", "0"], "--depth must be in range 1..1024".to_owned()),
        (&["io", here, "--depths", "1,,2"], "invalid value \"\" for option --depths".to_owned()),
        (
            &["io", here, "--io-combine-limit", "129"],
            "--io-combine-limit must be in range 1..128".to_owned(),
        ),
        (
            &["io", here, "--io-method", "magic"],
            "invalid value \"magic\" for option --io-method".to_owned(),
        ),
        (
            &["io", here, "--io-direct", "wal"],
            "invalid value \"wal\" for option --io-direct".to_owned(),
        ),
        (&["io", here, "--tables", "x"], "invalid value \"x\" for option --tables".to_owned()),
        (
            &["io", here, "--seconds", "NaN"],
            "--seconds must be a number in range 0.001..3600".to_owned(),
        ),
        (&["io", here, "--rounds", "0"], "--rounds must be in range 1..1000".to_owned()),
        (&["checksum", "--size=-5"], format!("invalid value \"-5\" for option --size: {unit}")),
    ] {
        let (code, said, errors) = run(arguments);
        assert_eq!((code, said.as_str()), (1, ""), "{arguments:?}");
        assert_eq!(errors, format!("forebay bench: error: {expected}\n"));
    }
    let (code, _, errors) = run(&["io", here, "--size", "4000TB"]);
    let start = format!("forebay bench: error: there is not enough space in \"{here}\": ");
    assert!(code == 1 && errors.starts_with(&start) && errors.lines().count() == 1, "{errors}");
    let (code, _, errors) = run(&["checksum", "--size", "8000000TB"]);
    assert!(code == 1 && errors.lines().count() == 1, "{errors}");
    let (code, _, errors) = run(&["checksum", "--size", "100", "--rounds", "1"]);
    assert!(code == 1 && errors.contains("at least a page"), "{errors}");
}

/// Commands on the buffer pool, with options for a small run.
const POOL: [&[&str]; 5] = [
    &["scan", "--size", "2MB"],
    &["scan", "--size", "2MB", "--random", "--warm", "--shared-buffers", "1MB"],
    &["prewarm", "--size", "2MB", "--mode", "read"],
    &["evict", "--seconds", "0.05", "--shared-buffers", "1MB"],
    &["checkpoint", "--shared-buffers", "2MB"],
];

#[test]
fn the_pool_is_measured() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = ["-D", dir.path().to_str().expect("UTF-8"), "--rounds", "1"];
    for command in POOL {
        let (code, said, errors) = run(&[command, &place[..]].concat());
        assert_eq!((code, errors.as_str()), (0, ""), "{command:?}");
        for expected in ["medians of 1 rounds", "sync", "io_uring", "CPU s/GB"] {
            assert!(said.contains(expected), "{expected}: {said}");
        }
        let report =
            json(&[command, &place[..], &["--io-method", "sync,worker", "--json"]].concat());
        let results = report["results"].as_array().expect("a list");
        for row in results {
            assert_spread(&row["bytes_per_second"]);
            assert!(row["mean_io_bytes"].as_f64().expect("a number") >= 8192.0, "{row}");
            assert!(row["direct"] != true || row["kernel_cached_bytes"] == 0, "{row}");
        }
        assert!(results.len() >= 2, "{report}");
    }
    assert_empty(dir.path());
}

#[test]
fn a_scan_reads_as_many_blocks_as_asked() {
    let dir = tempfile::tempdir().expect("a directory");
    let place =
        ["-D", dir.path().to_str().expect("UTF-8"), "--size", "2MB", "--rounds", "1", "--json"];
    for order in [&[][..], &["--random"]] {
        let report = json(&[&["scan", "--blocks", "100"], order, &place].concat());
        for row in report["results"].as_array().expect("a list") {
            assert_spread(&row["seconds"]);
            let bytes = row["mean_io_bytes"].as_f64().expect("a number")
                * row["ios"].as_f64().expect("a number");
            assert_eq!(bytes.round(), 819_200.0, "{row}");
        }
    }
}

#[test]
fn bad_options_of_pool_benches_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = dir.path().to_str().expect("UTF-8");
    for (arguments, why) in [
        (&["scan", "-D", "/nowhere"][..], "is not a directory"),
        (&["scan", "-D", place, "--relation", "base/5/1"], "is not a data directory"),
        (&["scan", "-D", place, "--size", "1kB"], "must have 512 kB"),
        (&["prewarm", "-D", place, "--mode", "all"], "invalid value"),
        (&["evict", "-D", place, "--depth", "0"], "--depth must be in range"),
        (&["scan", "-D", place, "--blocks", "0"], "--blocks must be in range"),
    ] {
        let (code, _, errors) = run(arguments);
        assert!(code == 1 && errors.contains(why), "{arguments:?}: {errors}");
    }
    assert_empty(dir.path());
}

#[test]
fn replacement_replays_what_a_server_recorded() {
    let dir = tempfile::tempdir().expect("a folder");
    let trace = dir.path().join("init.trace");
    let setting = format!("debug_buffer_trace={}", trace.display());
    let server = super::harness::Server::with(&[&setting]);
    assert_eq!(server.value("SELECT 1"), "1");
    server.stop();
    let path = trace.to_str().expect("text");
    let report = json(&["replacement", path, "--buffers", "256", "--percents", "20", "--json"]);
    assert_eq!(fields(&report), ["bench", "results", "version"]);
    let results = report["results"].as_array().expect("a list");
    assert_eq!(results.len(), 19);
    let names = ["buffers", "outcomes", "pages", "references", "trace"];
    assert_eq!(fields(&results[18]), names);
    assert_eq!(results[18]["trace"], "init");
    for case in results {
        let outcomes = case["outcomes"].as_array().expect("a list");
        assert_eq!(outcomes.len(), 10);
        for outcome in outcomes {
            assert!(outcome["below_optimum"].as_f64().expect("a number") >= 0.0, "{case}");
        }
    }
    for (arguments, reason) in [
        (&["replacement", "--buffers", "0"][..], "there is no trace to replay"),
        (&["replacement", "--policies", "MRU"], "there is no policy \"MRU\""),
        (&["replacement", "/dev/null"], "is not a usable trace"),
    ] {
        let (code, _, errors) = run(arguments);
        assert!(code == 1 && errors.contains(reason), "{errors}");
    }
}
