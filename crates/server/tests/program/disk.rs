//! A disk that returns other bytes than were written, and one that is full.

use super::harness::{Mount, Server, failure, value};
use forebay_server::client::{Client, ClientError};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

const BLOCK: u64 = 8192;

fn load(client: &mut Client, table: &str, rows: usize) -> Result<Vec<String>, ClientError> {
    const ROW: &str = "7\tsome text, long enough that a megabyte of it does not take forever to \
        load and to log\n";
    let chunk = ROW.repeat(1000);
    client.start_copy(&format!("COPY {table} FROM STDIN"))?;
    for _ in 0..rows / 1000 {
        client.copy_data(chunk.as_bytes())?;
    }
    Ok(client.finish_copy()?.tags)
}

#[test]
fn a_damaged_page_fails_only_statements_that_read_it() {
    let server = Server::new();
    let mut client = server.client();
    for table in ["hurt", "well"] {
        client.query(&format!("CREATE TABLE {table} (i int4, s text)")).expect("creates");
        assert_eq!(load(&mut client, table, 1000).expect("loads"), ["COPY 1000"]);
    }
    let file = value(&mut client, "SELECT relfilenode FROM pg_class WHERE relname = 'hurt'");
    drop(client);
    let folder = server.stop();
    let path = folder.path().join("data/base/5").join(&file);
    let disk =
        std::fs::OpenOptions::new().read(true).write(true).open(&path).expect("the table's file");
    let mut bytes = [0; 8];
    disk.read_exact_at(&mut bytes, 3 * BLOCK + 6000).expect("reads");
    disk.write_all_at(&bytes.map(|b| !b), 3 * BLOCK + 6000).expect("writes");

    for settings in [&["io_method=sync"][..], &["io_method=worker"]] {
        let server = Server::on(Arc::clone(&folder), settings);
        let mut client = server.client();
        for _ in 0..2 {
            let (state, message) = failure(&mut client, "SELECT count(*) FROM hurt");
            assert_eq!(state, "XX001");
            assert!(
                message.contains(&format!("block 3 of relation \"base/5/{file}\"")),
                "{message}"
            );
        }
        assert_eq!(failure(&mut client, "COPY hurt TO STDOUT").0, "XX001");
        assert_eq!(value(&mut client, "SELECT count(*) FROM well"), "1000");
        // Rows before the damage can be read, and the table can be dropped.
        assert_eq!(value(&mut client, "SELECT i FROM hurt LIMIT 1"), "7");
        client.query("CREATE TABLE more (i int4); DROP TABLE more").expect("goes on");
        drop(client);
        server.stop();
    }
    let server = Server::on(folder, &[]);
    server.client().query("DROP TABLE hurt; CHECKPOINT").expect("drops");
    assert_eq!(server.value("SELECT count(*) FROM well"), "1000");
}

/// The file system loses a write and keeps the old page. The checkpoint finds that, and so does a
/// read.
#[test]
fn a_lost_write_stops_the_server_and_recovery_repeats_it() {
    if let Err(refusal) = forebay_aio::probe_direct(&std::env::temp_dir()) {
        println!(
            "skipped: a_lost_write_stops_the_server_and_recovery_repeats_it needs a file system \
             with direct I/O ({refusal})"
        );
        return;
    }
    let verified = ["checkpoint_verify_writes=on"];
    for (io_direct, notices) in [
        ("io_direct=", "CHECKPOINT"),
        ("io_direct=data", "CHECKPOINT"),
        ("io_direct=data", "SELECT count(*) FROM t"),
    ] {
        let mut server = Server::with(&[verified[0], io_direct]);
        let mut client = server.client();
        assert_eq!(value(&mut client, "SHOW checkpoint_verify_writes"), "on");
        client
            .query("CREATE TABLE t (i int4); INSERT INTO t VALUES (1); CHECKPOINT")
            .expect("all is well");
        server.wait_for_log("buffers read back from disk");
        let file = format!(
            "base/5/{}",
            value(&mut client, "SELECT relfilenode FROM pg_class WHERE relname = 't'")
        );
        let path = server.data_dir().join(&file);
        let before = std::fs::read(&path).expect("the table's file");
        client.query("INSERT INTO t VALUES (2)").expect("inserts");
        client.query("SELECT count(*) FROM pg_buffercache_evict_all()").expect("written and gone");
        let disk = std::fs::OpenOptions::new().write(true).open(&path).expect("the table's file");
        disk.write_all_at(&before[..BLOCK as usize], 0).expect("writes");
        assert!(client.query(notices).is_err(), "{notices} under {io_direct}");
        assert!(!server.wait().success());
        server.wait_for_log(&format!("PANIC: lost write of block 0 in file \"{file}\""));
        let server = Server::on(Arc::clone(&server.folder), &verified);
        let mut client = server.client();
        assert_eq!(value(&mut client, "SELECT count(*) FROM t"), "2");
        client.query("CHECKPOINT").expect("all is there");
    }
}

