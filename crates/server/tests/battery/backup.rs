//! Base backups: pg_verifybackup accepts them, and PostgreSQL 18 recovers every row from them.

use std::fs;
use std::path::Path;

use forebay_testkit::peer::Peer;

use super::forebay::{Forebay, forebay, scratch};

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// The data directory of the only backup of an archive, as seen from outside and inside.
fn only_backup(peer: &Peer, archive: &str) -> (std::path::PathBuf, String) {
    let dir = peer.outside(&format!("{archive}/backups"));
    let names: Vec<_> =
        fs::read_dir(dir).expect("backups").map(|e| e.expect("an entry").file_name()).collect();
    let [name] = names.as_slice() else { panic!("{names:?}") };
    let data = format!("{archive}/backups/{}/data", name.to_string_lossy());
    (peer.outside(&data), peer.inside(&data))
}

#[test]
#[ignore = "needs PostgreSQL 18; run by cargo xtask test"]
fn postgresql_recovers_to_a_restore_point_from_a_backup_of_itself() {
    let Some(peer) = Peer::find("postgresql_comes_back_at_a_restore_point") else { return };
    for name in ["wal", "archive"] {
        fs::create_dir(peer.outside(name)).expect("a folder");
    }
    peer.init("pg");
    fs::create_dir_all(peer.outside("space")).expect("a folder");
    peer.give_to_postgres();
    let archiving =
        format!("-c archive_mode=on -c archive_command='cp %p {}/%f'", peer.inside("wal"));
    let postgres = peer.start("pg", &archiving);
    postgres.query("CREATE TABLE t (id int8, note text); CREATE UNLOGGED TABLE u (id int8)");
    postgres.query("INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 100000) g");
    postgres.query("INSERT INTO u SELECT g FROM generate_series(1, 1000) g");
    let (data, archive) = (peer.outside("pg"), peer.outside("archive"));
    let connection = format!("host=127.0.0.1 port={} user=postgres", postgres.port);
    let said = forebay(&[
        "backup",
        "-D",
        path(&data),
        "-d",
        &connection,
        "--archive",
        path(&archive),
        "-j",
        "3",
    ]);
    assert!(said.contains("WAL from"), "{said}");
    postgres.query("INSERT INTO t SELECT g, 'row ' || g FROM generate_series(100001, 150000) g");
    postgres.query("SELECT pg_create_restore_point('here')");
    postgres.query("INSERT INTO t SELECT g, 'late ' || g FROM generate_series(1, 1000) g");
    postgres.query("SELECT pg_switch_wal()");
    let archived = "DO $$ BEGIN PERFORM pg_switch_wal(); \
        WHILE (SELECT last_archived_wal < pg_walfile_name(pg_current_wal_lsn() - 16777216) FROM \
        pg_stat_archiver) LOOP \
        PERFORM pg_sleep(0.05); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$";
    postgres.query(archived);
    drop(postgres);

    let (_, backup) = only_backup(&peer, "archive");
    peer.give_to_postgres();
    peer.run("pg_verifybackup", &["-w", &peer.inside("wal"), &backup]);
    let restored = peer.outside("restored");
    let fetch = format!("cp {}/%f %p", peer.inside("wal"));
    let words =
        ["restore", "-D", path(&restored), "--archive", path(&archive), "--target-name", "here"];
    forebay(&[&words[..], &["--restore-command", &fetch]].concat());
    peer.give_to_postgres();
    let postgres = peer.start("restored", "-c archive_mode=off");
    postgres.wait_for("SELECT not pg_is_in_recovery()");
    assert_eq!(postgres.query("SELECT count(*), sum(id) FROM t"), "150000|11250075000");
    assert_eq!(postgres.query("SELECT count(*) FROM u"), "0");
    drop(postgres);
    peer.run("pg_checksums", &["--check", "-D", &peer.inside("restored")]);
}

