//! Simple queries, transactions, settings.

use super::harness::{Server, failure, value};
use forebay_server::client::ClientError;

#[test]
fn several_statements_are_one_transaction() {
    let server = Server::new();
    let mut client = server.client();
    let answer = client
        .query("CREATE TABLE t (i int4); INSERT INTO t VALUES (1), (2); SELECT count(*) FROM t");
    let answer = answer.expect("runs");
    assert_eq!(answer.tags, ["CREATE TABLE", "INSERT 0 2", "SELECT 1"]);
    assert_eq!(answer.value(), Some("2"));
    let (state, _) =
        failure(&mut client, "INSERT INTO t VALUES (3); SELECT 1/0; INSERT INTO t VALUES (4)");
    assert_eq!(state, "22012");
    assert_eq!(value(&mut client, "SELECT count(*) FROM t"), "2");
    assert!(client.query("").expect("nothing to do").tags.is_empty());
    assert!(client.query(" ; ").is_ok());
}

#[test]
fn errors_have_positions_and_states() {
    let server = Server::new();
    let mut client = server.client();
    for (sql, state, position) in [
        ("SELECT 1; SELEC 2", "42601", "11"),
        ("SELECT * FROM nowhere", "42P01", "15"),
        ("SELECT \u{e4}\u{f6} FROM pg_class", "42703", "8"),
    ] {
        match client.query(sql) {
            Err(ClientError::Server(f)) => {
                assert_eq!((f.get(b'C'), f.get(b'P')), (state, position), "{sql}: {f:?}");
                assert_eq!((f.get(b'S'), f.get(b'V')), ("ERROR", "ERROR"));
            }
            other => panic!("{sql}: {other:?}"),
        }
        assert_eq!(client.status, b'I');
    }
}

