//! A server's archive, and recovery from it to a time, a position and a name, of a server that was
//! under load.

use super::harness::{Server, refused, value};
use forebay_server::client::Client;
use forebay_testkit::files::{copy_tree, names};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tempfile::TempDir;

pub fn folder() -> Arc<TempDir> {
    Arc::new(tempfile::tempdir().expect("a folder"))
}

/// Repeats a query until its result is as expected.
pub fn until(client: &mut Client, sql: &str, good: impl Fn(&str) -> bool) -> String {
    let started = std::time::Instant::now();
    loop {
        let answer = value(client, sql);
        if good(&answer) {
            return answer;
        }
        assert!(started.elapsed().as_secs() < 60, "{sql}: {answer}");
        std::thread::yield_now();
    }
}

#[test]
fn completed_segments_are_archived_and_counted() {
    let store = tempfile::tempdir().expect("a store");
    let command =
        format!("archive_command=test ! -f {0}/%f && cp %p {0}/%f", store.path().display());
    let server = Server::with(&["archive_mode=on", &command]);
    let mut client = server.client();
    client.query("CREATE TABLE t (i int4)").expect("creates");
    let mut switched = Vec::new();
    for i in 0..3 {
        client.query(&format!("INSERT INTO t VALUES ({i})")).expect("inserts");
        let at = value(&mut client, "SELECT pg_switch_wal()");
        switched.push(value(&mut client, &format!("SELECT pg_walfile_name('{at}')")));
    }
    let last = &switched[2];
    until(&mut client, "SELECT coalesce(last_archived_wal, '') FROM pg_stat_archiver", |name| {
        name == last
    });
    assert_eq!(value(&mut client, "SELECT archived_count FROM pg_stat_archiver"), "3");
    assert_eq!(value(&mut client, "SELECT failed_count FROM pg_stat_archiver"), "0");
    assert_eq!(names(store.path()), switched);
    for name in &switched {
        let ours = server.data_dir().join("pg_wal").join(name);
        assert!(
            std::fs::read(store.path().join(name)).expect("stored")
                == std::fs::read(ours).expect("ours")
        );
    }
    client.query("SELECT pg_stat_reset_shared('archiver')").expect("resets");
    let row = "SELECT count(*) FROM pg_stat_archiver WHERE archived_count = 0 AND \
        last_archived_wal IS NULL";
    assert_eq!(value(&mut client, row), "1");
    // A fast stop archives what is left.
    client.query("INSERT INTO t VALUES (4)").expect("inserts");
    drop(client);
    let folder = server.stop();
    assert_eq!(names(store.path()).len(), 4);
    assert_eq!(Server::on(folder, &[]).value("SELECT count(*) FROM t"), "4");
}

#[test]
fn what_archives_can_change_while_the_server_runs() {
    let stores = tempfile::tempdir().expect("stores");
    let server = Server::with(&["archive_mode=on"]);
    let conf = server.data_dir().join("postgresql.conf");
    let before = std::fs::read_to_string(&conf).unwrap_or_default();
    let mut client = server.client();
    client.query("CREATE TABLE t (i int4)").expect("creates");
    client.query("SELECT pg_switch_wal()").expect("switches");
    server.wait_for_log("yet archiving is not configured");
    let mut reload = |lines: &str, setting: &str, shown: &str| {
        std::fs::write(&conf, format!("{before}\n{lines}\n")).expect("written");
        client.query("SELECT pg_reload_conf()").expect("reloads");
        until(&mut client, &format!("SHOW {setting}"), |now| now == shown);
    };
    // A command that fails is tried again, and nothing is lost.
    reload("archive_command = 'exit 3'", "archive_command", "exit 3");
    let mut other = server.client();
    until(&mut other, "SELECT failed_count FROM pg_stat_archiver", |n| n != "0");
    let failed = value(&mut other, "SELECT last_failed_wal FROM pg_stat_archiver");
    assert_eq!(failed, "000000010000000000000001");
    let directory = stores.path().join("basic");
    std::fs::create_dir(&directory).expect("store");
    let lines = format!(
        "archive_library = 'basic_archive'\nbasic_archive.archive_directory = '{}'",
        directory.display()
    );
    reload(&lines, "archive_library", "basic_archive");
    until(&mut other, "SELECT archived_count FROM pg_stat_archiver", |n| n == "1");
    assert_eq!(names(&directory), ["000000010000000000000001"]);
    assert_eq!(value(&mut other, "SHOW archive_timeout"), "0");
    // By time, if there is something to archive.
    reload(&format!("{lines}\narchive_timeout = 1"), "archive_timeout", "1s");
    other.query("INSERT INTO t VALUES (1)").expect("inserts");
    until(&mut other, "SELECT archived_count FROM pg_stat_archiver", |n| n == "2");
}

