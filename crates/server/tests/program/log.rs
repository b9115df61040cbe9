//! The write-ahead log: sync methods, segments, functions, system calls.

use super::harness::{Server, failure, value};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// Names of the segments in pg_wal, in order.
fn segments(data: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(data.join("pg_wal"))
        .expect("pg_wal")
        .map(|entry| entry.expect("entry").file_name().into_string().expect("a name"))
        .filter(|name| name.len() == 24)
        .collect();
    names.sort();
    names
}

fn choice(data: &Path) -> PathBuf {
    data.join("pg_wal/forebay.sync_method")
}

#[test]
fn each_sync_method_works_and_is_shown() {
    let mut folder = Arc::new(tempfile::tempdir().expect("a folder"));
    for (n, method) in ["fsync", "fdatasync", "open_sync", "open_datasync"].iter().enumerate() {
        let server = Server::on(folder, &[&format!("wal_sync_method={method}")]);
        let mut client = server.client();
        assert_eq!(value(&mut client, "SHOW wal_sync_method"), *method);
        if n == 0 {
            client.query("CREATE TABLE t (i int4)").expect("creates");
        }
        client.query(&format!("INSERT INTO t VALUES ({n})")).expect("inserts");
        drop(client);
        folder = server.kill();
    }
    assert!(!choice(&folder.path().join("data")).exists(), "only auto measures");
    assert_eq!(Server::on(folder, &[]).value("SELECT sum(i) FROM t"), "6");
}

#[test]
fn auto_chooses_a_sync_method_once() {
    const AUTO: &str = "wal_sync_method=auto";
    let server = Server::with(&[AUTO]);
    let line = server.wait_for_log("wal_sync_method: ");
    assert!(line.contains("is the best here: blocks made durable in a second"), "{line}");
    let chosen = server.value("SHOW wal_sync_method");
    assert!(line.contains(&format!("wal_sync_method: {chosen} is")), "{line}");
    assert_eq!(server.value("SELECT current_setting('wal_sync_method')"), chosen);
    let recorded = std::fs::read_to_string(choice(&server.data_dir())).expect("recorded");
    assert!(recorded.contains(&format!("\nmethod = {chosen}\n")), "{recorded}");

    // Later starts keep the choice, even if another method were better now.
    let other = if chosen == "open_sync" { "fsync" } else { "open_sync" };
    let changed =
        recorded.replace(&format!("\nmethod = {chosen}\n"), &format!("\nmethod = {other}\n"));
    std::fs::write(choice(&server.data_dir()), changed).expect("written");
    let server = Server::on(server.stop(), &[AUTO]);
    server.wait_for_log(&format!("wal_sync_method is {other}, as chosen at an earlier start"));
    assert_eq!(server.value("SHOW wal_sync_method"), other);

    // They measure again if the choice is unreadable, or was made under other conditions.
    std::fs::write(choice(&server.data_dir()), "method = fastest").expect("written");
    let server = Server::on(server.stop(), &[AUTO]);
    server.wait_for_log("forebay.sync_method\" is not understood");
    server.wait_for_log("is the best here");
    let server = Server::on(server.stop(), &[AUTO, "io_method=worker"]);
    server.wait_for_log("is the best here");
    let recorded = std::fs::read_to_string(choice(&server.data_dir())).expect("recorded");
    assert!(recorded.contains("\nio_method = worker\n"), "{recorded}");
}

#[test]
fn the_log_s_functions_return_its_positions() {
    let server = Server::new();
    let mut client = server.client();
    client.query("CREATE TABLE t (i int4)").expect("creates");
    let file = value(&mut client, "SELECT pg_walfile_name(pg_current_wal_lsn())");
    assert!(segments(&server.data_dir()).contains(&file), "{file}");
    for (at, name) in [
        ("0/1000000", "000000010000000000000001"),
        ("0/1FFFFFF", "000000010000000000000001"),
        ("A/FFFFFFFF", "000000010000000A000000FF"),
    ] {
        assert_eq!(value(&mut client, &format!("SELECT pg_walfile_name('{at}')")), name);
    }
    assert_eq!(value(&mut client, "SELECT pg_wal_lsn_diff('1/0', '0/FFFFFF00')"), "256");
    assert_eq!(value(&mut client, "SELECT pg_wal_lsn_diff('0/1', '0/3')"), "-2");
    assert_eq!(failure(&mut client, "SELECT pg_walfile_name('no')").0, "22P02");
    for durable in [
        "SELECT pg_current_wal_flush_lsn() <= pg_current_wal_lsn()",
        "SELECT pg_current_wal_lsn() <= pg_current_wal_insert_lsn()",
    ] {
        assert_eq!(value(&mut client, durable), "t");
    }
    let before = value(&mut client, "SELECT pg_current_wal_insert_lsn()");
    client.query("INSERT INTO t VALUES (1)").expect("inserts");
    assert_eq!(value(&mut client, &format!("SELECT pg_current_wal_flush_lsn() > '{before}'")), "t");
}

