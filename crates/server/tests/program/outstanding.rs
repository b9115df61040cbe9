//! Relations that are dropped while reads of them are in flight, with 256 kB of buffers.

use super::extended::{bind, close, execute, parse, sync};
use super::harness::{Server, failure, value};
use forebay_aio::{probe_direct, probe_io_uring};
use forebay_server::client::Client;

/// Runs a test over every method, buffered and direct.
fn each(test: impl Fn(&Server)) {
    let mut methods = vec!["sync", "worker", "posix_aio"];
    if probe_io_uring().is_ok() {
        methods.push("io_uring");
    }
    let folder = tempfile::tempdir().expect("a folder");
    for method in methods {
        for direct in ["", "data"] {
            if direct.is_empty() || probe_direct(folder.path()).is_ok() {
                let (method, direct) =
                    (format!("io_method={method}"), format!("io_direct={direct}"));
                test(&Server::with(&["shared_buffers=256kB", &method, &direct]));
            }
        }
    }
}

/// Fills a table with ten times what the buffers hold.
fn fill(client: &mut Client, table: &str) {
    let sql =
        format!("INSERT INTO {table} SELECT g, repeat('x', 500) FROM generate_series(1, 5000) g");
    client.query(&sql).expect("inserts");
}

/// Opens a portal on a table and takes some rows: it has started reads that it has not waited for.
fn read_ahead(client: &mut Client, table: &str) {
    parse(client, "", &format!("SELECT i FROM {table}"), &[]);
    bind(client, "p", "", 0, &[], 0);
    execute(client, "p", 40);
    let (kinds, _) = sync(client);
    assert!(kinds.starts_with("12D") && kinds.ends_with("DsZ"), "{kinds}");
}

#[test]
fn a_rollback_ends_reads_of_a_dropped_table() {
    each(|server| {
        let mut client = server.client();
        for kind in ["TABLE", "TEMPORARY TABLE"] {
            for _ in 0..3 {
                client.query(&format!("BEGIN; CREATE {kind} t (i int4, t text)")).expect("creates");
                fill(&mut client, "t");
                read_ahead(&mut client, "t");
                client.query("ROLLBACK").expect("rolls back");
                assert_eq!(failure(&mut client, "SELECT count(*) FROM t").0, "42P01");
            }
            client.query(&format!("CREATE {kind} t (i int4, t text)")).expect("creates");
            fill(&mut client, "t");
            assert_eq!(value(&mut client, "SELECT sum(i) FROM t"), "12502500");
            // In a transaction that ends well the reads end with it.
            client.query("BEGIN").expect("begins");
            read_ahead(&mut client, "t");
            client.query("COMMIT").expect("commits");
            client.query("DROP TABLE t").expect("drops");
        }
    });
}

#[test]
fn a_drop_beside_a_read_of_the_session_ends() {
    each(|server| {
        let mut client = server.client();
        for kind in ["TABLE", "TEMPORARY TABLE"] {
            let create = format!("CREATE {kind} t (i int4, t text)");
            client.query(&create).expect("creates");
            fill(&mut client, "t");
            client.query("BEGIN").expect("begins");
            read_ahead(&mut client, "t");
            // The portal is closed; its reads go on.
            close(&mut client, b'P', "p");
            assert_eq!(sync(&mut client).0, "3Z");
            client.query("DROP TABLE t").expect("drops");
            // The commit removes the old files, and ends the reads.
            client.query(&create).expect("creates");
            fill(&mut client, "t");
            client.query("COMMIT").expect("commits");
            assert_eq!(value(&mut client, "SELECT sum(i) FROM t"), "12502500");
            client.query("DROP TABLE t").expect("drops");
        }
    });
}