/// Rows of one kind: how many were sent, and how many were acknowledged.
#[derive(Default)]
struct Flow {
    sent: AtomicU64,
    acknowledged: AtomicU64,
}

/// What must be there at a target: rows acknowledged before it, and none sent after it.
#[derive(Debug)]
struct Point {
    setting: String,
    least: [u64; 2],
    most: [u64; 2],
}

struct Load {
    flows: [Flow; 2],
    stop: AtomicBool,
}

impl Load {
    fn counts(&self, of: impl Fn(&Flow) -> &AtomicU64) -> [u64; 2] {
        [0, 1].map(|n| of(&self.flows[n]).load(Ordering::SeqCst))
    }

    /// Rows in batches, by COPY, or one at a time, by INSERT.
    fn run(&self, mut client: Client, kind: usize) {
        let batch = if kind == 0 { 200 } else { 1 };
        let flow = &self.flows[kind];
        while !self.stop.load(Ordering::SeqCst) {
            let first = flow.sent.fetch_add(batch, Ordering::SeqCst);
            if kind == 0 {
                client.start_copy("COPY t FROM STDIN").expect("starts");
                let rows: String =
                    (first..first + batch).map(|i| format!("0\t{i}\tcopied row {i}\n")).collect();
                client.copy_data(rows.as_bytes()).expect("sends");
                client.finish_copy().expect("loads");
            } else {
                client
                    .query(&format!("INSERT INTO t VALUES (1, {first}, 'inserted')"))
                    .expect("inserts");
            }
            flow.acknowledged.fetch_add(batch, Ordering::SeqCst);
        }
    }

    /// Waits until there are more rows of each kind.
    fn proceed(&self) {
        let (started, before) = (std::time::Instant::now(), self.counts(|flow| &flow.acknowledged));
        while !self
            .counts(|flow| &flow.acknowledged)
            .iter()
            .zip(before)
            .all(|(now, before)| *now > before + 2)
        {
            assert!(started.elapsed().as_secs() < 60, "the load stands still");
            std::thread::yield_now();
        }
    }

    /// Makes a point at which recovery can stop, by a query that returns its position.
    fn point(&self, client: &mut Client, setting: &str, prepare: &str, sql: &str) -> Point {
        self.proceed();
        let least = self.counts(|flow| &flow.acknowledged);
        client.query(prepare).expect("prepares");
        let place = value(client, sql);
        let most = self.counts(|flow| &flow.sent);
        self.proceed();
        Point { setting: format!("{setting}={place}"), least, most }
    }
}

/// A server with an archive, under load from its base backup on. The folder of the backup, and
/// points to recover to.
fn loaded(store: &Path) -> (PathBuf, Arc<TempDir>, Vec<Point>) {
    let server = Server::new();
    server.client().query("CREATE TABLE t (kind int4, i int8, note text)").expect("creates");
    let folder = server.stop();
    let base = folder.path().join("base");
    copy_tree(&folder.path().join("data"), &base);
    let directory = format!("basic_archive.archive_directory={}", store.display());
    let server = Server::on(
        Arc::clone(&folder),
        &["archive_mode=on", "archive_library=basic_archive", &directory],
    );
    let load = Load { flows: Default::default(), stop: AtomicBool::new(false) };
    let mut client = server.client();
    let points = std::thread::scope(|scope| {
        for kind in 0..2 {
            let (load, client) = (&load, server.client());
            scope.spawn(move || load.run(client, kind));
        }
        let mut points = Vec::new();
        let position = "SELECT pg_current_wal_insert_lsn()";
        points.push(load.point(&mut client, "recovery_target_lsn", "SELECT 1", position));
        client.query("SELECT pg_switch_wal()").expect("switches");
        // The time of the reset is the server's time.
        let (reset, clock) =
            ("SELECT pg_stat_reset_shared('archiver')", "SELECT stats_reset FROM pg_stat_archiver");
        points.push(load.point(&mut client, "recovery_target_time", reset, clock));
        client.query("CHECKPOINT").expect("checkpoint");
        let create = "SELECT pg_create_restore_point('here')";
        let mut named = load.point(&mut client, "recovery_target_name", "SELECT 1", create);
        named.setting = "recovery_target_name=here".to_owned();
        points.push(named);
        load.stop.store(true, Ordering::SeqCst);
        points
    });
    client.query("SELECT pg_switch_wal()").expect("switches");
    drop(client);
    server.stop();
    (base, folder, points)
}