#[test]
fn completed_segments_wait_for_the_archive() {
    let server = Server::with(&["archive_mode=on", "max_wal_size=32MB", "min_wal_size=32MB"]);
    let mut client = server.client();
    assert_eq!(value(&mut client, "SHOW archive_mode"), "on");
    let status = server.data_dir().join("pg_wal/archive_status");
    let mark = |name: &str, word: &str| status.join(format!("{name}{word}"));
    let mut completed = Vec::new();
    client.query("CREATE TABLE t (i int4)").expect("creates");
    for i in 0..3 {
        client.query(&format!("INSERT INTO t VALUES ({i})")).expect("inserts");
        let at = value(&mut client, "SELECT pg_switch_wal()");
        completed.push(value(&mut client, &format!("SELECT pg_walfile_name('{at}')")));
        client.query("CHECKPOINT").expect("checkpoint");
    }
    server.wait_for_log("\"archive_mode\" enabled, yet archiving is not configured");
    for name in &completed {
        assert!(
            mark(name, ".ready").exists() && segments(&server.data_dir()).contains(name),
            "{name}"
        );
    }
    // The archive has the first two.
    for name in &completed[..2] {
        std::fs::rename(mark(name, ".ready"), mark(name, ".done")).expect("was ready");
    }
    client.query("INSERT INTO t VALUES (3); CHECKPOINT").expect("checkpoint");
    let left = segments(&server.data_dir());
    assert_eq!(completed.iter().filter(|name| left.contains(name)).count(), 1, "{left:?}");
    assert!(mark(&completed[2], ".ready").exists() && !mark(&completed[0], ".done").exists());
    drop(client);
    let folder = server.kill();
    assert_eq!(Server::on(folder, &["archive_mode=on"]).value("SELECT count(*) FROM t"), "4");
}

#[test]
fn a_switch_ends_a_segment_once() {
    let server = Server::new();
    let mut client = server.client();
    client.query("CREATE TABLE t (i int4); INSERT INTO t VALUES (1)").expect("inserts");
    let file =
        |client: &mut _| value(client, "SELECT pg_walfile_name(pg_current_wal_insert_lsn())");
    let first = file(&mut client);
    let end = value(&mut client, "SELECT pg_switch_wal()");
    assert_eq!(value(&mut client, &format!("SELECT pg_walfile_name('{end}')")), first);
    let second = file(&mut client);
    assert!(second > first, "{second}");
    // Nothing was logged since: the second switch does nothing, and returns the segment's start.
    let again = value(&mut client, "SELECT pg_switch_wal()");
    assert!(again.ends_with("000000"), "{again}");
    assert_eq!(file(&mut client), second);
    client.query("INSERT INTO t VALUES (2)").expect("inserts");
    drop(client);
    let folder = server.kill();
    assert_eq!(Server::on(folder, &[]).value("SELECT sum(i) FROM t"), "3");
}

/// strace, attached to a server.
struct Tracer {
    child: Child,
    output: PathBuf,
}

impl Tracer {
    /// None if there is no strace, or it may not trace.
    fn attach(server: &Server) -> Option<Tracer> {
        let output = server.folder.path().join("trace");
        let mut command = Command::new("strace");
        command.args(["-f", "-y", "-qqq", "-e", "trace=openat,open,pwrite64,pwritev,pwritev2"]);
        command.arg("-o").arg(&output).args(["-p", &server.pid().to_string()]);
        let mut child = command.stderr(Stdio::null()).stdin(Stdio::null()).spawn().ok()?;
        // It is attached when the server has a tracer, or it ends.
        let status = format!("/proc/{}/status", server.pid());
        loop {
            let traced = std::fs::read_to_string(&status).expect("the server lives");
            if traced.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0")) {
                return Some(Tracer { child, output });
            }
            if child.try_wait().expect("a child").is_some() {
                return None;
            }
            std::thread::yield_now();
        }
    }

    /// Ends it, and returns its output.
    fn lines(mut self) -> Vec<String> {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
        let file = std::fs::File::open(&self.output).expect("a trace");
        BufReader::new(file).lines().map(|line| line.expect("text")).collect()
    }
}

/// What a trace shows of the files in pg_wal.
#[derive(Debug, Default)]
struct Seen {
    /// Opens of segments and of files that become segments, and how many of them were direct.
    opens: usize,
    direct: usize,
    writes: usize,
    /// Writes that began while others were in flight, by whether the file was being made.
    overlapping: BTreeMap<bool, usize>,
}

fn look_through(lines: &[String]) -> Seen {
    let mut seen = Seen::default();
    // Threads with an unfinished write to the log.
    let mut writing: BTreeMap<&str, bool> = BTreeMap::new();
    for line in lines {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        if call.starts_with("<... pwrite") {
            writing.remove(thread);
        }
        if !call.contains("/pg_wal/") {
            continue;
        }
        let is_file = call.contains("/pg_wal/xlogtemp") || call.contains("/pg_wal/00000001");
        if call.starts_with("open") && is_file {
            seen.opens += 1;
            seen.direct += usize::from(call.contains("O_DIRECT"));
        }
        if call.starts_with("pwrite") {
            let making = call.contains("/pg_wal/xlogtemp");
            seen.writes += 1;
            if writing.values().any(|other| *other == making) {
                *seen.overlapping.entry(making).or_default() += 1;
            }
            if call.contains("<unfinished") {
                writing.insert(thread, making);
            }
        }
    }
    seen
}

