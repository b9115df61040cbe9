//! Parse, Bind, Describe, Execute, Close, Flush, Sync.

use super::harness::{Server, value};
use forebay_server::client::{Client, Fields, row};

/// Bodies of the extended protocol's messages.
pub fn parse(client: &mut Client, name: &str, sql: &str, types: &[u32]) {
    let mut body = [name.as_bytes(), b"\0", sql.as_bytes(), b"\0"].concat();
    body.extend(u16::try_from(types.len()).expect("few").to_be_bytes());
    types.iter().for_each(|t| body.extend(t.to_be_bytes()));
    client.send(b'P', &body).expect("sends");
}

pub fn bind(
    client: &mut Client,
    portal: &str,
    name: &str,
    format: u16,
    params: &[Option<&[u8]>],
    result: u16,
) {
    let mut body = [portal.as_bytes(), b"\0", name.as_bytes(), b"\0"].concat();
    body.extend([&1u16.to_be_bytes()[..], &format.to_be_bytes()].concat());
    body.extend(u16::try_from(params.len()).expect("few").to_be_bytes());
    for param in params {
        match param {
            Some(bytes) => {
                body.extend(u32::try_from(bytes.len()).expect("short").to_be_bytes());
                body.extend_from_slice(bytes);
            }
            None => body.extend((-1i32).to_be_bytes()),
        }
    }
    body.extend([&1u16.to_be_bytes()[..], &result.to_be_bytes()].concat());
    client.send(b'B', &body).expect("sends");
}

pub fn execute(client: &mut Client, portal: &str, max_rows: i32) {
    client
        .send(b'E', &[portal.as_bytes(), b"\0", &max_rows.to_be_bytes()].concat())
        .expect("sends");
}

fn describe(client: &mut Client, kind: u8, name: &str) {
    client.send(b'D', &[&[kind], name.as_bytes(), b"\0"].concat()).expect("sends");
}

pub fn close(client: &mut Client, kind: u8, name: &str) {
    client.send(b'C', &[&[kind], name.as_bytes(), b"\0"].concat()).expect("sends");
}

/// All messages up to ReadyForQuery, and their types as text.
pub fn sync(client: &mut Client) -> (String, Vec<(u8, Vec<u8>)>) {
    client.send(b'S', &[]).expect("sends");
    let mut messages = Vec::new();
    loop {
        let message = client.receive().expect("receives");
        let end = message.0 == b'Z';
        messages.push(message);
        if end {
            return (messages.iter().map(|m| char::from(m.0)).collect(), messages);
        }
    }
}

/// Types of the messages up to one of this type, with no Sync sent.
fn receive_until(client: &mut Client, kind: u8) -> String {
    let mut got = String::new();
    while !got.ends_with(char::from(kind)) {
        got.push(char::from(client.receive().expect("receives").0));
    }
    got
}

#[test]
fn an_error_is_sent_before_the_client_sends_sync() {
    let server = Server::new();
    let mut client = server.client();
    // Like asyncpg, which reads the error before it sends Sync.
    parse(&mut client, "", "SELECT nothing", &[]);
    describe(&mut client, b'S', "");
    client.send(b'H', &[]).expect("sends");
    assert_eq!(receive_until(&mut client, b'E'), "E");
    assert_eq!(sync(&mut client).0, "Z");
    parse(&mut client, "", "SELECT 1/0", &[]);
    bind(&mut client, "", "", 0, &[], 0);
    execute(&mut client, "", 0);
    assert_eq!(receive_until(&mut client, b'E').chars().next_back(), Some('E'));
    assert_eq!(sync(&mut client).0, "Z");
}

fn error(messages: &[(u8, Vec<u8>)]) -> String {
    Fields::read(&messages.iter().find(|m| m.0 == b'E').expect("an error").1).get(b'C').to_owned()
}

#[test]
fn parameters_and_results_in_both_formats() {
    let server = Server::new();
    let mut client = server.client();
    parse(&mut client, "add", "SELECT $1 + 1, $2", &[23, 25]);
    describe(&mut client, b'S', "add");
    bind(&mut client, "", "add", 0, &[Some(b"41"), Some(b"text")], 0);
    execute(&mut client, "", 0);
    bind(&mut client, "", "add", 1, &[Some(&41i32.to_be_bytes()), None], 1);
    describe(&mut client, b'P', "");
    execute(&mut client, "", 0);
    let (kinds, messages) = sync(&mut client);
    assert_eq!(kinds, "1tT2DC2TDCZ");
    assert_eq!(messages[1].1, [&[0, 2][..], &23u32.to_be_bytes(), &25u32.to_be_bytes()].concat());
    assert_eq!(row(&messages[4].1), [Some("42".to_owned()), Some("text".to_owned())]);
    assert_eq!(messages[8].1, b"\0\x02\0\0\0\x04\0\0\0\x2a\xff\xff\xff\xff");
    assert!(messages[7].1.ends_with(&[0, 1]), "the portal's columns come in binary");
    close(&mut client, b'S', "add");
    bind(&mut client, "", "add", 0, &[], 0);
    let (kinds, messages) = sync(&mut client);
    assert_eq!((kinds.as_str(), error(&messages)), ("3EZ", "26000".to_owned()));
}

