//! The I/O method and its settings, descriptors, the views of I/O.

use super::harness::{Server, failure, refused, refused_under, value};
use forebay_server::client::Client;
use forebay_testkit::free_port;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Names and types of a query's columns, from its RowDescription.
fn columns(client: &mut Client, sql: &str) -> Vec<String> {
    client.send_query(sql).expect("sends");
    let mut found = Vec::new();
    loop {
        let (kind, body) = client.receive().expect("receives");
        match kind {
            b'T' => {
                let mut rest = &body[2..];
                while let Some(end) = rest.iter().position(|b| *b == 0) {
                    let oid =
                        u32::from_be_bytes(rest[end + 7..end + 11].try_into().expect("four bytes"));
                    found.push(format!("{} {oid}", String::from_utf8_lossy(&rest[..end])));
                    rest = &rest[end + 19..];
                }
            }
            b'Z' => return found,
            b'E' => panic!("{sql}: {}", String::from_utf8_lossy(&body)),
            _ => {}
        }
    }
}

/// `name type, name type` with the types' short names.
fn typed(list: &str) -> Vec<String> {
    let types = [
        ("bool", 16),
        ("int8", 20),
        ("int2", 21),
        ("int4", 23),
        ("text", 25),
        ("float8", 701),
        ("int8[]", 1016),
        ("timestamptz", 1184),
        ("numeric", 1700),
    ];
    list.split(", ")
        .map(|column| {
            let (name, ty) = column.rsplit_once(' ').expect("name and type");
            let (_, oid) = types.iter().find(|(known, _)| *known == ty).expect("a known type");
            format!("{name} {oid}")
        })
        .collect()
}

#[test]
fn views_of_io_have_their_columns() {
    let server = Server::new();
    let mut client = server.client();
    // As pg_attribute of PostgreSQL 18 has them; the third is ours.
    for (view, list) in [
        (
            "pg_aios",
            "pid int4, io_id int4, io_generation int8, state text, operation text, off int8, \
             length int8, target text, \
             handle_data_len int2, raw_result int4, result text, target_desc text, f_sync bool, \
             f_localmem bool, \
             f_buffered bool",
        ),
        (
            "pg_stat_io",
            "backend_type text, object text, context text, reads int8, read_bytes numeric, \
             read_time float8, \
             writes int8, write_bytes numeric, write_time float8, writebacks int8, writeback_time \
             float8, extends int8, \
             extend_bytes numeric, extend_time float8, hits int8, evictions int8, reuses int8, \
             fsyncs int8, \
             fsync_time float8, stats_reset timestamptz",
        ),
        (
            "pg_stat_aio_backends",
            "pid int4, backend_type text, io_method text, acquired int8, acquire_waits int8, \
             staged int8, \
             immediate int8, submissions int8, issued int8, merged int8, completed_self int8, \
             completed_other int8, \
             in_flight int8, in_flight_max int8, reads int8, read_bytes numeric, writes int8, \
             write_bytes numeric, \
             syncs int8, others int8, waits int8, wait_time float8, latency_count int8, \
             latency_sum float8, \
             latency_max float8, latency_histogram int8[], errors int8, retries int8, stats_reset \
             timestamptz",
        ),
    ] {
        assert_eq!(columns(&mut client, &format!("SELECT * FROM {view}")), typed(list), "{view}");
    }
}

