//! Archives in an object store: moto's, an S3 server for tests.

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Output};
use std::sync::Arc;

use forebay_testkit::files::copy_tree;
use forebay_testkit::moto;

use crate::archive::{Fixture, code, text};
use crate::harness::{Server, value};
use crate::pitr::restored;

/// A data directory, and a bucket at an endpoint.
struct Place {
    fixture: Fixture,
    port: u16,
    url: String,
}

impl Place {
    /// With a new bucket; None, with a message, if there is no S3 server.
    fn new(test: &str) -> Option<Place> {
        let port = moto::shared(test)?;
        let url = format!("s3://{}/wal", moto::make_bucket(port));
        Some(Place { fixture: Fixture::new(), port, url })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.fixture.command(words);
        command.env("FOREBAY_ARCHIVE", &self.url);
        command
            .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port))
            .env("AWS_ALLOW_HTTP", "true");
        command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
        command.env_remove("AWS_REGION").env_remove("AWS_SESSION_TOKEN");
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("it runs")
    }

    fn push(&self, name: &str) -> Output {
        self.run(&["archive-push", &format!("pg_wal/{name}"), "--compress", "zstd"])
    }

    fn get(&self, name: &str) -> Output {
        self.run(&["archive-get", name, "pg_wal/RECOVERYXLOG"])
    }
}

#[test]
fn the_archives_commands_work_on_an_object_store() {
    let Some(place) = Place::new("the_archives_commands_work_on_an_object_store") else { return };
    let names: Vec<String> = (3..6).map(|number| place.fixture.segment(number)).collect();
    let never_used = place.get(&names[0]);
    assert_eq!(code(&never_used), 126, "{}", text(&never_used));
    for name in names.iter().chain(&names[..1]) {
        let pushed = place.push(name);
        assert_eq!((code(&pushed), text(&pushed).as_str()), (0, ""));
    }
    let restored = place.get(&names[1]);
    assert_eq!((code(&restored), text(&restored).as_str()), (0, ""));
    let wal = place.fixture.data().join("pg_wal");
    assert!(fs::read(wal.join("RECOVERYXLOG")).unwrap() == fs::read(wal.join(&names[1])).unwrap());
    fs::remove_file(wal.join("RECOVERYXLOG")).unwrap();
    for absent in ["000000010000000000000009", "00000002.history"] {
        let absent = place.get(absent);
        assert_eq!(code(&absent), 1, "{}", text(&absent));
    }
    let listed = place.run(&["archive-list"]);
    assert!(code(&listed) == 0 && text(&listed).contains(&place.url), "{}", text(&listed));
    assert!(
        text(&listed).contains(&names[0]) && text(&listed).contains(&names[2]),
        "{}",
        text(&listed)
    );
    let verified = place.run(&["archive-verify"]);
    assert!(
        code(&verified) == 0 && text(&verified).contains("0 errors, 0 notes"),
        "{}",
        text(&verified)
    );
    // There is no base backup, so nothing is removed without an explicit limit.
    assert_eq!(code(&place.run(&["archive-expire"])), 1);
    let expired = place.run(&["archive-expire", "--before", &names[1]]);
    assert!(code(&expired) == 0 && text(&expired).contains("1 files"), "{}", text(&expired));
    assert_eq!(code(&place.get(&names[0])), 1);
    assert_eq!(code(&place.get(&names[1])), 0);
    // Base backups are made into directories.
    let backup = place.run(&["backup", "-D", "."]);
    assert!(code(&backup) == 1 && text(&backup).contains("directories only"), "{}", text(&backup));
}

#[test]
fn a_store_that_is_down_never_ends_a_recovery() {
    let Some(mut place) = Place::new("a_store_that_is_down_never_ends_a_recovery") else { return };
    let name = place.fixture.segment(3);
    assert_eq!(code(&place.push(&name)), 0);
    let get = |place: &Place, variables: &[(&str, &str)]| {
        let mut command =
            place.command(&["archive-get", "000000010000000000000009", "pg_wal/RECOVERYXLOG"]);
        command.env("FOREBAY_ARCHIVE_TIMEOUT", "0.2").envs(variables.iter().copied());
        let output = command.output().expect("it runs");
        assert_eq!(code(&output), 126, "{variables:?}: {}", text(&output));
        text(&output)
    };
    let refused = get(&place, &[("AWS_ALLOW_HTTP", "false")]);
    assert!(!refused.contains("not in the archive"), "{refused}");
    get(&place, &[("FOREBAY_ARCHIVE", "s3://bucket-of-nobody/wal")]);
    get(&place, &[("FOREBAY_ARCHIVE", &format!("{}/elsewhere", place.url))]);
    get(&place, &[("FOREBAY_ARCHIVE_TIMEOUT", "soon")]);
    // Nobody listens.
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    place.port = listener.local_addr().expect("it has one").port();
    // Somebody listens, but does not answer.
    get(&place, &[]);
    drop(listener);
    get(&place, &[]);
}

