//! Identities, protocol versions, pg_hba.conf, and the first messages.

use super::harness::{Server, refused, value};
use forebay_server::client::Client;
use forebay_server::wire::{PROTOCOL_3_0, PROTOCOL_3_2};
use forebay_testkit::free_port;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

#[test]
fn who_is_refused_and_how() {
    let server = Server::new();
    let refused = |parameters: &[(&str, &str)]| {
        let e = server.connect(parameters).expect_err("refused");
        (e.sqlstate().to_owned(), e.to_string())
    };
    for (parameters, state, text) in [
        (
            &[("user", "postgres"), ("database", "shop")][..],
            "3D000",
            "FATAL: database \"shop\" does not exist",
        ),
        (
            &[("user", "joe"), ("database", "postgres")],
            "28000",
            "FATAL: role \"joe\" does not exist",
        ),
        (&[("database", "postgres")], "28000", "FATAL: no PostgreSQL user name specified"),
        (
            &[("user", "postgres"), ("client_encoding", "LATIN1")],
            "22023",
            "invalid value for parameter",
        ),
        (
            &[("user", "postgres"), ("no_such", "1")],
            "42704",
            "unrecognized configuration parameter \"no_such\"",
        ),
        (&[("user", "postgres"), ("port", "1")], "55P02", "without restarting the server"),
        (&[("user", "postgres"), ("replication", "true")], "0A000", "replication"),
        (&[("user", "postgres"), ("options", "-x")], "42601", "invalid command-line argument"),
    ] {
        let (got, message) = refused(parameters);
        assert!(got == state && message.contains(text), "{parameters:?}: {message}");
    }
    assert_eq!(server.value("SELECT 1"), "1");
}

#[test]
fn what_drivers_are_told() {
    let server = Server::new();
    let parameters = [
        ("user", "postgres"),
        ("database", "postgres"),
        ("application_name", "a test"),
        ("options", r"-c extra_float_digits=3 --search_path=public"),
        ("client_encoding", "utf-8"),
    ];
    let mut client = server.connect(&parameters).expect("connects");
    let told = |name: &str| {
        client.parameters.get(name).map(String::as_str).unwrap_or_else(|| panic!("no {name}"))
    };
    assert!(told("server_version").starts_with("18."), "{}", told("server_version"));
    for (name, value) in [
        ("server_encoding", "UTF8"),
        ("client_encoding", "UTF8"),
        ("application_name", "a test"),
        ("DateStyle", "ISO, MDY"),
        ("TimeZone", "UTC"),
        ("IntervalStyle", "postgres"),
        ("integer_datetimes", "on"),
        ("standard_conforming_strings", "on"),
        ("in_hot_standby", "off"),
        ("default_transaction_read_only", "off"),
        ("is_superuser", "on"),
        ("session_authorization", "postgres"),
        ("scram_iterations", "4096"),
        ("search_path", "public"),
    ] {
        assert_eq!(told(name), value, "{name}");
    }
    assert_eq!(client.parameters.len(), 15);
    assert_eq!((client.key.len(), client.status), (4, b'I'));
    assert_eq!(value(&mut client, "SHOW extra_float_digits"), "3");
    assert_eq!(value(&mut server.unix_client(), "SELECT 1"), "1");
}

#[test]
fn protocol_versions() {
    let server = Server::new();
    let first = |version: u32, extra: &[(&str, &str)]| {
        let mut client = Client::raw(server.socket()).expect("connects");
        let parameters = [&[("user", "postgres")][..], extra].concat();
        client.send_startup(version, &parameters).expect("sends");
        let mut messages = Vec::new();
        loop {
            let message = client.receive().expect("receives");
            let end = matches!(message.0, b'Z' | b'E');
            messages.push(message);
            if end {
                return messages;
            }
        }
    };
    let key = |messages: &[(u8, Vec<u8>)]| {
        messages.iter().find(|m| m.0 == b'K').expect("a key").1.len() - 4
    };
    assert_eq!(key(&first(PROTOCOL_3_0, &[])), 4);
    let messages = first(PROTOCOL_3_2, &[]);
    assert_eq!((messages[0].0, key(&messages)), (b'R', 32));
    // A newer minor version and an unknown option are negotiated, and the session begins.
    let messages = first((3 << 16) | 9999, &[("_pq_.wish", "1")]);
    assert_eq!(messages[0].0, b'v');
    assert_eq!(
        messages[0].1,
        [&PROTOCOL_3_2.to_be_bytes()[..], &[0, 0, 0, 1], b"_pq_.wish\0"].concat()
    );
    assert_eq!(key(&messages), 32);
    let messages = first(2 << 16, &[]);
    assert_eq!(messages[0].0, b'E');
    assert!(String::from_utf8_lossy(&messages[0].1).contains("unsupported frontend protocol 2.0"));
}

