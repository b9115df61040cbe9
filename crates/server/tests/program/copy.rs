//! COPY both ways.

use super::harness::{Server, failure, value};
use forebay_server::client::{Client, ClientError};

const TABLE: &str = "CREATE TABLE t (i int4, s text)";

pub fn copy_in(
    client: &mut Client,
    sql: &str,
    chunks: &[&[u8]],
) -> Result<Vec<String>, ClientError> {
    client.start_copy(sql)?;
    for chunk in chunks {
        client.copy_data(chunk)?;
    }
    Ok(client.finish_copy()?.tags)
}

#[test]
fn in_and_out_in_three_formats() {
    let server = Server::new();
    let mut client = server.client();
    client.query(TABLE).expect("runs");
    let tags =
        copy_in(&mut client, "COPY t FROM STDIN", &[b"1\ton", b"e\n2\t\\N\n", b"3\ta\\tb\n"]);
    assert_eq!(tags.expect("loads"), ["COPY 3"]);
    let csv =
        copy_in(&mut client, "COPY t FROM STDIN (FORMAT csv)", &[b"4,\"say \"\"hi\"\"\"\n5,\n"]);
    assert_eq!(csv.expect("loads"), ["COPY 2"]);

    let text = client.query("COPY t TO STDOUT").expect("copies");
    assert_eq!(text.tags, ["COPY 5"]);
    let expected = "1\tone\n2\t\\N\n3\ta\\tb\n4\tsay \"hi\"\n5\t\\N\n";
    assert_eq!(String::from_utf8_lossy(&text.copied), expected);
    let csv = client.query("COPY t TO STDOUT (FORMAT csv)").expect("copies").copied;
    assert_eq!(String::from_utf8_lossy(&csv), "1,one\n2,\n3,a\tb\n4,\"say \"\"hi\"\"\"\n5,\n");
    let binary = client.query("COPY t TO STDOUT (FORMAT binary)").expect("copies").copied;
    assert!(binary.starts_with(b"PGCOPY\n\xff\r\n\0") && binary.ends_with(&[0xff, 0xff]));

    client.query("CREATE TABLE u (i int4, s text)").expect("runs");
    // Byte by byte, so that messages are split everywhere.
    let bytes: Vec<&[u8]> = binary.chunks(1).collect();
    assert_eq!(
        copy_in(&mut client, "COPY u FROM STDIN (FORMAT binary)", &bytes).expect("loads"),
        ["COPY 5"]
    );
    assert_eq!(client.query("COPY u TO STDOUT").expect("copies").copied, expected.as_bytes());
}

#[test]
fn an_error_in_the_data_undoes_the_copy_and_keeps_in_step() {
    let server = Server::new();
    let mut client = server.client();
    client.query(TABLE).expect("runs");
    client.start_copy("COPY t FROM STDIN").expect("starts");
    client.copy_data(b"1\tgood\nbad\tbad\n").expect("sends");
    // The client has not noticed yet.
    for _ in 0..100 {
        client.copy_data(b"2\tmore\n").expect("sends");
    }
    match client.finish_copy() {
        Err(ClientError::Server(f)) => {
            assert_eq!(f.get(b'C'), "22P02", "{f:?}");
            assert_eq!(f.get(b'W'), "COPY t, line 2, column i: \"bad\"");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(value(&mut client, "SELECT count(*) FROM t"), "0");
    assert_eq!(copy_in(&mut client, "COPY t FROM STDIN", &[b"1\tx\n"]).expect("loads"), ["COPY 1"]);
}

#[test]
fn the_client_aborts_or_sends_another_message() {
    let server = Server::new();
    let mut client = server.client();
    client.query(TABLE).expect("runs");
    client.start_copy("COPY t FROM STDIN").expect("starts");
    client.copy_data(b"1\tx\n").expect("sends");
    client.send(b'f', b"no more paper\0").expect("sends");
    match client.answer() {
        Err(ClientError::Server(f)) => {
            assert_eq!(f.get(b'C'), "57014");
            assert_eq!(f.get(b'M'), "COPY from stdin failed: no more paper");
        }
        other => panic!("{other:?}"),
    }
    client.start_copy("COPY t FROM STDIN").expect("starts");
    client.send_query("SELECT 1").expect("sends");
    match client.answer() {
        Err(e) => assert_eq!(e.sqlstate(), "08P01", "{e}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(value(&mut client, "SELECT count(*) FROM t"), "0");
    assert_eq!(failure(&mut client, "COPY nowhere FROM STDIN").0, "42P01");
}

#[test]
fn nothing_of_a_vanished_clients_copy_is_seen() {
    let server = Server::new();
    let mut client = server.client();
    client.query(TABLE).expect("runs");
    for goodbye in [false, true] {
        let mut victim = server.client();
        victim.start_copy("COPY t FROM STDIN").expect("starts");
        let rows: String =
            (0..20_000).map(|i| format!("{i}\tsome text to fill pages with\n")).collect();
        victim.copy_data(rows.as_bytes()).expect("sends");
        victim.copy_data(b"20001\thalf a li").expect("sends");
        if goodbye {
            drop(victim);
        } else {
            // The socket closes without a message.
            victim.stream().shutdown(std::net::Shutdown::Both).expect("cuts");
        }
        assert_eq!(value(&mut client, "SELECT count(*) FROM t"), "0");
    }
    // The exclusive lock is free: the transactions have ended.
    client.query("DROP TABLE t").expect("drops");
}

#[test]
fn within_the_extended_protocol() {
    let server = Server::new();
    let mut client = server.client();
    client.query(TABLE).expect("runs");
    for (data, kinds) in [(&b"1\tx\n"[..], "12GCZ"), (b"bad\tx\n", "12GEZ")] {
        client.send(b'P', b"\0COPY t FROM STDIN\0\0\0").expect("sends");
        client.send(b'B', b"\0\0\0\0\0\0\0\0").expect("sends");
        client.send(b'E', b"\0\0\0\0\0").expect("sends");
        client.send(b'H', &[]).expect("sends");
        let mut got = String::new();
        while !got.ends_with('G') {
            got.push(char::from(client.receive().expect("receives").0));
        }
        client.copy_data(data).expect("sends");
        client.send(b'c', &[]).expect("sends");
        client.send(b'S', &[]).expect("sends");
        while !got.ends_with('Z') {
            got.push(char::from(client.receive().expect("receives").0));
        }
        assert_eq!(got, kinds);
    }
    assert_eq!(value(&mut client, "SELECT count(*) FROM t"), "1");
}