#[test]
fn an_error_of_a_column_names_it() {
    let server = Server::new();
    let mut client = server.client();
    client.query("CREATE TABLE t (a int4, b int4 NOT NULL)").expect("runs");
    match client.query("INSERT INTO t VALUES (1, NULL)") {
        Err(ClientError::Server(f)) => {
            assert_eq!((f.get(b'C'), f.get(b'D')), ("23502", "Failing row contains (1, null)."));
            assert_eq!((f.get(b's'), f.get(b't'), f.get(b'c')), ("public", "t", "b"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn floats_are_exact_unless_fewer_digits_are_asked_for() {
    let server = Server::new();
    let mut client = server.client();
    client.query("SET extra_float_digits = 3").expect("as drivers do");
    assert_eq!(value(&mut client, "SELECT 0.1::float8 + 0.2::float8"), "0.30000000000000004");
    client.query("SET extra_float_digits = 0").expect("a setting");
    assert_eq!(value(&mut client, "SELECT 0.1::float8 + 0.2::float8"), "0.3");
    assert_eq!(failure(&mut client, "SET extra_float_digits = 4").0, "22023");
}

#[test]
fn blocks_and_their_status() {
    let server = Server::new();
    let mut client = server.client();
    client.query("CREATE TABLE t (i int4)").expect("runs");
    client.query("BEGIN").expect("runs");
    assert_eq!(client.status, b'T');
    client.query("INSERT INTO t VALUES (1)").expect("runs");
    failure(&mut client, "SELECT nothing");
    assert_eq!(client.status, b'E');
    assert_eq!(failure(&mut client, "SELECT 1").0, "25P02");
    assert_eq!(client.query("COMMIT").expect("ends").tags, ["ROLLBACK"]);
    assert_eq!(client.status, b'I');
    assert_eq!(value(&mut client, "SELECT count(*) FROM t"), "0");
    client.query("BEGIN; INSERT INTO t VALUES (1)").expect("runs");
    assert_eq!(server.value("SELECT count(*) FROM t"), "0");
    client.query("COMMIT").expect("runs");
    assert_eq!(server.value("SELECT count(*) FROM t"), "1");
}

#[test]
fn a_client_that_leaves_within_a_transaction_leaves_nothing() {
    let server = Server::new();
    server.client().query("CREATE TABLE t (i int4)").expect("runs");
    let mut client = server.client();
    client.query("BEGIN; INSERT INTO t VALUES (1)").expect("runs");
    drop(client);
    assert_eq!(server.value("SELECT count(*) FROM t"), "0");
}

#[test]
fn settings_are_shown_set_and_undone() {
    let server = Server::new();
    let mut client = server.client();
    assert_eq!(value(&mut client, "SHOW shared_buffers"), "4MB");
    assert_eq!(value(&mut client, "SHOW server_encoding"), "UTF8");
    client.query("SET application_name = 'changed'").expect("sets");
    assert_eq!(client.parameters["application_name"], "changed");
    client.query("BEGIN; SET application_name = 'undone'").expect("sets");
    assert_eq!(client.parameters["application_name"], "undone");
    client.query("ROLLBACK").expect("ends");
    assert_eq!(client.parameters["application_name"], "changed");
    client.query("BEGIN; SET LOCAL extra_float_digits = 3; COMMIT").expect("sets");
    assert_eq!(value(&mut client, "SHOW extra_float_digits"), "1");
    client.query("RESET application_name").expect("resets");
    assert_eq!(client.parameters["application_name"], "");
    assert_eq!(failure(&mut client, "SET shared_buffers = '1GB'").0, "55P02");
    assert_eq!(failure(&mut client, "SET no_such = 1").0, "42704");
    assert_eq!(failure(&mut client, "SHOW no_such").0, "42704");
    let (state, message) = failure(&mut client, "SET effective_io_concurrency = 5000");
    assert_eq!(state, "22023");
    assert_eq!(
        message,
        "5000 is outside the valid range for parameter \"effective_io_concurrency\" (0 .. 1000)"
    );
}

#[test]
fn savepoints_bring_settings_back_and_the_client_is_told() {
    let server = Server::new();
    let mut client = server.client();
    let set = |name| format!("SET application_name = '{name}'");
    client.query(&format!("BEGIN; {}; SAVEPOINT a; {}", set("outer"), set("inner"))).expect("runs");
    assert_eq!(client.parameters["application_name"], "inner");
    failure(&mut client, "SELECT nothing");
    assert_eq!((client.parameters["application_name"].as_str(), client.status), ("outer", b'E'));
    assert_eq!(failure(&mut client, "ROLLBACK TO b").0, "3B001");
    assert_eq!(client.query("ROLLBACK TO a").expect("runs").tags, ["ROLLBACK"]);
    assert_eq!(client.status, b'T');
    client.query(&format!("{}; RELEASE a", set("kept"))).expect("runs");
    client.query("COMMIT").expect("runs");
    assert_eq!(client.parameters["application_name"], "kept");
}

#[test]
fn transactions_begin_in_the_modes_that_are_set() {
    let server = Server::with(&["default_transaction_isolation=repeatable read"]);
    let mut client = server.client();
    assert_eq!(value(&mut client, "SHOW transaction_isolation"), "repeatable read");
    let shown = "SELECT setting FROM pg_settings WHERE name = 'transaction_read_only'";
    assert_eq!(value(&mut client, shown), "off");
    client.query("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY").expect("sets");
    assert_eq!(client.parameters["default_transaction_read_only"], "on");
    assert_eq!(value(&mut client, shown), "on");
    assert_eq!(failure(&mut client, "CREATE TABLE t (i int4)").0, "25006");
    client.query("BEGIN READ WRITE; CREATE TABLE t (i int4); COMMIT").expect("runs");
    let serializable = "SET default_transaction_isolation = serializable";
    assert_eq!(failure(&mut client, serializable).0, "22023");
}

#[test]
fn a_large_result_streams() {
    let server = Server::new();
    let mut client = server.client();
    let answer = client.query("SELECT * FROM generate_series(1, 200000)").expect("runs");
    assert_eq!(
        (answer.rows.len(), answer.tags.as_slice()),
        (200_000, &["SELECT 200000".to_owned()][..])
    );
    assert_eq!(answer.rows[199_999], [Some("200000".to_owned())]);
}

/// RESET ALL leaves the roles alone; DISCARD ALL does not.
#[test]
fn roles_are_reset_by_discard_all_only() {
    let server = Server::new();
    let mut client = server.client();
    const ROLES: &str = "SELECT current_user || ' ' || session_user";
    client.query("CREATE ROLE su SUPERUSER LOGIN").expect("creates");
    client.query("SET ROLE su").expect("sets");
    assert_eq!(value(&mut client, ROLES), "su postgres");
    client.query("RESET ALL").expect("resets");
    assert_eq!(value(&mut client, ROLES), "su postgres");
    client.query("SET SESSION AUTHORIZATION su; RESET ALL").expect("sets");
    assert_eq!(value(&mut client, ROLES), "su su");
    assert_eq!(value(&mut client, "SHOW session_authorization"), "su");
    client.query("DISCARD ALL").expect("discards");
    assert_eq!(value(&mut client, ROLES), "postgres postgres");
    client.query("CREATE ROLE plain; SET ROLE plain").expect("sets");
    assert_eq!(failure(&mut client, "SET zero_damaged_pages = on").0, "42501");
    assert_eq!(failure(&mut client, "SELECT pg_reload_conf()").0, "0A000");
}
