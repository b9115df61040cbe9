//! CREATE INDEX, DROP INDEX and REINDEX CONCURRENTLY beside writers and readers, with a crash in
//! between. What PostgreSQL's amcheck and `forebay check` find in the indexes is nothing, and each
//! row is found through them once. REINDEX leaves the catalogs as PostgreSQL's does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use forebay_server::client::{Client, ClientError};
use forebay_testkit::peer::{Peer, Postgres};

use super::forebay::{Forebay, forebay};
use super::moment;

const WRITERS: u64 = 3;
const TURNS: u64 = 3;
/// Indexes that are made in a turn before it ends.
const ENOUGH: u64 = 12;
/// The data directory, in the folder that both servers see.
const DATA: &str = "data";
/// A client that gets no answer for so long fails, so that no test hangs.
const SILENCE: Duration = Duration::from_secs(120);
/// What a writer may be told: the key is in use, or it was chosen in a deadlock.
const USUAL: [&str; 2] = ["23505", "40P01"];

fn connect(port: u16) -> Result<Client, ClientError> {
    let client = Client::tcp(port)?;
    client.stream().set_read_timeout(Some(SILENCE))?;
    Ok(client)
}

/// Changes rows of its own and of others until the server is gone.
fn write(port: u16, own: u64, over: &AtomicBool) -> Result<(), ClientError> {
    let mut client = connect(port)?;
    for round in own.. {
        let (key, other) = (round * 7919 % 2000, round * 104_729 % 2000);
        let end = if round % 5 == 0 { "ROLLBACK" } else { "COMMIT" };
        let script = match round % 4 {
            0 => format!("UPDATE t SET b = b + 1 WHERE a = {key}"),
            // Every other one goes to the TOAST table.
            1 => {
                let times = round % 8 * 500 + 1;
                format!("UPDATE t SET c = repeat('{round} ', {times}) WHERE a = {key}")
            }
            2 => format!("DELETE FROM t WHERE a = {other}; INSERT INTO t VALUES ({key}, {round})"),
            _ => format!(
                "UPDATE t SET b = {round} WHERE a = {key}; UPDATE t SET b = a WHERE a = {other}"
            ),
        };
        let done = client.query(&format!("BEGIN; {script}; {end}"));
        let done = done.or_else(|error| match USUAL.contains(&error.sqlstate()) {
            true => client.query("ROLLBACK"),
            false => Err(error),
        });
        match done {
            Ok(_) => {}
            Err(_) if over.load(Ordering::Acquire) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Makes and drops indexes until the server is gone. Some stay.
fn make(port: u16, turn: u64, over: &AtomicBool, done: &Sender<()>) -> Result<(), ClientError> {
    let mut client = connect(port)?;
    for round in 0.. {
        let made = [
            format!("CREATE INDEX CONCURRENTLY i{turn}_{round} ON t (b)"),
            format!("SELECT bt_index_check('i{turn}_{round}', true)"),
            format!("CREATE UNIQUE INDEX CONCURRENTLY u{turn}_{round} ON t (a DESC) INCLUDE (b)"),
            match round % 3 {
                0 => "REINDEX TABLE CONCURRENTLY t".to_owned(),
                1 => format!("REINDEX INDEX CONCURRENTLY u{turn}_{round}"),
                _ => "REINDEX INDEX CONCURRENTLY t_pkey".to_owned(),
            },
            format!("DROP INDEX CONCURRENTLY i{turn}_{round}"),
        ];
        for (n, statement) in made.iter().enumerate() {
            let dropped = (n == 4 && round % 8 == 0).then_some("SELECT 1");
            match client.query(dropped.unwrap_or(statement)) {
                Ok(_) => {}
                Err(_) if over.load(Ordering::Acquire) => return Ok(()),
                Err(error) => panic!("{statement}: {error}"),
            }
        }
        let drop = format!("DROP INDEX CONCURRENTLY u{turn}_{round}");
        match client.query(if round % 8 == 1 { "SELECT 1" } else { &drop }) {
            Err(error) if !over.load(Ordering::Acquire) => return Err(error),
            _ => {}
        }
        // The receiver goes away once there are enough.
        let _ = done.send(());
    }
    Ok(())
}

/// A server under load until it is stopped or killed.
fn load(port: u16, turn: u64, end: impl FnOnce()) {
    let over = &AtomicBool::new(false);
    let (done, made) = channel();
    let ended: Vec<Result<(), ClientError>> = thread::scope(|scope| {
        let mut clients: Vec<_> =
            (0..WRITERS).map(|own| scope.spawn(move || write(port, own, over))).collect();
        clients.push(scope.spawn(move || make(port, turn, over, &done)));
        moment::wait(&made, ENOUGH, Duration::ZERO);
        over.store(true, Ordering::Release);
        end();
        clients.into_iter().map(|c| c.join().expect("a client does not panic")).collect()
    });
    ended.into_iter().for_each(|ended| ended.expect("no errors but the end"));
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.is_empty()).collect()
}

const NAMES: &str = "SELECT relname FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid \
    WHERE i.indrelid = 't'::regclass AND i.indisvalid";

const LEFT_OF_TOAST: &str = "SELECT indexrelid::regclass FROM pg_index WHERE NOT indisvalid \
    AND indrelid = (SELECT reltoastrelid FROM pg_class WHERE oid = 't'::regclass)";

fn check(server: &Postgres<'_>) {
    assert_eq!(server.query("SELECT * FROM verify_heapam('t', check_toast := true)"), "");
    let key = "SELECT indexrelid::regclass, indisprimary, indisvalid FROM pg_constraint \
               JOIN pg_index ON indexrelid = conindid WHERE conname = 't_pkey'";
    assert_eq!(server.query(key), "t_pkey|t|t");
    let valid = server.query(&format!("{NAMES} = true ORDER BY 1"));
    assert!(lines(&valid).len() > 1, "{valid}");
    for index in lines(&valid) {
        server.query(&format!("SELECT bt_index_check('{index}', true)"));
    }
    let sums = "SELECT count(*), sum(a), sum(b) FROM t WHERE b > -1";
    let by = |scan| {
        server.query(&format!("SET enable_{scan} = off; SET enable_bitmapscan = off; {sums}"))
    };
    assert_eq!(by("seqscan"), by("indexscan"), "rows by index, and by table");
}

#[test]
#[ignore = "half a minute long; run by cargo xtask test"]
fn indexes_are_made_and_dropped_beside_writers() {
    let Some(peer) = Peer::find("indexes_are_made_and_dropped_beside_writers") else { return };
    let options = "-c autovacuum=off";
    peer.init(DATA);
    let server = peer.start(DATA, options);
    server.query("CREATE EXTENSION amcheck");
    server.query("CREATE TABLE t (a int PRIMARY KEY, b int8, c text)");
    server.query("ALTER TABLE t ALTER c SET STORAGE EXTERNAL");
    server.query("INSERT INTO t SELECT i, i, 'row ' || i FROM generate_series(0, 1999, 2) i");
    drop(server);
    for turn in 0..TURNS {
        peer.take_back();
        let data = peer.outside(DATA);
        let server = Forebay::start(&data, &["shared_buffers=8MB", "deadlock_timeout=20ms"]);
        match turn {
            0 => load(server.port, turn, || server.stop()),
            _ => load(server.port, turn, || server.kill()),
        }
        // PostgreSQL recovers from the crash in one turn, Forebay in the other.
        if turn == 1 {
            Forebay::start(&data, &[]).stop();
            forebay(&["check", "-D", data.to_str().expect("UTF-8")]);
        }
        peer.give_to_postgres();
        let server = peer.start(DATA, options);
        check(&server);
        // What was cut short is mended: one by each server.
        let broken = server.query(&format!("{NAMES} = false AND i.indislive ORDER BY 1"));
        let of_toast = server.query(LEFT_OF_TOAST);
        println!("turn {turn}: not valid: {:?}, {:?}", lines(&broken), lines(&of_toast));
        lines(&of_toast).iter().skip(1).for_each(|index| {
            server.query(&format!("DROP INDEX {index}"));
        });
        lines(&broken).iter().skip(1).for_each(|index| {
            server.query(&format!("REINDEX INDEX {index}"));
        });
        drop(server);
        peer.take_back();
        let server = Forebay::start(&data, &[]);
        lines(&broken).iter().take(1).for_each(|index| {
            server.query(&format!("REINDEX INDEX {index}"));
            server.query(&format!("SELECT bt_index_parent_check('{index}', true)"));
        });
        lines(&of_toast).iter().take(1).for_each(|index| {
            server.query(&format!("DROP INDEX {index}"));
        });
        server.stop();
        forebay(&["check", "-D", data.to_str().expect("UTF-8")]);
        peer.give_to_postgres();
        let server = peer.start(DATA, options);
        check(&server);
        // And PostgreSQL's own leaves them so.
        server.query("REINDEX TABLE CONCURRENTLY t");
        check(&server);
    }
}

/// What the catalogs say of the table's indexes and of that of its TOAST table, by names.
const CATALOGS: [&str; 5] = [
    "SELECT c.relname, to_jsonb(c) - '{oid,relname,relfilenode}'::text[] FROM pg_class c \
     WHERE relname ~ '^(t|pg_toast_16)' AND relkind IN ('i', 'r') AND oid > 16383 ORDER BY 1",
    "SELECT indexrelid::regclass, indrelid::regclass, \
     to_jsonb(i) - '{indexrelid,indrelid}'::text[] FROM pg_index i \
     WHERE indexrelid > 16383 ORDER BY indexrelid::regclass::text",
    "SELECT attrelid::regclass, to_jsonb(a) - 'attrelid' FROM pg_attribute a \
     WHERE attrelid > 16383 AND attnum > 0 ORDER BY attrelid::regclass::text, attnum",
    "SELECT conname, conindid::regclass, to_jsonb(c) - '{oid,conindid}'::text[] \
     FROM pg_constraint c WHERE conrelid = 't'::regclass ORDER BY 1",
    "SELECT pg_describe_object(classid, objid, objsubid) o, \
     pg_describe_object(refclassid, refobjid, refobjsubid) r, deptype FROM pg_depend \
     WHERE objid > 16383 ORDER BY o, r, deptype",
];

fn catalogs(server: &Postgres<'_>) -> Vec<String> {
    let comments = "SELECT objoid::regclass, classoid::regclass, objsubid, description \
                    FROM pg_description WHERE objoid > 16383 ORDER BY 1";
    CATALOGS.iter().chain([&comments]).map(|query| server.query(query)).collect()
}

#[test]
#[ignore = "run by cargo xtask test"]
fn catalogs_are_as_postgresql_leaves_them() {
    let Some(peer) = Peer::find("catalogs_are_as_postgresql_leaves_them") else { return };
    let options = "-c autovacuum=off";
    peer.init(DATA);
    let server = peer.start(DATA, options);
    for statement in [
        "CREATE TABLE t (a int PRIMARY KEY, b int8 NOT NULL, c text, d text, UNIQUE (c))",
        "CREATE UNIQUE INDEX t_b ON t (b DESC) INCLUDE (c) WITH (fillfactor = 50)",
        "CREATE INDEX t_c ON t (c, b NULLS FIRST) WITH (deduplicate_items = off)",
        "CREATE UNIQUE INDEX t_u ON t (c) NULLS NOT DISTINCT",
        "CREATE UNIQUE INDEX t_identity ON t (b)",
        "CREATE UNIQUE INDEX t_later ON t (b, a)",
        "COMMENT ON INDEX t_b IS 'a comment'",
        "COMMENT ON CONSTRAINT t_pkey ON t IS 'the key'",
        "ALTER TABLE t CLUSTER ON t_c",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX t_identity",
        "ALTER TABLE t ALTER d SET STORAGE EXTERNAL",
        "ALTER TABLE t RENAME b TO renamed",
        "INSERT INTO t SELECT i, i, 'row ' || i, repeat('a ', i % 10 * 500) \
         FROM generate_series(1, 500) i",
        "VACUUM ANALYZE t",
    ] {
        server.query(statement);
    }
    drop(server);
    peer.adopt(&peer.outside(DATA), "other");
    let statements = [
        "REINDEX INDEX CONCURRENTLY t_b",
        "REINDEX TABLE CONCURRENTLY t",
        "ALTER TABLE t ADD CONSTRAINT t_named UNIQUE USING INDEX t_later",
        "REINDEX INDEX CONCURRENTLY t_named",
    ];
    let server = peer.start("other", options);
    statements.iter().for_each(|statement| drop(server.query(statement)));
    let expected = catalogs(&server);
    drop(server);
    peer.take_back();
    let data = peer.outside(DATA);
    let server = Forebay::start(&data, &[]);
    statements.iter().for_each(|statement| drop(server.query(statement)));
    server.stop();
    forebay(&["check", "-D", data.to_str().expect("UTF-8")]);
    peer.give_to_postgres();
    let server = peer.start(DATA, options);
    for (found, expected) in catalogs(&server).iter().zip(&expected) {
        assert_eq!(found, expected);
        assert!(lines(found).len() > 1, "{found}");
    }
    server.query("DROP TABLE t");
    assert_eq!(server.query("SELECT count(*) FROM pg_class WHERE oid > 16383"), "0");
}

#[test]
#[ignore = "run by cargo xtask test"]
fn what_is_not_known_is_refused_at_once() {
    let name = "what_is_not_known_is_refused_at_once";
    let Some(peer) = Peer::find(name) else { return };
    peer.init(DATA);
    let server = peer.start(DATA, "-c autovacuum=off");
    for statement in [
        "CREATE TABLE p (a int, b int) PARTITION BY RANGE (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100)",
        "CREATE INDEX ON p (b)",
        "INSERT INTO p VALUES (1, 2)",
        "CREATE TABLE n (a int, b int, CONSTRAINT n_a NOT NULL a NO INHERIT)",
        "ALTER TABLE n ADD CONSTRAINT n_b NOT NULL b NOT VALID",
        "CREATE UNIQUE INDEX n_a_idx ON n (a)",
        "CREATE UNIQUE INDEX n_b_idx ON n (b)",
    ] {
        server.query(statement);
    }
    drop(server);
    peer.take_back();
    let data = peer.outside(DATA);
    let server = Forebay::start(&data, &[]);
    let mut client = connect(server.port).expect("client");
    for (statement, sqlstate, message) in [
        ("REINDEX INDEX CONCURRENTLY p1_b_idx", "0A000", PARTITION),
        ("REINDEX TABLE CONCURRENTLY p1", "0A000", PARTITION),
        ("ALTER TABLE n ADD PRIMARY KEY (a)", "55000", "cannot create primary key on column \"a\""),
        ("ALTER TABLE n ADD PRIMARY KEY (b)", "55000", "cannot create primary key on column \"b\""),
        (
            "ALTER TABLE n ADD PRIMARY KEY USING INDEX n_a_idx",
            "55000",
            "cannot change NO INHERIT status of NOT NULL constraint \"n_a\" on relation \"n\"",
        ),
        (
            "ALTER TABLE n ADD PRIMARY KEY USING INDEX n_b_idx",
            "55000",
            "incompatible NOT VALID constraint \"n_b\" on relation \"n\"",
        ),
    ] {
        let error = client.query(statement).expect_err(statement);
        assert_eq!(error.sqlstate(), sqlstate, "{statement}: {error}");
        assert!(error.to_string().contains(message), "{statement}: {error}");
    }
    drop(client);
    server.stop();
    peer.give_to_postgres();
    let server = peer.start(DATA, "-c autovacuum=off");
    let indexes = "SELECT indexrelid::regclass, indisvalid FROM pg_index \
                   WHERE indexrelid > 16383 AND indrelid::regclass::text IN ('p1', 'n') ORDER BY 1";
    assert_eq!(lines(&server.query(indexes)), ["p1_b_idx|t", "n_a_idx|t", "n_b_idx|t"]);
    for (statement, expected) in [
        (
            "SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'p_b_idx'::regclass",
            "p1_b_idx",
        ),
        ("SELECT count(*) FROM pg_constraint WHERE conrelid = 'n'::regclass", "2"),
    ] {
        assert_eq!(server.query(statement), expected);
    }
    server.query("DROP TABLE p, n");
}

const PARTITION: &str =
    "cannot reindex index \"p1_b_idx\" concurrently: inheritance is not supported";
