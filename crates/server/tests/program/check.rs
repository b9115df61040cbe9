//! `forebay check` on a directory that a server left: what it prints, and its exit codes.

use crate::harness::Server;
use forebay_testkit::files::flip;
use std::path::Path;
use std::process::Command;

fn run(data: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    let output = command.arg("check").arg("-D").arg(data).args(arguments).output().expect("runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("exits"), text(&output.stdout), text(&output.stderr))
}

#[test]
fn findings_and_exit_codes() {
    let server = Server::new();
    let data = server.data_dir();
    let sql = "CREATE TABLE t (a int8); INSERT INTO t SELECT g FROM generate_series(1, 2000) AS g";
    server.client().query(sql).expect("a table is made");
    let (code, said, errors) = run(&data, &[]);
    assert_eq!((code, said.as_str()), (2, ""));
    assert!(errors.starts_with("forebay check: error: lock file \"postmaster.pid\""), "{errors}");
    let _folder = server.stop();

    let (code, said, errors) = run(&data, &["--jobs", "3"]);
    assert_eq!(code, 0, "{said}{errors}");
    assert!(
        said.contains(" relations, ") && said.contains(" values in TOAST tables: 0 findings\n"),
        "{said}"
    );

    // Where the values of the first row begin.
    let path = data.join("base/5/16384");
    let hoff = {
        let bytes = std::fs::read(&path).expect("readable");
        let pointer = u32::from_le_bytes(bytes[24..28].try_into().expect("a line pointer"));
        (pointer & 0x7fff) as usize + 22
    };
    flip(&path, hoff);
    let (code, said, _) = run(&data, &["--relation", "public.t"]);
    assert_eq!(code, 1, "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "heap table \"postgres.public.t\", block 0:");
    assert!(lines[1].starts_with("    page verification failed, calculated checksum "), "{said}");
    assert_eq!(lines[2], "heap table \"postgres.public.t\", block 0, offset 1:");
    let expected =
        "    tuple data should begin at byte 24, but actually begins at byte 25 (1 attribute";
    assert!(lines[3].starts_with(expected), "{said}");

    let (code, said, _) = run(&data, &["--relation", "t", "--json"]);
    assert_eq!(code, 1);
    let parsed: Vec<serde_json::Value> =
        said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&parsed[0]["relation"], &parsed[0]["block"]), (&"t".into(), &0.into()));
    assert!(parsed[0]["offset"].is_null() && parsed[1]["offset"] == 1, "{said}");
    assert_eq!(parsed.last().expect("a line")["relations"], 1);
}

#[test]
fn what_cannot_be_checked() {
    let nowhere = Path::new("/nowhere/at/all");
    let (code, _, errors) = run(nowhere, &[]);
    assert_eq!(code, 2);
    assert!(errors.starts_with("forebay check: error: could not open file \"/nowhere"), "{errors}");
    for arguments in [["--jobs", "0"], ["--io-direct", "wal"], ["--io-method", "x"]] {
        assert_eq!(run(nowhere, &arguments).0, 2, "{arguments:?}");
    }
}
