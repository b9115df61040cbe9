//! Start, stop, kill, restart, reload.

use super::harness::{Server, refused, value};
use forebay_server::client::Client;
use forebay_testkit::free_port;
use std::process::Command;

fn fill(client: &mut Client, rows: u32) {
    client.query("CREATE TABLE t (i int4, s text)").expect("runs");
    client.start_copy("COPY t FROM STDIN").expect("starts");
    let data: String = (0..rows).map(|i| format!("{i}\trow number {i}\n")).collect();
    client.copy_data(data.as_bytes()).expect("sends");
    assert_eq!(client.finish_copy().expect("loads").tags, [format!("COPY {rows}")]);
}

#[test]
fn a_clean_stop_and_a_kill_keep_what_was_acknowledged() {
    let server = Server::new();
    fill(&mut server.client(), 30_000);
    let server = Server::on(server.stop(), &[]);
    assert_eq!(server.value("SELECT count(*) FROM t"), "30000");
    let mut client = server.client();
    client.query("INSERT INTO t VALUES (-1, 'committed')").expect("runs");
    client.query("BEGIN; INSERT INTO t VALUES (-2, 'open')").expect("runs");
    let mut loader = server.client();
    loader.start_copy("COPY t FROM STDIN").expect("starts");
    loader.copy_data("-3\topen as well\n".repeat(10_000).as_bytes()).expect("sends");
    let folder = server.kill();
    for settings in [&["io_method=worker"][..], &["io_method=sync"]] {
        let server = Server::on(folder.clone(), settings);
        assert_eq!(server.value("SELECT count(*) FROM t"), "30001");
        assert_eq!(server.value("SELECT min(i) FROM t"), "-1");
        server.kill();
    }
}

#[test]
fn an_immediate_stop_recovers_like_a_crash() {
    let mut server = Server::new();
    fill(&mut server.client(), 1000);
    server.signal("-QUIT");
    assert!(!server.wait().success());
    let folder = server.folder.clone();
    drop(server);
    assert_eq!(Server::on(folder, &[]).value("SELECT count(*) FROM t"), "1000");
}

#[test]
fn a_smart_stop_waits_for_the_last_session() {
    let mut server = Server::new();
    let mut client = server.client();
    server.signal("-TERM");
    server.wait_for_log("received smart shutdown request");
    let e = server.connect(&[("user", "postgres")]).expect_err("refused");
    assert_eq!(e.sqlstate(), "57P03", "{e}");
    assert_eq!(value(&mut client, "SELECT 1"), "1");
    drop(client);
    assert!(server.wait().success());
}

#[test]
fn a_directory_has_one_server() {
    let server = Server::new();
    let (status, log) = refused(&server.data_dir(), free_port(), &[]);
    assert!(!status.success());
    assert!(log.contains("postmaster.pid\" already exists"), "{log}");
    assert_eq!(server.value("SELECT 1"), "1");
}

#[test]
fn a_port_has_one_server() {
    let server = Server::new();
    let folder = tempfile::tempdir().expect("a folder");
    let (status, log) = refused(&folder.path().join("data"), server.port, &[]);
    assert!(!status.success());
    assert!(
        log.contains("Address already in use") && log.contains("Choose another with -p"),
        "{log}"
    );
    assert_eq!(server.value("SELECT 1"), "1");
}

#[test]
fn wrong_settings_are_refused_with_their_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let (status, log) = refused(&data, free_port(), &["shared_buffers=1"]);
    assert!(
        !status.success()
            && log.contains("1 8kB is outside the valid range for parameter \"shared_buffers\""),
        "{log}"
    );
    let (_, log) = refused(&data, free_port(), &["io_direct=tape"]);
    assert!(log.contains("invalid value for parameter \"io_direct\": \"tape\""), "{log}");
    assert!(log.contains("DETAIL:  Invalid option \"tape\"."), "{log}");
    let (_, log) = refused(&data, free_port(), &["debug_io_direct=data wal"]);
    assert!(log.contains("DETAIL:  Invalid list syntax in parameter \"io_direct\"."), "{log}");
    let conf = data.join("postgresql.conf");
    let sample = std::fs::read_to_string(&conf).expect("a new directory has a file of settings");
    std::fs::write(&conf, sample + "no_such = 1\n").expect("written");
    let lines = std::fs::read_to_string(&conf).expect("reads").lines().count();
    let (_, log) = refused(&data, free_port(), &[]);
    assert!(log.contains("unrecognized configuration parameter \"no_such\" in file"), "{log}");
    assert!(log.contains(&format!("postgresql.conf\" line {lines}")), "{log}");
    let other = folder.path().join("other");
    std::fs::create_dir(&other).expect("made");
    std::fs::write(other.join("letter.txt"), "dear").expect("written");
    let (_, log) = refused(&other, free_port(), &[]);
    assert!(log.contains("is not a data directory"), "{log}");
}

#[test]
fn a_reload_changes_what_it_can() {
    let server = Server::new();
    let mut client = server.client();
    let conf = server.data_dir().join("postgresql.conf");
    std::fs::write(&conf, "TimeZone = 'GMT'\nmax_connections = 7\n").expect("written");
    server.signal("-HUP");
    server.wait_for_log(
        "parameter \"max_connections\" cannot be changed without restarting the server",
    );
    server.wait_for_log("parameter \"TimeZone\" changed to \"GMT\"");
    // The log line comes before the settings take effect, which is at a session's next statement.
    while value(&mut client, "SHOW TimeZone") != "GMT" {}
    assert_eq!(client.parameters["TimeZone"], "GMT");
    std::fs::write(&conf, "TimeZone = \n").expect("written");
    server.signal("-HUP");
    server.wait_for_log("the configuration is unchanged");
    assert_eq!(value(&mut client, "SHOW TimeZone"), "GMT");
    assert_eq!(value(&mut client, "SHOW max_connections"), "100");
}

#[test]
fn init_makes_a_directory_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let init = || {
        let data = folder.path().join("data");
        Command::new(env!("CARGO_BIN_EXE_forebay"))
            .args(["init", "-D"])
            .arg(data)
            .output()
            .expect("runs")
    };
    let first = init();
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    assert!(String::from_utf8_lossy(&first.stdout).contains("forebay serve -D"));
    assert!(!init().status.success());
}