#[test]
fn what_a_backend_did_is_counted() {
    for method in ["io_method=sync", "io_method=worker", "io_method=posix_aio", "io_method=auto"] {
        let server = Server::with(&[method]);
        let mut client = server.client();
        client
            .query(
                "CREATE TABLE t (i int4, s text);
                 INSERT INTO t SELECT g, repeat('x', 500) FROM generate_series(1, 20000) g; \
                 CHECKPOINT",
            )
            .expect("loads");
        // More than fits into the pool: this backend reads some of it from the disk.
        assert_eq!(value(&mut client, "SELECT count(*) FROM t"), "20000");
        let mine = |client: &mut Client, what: &str| -> String {
            value(
                client,
                &format!("SELECT {what} FROM pg_stat_aio_backends WHERE pid = pg_backend_pid()"),
            )
        };
        let shown = value(&mut client, "SHOW io_method_status");
        assert_eq!(mine(&mut client, "io_method"), shown, "{method}");
        assert_eq!(mine(&mut client, "backend_type"), "client backend");
        assert_eq!(mine(&mut client, "reads > 0 AND read_bytes >= reads * 8192"), "t", "{method}");
        assert_eq!(
            mine(&mut client, "acquired >= reads AND errors = 0 AND in_flight = 0"),
            "t",
            "{method}"
        );
        let histogram = mine(&mut client, "latency_histogram");
        let sum: u64 = histogram
            .trim_matches(['{', '}'])
            .split(',')
            .map(|n| n.parse::<u64>().expect("a number"))
            .sum();
        assert_eq!(sum.to_string(), mine(&mut client, "latency_count"), "{histogram}");
        let others = "SELECT count(*) FROM pg_stat_aio_backends WHERE backend_type = \
            'checkpointer' AND writes > 0";
        assert_eq!(value(&mut client, others), "1", "{method}");

        let read = "SELECT sum(reads) FROM pg_stat_io WHERE object = 'relation' AND backend_type \
            = 'client backend'";
        // What it needs of the catalogs is read now.
        value(&mut client, read);
        let reset = |client: &mut Client| value(client, "SELECT min(stats_reset) FROM pg_stat_io");
        let before = reset(&mut client);
        client.query("SELECT pg_stat_reset_shared('io')").expect("resets");
        assert_ne!(reset(&mut client), before);
        assert_eq!(mine(&mut client, "reads"), "0", "{method}");
        assert_eq!(value(&mut client, read), "0", "{method}");
    }
}

/// The number of the server's I/O workers.
fn workers(server: &Server) -> usize {
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it runs");
    threads
        .filter_map(|t| std::fs::read_to_string(t.ok()?.path().join("comm")).ok())
        .filter(|name| name.starts_with("io worker"))
        .count()
}

fn wait_for_workers(server: &Server, count: usize) {
    let start = Instant::now();
    while workers(server) != count {
        assert!(
            start.elapsed() < Duration::from_secs(600),
            "{} workers, not {count}",
            workers(server)
        );
        std::thread::yield_now();
    }
}

#[test]
fn files_grow_by_the_method_of_the_last_reload() {
    let server = Server::new();
    let mut client = server.client();
    assert_eq!(value(&mut client, "SHOW file_extend_method"), "posix_fallocate");
    let conf = server.data_dir().join("postgresql.conf");
    let sample = std::fs::read_to_string(&conf).expect("reads");
    std::fs::write(&conf, format!("{sample}\nfile_extend_method = write_zeros\n"))
        .expect("written");
    assert_eq!(value(&mut client, "SELECT pg_reload_conf()"), "t");
    server.wait_for_log("parameter \"file_extend_method\" changed to \"write_zeros\"");
    let sql = "CREATE TABLE t (a int8); INSERT INTO t SELECT g FROM generate_series(1, 20000) AS g";
    client.query(sql).expect("loads");
    assert_eq!(value(&mut client, "SELECT count(*) FROM t"), "20000");
    let (state, _) = failure(&mut client, "SET file_extend_method = posix_fallocate");
    assert_eq!(state, "55P02");
}

