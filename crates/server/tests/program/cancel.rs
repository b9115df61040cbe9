//! Cancel requests and timeouts.

use super::extended::{bind, execute, parse, sync};
use super::harness::{Server, failure, value};
use forebay_server::client::{ClientError, Fields, cancel};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Runs for minutes unless it is cancelled.
const LONG: &str = "SELECT count(*) FROM generate_series(1, 100000000000)";

#[test]
fn a_cancel_stops_the_statement_and_not_the_session() {
    let server = Server::new();
    let mut client = server.client();
    let mut other = server.client();
    client.send_query(LONG).expect("sends");
    let (pid, key) = (client.pid, client.key.clone());
    let done = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            // A cancel has no effect before the statement has begun, so it is repeated until there
            // is an answer.
            while !done.load(Ordering::Relaxed) {
                cancel(server.port, pid, &key).expect("asks");
            }
        });
        let result = client.answer();
        done.store(true, Ordering::Relaxed);
        result
    });
    match result {
        Err(ClientError::Server(f)) => {
            assert_eq!(f.get(b'C'), "57014");
            assert_eq!(f.get(b'M'), "canceling statement due to user request");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(value(&mut client, "SELECT 1"), "1");
    assert_eq!(value(&mut other, "SELECT 1"), "1");
}

#[test]
fn a_wrong_key_cancels_nothing() {
    let server = Server::new();
    let mut client = server.client();
    client.query("SET statement_timeout = '300ms'").expect("sets");
    client.send_query(LONG).expect("sends");
    let wrong: Vec<u8> = client.key.iter().map(|b| !b).collect();
    cancel(server.port, client.pid, &wrong).expect("asks");
    server.wait_for_log("wrong key in cancel request");
    match client.answer() {
        Err(e) => assert!(e.to_string().contains("statement timeout"), "{e}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn statement_timeout() {
    let server = Server::new();
    let mut client = server.client();
    client.query("SET statement_timeout = '20ms'").expect("sets");
    let (state, message) = failure(&mut client, LONG);
    assert_eq!(
        (state.as_str(), message.as_str()),
        ("57014", "canceling statement due to statement timeout")
    );
    assert_eq!(value(&mut client, "SELECT 1"), "1");
    client.query("SET statement_timeout = 0").expect("sets");
}

#[test]
fn lock_timeout() {
    let server = Server::new();
    let (mut holder, mut client) = (server.client(), server.client());
    holder.query("CREATE TABLE t (i int4)").expect("runs");
    holder.query("BEGIN; LOCK t").expect("runs");
    client.query("SET lock_timeout = '10ms'").expect("sets");
    let (state, message) = failure(&mut client, "INSERT INTO t VALUES (1)");
    assert_eq!(
        (state.as_str(), message.as_str()),
        ("55P03", "canceling statement due to lock timeout")
    );
    holder.query("COMMIT").expect("runs");
    client.query("INSERT INTO t VALUES (1)").expect("runs");
}

#[test]
fn sessions_that_are_idle_too_long_are_told_and_ended() {
    let server = Server::new();
    for (sql, state, what) in [
        ("SET idle_session_timeout = 10", "57P05", "idle-session"),
        ("BEGIN; SET idle_in_transaction_session_timeout = 10", "25P03", "idle-in-transaction"),
    ] {
        let mut client = server.client();
        client.query(sql).expect("sets");
        match client.receive() {
            Ok((b'E', body)) => {
                let fields = Fields::read(&body);
                let message = format!("terminating connection due to {what} timeout");
                assert_eq!((fields.get(b'S'), fields.get(b'C')), ("FATAL", state));
                assert_eq!(fields.get(b'M'), message);
            }
            other => panic!("{other:?}"),
        }
        assert!(client.receive().is_err());
    }
    assert_eq!(server.value("SELECT count(*) FROM pg_locks WHERE pid <> pg_backend_pid()"), "0");
}

#[test]
fn statement_timeout_of_a_statement_that_is_long_to_plan() {
    let server = Server::new();
    let mut client = server.client();
    client.query("SET statement_timeout = '1ms'").expect("sets");
    let long = format!("SELECT 1 IN ({}1)", "1, ".repeat(300_000));
    parse(&mut client, "", &long, &[]);
    let (kinds, messages) = sync(&mut client);
    let error =
        messages.iter().find(|m| m.0 == b'E').unwrap_or_else(|| panic!("no error: {kinds}"));
    assert!(Fields::read(&error.1).get(b'M').contains("statement timeout"));
    // Nothing more in that session: on a busy machine a millisecond is too short for any statement.
    assert_eq!(server.value(&long), "t");
}

#[test]
fn statement_timeout_between_two_messages() {
    let server = Server::new();
    let mut client = server.client();
    client.stream().set_read_timeout(Some(Duration::from_secs(60))).expect("is a socket");
    client.query("SET statement_timeout = '50ms'").expect("sets");
    parse(&mut client, "", LONG, &[]);
    client.send(b'H', &[]).expect("sends");
    assert_eq!(client.receive().expect("an answer").0, b'1');
    server.value("SELECT pg_sleep(0.5)");
    bind(&mut client, "", "", 0, &[], 0);
    execute(&mut client, "", 0);
    let (kinds, messages) = sync(&mut client);
    let error =
        messages.iter().find(|m| m.0 == b'E').unwrap_or_else(|| panic!("no error: {kinds}"));
    assert!(Fields::read(&error.1).get(b'M').contains("statement timeout"));
}
