//! `forebay_archive` as archive_library and restore_library: its settings, its commands on what a
//! server has archived, and stops that don't wait.

use super::harness::{Server, value};
use super::pitr::{folder, until};
use forebay_testkit::files::{copy_tree, paths};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use tempfile::TempDir;

/// An archive, a key, and settings for them.
struct Store(TempDir);

impl Store {
    fn new() -> Store {
        let store = Store(tempfile::tempdir().expect("a folder"));
        std::fs::create_dir(store.archive()).expect("archive");
        store.write_key();
        store
    }

    fn archive(&self) -> PathBuf {
        self.0.path().join("archive")
    }

    fn key(&self) -> PathBuf {
        self.0.path().join("key")
    }

    fn write_key(&self) {
        std::fs::write(self.key(), "5a".repeat(32)).expect("key");
        std::fs::set_permissions(self.key(), std::fs::Permissions::from_mode(0o600)).expect("mode");
    }

    fn settings(&self) -> Vec<String> {
        vec![
            format!("forebay_archive.location={}", self.archive().display()),
            format!("forebay_archive.key_file={}", self.key().display()),
            "forebay_archive.compression=zstd".to_owned(),
            "forebay_archive.layout=hashed".to_owned(),
        ]
    }

    /// `forebay archive-verify` and the like.
    fn command(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command
            .args(words)
            .env("FOREBAY_ARCHIVE", self.archive())
            .env("FOREBAY_ARCHIVE_KEY", self.key());
        command.output().expect("it runs")
    }

    /// The server's restore_command.
    fn restore_command(&self) -> String {
        let (archive, key) = (self.archive(), self.key());
        format!(
            "restore_command={} archive-get %f %p --archive {} --encrypt {}",
            env!("CARGO_BIN_EXE_forebay"),
            archive.display(),
            key.display()
        )
    }
}

fn server_on(folder: Arc<TempDir>, settings: &[String], more: &[&str]) -> Server {
    let settings: Vec<&str> =
        settings.iter().map(String::as_str).chain(more.iter().copied()).collect();
    Server::on(folder, &settings)
}

/// A backup with an empty table, and its folder.
fn base() -> (PathBuf, Arc<TempDir>) {
    let server = Server::new();
    server.client().query("CREATE TABLE t (i int4, note text)").expect("creates");
    let folder = server.stop();
    let base = folder.path().join("base");
    copy_tree(&folder.path().join("data"), &base);
    (base, folder)
}

fn to_recover(base: &Path) -> Arc<TempDir> {
    let folder = folder();
    copy_tree(base, &folder.path().join("data"));
    std::fs::write(folder.path().join("data/recovery.signal"), "").expect("signal");
    folder
}