#[test]
fn workers_follow_a_reload() {
    let server = Server::with(&["io_method=worker"]);
    let mut client = server.client();
    // Unless it is set, their number depends on the work: recovery may have started all of them.
    assert!((2..=8).contains(&workers(&server)), "{} workers", workers(&server));
    let conf = server.data_dir().join("postgresql.conf");
    let sample = std::fs::read_to_string(&conf).expect("reads");
    for (line, count) in [
        ("io_workers = 5", 5),
        ("io_workers = 1", 1),
        ("io_workers = 32", 32),
        ("io_workers = 3", 3),
        ("io_min_workers = 4", 4),
    ] {
        std::fs::write(&conf, format!("{sample}\n{line}\n")).expect("written");
        assert_eq!(value(&mut client, "SELECT pg_reload_conf()"), "t");
        if count == 4 {
            // Workers above the minimum end when they have been idle long enough.
            server.wait_for_log("parameter \"io_min_workers\" changed to \"4\"");
            let start = Instant::now();
            while workers(&server) < 4 {
                assert!(start.elapsed() < Duration::from_secs(600), "{} workers", workers(&server));
                std::thread::yield_now();
            }
        } else {
            wait_for_workers(&server, count);
        }
        assert_eq!(value(&mut client, "SELECT 1"), "1");
    }
    for bad in ["io_workers = 0", "io_workers = 33", "io_max_workers = 33"] {
        std::fs::write(&conf, format!("{sample}\n{bad}\n")).expect("written");
        server.signal("-HUP");
        let (name, number) = bad.split_once(" = ").expect("an assignment");
        server.wait_for_log(&format!(
            "{number} is outside the valid range for parameter \"{name}\" (1 .. 32)"
        ));
    }
    std::fs::write(&conf, format!("{sample}\nio_method = sync\n")).expect("written");
    let conf_text = std::fs::read_to_string(&conf).expect("reads");
    assert!(conf_text.ends_with("io_method = sync\n"));
    assert_eq!(value(&mut client, "SHOW io_method_status"), "worker");
    let (state, message) = failure(&mut client, "SET io_workers = 2");
    assert_eq!(
        (state.as_str(), message.as_str()),
        ("55P02", "parameter \"io_workers\" cannot be changed now")
    );
}

#[test]
fn the_method_in_use_is_shown() {
    let folder = Arc::new(tempfile::tempdir().expect("a folder"));
    let server = Server::under(folder, &[], &[]);
    let shown = server.value("SHOW io_method_status");
    assert_eq!(server.value("SHOW io_method"), "auto");
    let line = server.wait_for_log(&format!("LOG:  io_method is \"{shown}\""));
    if forebay_aio::probe_io_uring().is_ok() {
        assert_eq!(shown, "io_uring");
    } else {
        assert_eq!(shown, "worker");
        assert!(line.contains("could not set up io_uring: "), "{line}");
    }
    let data = server.folder.path().join("other");
    let (_, log) = refused(&data, free_port(), &["io_method=fast"]);
    assert!(log.contains("Available values: sync, worker, io_uring, posix_aio, auto."), "{log}");
}

#[test]
fn descriptors_are_raised_counted_and_run_short() {
    let folder = Arc::new(tempfile::tempdir().expect("a folder"));
    // The soft limit is too low for a hundred connections; the hard one is not.
    let server = Server::limited(Arc::clone(&folder), Some("-Sn 100"), &[]);
    let line = server.wait_for_log("descriptors (RLIMIT_NOFILE): ");
    assert!(
        line.contains("for connections, 32 for I/O methods and logs, 1000 for data files"),
        "{line}"
    );
    let limits =
        std::fs::read_to_string(format!("/proc/{}/limits", server.pid())).expect("it runs");
    let soft = limits.lines().find_map(|l| {
        l.strip_prefix("Max open files")?.split_whitespace().next()?.parse::<u64>().ok()
    });
    assert!(soft.is_some_and(|n| n > 1800), "{limits}");
    server.stop();

    let data = folder.path().join("data");
    let (status, log) = refused_under(&data, free_port(), Some("-n 300"), &[]);
    assert!(!status.success());
    assert!(
        log.contains("FATAL:  insufficient file descriptors available to start server process"),
        "{log}"
    );
    assert!(log.contains("DETAIL:  System allows 300, server needs at least "), "{log}");
    assert!(
        log.contains("HINT:  Raise the limit (ulimit -n, LimitNOFILE=), or lower max_connections."),
        "{log}"
    );
    // Fewer connections fit, with fewer data files.
    let server = Server::limited(folder, Some("-n 300"), &["max_connections=20"]);
    let line = server.wait_for_log("data files are kept open, not 1000 (max_files_per_process)");
    assert!(line.contains("WARNING:  at most "), "{line}");
    let mut client = server.client();
    for number in 0..200 {
        client
            .query(&format!("CREATE TABLE t{number} (i int4); INSERT INTO t{number} VALUES (1)"))
            .expect("works");
    }
    client.query("CHECKPOINT").expect("works");
    for number in 0..200 {
        assert_eq!(value(&mut client, &format!("SELECT count(*) FROM t{number}")), "1");
    }
}