#[test]
fn transfers_to_an_object_store_are_measured_and_removed() {
    let test = "transfers_to_an_object_store_are_measured_and_nothing_is_left_of_them";
    let Some(place) = Place::new(test) else { return };
    let words = [
        "bench",
        "archive",
        "--marks",
        "",
        "--segments",
        "2",
        "--transfers",
        "1,2",
        "--rounds",
        "1",
        "--json",
    ];
    let measured = place.run(&[&words[..], &["--archive", &place.url, "--alone"]].concat());
    assert_eq!(code(&measured), 0, "{}", text(&measured));
    let report: serde_json::Value = serde_json::from_slice(&measured.stdout).expect("it is JSON");
    let rates: Vec<_> = report["stores"].as_array().expect("rows").iter().collect();
    assert_eq!(rates.len(), 2, "{report}");
    assert!(
        rates.iter().all(|row| row["bytes_per_second"]["median"].as_f64() > Some(0.0)),
        "{report}"
    );
    assert_eq!(report["archive"], place.url.as_str());
    let bucket = place.url.trim_start_matches("s3://").trim_end_matches("/wal");
    let (_, listed) = moto::request(place.port, "GET", &format!("/{bucket}?list-type=2"), b"");
    assert!(
        !String::from_utf8_lossy(&listed).contains("<Key>"),
        "{}",
        String::from_utf8_lossy(&listed)
    );
}

#[test]
fn a_server_is_recovered_from_an_object_store_to_a_restore_point() {
    let Some(place) = Place::new("a_server_comes_back_from_an_object_store_to_a_restore_point")
    else {
        return;
    };
    let shell = format!(
        "FOREBAY_ARCHIVE={} FOREBAY_ARCHIVE_COMPRESS=lz4 AWS_ENDPOINT_URL=http://127.0.0.1:{} \
         AWS_ALLOW_HTTP=true \
         AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test {}",
        place.url,
        place.port,
        env!("CARGO_BIN_EXE_forebay")
    );
    let server = Server::new();
    server.client().query("CREATE TABLE t (i int4)").expect("creates");
    let folder = server.stop();
    let base = folder.path().join("base");
    copy_tree(&folder.path().join("data"), &base);
    let push = format!("archive_command={shell} archive-push %p");
    let server = Server::on(Arc::clone(&folder), &["archive_mode=on", &push]);
    let mut client = server.client();
    for i in 0..3 {
        client.query(&format!("INSERT INTO t VALUES ({i})")).expect("inserts");
        client.query("SELECT pg_switch_wal()").expect("switches");
    }
    value(&mut client, "SELECT pg_create_restore_point('here')");
    client.query("INSERT INTO t VALUES (3)").expect("inserts");
    drop(client);
    // A fast stop archives what is left.
    server.stop();
    let verified = place.run(&["archive-verify"]);
    assert!(
        code(&verified) == 0 && text(&verified).contains("0 errors, 0 notes"),
        "{}",
        text(&verified)
    );
    let get = format!("restore_command={shell} archive-get %f %p");
    for (target, count) in
        [("recovery_target_name=here", "3"), ("recovery_target_timeline=latest", "4")]
    {
        let server = Server::on(restored(&base), &[&get, "recovery_target_action=promote", target]);
        assert_eq!(server.value("SELECT count(*) FROM t"), count, "{target}");
    }
}

#[test]
fn a_server_recovers_by_itself_from_an_object_store() {
    let Some(place) = Place::new("a_server_by_itself_comes_back_from_an_object_store") else {
        return;
    };
    // A shell that sets limits can set variables as well.
    let environment = format!(
        "-n 1024 && export AWS_ENDPOINT_URL=http://127.0.0.1:{} AWS_ALLOW_HTTP=true \
         AWS_ACCESS_KEY_ID=test \
         AWS_SECRET_ACCESS_KEY=test",
        place.port
    );
    let server = Server::new();
    server.client().query("CREATE TABLE t (i int4)").expect("creates");
    let folder = server.stop();
    let base = folder.path().join("base");
    copy_tree(&folder.path().join("data"), &base);
    let location = format!("forebay_archive.location={}", place.url);
    let settings = [
        "archive_mode=on",
        "archive_library=forebay_archive",
        location.as_str(),
        "forebay_archive.compression=lz4",
        "archive_transfers=3",
    ];
    let server = Server::limited(Arc::clone(&folder), Some(&environment), &settings);
    let mut client = server.client();
    for i in 0..5 {
        client.query(&format!("INSERT INTO t VALUES ({i})")).expect("inserts");
        client.query("SELECT pg_switch_wal()").expect("switches");
    }
    drop(client);
    server.stop();
    let verified = place.run(&["archive-verify"]);
    assert!(
        code(&verified) == 0 && text(&verified).contains("0 errors, 0 notes"),
        "{}",
        text(&verified)
    );
    let settings = ["restore_library=forebay_archive", location.as_str()];
    let server = Server::limited(restored(&base), Some(&environment), &settings);
    assert_eq!(server.value("SELECT count(*) FROM t"), "5");
}
