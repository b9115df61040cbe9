//! Autovacuum as the server runs it: its settings, what it logs, and who cancels it.

use super::harness::{Server, value};
use std::io::Write;

/// Adds lines to postgresql.conf, and has the server read it.
fn configure(server: &Server, lines: &str) {
    let path = server.data_dir().join("postgresql.conf");
    let mut file = std::fs::OpenOptions::new().append(true).open(path).expect("postgresql.conf");
    file.write_all(lines.as_bytes()).expect("written");
    server.signal("-HUP");
}

#[test]
fn autovacuum_follows_a_reload_and_gives_way() {
    let server = Server::new();
    let mut client = server.client();
    for name in ["autovacuum", "track_counts"] {
        assert_eq!(value(&mut client, &format!("SHOW {name}")), "on");
    }
    assert_eq!(value(&mut client, "SHOW autovacuum_naptime"), "1min");
    for sql in [
        "CREATE TABLE t (a int8, b text) WITH (autovacuum_vacuum_scale_factor = 0)",
        "INSERT INTO t SELECT generate_series, repeat('x', 1000) FROM generate_series(1, 900)",
        "DELETE FROM t WHERE a <= 800",
    ] {
        client.query(sql).expect(sql);
    }
    configure(&server, "autovacuum_naptime = 1s\nlog_autovacuum_min_duration = 0\n");
    let line = server.wait_for_log("automatic vacuum of table \"postgres.public.t\"");
    assert!(line.contains("LOG:") && line.contains("index scans: 0"), "{line}");
    server.wait_for_log("automatic analyze of table \"postgres.public.t\"");
    for (column, expected) in [
        ("n_live_tup", "100"),
        ("n_dead_tup", "0"),
        ("autovacuum_count", "1"),
        ("vacuum_count", "0"),
    ] {
        let sql = format!("SELECT {column} FROM pg_stat_user_tables WHERE relname = 't'");
        assert_eq!(value(&mut client, &sql), expected, "{column}");
    }

    // It rests after each page, and so has its lock for a minute.
    configure(&server, "autovacuum_vacuum_cost_delay = 100ms\nautovacuum_vacuum_cost_limit = 1\n");
    client.query("SET deadlock_timeout = '10ms'").expect("set");
    client
        .query(
            "INSERT INTO t SELECT generate_series, repeat('x', 1000) FROM generate_series(1, 900)",
        )
        .expect("inserts");
    client.query("DELETE FROM t").expect("deletes");
    let working = "SELECT count(*) FROM pg_locks WHERE mode = 'ShareUpdateExclusiveLock'";
    while value(&mut client, working) == "0" {
        std::thread::yield_now();
    }
    client.query("TRUNCATE t").expect("the worker gives way");
    let line = server.wait_for_log("canceling autovacuum task");
    assert!(line.contains("ERROR:"), "{line}");
    server.wait_for_log("CONTEXT:  automatic vacuum of table \"postgres.public.t\"");
    drop(client);
    server.stop();
}