/// A copy of a backup that is to be recovered.
pub(crate) fn restored(base: &Path) -> Arc<TempDir> {
    let folder = folder();
    copy_tree(base, &folder.path().join("data"));
    std::fs::write(folder.path().join("data/recovery.signal"), "").expect("signal");
    folder
}

#[test]
fn a_server_under_load_is_recovered_to_a_time_a_position_and_a_name() {
    let store = tempfile::tempdir().expect("a store");
    let (base, _folder, points) = loaded(store.path());
    let restore = format!("restore_command=cp {}/%f %p 2>/dev/null", store.path().display());
    for point in points {
        let settings = [restore.as_str(), "recovery_target_action=promote", point.setting.as_str()];
        let server = Server::on(restored(&base), &settings);
        let mut client = server.client();
        for (kind, (least, most)) in point.least.into_iter().zip(point.most).enumerate() {
            let count = value(&mut client, &format!("SELECT count(*) FROM t WHERE kind = {kind}"));
            let count: u64 = count.parse().expect("a number");
            assert!((least..=most).contains(&count), "{point:?}: {count} rows of kind {kind}");
            // In the order in which they were sent, none is missing.
            if count > 0 {
                let last = value(&mut client, &format!("SELECT max(i) FROM t WHERE kind = {kind}"));
                assert_eq!(last, (count - 1).to_string(), "{point:?}");
            }
        }
        client.query("INSERT INTO t VALUES (2, 0, 'it goes on')").expect("inserts");
        let name = value(&mut client, "SELECT pg_walfile_name(pg_current_wal_insert_lsn())");
        assert!(name.starts_with("00000002"), "{name}");
        drop(client);
        let folder = server.kill();
        assert_eq!(Server::on(folder, &[]).value("SELECT count(*) FROM t WHERE kind = 2"), "1");
    }
}

#[test]
fn a_store_that_is_down_never_ends_recovery_early() {
    let store = tempfile::tempdir().expect("a store");
    let (base, _folder, points) = loaded(store.path());
    let folder = restored(&base);
    let data = folder.path().join("data");
    let segments: Vec<String> =
        names(store.path()).into_iter().filter(|name| name.len() == 24).collect();
    assert!(segments.len() >= 2, "{segments:?}");
    let last = &segments[segments.len() - 1];
    for failure in ["exit 200", "kill -9 $$"] {
        let command = format!(
            "restore_command=if test %f = {last}; then {failure}; fi; cp {}/%f %p 2>/dev/null",
            store.path().display()
        );
        let (status, log) = refused(&data, forebay_testkit::free_port(), &[&command]);
        assert!(!status.success(), "{log}");
        assert!(log.contains("could not restore file") && log.contains(last), "{log}");
        assert!(data.join("recovery.signal").exists());
    }
    let restore = format!("restore_command=cp {}/%f %p 2>/dev/null", store.path().display());
    // It stops at its target, as it was told, and logs it.
    let target = points[0].setting.as_str();
    let (status, log) = refused(&data, forebay_testkit::free_port(), &[&restore, target]);
    assert!(status.success() && log.contains("shutdown at recovery target"), "{log}");
    let server = Server::on(folder, &[&restore]);
    let last = points.last().expect("a point");
    let count: u64 = server.value("SELECT count(*) FROM t").parse().expect("a number");
    assert!(count >= last.least.iter().sum(), "{count} rows, {last:?}");
}