#[test]
fn encryption_is_declined_and_the_session_goes_on() {
    let server = Server::new();
    for code in [80_877_103_u32, 80_877_104] {
        let stream = server.socket();
        (&stream)
            .write_all(&[&8u32.to_be_bytes()[..], &code.to_be_bytes()].concat())
            .expect("sends");
        let mut answer = [0];
        (&stream).read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"N");
        let mut client =
            Client::start(stream, &[("user", "postgres")]).expect("goes on in the clear");
        assert_eq!(value(&mut client, "SELECT 1"), "1");
    }
}

#[test]
fn too_many_connections() {
    let server = Server::with(&["max_connections=2"]);
    let (first, _second) = (server.client(), server.client());
    let parameters = [("user", "postgres")];
    let e = server.connect(&parameters).expect_err("refused");
    assert_eq!(e.sqlstate(), "53300", "{e}");
    drop(first);
    // Once the server notices that the first one has left, it refuses no more.
    while let Err(e) = server.connect(&parameters) {
        assert_eq!(e.sqlstate(), "53300", "{e}");
    }
}

#[test]
fn pg_hba_conf_is_honoured_or_refused() {
    let server = Server::new();
    let hba = server.data_dir().join("pg_hba.conf");
    assert_eq!(
        server.value("SHOW hba_file"),
        hba.canonicalize().expect("is there").display().to_string()
    );
    let refusal = |e: forebay_server::client::ClientError| (e.sqlstate().to_owned(), e.to_string());
    let connect = || server.connect(&[("user", "postgres")]);

    std::fs::write(&hba, "local all all trust\nhost all all 127.0.0.1/32 reject\n")
        .expect("written");
    let mut inside = server.unix_client();
    assert_eq!(value(&mut inside, "SELECT pg_reload_conf()"), "t");
    server.wait_for_log("received SIGHUP");
    let (state, message) = loop {
        // The records take effect shortly after that line.
        if let Err(e) = connect() {
            break refusal(e);
        }
    };
    assert_eq!(state, "28000");
    let host = "host \"127.0.0.1\", user \"postgres\", database \"postgres\", no encryption";
    assert!(message.contains(&format!("pg_hba.conf rejects connection for {host}")), "{message}");

    // A file that can't be honoured changes nothing.
    std::fs::write(&hba, "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
        .expect("written");
    assert_eq!(value(&mut inside, "SELECT pg_reload_conf()"), "t");
    server.wait_for_log("pg_hba.conf was not reloaded");
    assert_eq!(refusal(connect().expect_err("as before")).1, message);

    let data = server.data_dir();
    let folder = server.stop();
    let path = data.canonicalize().expect("is there").join("pg_hba.conf");
    let (status, log) = refused(&data, free_port(), &[]);
    assert!(!status.success());
    let line = format!(
        "FATAL:  authentication method \"scram-sha-256\" is not supported (line 2 of \
         configuration file \"{}\")",
        path.display()
    );
    assert!(log.contains(&line) && log.contains("HINT:  There is no authentication yet"), "{log}");
    std::fs::remove_file(&hba).expect("removed");
    let (_, log) = refused(&data, free_port(), &[]);
    assert!(log.contains(&format!("FATAL:  could not open file \"{}\"", path.display())), "{log}");

    let other = folder.path().join("other.conf");
    std::fs::write(&other, "local all all trust\n").expect("written");
    let server = Server::on(folder.clone(), &[&format!("hba_file={}", other.display())]);
    assert_eq!(value(&mut server.unix_client(), "SELECT 1"), "1");
    let (state, message) = refusal(server.connect(&[("user", "postgres")]).expect_err("no entry"));
    assert_eq!(
        (state.as_str(), message.contains(&format!("no pg_hba.conf entry for {host}"))),
        ("28000", true)
    );
}

#[test]
fn pg_hba_conf_is_reloaded_even_if_the_settings_are_refused() {
    let server = Server::new();
    let mut inside = server.unix_client();
    std::fs::write(server.data_dir().join("postgresql.conf"), "nonsense = 1\n").expect("written");
    let hba = "local all all trust\nhost all all all reject\n";
    std::fs::write(server.data_dir().join("pg_hba.conf"), hba).expect("written");
    assert_eq!(value(&mut inside, "SELECT pg_reload_conf()"), "t");
    server.wait_for_log("the configuration is unchanged");
    // The records take effect shortly after that line.
    let start = Instant::now();
    while server.connect(&[("user", "postgres")]).is_ok() {
        assert!(start.elapsed() < Duration::from_secs(30), "pg_hba.conf is not read");
    }
}
