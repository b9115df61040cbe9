//! `forebay checksums` on a directory that a server left.

use crate::harness::Server;
use forebay_testkit::process::Child;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::Signal;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn run(data: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    let output: Output =
        command.arg("checksums").arg("-D").arg(data).args(arguments).output().expect("runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("exits"), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_probe_for_direct_io_that_a_crash_has_left_is_ignored() {
    let folder = Server::new().stop();
    let data = folder.path().join("data");
    std::fs::write(data.join("base").join(forebay_aio::PROBE), b"left").expect("writable");
    let (code, said, errors) = run(&data, &["--check"]);
    assert!(code == 0 && said.contains("Bad checksums:  0\n"), "{said}{errors}");
}

fn largest_file(dir: &Path) -> PathBuf {
    let entries = dir.read_dir().expect("listed").map(|entry| entry.expect("an entry"));
    let largest = entries.max_by_key(|entry| entry.metadata().expect("there").len());
    largest.expect("files are there").path()
}

#[test]
fn damage_is_named_and_checksums_are_enabled_and_disabled() {
    let server = Server::new();
    let data = server.data_dir();
    let sql = "CREATE TABLE t (a int8); INSERT INTO t SELECT g FROM generate_series(1, 20000) AS g";
    server.client().query(sql).expect("a table is made");
    let (code, _, errors) = run(&data, &["--check"]);
    assert_eq!(code, 1);
    assert!(
        errors.starts_with("forebay checksums: error: cluster must be shut down\n"),
        "{errors}"
    );
    let folder = server.stop();

    let (code, said, errors) = run(&data, &["--check", "--progress"]);
    assert_eq!(code, 0);
    let shown: Vec<&str> = errors.lines().collect();
    assert!(shown.len() >= 2 && shown[0].ends_with(" MB (0%) computed"), "{errors}");
    assert!(shown[shown.len() - 1].ends_with(" MB (100%) computed"), "{errors}");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "Checksum operation completed");
    assert!(
        lines[1].starts_with("Files scanned:   ") && lines[2].starts_with("Blocks scanned:  "),
        "{said}"
    );
    assert_eq!(lines[3..], ["Bad checksums:  0", "Data checksum version: 1"]);
    assert_eq!(
        run(&data, &["--enable"]).2,
        "forebay checksums: error: data checksums are already enabled in cluster\n"
    );

    let steps =
        "forebay checksums: syncing data directory\nforebay checksums: updating control file\n";
    assert_eq!(
        run(&data, &["--disable"]),
        (0, "Checksums disabled in cluster\n".into(), steps.into())
    );
    let file = largest_file(&data.join("base/5"));
    let mut bytes = std::fs::read(&file).expect("readable");
    bytes[3 * 8192 + 8000] ^= 1;
    std::fs::write(&file, &bytes).expect("writable");
    let (code, said, errors) =
        run(&data, &["--enable", "--io-method", "sync", "--io-direct", "data"]);
    assert_eq!((code, errors.lines().count()), (0, 2), "{errors}");
    assert!(
        said.contains("Blocks written: 1\n") && said.ends_with("Checksums enabled in cluster\n"),
        "{said}"
    );

    bytes = std::fs::read(&file).expect("readable");
    bytes[2 * 8192 + 8000] ^= 1;
    std::fs::write(&file, &bytes).expect("writable");
    let (code, said, errors) = run(&data, &["--check"]);
    assert!(code == 1 && said.contains("Bad checksums:  1\n"), "{said}");
    let start = format!(
        "forebay checksums: error: checksum verification failed in file \"{}\", block 2: \
         calculated checksum ",
        file.display()
    );
    assert!(errors.starts_with(&start), "{errors}");
    bytes[2 * 8192 + 8000] ^= 1;
    bytes[3 * 8192 + 8000] ^= 1;
    std::fs::write(&file, &bytes).expect("writable");
    drop(folder);
}

#[test]
fn bad_options_are_one_line() {
    let nowhere = Path::new("/nowhere/at/all");
    for (arguments, expected) in [
        (&["-f", "x"][..], "invalid value \"x\" for option -f/--filenode"),
        (&["-f", "99999999999999999999999"], "-f/--filenode must be in range 0..2147483647"),
        (&["-f", "-1"], "-f/--filenode must be in range 0..2147483647"),
        (&["--sync-method=x"], "unrecognized sync method: x"),
        (&["--io-combine-limit", "0"], "--io-combine-limit must be in range 1..128"),
        (&["--io-method", "magic"], "invalid value \"magic\" for option --io-method"),
        (
            &["--io-direct", "wal"],
            "invalid value \"wal\" for option --io-direct: Only \"data\" is read.",
        ),
        (
            &["--io-direct", "tape"],
            "invalid value \"tape\" for option --io-direct: Invalid option \"tape\".",
        ),
        (
            &[],
            "could not open file \"/nowhere/at/all/global/pg_control\" for reading: No such file \
             or directory",
        ),
    ] {
        let (code, said, errors) = run(nowhere, arguments);
        assert_eq!((code, said.as_str()), (1, ""), "{arguments:?}");
        assert_eq!(errors, format!("forebay checksums: error: {expected}\n"));
    }
    let hint = "forebay checksums: hint: Try \"forebay checksums --help\" for more information.\n";
    for (arguments, expected) in [
        (&["-e", "-f", "1"][..], "option -f/--filenode can only be used with --check"),
        (&["/elsewhere"], "too many command-line arguments (first is \"/elsewhere\")"),
        (&["--bogus"], "unexpected argument '--bogus' found"),
    ] {
        let (code, said, errors) = run(nowhere, arguments);
        assert_eq!((code, said.as_str()), (1, ""), "{arguments:?}");
        assert_eq!(errors, format!("forebay checksums: error: {expected}\n{hint}"));
    }
}

/// Closed outputs cause no panic, and the exit code is the same.
#[test]
fn closed_outputs_change_nothing() {
    let server = Server::new();
    let data = server.data_dir();
    let folder = server.stop();
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(["checksums", "-vP"]).arg(&data);
    let full =
        || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full is there");
    let status = command.stdout(full()).stderr(full()).status().expect("runs");
    assert_eq!(status.code(), Some(0));
    drop(folder);
}

/// A signal ends it although it waits for a full pipe that nobody reads, started from a shell or
/// from a background job.
#[test]
fn a_signal_ends_it_while_nobody_reads() {
    let server = Server::new();
    let data = server.data_dir();
    let _folder = server.stop();
    for signal in [Signal::INT, Signal::TERM] {
        let (_unread, mut pipe) = std::io::pipe().expect("a pipe");
        let flags = fcntl_getfl(&pipe).expect("flags");
        fcntl_setfl(&pipe, flags | OFlags::NONBLOCK).expect("set");
        while pipe.write(&[b'.'; 4096]).is_ok() {}
        fcntl_setfl(&pipe, flags).expect("set");
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(["checksums", "--verbose", "-D"]).arg(&data).stdout(Stdio::null());
        let mut child = Child::spawn_with(&mut command, pipe.into());
        // The system call it waits in, and its first argument: standard error.
        let call = format!("/proc/{}/syscall", child.id());
        let writes = |call: &str| call.split(' ').nth(1) == Some("0x2");
        while !writes(&std::fs::read_to_string(&call).expect("it runs")) {
            std::thread::yield_now();
        }
        child.signal(&format!("-{}", signal.as_raw()));
        assert_eq!(child.wait().signal(), Some(signal.as_raw()));
    }
}
