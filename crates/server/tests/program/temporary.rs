//! Temporary tables: their buffers and their files.

use super::harness::{Server, failure, value};
use std::path::Path;
use std::sync::Arc;

const FILL: &str =
    "INSERT INTO t SELECT generate_series, repeat('x', 1000) FROM generate_series(1, 20000)";
const SUMS: &str = "SELECT count(*) || ' ' || sum(a) FROM t";

/// Files of temporary tables in a data directory.
fn files(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder.join("data/base/5")).expect("a directory");
    let names =
        names.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with('t')).collect()
}

#[test]
fn temp_buffers_counts_until_the_first_use() {
    let server = Server::new();
    let mut client = server.client();
    assert_eq!(value(&mut client, "SHOW temp_buffers"), "8MB");
    let (state, message) = failure(&mut client, "SET temp_buffers = 99");
    assert_eq!(state, "22023");
    assert_eq!(
        message,
        "99 8kB is outside the valid range for parameter \"temp_buffers\" (100 8kB .. 1073741823 \
         8kB)"
    );
    client.query("CREATE TEMP TABLE e (a int)").expect("creates");
    // It has been created, but has no page yet.
    client.query("SET temp_buffers = '2MB'; SELECT count(*) FROM e").expect("sets");
    client.query("SET temp_buffers = 100").expect("sets");
    client.query("CREATE TEMP TABLE t (a int, b text)").expect("creates");
    client.query(FILL).expect("fills");
    let refused = |client: &mut _, sql: &str, blocks: &str| {
        let message = format!("invalid value for parameter \"temp_buffers\": {blocks}");
        assert_eq!(failure(client, sql), ("22023".to_owned(), message), "{sql}");
    };
    refused(&mut client, "SET temp_buffers = '4MB'", "512");
    refused(&mut client, "SELECT set_config('Temp_Buffers', '200', false)", "200");
    client.query("SET temp_buffers = 100").expect("it is what it is");
    assert_eq!(value(&mut client, "SHOW temp_buffers"), "800kB");
    client.query("BEGIN").expect("begins");
    refused(&mut client, "SET LOCAL temp_buffers = 300", "300");
    client.query("ROLLBACK").expect("rolls back");
    assert_eq!(value(&mut client, "SHOW temp_buffers"), "800kB");
    client.query("RESET temp_buffers").expect("without effect");
    // The table is much larger than its buffers, and complete.
    assert_eq!(value(&mut client, SUMS), "20000 200010000");
    // Another session has its own.
    let mut other = server.client();
    other
        .query("SET temp_buffers = '1MB'; CREATE TEMP TABLE t (a int); INSERT INTO t VALUES (1)")
        .expect("fills");
    assert_eq!(
        (value(&mut other, SUMS), value(&mut client, SUMS)),
        ("1 1".to_owned(), "20000 200010000".to_owned())
    );
}

/// The files of a table with a text, of its TOAST table and the index of that, and of another
/// table.
const FILES: usize = 4;

#[test]
fn nothing_is_left_on_disk_after_a_session_a_stop_or_a_crash() {
    let mut folder = Arc::new(tempfile::tempdir().expect("a folder"));
    let direct = forebay_aio::probe_direct(folder.path()).is_ok();
    let io_direct = if direct { "io_direct=data" } else { "io_direct=" };
    for method in ["sync", "worker", "auto"] {
        let server = Server::on(folder, &[&format!("io_method={method}"), io_direct]);
        let mut client = server.client();
        let prepare = |client: &mut forebay_server::client::Client| {
            client
                .query("SET temp_buffers = 100; CREATE TEMP TABLE t (a int, b text)")
                .expect("creates");
            client
                .query("BEGIN; CREATE TEMP TABLE u (a int); INSERT INTO u VALUES (1)")
                .expect("inserts");
            client.query(FILL).expect("fills");
            assert_eq!(value(client, SUMS), "20000 200010000");
        };
        prepare(&mut client);
        assert_eq!(files(server.folder.path()).len(), FILES);
        drop(client);
        // The next session begins after the first, or beside it.
        let mut client = server.client();
        prepare(&mut client);
        folder = server.stop();
        assert_eq!(files(folder.path()), Vec::<String>::new(), "{method}: a stop");

        let server = Server::on(folder, &[&format!("io_method={method}"), io_direct]);
        let mut client = server.client();
        prepare(&mut client);
        client.query("COMMIT").expect("commits");
        folder = server.kill();
        assert_eq!(files(folder.path()).len(), FILES, "{method}: a crash");
        let server = Server::on(folder, &[]);
        assert_eq!(files(server.folder.path()), Vec::<String>::new(), "{method}: a start");
        assert_eq!(server.value("SELECT count(*) FROM pg_class WHERE relpersistence = 't'"), "0");
        folder = server.stop();
    }
}