/// A small file system of its own under a data directory.
struct SmallDisk {
    folder: Arc<TempDir>,
    mount: Mount,
}

impl SmallDisk {
    /// None without the right to mount.
    fn new(megabytes: u32) -> Option<SmallDisk> {
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        let mount =
            Mount::new(&folder.path().join("data"), "tmpfs", &format!("size={megabytes}m"))?;
        Some(SmallDisk { folder, mount })
    }

    /// Fills it to the last block.
    fn fill(&self) -> PathBuf {
        let path = self.mount.path.join("ballast");
        let mut ballast = std::fs::File::create(&path).expect("made");
        for size in [1 << 20, 4096] {
            while ballast.write_all(&vec![1; size]).is_ok() {}
        }
        path
    }
}

/// The SQLSTATE with which loading fails.
fn load_fails(client: &mut Client, table: &str, rows: usize) -> String {
    match load(client, table, rows) {
        Err(ClientError::Server(fields)) => fields.get(b'C').to_owned(),
        other => panic!("the disk is too small for that: {other:?}"),
    }
}

#[test]
fn a_full_disk_fails_the_statement_until_there_is_room() {
    let Some(disk) = SmallDisk::new(96) else {
        println!("skipped: a_full_disk_fails_the_statement_until_there_is_room needs root");
        return;
    };
    let server = Server::on(Arc::clone(&disk.folder), &["max_wal_size=32MB", "min_wal_size=32MB"]);
    let mut client = server.client();
    for table in ["small", "large"] {
        client.query(&format!("CREATE TABLE {table} (i int4, s text)")).expect("creates");
    }
    client.query("INSERT INTO small VALUES (1, 'x')").expect("inserts");

    let ballast = disk.fill();
    assert_eq!(load_fails(&mut client, "large", 100_000), "53100");
    assert_eq!(value(&mut client, "SELECT count(*) FROM small"), "1");
    assert_eq!(value(&mut client, "SELECT count(*) FROM large"), "0");
    std::fs::remove_file(ballast).expect("removed");
    assert_eq!(load(&mut client, "large", 10_000).expect("there is room"), ["COPY 10000"]);

    assert_eq!(load_fails(&mut client, "large", 2_000_000), "53100");
    assert_eq!(value(&mut client, "SELECT count(*) FROM large"), "10000");
    // The log reserves a segment for statements that free space. New rows can't use it, not even
    // those of catalogs, so the table must be dropped before the next one is created.
    client.query("DROP TABLE large").expect("makes room");
    client.query("CHECKPOINT").expect("makes room");
    client.query("CREATE TABLE next (i int4, s text)").expect("there is room");
    assert_eq!(load(&mut client, "next", 10_000).expect("there is room"), ["COPY 10000"]);
    assert_eq!(server.value("SELECT count(*) FROM small"), "1");
    let folder = server.kill();
    assert_eq!(Server::on(folder, &[]).value("SELECT count(*) FROM next"), "10000");
}
