//! Garbage and absurd lengths, while another session goes on working.

use super::extended::{parse, sync};
use super::harness::{Server, failure, value};
use forebay_server::client::{Client, Fields};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::io::Read;
use std::net::Shutdown;
use std::time::Duration;

/// The error with which the server ends a session that sends these bytes.
fn last_words(server: &Server, bytes: &[u8]) -> Fields {
    let mut client = server.client();
    client.send_bytes(bytes).expect("sends");
    let mut last = Fields::default();
    while let Ok((kind, body)) = client.receive() {
        if kind == b'E' {
            last = Fields::read(&body);
        }
    }
    last
}

#[test]
fn absurd_lengths_end_the_session_with_a_reason() {
    let server = Server::new();
    let mut other = server.client();
    for bytes in [
        &b"Q\0\0\0\x00"[..],
        b"Q\0\0\0\x03",
        b"Q\x7f\xff\xff\xff",
        b"Q\xff\xff\xff\xff",
        b"d\x80\x00\x00\x00",
        b"S\x00\x01\x00\x00",
        b"E\x00\x00\x27\x11",
    ] {
        let said = last_words(&server, bytes);
        let said = (said.get(b'S'), said.get(b'C'), said.get(b'M'));
        assert_eq!(said, ("FATAL", "08P01", "invalid message length"), "{bytes:?}");
        assert_eq!(value(&mut other, "SELECT 1"), "1");
    }
    let said = last_words(&server, b"\x01\0\0\0\x04");
    assert_eq!((said.get(b'S'), said.get(b'M')), ("FATAL", "invalid frontend message type 1"));
}

#[test]
fn a_startup_packet_of_absurd_length_is_not_waited_for() {
    let server = Server::new();
    for bytes in [
        &b"\x7f\xff\xff\xff\0\x03\0\0"[..],
        b"\0\0\0\x04",
        b"\0\0\x27\x15\0\x03\0\0",
        b"GET / HTTP/1.1\r\n",
    ] {
        let mut client = Client::raw(server.socket()).expect("connects");
        client.send_bytes(bytes).expect("sends");
        let mut rest = Vec::new();
        // The server answers and closes: this ends.
        let _ = client.stream().read_to_end(&mut rest);
        assert!(rest.first().is_none_or(|kind| *kind == b'E'), "{rest:?}");
    }
    assert_eq!(server.value("SELECT 1"), "1");
}

#[test]
fn output_is_not_collected_until_sync() {
    let server = Server::new();
    let mut client = server.client();
    client.stream().set_read_timeout(Some(Duration::from_secs(20))).expect("is a socket");
    let columns = vec!["1"; 1600].join(",");
    parse(&mut client, "wide", &format!("SELECT {columns}"), &[]);
    // A megabyte of descriptions, without Sync or Flush.
    for _ in 0..30 {
        client.send(b'D', b"Swide\0").expect("sends");
    }
    assert_eq!(client.receive().expect("comes without Sync").0, b'1');
    for _ in 0..29 {
        assert_eq!(client.receive().expect("comes without Sync").0, b't');
        assert_eq!(client.receive().expect("comes without Sync").0, b'T');
    }
    assert_eq!(sync(&mut client).0, "tTZ");
    // The same for a string of many statements: their results come while the last one sleeps.
    let many = format!("SELECT {columns};").repeat(30);
    client.send_query(&format!("{many} SELECT pg_sleep(1000)")).expect("sends");
    for _ in 0..29 {
        for kind in *b"TDC" {
            assert_eq!(client.receive().expect("comes before the end").0, kind);
        }
    }
}

#[test]
fn too_many_columns_are_an_error() {
    let server = Server::new();
    let mut client = server.client();
    let wide = format!("SELECT {}", vec!["1"; 70_000].join(","));
    let (state, message) = failure(&mut client, &wide);
    assert_eq!((&*state, &*message), ("54011", "target lists can have at most 1664 entries"));
    assert_eq!(value(&mut client, "SELECT 1"), "1");
}

#[test]
fn no_statement_is_too_deep_for_a_sessions_stack() {
    let server = Server::new();
    let mut client = server.client();
    for (head, link) in [("SELECT 1", " NOTNULL"), ("SELECT 1", "+1"), ("SELECT true", " OR true")]
    {
        for n in [900, 7000, 12_000, 100_000] {
            if let Err(e) = client.query(&format!("{head}{}", link.repeat(n))) {
                assert!(e.to_string().contains("stack depth limit exceeded"), "{link} {n}: {e}");
            }
        }
    }
    assert_eq!(value(&mut client, "SELECT 1"), "1");
}

#[test]
fn random_garbage_harms_no_other_session() {
    let seed = rand::rng().random::<u64>();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let server = Server::new();
    let mut worker = server.client();
    worker.query("CREATE TABLE t (i int4)").expect("runs");
    for round in 0..200 {
        let len = random.random_range(1..3000);
        let mut bytes: Vec<u8> = (0..len).map(|_| random.random::<u8>()).collect();
        let client = if round % 2 == 0 {
            let mut client = Client::raw(server.socket()).expect("connects");
            let _ = client.send_bytes(&bytes);
            client
        } else {
            // A real session, then messages of real types with lengths that fit and bodies that do
            // not.
            let mut client = server.client();
            while bytes.len() > 40 {
                let body: Vec<u8> = bytes.drain(..random.random_range(1..40)).collect();
                let kind = *b"PBDECHSQdcf".get(random.random_range(0..11)).expect("in range");
                let _ = client.send(kind, &body);
            }
            client
        };
        let _ = client.stream().shutdown(Shutdown::Write);
        let _ = client.stream().read_to_end(&mut Vec::new());
        worker
            .query(&format!("INSERT INTO t VALUES ({round})"))
            .expect("the other session works on");
    }
    assert_eq!(value(&mut worker, "SELECT count(*) FROM t"), "200");
}

#[test]
fn a_client_that_never_reads_does_not_delay_a_stop() {
    let server = Server::new();
    let mut mute = server.client();
    mute.send_query("SELECT * FROM generate_series(1, 100000000)").expect("sends");
    let mut idle = server.client();
    assert_eq!(value(&mut idle, "SELECT 1"), "1");
    let folder = server.stop();
    match idle.receive() {
        Ok((b'E', body)) => assert_eq!(Fields::read(&body).get(b'C'), "57P01"),
        other => panic!("{other:?}"),
    }
    assert_eq!(Server::on(folder, &[]).value("SELECT 1"), "1");
}