#[test]
#[ignore = "needs PostgreSQL 18; run by cargo xtask test"]
fn every_kind_of_manifest_is_verified_by_postgresql() {
    let Some(peer) = Peer::find("every_kind_of_manifest") else { return };
    peer.init("pg");
    let data = peer.outside("pg");
    for kind in ["none", "crc32c", "sha256"] {
        let archive = peer.outside(kind);
        fs::create_dir(&archive).expect("a folder");
        let words = [
            "backup",
            "-D",
            path(&data),
            "--archive",
            path(&archive),
            "--manifest-checksums",
            kind,
        ];
        forebay(&words);
        let (outside, inside) = only_backup(&peer, kind);
        peer.give_to_postgres();
        peer.run("pg_verifybackup", &[&inside]);
        // And it reports an error when something is wrong.
        fs::write(outside.join("PG_VERSION"), "18\n\n").expect("a file");
        let refused = peer.command("pg_verifybackup").arg(&inside).output().expect("it runs");
        assert!(!refused.status.success(), "{kind}");
    }
}

#[test]
#[ignore = "needs PostgreSQL 18; run by cargo xtask test"]
fn postgresql_recovers_from_a_backup_of_a_forebay_that_is_written_to() {
    let Some(peer) = Peer::find("postgresql_recovers_from_a_backup_of_a_forebay") else { return };
    let folder = scratch("backup");
    let (data, archive) = (folder.path().join("data"), peer.outside("archive"));
    fs::create_dir(&archive).expect("a folder");
    let server = Forebay::start(&data, &["shared_buffers=8MB"]);
    server.query("CREATE TABLE t (id int8, note text)");
    server.query("INSERT INTO t VALUES (1, 'one')");
    for _ in 0..14 {
        server.query("INSERT INTO t SELECT id, note FROM t");
    }
    // Writes go on until the backup is made.
    let mut writer = server.psql();
    let insert = "INSERT INTO t VALUES (2, 'two');\n".repeat(50_000);
    let script = folder.path().join("script");
    fs::write(&script, insert).expect("a file");
    let mut writer = writer.arg("-f").arg(&script).spawn().expect("psql starts");
    forebay(&["backup", "-D", path(&data), "--archive", path(&archive), "-j", "2"]);
    writer.kill().expect("psql is stopped");
    writer.wait().expect("psql ends");
    let now: u64 = server.query("SELECT count(*) FROM t").parse().expect("a number");
    server.stop();

    let (_, inside) = only_backup(&peer, "archive");
    peer.give_to_postgres();
    peer.run("pg_verifybackup", &[&inside]);
    let restored = peer.outside("restored");
    forebay(&["restore", "-D", path(&restored), "--archive", path(&archive), "--standalone"]);
    peer.adopt(&restored, "for-postgres");
    // No session can log in without PostgreSQL's other catalogs, so it only recovers and stops.
    drop(peer.start("for-postgres", "-c autovacuum=off"));
    let log = peer.log();
    assert!(log.contains("completed backup recovery"), "{log}");
    assert!(log.contains("database system is shut down"), "{log}");
    peer.run("pg_checksums", &["--check", "-D", &peer.inside("for-postgres")]);

    peer.take_back();
    // Forebay's own recovery finds the same rows as PostgreSQL's.
    let count = |directory: &Path| {
        let server = Forebay::start(directory, &[]);
        let found = server.query("SELECT count(*), sum(id) FROM t");
        let ones = server.query("SELECT count(*) FROM t WHERE id = 1 AND note = 'one'");
        assert_eq!(ones, "16384", "{}", directory.display());
        server.stop();
        found
    };
    let found = count(&restored);
    let rows: u64 = found.split('|').next().and_then(|n| n.parse().ok()).expect("a number");
    assert!((1 << 14..=now).contains(&rows), "{rows} of {now} rows");
    assert_eq!(count(&peer.outside("for-postgres")), found);
}
