//! The buffer pool's size follows the settings while the server runs.

use std::time::{Duration, Instant};

use crate::harness::{Server, failure, value};

fn set(server: &Server, sample: &str, line: &str) {
    let conf = server.data_dir().join("postgresql.conf");
    std::fs::write(conf, format!("{sample}\n{line}\n")).expect("written");
    server.signal("-HUP");
}

/// A server whose settings are all in its file, so that a reload can change them.
fn server() -> (Server, String) {
    let server = Server::by_its_file();
    let conf = server.data_dir().join("postgresql.conf");
    let sample = std::fs::read_to_string(conf).expect("reads");
    (server, sample)
}

#[test]
fn a_reload_changes_the_size_under_load() {
    let (server, sample) = server();
    let mut client = server.client();
    let row = "SELECT buffers FROM pg_stat_buffer_pool";
    client
        .query(
            "CREATE TABLE t (a int8, b text); INSERT INTO t SELECT g, repeat('x', 500) \
                FROM generate_series(1, 50000) AS g",
        )
        .expect("loads");
    for (size, blocks) in [("256MB", "32768"), ("20MB", "2560"), ("64MB", "8192")] {
        set(&server, &sample, &format!("shared_buffers = {size}"));
        let start = Instant::now();
        while value(&mut client, row) != blocks {
            assert_eq!(value(&mut client, "SELECT count(*) FROM t"), "50000");
            assert!(start.elapsed() < Duration::from_secs(120), "{}", value(&mut client, row));
        }
        while value(&mut client, "SHOW shared_buffers") != size {}
        assert_eq!(value(&mut client, "SELECT count(*) FROM pg_buffercache"), blocks);
        client.query("UPDATE t SET a = a + 1 WHERE a % 7 = 0").expect("updates");
    }
    server.wait_for_log("shared buffers were resized from 128 MB to 256 MB");
    assert_eq!(value(&mut client, "SELECT resizes FROM pg_stat_buffer_pool"), "3");
}

#[test]
fn a_size_beyond_the_bounds_is_told() {
    let (server, sample) = server();
    let mut client = server.client();
    assert_eq!(failure(&mut client, "SET shared_buffers = '1GB'").0, "55P02");
    set(&server, &sample, "shared_buffers = 128kB");
    server.wait_for_log("instead of 0.125 MB: a pool that was made with 16384 buffers can have");
    assert_eq!(value(&mut client, "SELECT 1"), "1");
}

#[test]
fn an_automatic_size_grows_when_it_is_too_small() {
    let (server, sample) = server();
    let mut client = server.client();
    let pool = |client: &mut _, column| {
        value(client, &format!("SELECT {column} FROM pg_stat_buffer_pool"))
    };
    assert_eq!(pool(&mut client, "automatic || ' ' || buffers"), "true 16384");
    set(&server, &sample, "shared_buffers = 16MB");
    while pool(&mut client, "automatic || ' ' || buffers") != "false 2048" {}
    client
        .query(
            "CREATE TABLE t (a int8, b text); INSERT INTO t SELECT g, repeat('x', 1000) \
                FROM generate_series(1, 30000) AS g",
        )
        .expect("loads");
    assert_eq!(pool(&mut client, "buffers"), "2048");
    set(&server, &sample, "shared_buffers = auto");
    // The table has 4286 blocks. Fewer buffers are enough only if memory is short.
    let enough = "buffers > 4286 OR memory_shortages > 0";
    let start = Instant::now();
    while pool(&mut client, enough) != "t" {
        assert_eq!(value(&mut client, "SELECT count(*) FROM t"), "30000");
        assert!(start.elapsed() < Duration::from_secs(120), "{}", pool(&mut client, "buffers"));
    }
    assert_eq!(pool(&mut client, "automatic"), "t");
    assert_eq!(pool(&mut client, "buffers BETWEEN min_buffers AND max_buffers"), "t");
}