#[test]
fn what_a_server_archives_is_verified_and_restored_by_the_commands_and_by_a_server() {
    let (base, folder) = base();
    let store = Store::new();
    let server = server_on(
        folder,
        &store.settings(),
        &["archive_mode=on", "archive_library=forebay_archive"],
    );
    let mut client = server.client();
    for i in 0..4 {
        client.query(&format!("INSERT INTO t VALUES ({i}, 'row')")).expect("inserts");
        client.query("SELECT pg_switch_wal()").expect("switches");
    }
    until(&mut client, "SELECT archived_count FROM pg_stat_archiver", |n| n == "4");
    client.query("INSERT INTO t VALUES (4, 'row')").expect("inserts");
    drop(client);
    // A fast stop archives what is left.
    let _folder = server.stop();
    let verified = store.command(&["archive-verify"]);
    assert!(verified.status.success(), "{verified:?}");
    let listed = store.command(&["archive-list", "--json", "--long"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("it is JSON");
    assert_eq!(listed["files"].as_array().map(Vec::len), Some(5), "{listed}");
    let promote = "recovery_target_action=promote";
    let by_command = Server::on(to_recover(&base), &[&store.restore_command(), promote]);
    let by_library =
        server_on(to_recover(&base), &store.settings(), &["restore_library=forebay_archive"]);
    for server in [by_command, by_library] {
        server.wait_for_log("restored log file");
        assert_eq!(server.value("SELECT count(*) FROM t"), "5");
        let log = server.log();
        // Recovery asks for files that never existed, which is not logged.
        assert!(!log.contains("is not in the archive") && !log.contains("archive-get:"), "{log}");
        let folder = server.kill();
        assert_eq!(Server::on(folder, &[]).value("SELECT count(*) FROM t"), "5");
    }
}

#[test]
fn a_recovery_that_is_killed_between_segments_goes_on() {
    let (base, folder) = base();
    let store = Store::new();
    let server = server_on(
        folder,
        &store.settings(),
        &["archive_mode=on", "archive_library=forebay_archive"],
    );
    let mut client = server.client();
    let mut segments = Vec::new();
    for i in 0..6 {
        client.query(&format!("INSERT INTO t VALUES ({i}, 'row')")).expect("inserts");
        let at = value(&mut client, "SELECT pg_switch_wal()");
        segments.push(value(&mut client, &format!("SELECT pg_walfile_name('{at}')")));
    }
    drop(client);
    let _folder = server.stop();
    let folder = to_recover(&base);
    let library = [&store.settings()[..], &["restore_library=forebay_archive".to_owned()]].concat();
    let settings: Vec<&str> = library.iter().map(String::as_str).collect();
    // The recovery is killed before its end, however fast it is.
    let endless = [&settings[..], &["recovery_target_name=never"]].concat();
    for segment in &segments {
        let server = Server::starting(Arc::clone(&folder), &endless);
        server.wait_for_log(&format!("restored log file \"{segment}\""));
        server.kill();
    }
    let server = Server::on(folder, &settings);
    assert_eq!(server.value("SELECT count(*) FROM t"), "6");
    let left = base_names(&server.data_dir().join("pg_wal"));
    let stray = |name: &&String| name.starts_with("RECOVERY") || name.starts_with("xlogtemp");
    assert_eq!(left.iter().find(stray), None, "{left:?}");
}

#[test]
fn its_settings_change_while_the_server_runs() {
    let store = Store::new();
    let server = Server::with(&["archive_mode=on"]);
    let conf = server.data_dir().join("postgresql.conf");
    let before = std::fs::read_to_string(&conf).unwrap_or_default();
    let mut client = server.client();
    let mut reload = |lines: &[String], setting: &str, shown: &str| {
        let lines: Vec<String> = lines
            .iter()
            .map(|line| {
                let (name, value) = line.split_once('=').expect("a setting");
                format!("{name} = '{value}'")
            })
            .collect();
        std::fs::write(&conf, format!("{before}\n{}\n", lines.join("\n"))).expect("written");
        client.query("SELECT pg_reload_conf()").expect("reloads");
        until(&mut client, &format!("SHOW {setting}"), |now| now == shown);
    };
    let library = "archive_library=forebay_archive".to_owned();
    reload(std::slice::from_ref(&library), "archive_library", "forebay_archive");
    let mut other = server.client();
    other.query("CREATE TABLE t (i int4)").expect("creates");
    other.query("SELECT pg_switch_wal()").expect("switches");
    server
        .wait_for_log("yet archiving is not configured: \"forebay_archive.location\" is not set.");
    // Without its key nothing is archived unencrypted.
    std::fs::remove_file(store.key()).expect("removed");
    let all = [&store.settings()[..], &[library]].concat();
    reload(&all, "forebay_archive.compression", "zstd");
    let told = format!("could not read key file \"{}\"", store.key().display());
    server.wait_for_log(&told);
    assert_eq!(std::fs::read_dir(store.archive()).expect("archive").count(), 0);
    store.write_key();
    let more = [
        &all[..],
        &["archive_transfers=8".to_owned(), "forebay_archive.compression=lz4".to_owned()],
    ];
    reload(&more.concat(), "archive_transfers", "8");
    until(&mut other, "SELECT archived_count FROM pg_stat_archiver", |n| n == "1");
    let listed = store.command(&["archive-list", "--long"]);
    assert!(listed.status.success(), "{listed:?}");
    let stored = base_names(&store.archive());
    assert!(stored.iter().any(|name| name.ends_with(".lz4.enc")), "{stored:?}");
}

/// The names of all files below a directory.
fn base_names(dir: &Path) -> Vec<String> {
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    paths(dir).iter().map(name).collect()
}

/// A command that waits forever.
fn endless(dir: &Path) -> String {
    let fifo = dir.join("never");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs").success());
    format!("cat {}", fifo.display())
}

#[test]
fn an_immediate_stop_cuts_short_a_fast_one_that_archives() {
    let aside = tempfile::tempdir().expect("a folder");
    let command = format!("archive_command={}", endless(aside.path()));
    let mut server = Server::with(&["archive_mode=on", &command]);
    let mut client = server.client();
    client.query("CREATE TABLE t (i int4)").expect("creates");
    client.query("INSERT INTO t VALUES (1)").expect("inserts");
    drop(client);
    server.signal("-INT");
    server.wait_for_log("shutting down");
    // A new client is told that the server is shutting down.
    let refused = server.connect(&[("user", "postgres")]).expect_err("refused");
    assert_eq!(refused.sqlstate(), "57P03", "{refused}");
    server.signal("-QUIT");
    server.wait_for_log("received immediate shutdown request");
    assert_eq!(server.wait().code(), Some(1));
    let folder = Arc::clone(&server.folder);
    drop(server);
    let marks = folder.path().join("data/pg_wal/archive_status");
    assert!(base_names(&marks).iter().any(|mark| mark.ends_with(".ready")));
    // The checkpoint was made, and what was not archived is archived now.
    let store = tempfile::tempdir().expect("a store");
    let directory = format!("basic_archive.archive_directory={}", store.path().display());
    let server =
        Server::on(folder, &["archive_mode=on", "archive_library=basic_archive", &directory]);
    assert!(server.log().contains("database system was shut down at"), "{}", server.log());
    assert_eq!(server.value("SELECT count(*) FROM t"), "1");
    until(&mut server.client(), "SELECT archived_count FROM pg_stat_archiver", |n| n != "0");
}

#[test]
fn a_fast_stop_ends_recovery_from_an_archive() {
    let (base, folder) = base();
    let store = Store::new();
    let server = server_on(
        folder,
        &store.settings(),
        &["archive_mode=on", "archive_library=forebay_archive"],
    );
    server.client().query("INSERT INTO t VALUES (1, 'row')").expect("inserts");
    let _folder = server.stop();
    for signal in ["-INT", "-TERM", "-QUIT"] {
        let folder = to_recover(&base);
        let command = format!("restore_command={}", endless(folder.path()));
        let mut server = Server::starting(Arc::clone(&folder), &[&command]);
        server.wait_for_log("starting archive recovery");
        server.signal(signal);
        let status = server.wait();
        assert_eq!(status.code(), Some(i32::from(signal == "-QUIT")), "{signal}: {}", server.log());
        drop(server);
        let server = server_on(folder, &store.settings(), &["restore_library=forebay_archive"]);
        let mut client = server.client();
        assert_eq!(value(&mut client, "SELECT count(*) FROM t"), "1", "{signal}");
    }
}