/// Pages of segments in the kernel's cache; None without the program that counts them.
fn cached_pages(data: &Path) -> Option<u64> {
    let paths: Vec<PathBuf> =
        segments(data).iter().map(|name| data.join("pg_wal").join(name)).collect();
    let output =
        Command::new("fincore").args(["-n", "-r", "-o", "PAGES"]).args(&paths).output().ok()?;
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let pages: Vec<u64> = text.split_whitespace().map(|n| n.parse().expect("a number")).collect();
    assert_eq!(pages.len(), paths.len(), "{text}");
    Some(pages.iter().sum())
}

#[test]
fn direct_wal_bypasses_the_kernel_s_cache() {
    let settings = [
        "io_direct=wal,wal_init",
        "io_method=worker",
        "io_workers=4",
        "wal_sync_method=open_datasync",
        "max_wal_size=128MB",
    ];
    // The first segment was made by init, through the cache.
    let folder = Server::new().stop();
    if let Err(refusal) = forebay_aio::probe_direct(folder.path()) {
        println!(
            "skipped: direct_wal_bypasses_the_kernel_s_cache needs a file system that can \
             ({refusal})"
        );
        return;
    }
    let server = Server::on(folder, &settings);
    let Some(tracer) = Tracer::attach(&server) else {
        println!("skipped: direct_wal_bypasses_the_kernel_s_cache needs strace");
        return;
    };
    let mut clients: Vec<_> = (0..4).map(|_| server.client()).collect();
    let row = "7\tsome text, long enough that a megabyte of it does not take forever to load and \
        to log\n";
    for (n, client) in clients.iter_mut().enumerate() {
        client.query(&format!("CREATE TABLE t{n} (i int4, s text)")).expect("creates");
    }
    std::thread::scope(|scope| {
        for (n, client) in clients.iter_mut().enumerate() {
            scope.spawn(move || {
                for _ in 0..5 {
                    client.start_copy(&format!("COPY t{n} FROM STDIN")).expect("copies");
                    client.copy_data(row.repeat(20_000).as_bytes()).expect("data");
                    client.finish_copy().expect("copied");
                }
            });
        }
    });
    let seen = look_through(&tracer.lines());
    println!("{seen:?}");
    assert!(seen.opens >= 4, "no segments were made: {seen:?}");
    assert_eq!(seen.opens, seen.direct, "{seen:?}");
    assert!(
        seen.overlapping.get(&true).is_some_and(|n| *n > 0),
        "zeros go out one by one: {seen:?}"
    );
    assert!(
        seen.overlapping.get(&false).is_some_and(|n| *n > 0),
        "the log goes out one by one: {seen:?}"
    );
    match cached_pages(&server.data_dir()) {
        Some(pages) => assert_eq!(pages, 0, "the kernel caches pages of the log"),
        None => println!("skipped: what the kernel caches, which needs fincore"),
    }
    assert_eq!(server.value("SELECT count(*) FROM t0"), "100000");
}

#[test]
fn traces_are_parsed() {
    let line = |text: &str| text.replace("WAL", "/tmp/x/data/pg_wal");
    let lines: Vec<String> = [
        "10 openat(AT_FDCWD, \"WAL/xlogtemp.7\", O_RDWR|O_CREAT|O_DIRECT) = 3<WAL/xlogtemp.7>",
        "10 openat(AT_FDCWD, \"WAL/000000010000000000000002\", O_RDWR) = \
         4<WAL/000000010000000000000002>",
        "10 openat(AT_FDCWD, \"WAL/archive_status\", O_RDONLY|O_DIRECTORY) = 5<WAL/archive_status>",
        "11 pwrite64(3<WAL/xlogtemp.7>, \"\\0\"..., 8192, 0 <unfinished ...>",
        "12 pwrite64(4<WAL/000000010000000000000002>, \"\\0\"..., 8192, 0) = 8192",
        "12 pwrite64(3<WAL/xlogtemp.7>, \"\\0\"..., 8192, 0 <unfinished ...>",
        "11 <... pwrite64 resumed>)          = 8192",
        "12 <... pwrite64 resumed>)          = 8192",
        "12 pwrite64(3<WAL/xlogtemp.7>, \"\\0\"..., 8192, 0) = 8192",
    ]
    .map(line)
    .to_vec();
    let seen = look_through(&lines);
    assert_eq!((seen.opens, seen.direct, seen.writes), (2, 1, 4));
    assert_eq!(seen.overlapping, BTreeMap::from([(true, 1)]));
}