#[test]
fn portals_are_suspended_and_go_on_until_sync() {
    let server = Server::new();
    let mut client = server.client();
    parse(&mut client, "", "SELECT * FROM generate_series(1, 5)", &[]);
    bind(&mut client, "p", "", 0, &[], 0);
    execute(&mut client, "p", 2);
    execute(&mut client, "p", 2);
    execute(&mut client, "p", i32::MAX);
    execute(&mut client, "p", 0);
    let (kinds, messages) = sync(&mut client);
    assert_eq!(kinds, "12DDsDDsDCCZ");
    assert_eq!(row(&messages[8].1), [Some("5".to_owned())]);
    // The implicit transaction has ended, and the portal with it.
    execute(&mut client, "p", 0);
    let (kinds, messages) = sync(&mut client);
    assert_eq!((kinds.as_str(), error(&messages)), ("EZ", "34000".to_owned()));
    // In a block the portal lives on.
    client.query("BEGIN").expect("begins");
    parse(&mut client, "", "SELECT * FROM generate_series(1, 5)", &[]);
    bind(&mut client, "p", "", 0, &[], 0);
    execute(&mut client, "p", 2);
    assert_eq!(sync(&mut client).0, "12DDsZ");
    execute(&mut client, "p", 0);
    close(&mut client, b'P', "p");
    assert_eq!(sync(&mut client).0, "DDDC3Z");
    assert_eq!(client.query("COMMIT").expect("ends").tags, ["COMMIT"]);
}

#[test]
fn after_an_error_everything_is_skipped_to_sync() {
    let server = Server::new();
    let mut client = server.client();
    client.query("CREATE TABLE t (i int4)").expect("runs");
    parse(&mut client, "", "INSERT INTO t VALUES (1)", &[]);
    bind(&mut client, "", "", 0, &[], 0);
    execute(&mut client, "", 0);
    parse(&mut client, "", "SELECT 1/0", &[]);
    bind(&mut client, "", "", 0, &[], 0);
    execute(&mut client, "", 0);
    parse(&mut client, "", "INSERT INTO t VALUES (2)", &[]);
    bind(&mut client, "", "", 0, &[], 0);
    execute(&mut client, "", 0);
    let (kinds, messages) = sync(&mut client);
    assert!(
        kinds.starts_with("12C") && kinds.ends_with("EZ") && kinds.matches('C').count() == 1,
        "{kinds}"
    );
    assert_eq!(error(&messages), "22012");
    // One transaction to the Sync: the first insert is undone as well.
    assert_eq!(value(&mut client, "SELECT count(*) FROM t"), "0");
    parse(&mut client, "", "INSERT INTO t VALUES (3)", &[]);
    bind(&mut client, "", "", 0, &[], 0);
    execute(&mut client, "", 0);
    assert_eq!(sync(&mut client).0, "12CZ");
    assert_eq!(value(&mut client, "SELECT i FROM t"), "3");
}

#[test]
fn flush_sends_all_output() {
    let server = Server::new();
    let mut client = server.client();
    parse(&mut client, "", "SELECT 7", &[]);
    client.send(b'H', &[]).expect("sends");
    assert_eq!(client.receive().expect("comes without Sync").0, b'1');
    parse(&mut client, "", "", &[]);
    bind(&mut client, "", "", 0, &[], 0);
    describe(&mut client, b'P', "");
    execute(&mut client, "", 0);
    assert_eq!(sync(&mut client).0, "12nIZ");
}

#[test]
fn short_messages_are_errors_and_do_not_end_the_session() {
    let server = Server::new();
    let mut client = server.client();
    client.send(b'B', b"\0\0\0\x05").expect("sends");
    client.send(b'E', b"p").expect("sends");
    let (kinds, messages) = sync(&mut client);
    assert_eq!((kinds.as_str(), error(&messages)), ("EZ", "08P01".to_owned()));
    assert_eq!(value(&mut client, "SELECT 1"), "1");
}
