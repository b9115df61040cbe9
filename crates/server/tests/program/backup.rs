//! Base backups of a running server: the program, and the functions it uses.

use super::harness::{PROGRAM, Server, failure, forebay, value};
use forebay_testkit::process;
use std::path::Path;
use std::process::Command;

fn must(words: &[&str]) -> String {
    process::must(Command::new(PROGRAM).args(words))
}

fn refused(words: &[&str]) -> String {
    let output = forebay(words);
    assert_eq!(output.status.code(), Some(1), "{words:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn a_backup_of_a_running_server_is_listed_and_restored() {
    let server = Server::new();
    let mut client = server.client();
    client.query("CREATE TABLE t (id int8); INSERT INTO t VALUES (1), (2), (3)").expect("rows");
    let (data, archive) = (server.data_dir(), server.folder.path().join("archive"));
    let (data, archive) = (text(&data), text(&archive));
    assert!(refused(&["backup", "-D", data, "--archive", archive]).contains("does not exist"));
    std::fs::create_dir(archive).expect("a folder");
    let mut keyed = Command::new(PROGRAM);
    keyed
        .args(["backup", "-D", data, "--archive", archive])
        .env("FOREBAY_ARCHIVE_KEY", "/some/key");
    let told = keyed.output().expect("forebay runs");
    assert!(String::from_utf8_lossy(&told.stderr).contains("can't be encrypted"), "{told:?}");
    // The server is found by its lock file.
    let said =
        must(&["backup", "-D", data, "--archive", archive, "--name", "one", "-l", "it's one"]);
    assert!(said.starts_with("backup one: "), "{said}");
    client.query("INSERT INTO t VALUES (4)").expect("a row");
    // Or by a connection, which tells its directory.
    let connection = format!("host=127.0.0.1 port={}", server.port);
    must(&[
        "backup",
        "-d",
        &connection,
        "--archive",
        archive,
        "--name",
        "two",
        "--checkpoint",
        "spread",
    ]);
    let listed = must(&["backup", "--list", "--archive", archive]);
    let names: Vec<&str> =
        listed.lines().skip(1).filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(names, ["one", "two"], "{listed}");
    assert!(listed.contains("\tit's one"), "{listed}");

    let folder = std::sync::Arc::new(tempfile::tempdir().expect("a folder"));
    let to = folder.path().join("data");
    let words = ["restore", "-D", text(&to), "--archive", archive, "--standalone"];
    must(&[&words[..], &["--backup", "one"]].concat());
    assert!(refused(&words).contains("not empty"));
    drop(client);
    server.stop();
    let restored = Server::on(folder, &[]);
    assert_eq!(restored.value("SELECT sum(id) FROM t"), "6");
}

#[test]
fn settings_of_a_restored_directory() {
    let server = Server::new();
    let folder = server.stop();
    let archive = folder.path().join("my archive");
    std::fs::create_dir(&archive).expect("a folder");
    let data = folder.path().join("data");
    must(&["backup", "-D", text(&data), "--archive", text(&archive)]);
    let to = folder.path().join("to");
    let words = ["restore", "-D", text(&to), "--archive", text(&archive)];
    must(&[&words[..], &["--target-name", "it's here", "--target-timeline", "current"]].concat());
    assert_eq!(std::fs::read(to.join("recovery.signal")).expect("a file"), b"");
    let conf = std::fs::read_to_string(to.join("postgresql.auto.conf")).expect("a file");
    let get = format!(" archive-get --archive ''{}'' %f %p'\n", archive.display());
    assert!(conf.contains(&get), "{conf}");
    for line in [
        "recovery_target_name = 'it''s here'\n",
        "recovery_target_timeline = 'current'\n",
        "recovery_target_action = 'promote'\n",
    ] {
        assert!(conf.contains(line), "{line}{conf}");
    }
}

#[test]
fn the_functions_of_a_backup() {
    let server = Server::new();
    let mut client = server.client();
    let none = failure(&mut client, "SELECT pg_backup_stop()");
    assert_eq!(none, ("55000".to_owned(), "backup is not in progress".to_owned()));
    let start = value(&mut client, "SELECT pg_backup_start('mine', true)");
    let again = failure(&mut client, "SELECT pg_backup_start('mine', true)");
    assert_eq!(again.1, "a backup is already in progress in this session");
    let answer = client.query("SELECT * FROM pg_backup_stop(false)").expect("a row");
    let [row] = answer.rows.as_slice() else { panic!("{answer:?}") };
    let [Some(lsn), Some(label), Some(map)] = row.as_slice() else { panic!("{row:?}") };
    assert_eq!(value(&mut client, &format!("SELECT '{lsn}'::pg_lsn > '{start}'::pg_lsn")), "t");
    assert!(
        label.starts_with(&format!("START WAL LOCATION: {start} (file 0000000100000000")),
        "{label}"
    );
    assert!(label.contains("\nBACKUP METHOD: streamed\nBACKUP FROM: primary\n"), "{label}");
    assert_eq!(map, "");
    // A backup ends with its session.
    value(&mut client, "SELECT pg_backup_start('lost')");
    drop(client);
    server.wait_for_log("aborting backup due to backend exiting before pg_backup_stop was called");
}

#[test]
fn pg_control_system_identifies_the_cluster() {
    let server = Server::new();
    let control = std::fs::read(server.data_dir().join("global/pg_control")).expect("a file");
    let id = i64::from_le_bytes(*control.first_chunk().expect("a file of pg_control's size"));
    let mut client = server.client();
    assert_eq!(
        value(&mut client, "SELECT system_identifier FROM pg_control_system()"),
        id.to_string()
    );
    assert_eq!(value(&mut client, "SELECT pg_control_version FROM pg_control_system()"), "1800");
    let modified = value(&mut client, "SELECT pg_control_last_modified FROM pg_control_system()");
    assert!(modified.starts_with("20"), "{modified}");
}
