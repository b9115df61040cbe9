//! Several databases: entering them, making, changing and dropping them, by themselves and beside
//! PostgreSQL's.

use crate::common::*;
use forebay_engine::types::oids;
use forebay_engine::{
    ColumnDef, CopyStrategy, Datum, Engine, EngineError, InitOptions, IoMethod, LockMode,
    NewDatabase, RowBatch, Session, ShutdownMode,
};
use forebay_testkit::peer::Peer;
use std::path::Path;

/// A directory with template0, template1 and postgres.
fn cluster() -> (tempfile::TempDir, std::path::PathBuf) {
    let scratch = scratch();
    let dir = scratch.path().join("data");
    let options = InitOptions { wal_segment_size: 1 << 20, sync: false, ..InitOptions::default() };
    Engine::init(&dir, &options).expect("init");
    (scratch, dir)
}

fn new(name: &str, template: &str, strategy: CopyStrategy) -> NewDatabase {
    let template = Some(template.to_owned());
    NewDatabase { name: name.to_owned(), template, strategy, ..NewDatabase::default() }
}

fn create(session: &mut Session, new: &NewDatabase) -> Result<u32, EngineError> {
    transaction(session, |session| session.create_database(new))
}

fn drop_it(session: &mut Session, name: &str, force: bool) -> Result<bool, EngineError> {
    transaction(session, |session| session.drop_database(name, false, force))
}

fn fill(session: &mut Session, table: &str, rows: i32) {
    transaction(session, |session| {
        session.create_table(None, table, &[ColumnDef::new("a", oids::INT4)])?;
        let table = session.open_table(None, table, LockMode::RowExclusive)?;
        let mut batch = RowBatch::new(&table);
        for n in 0..rows {
            batch.push(&[Datum::Int4(n)])?;
        }
        session.insert_batch(&table, &mut batch)
    })
    .expect("fill");
}

fn count(session: &mut Session, table: &str) -> Option<usize> {
    transaction(session, |session| {
        let Some(table) = session.open_table_if_exists(None, table, LockMode::AccessShare)? else {
            return Ok(None);
        };
        let mut scan = session.scan(&table)?;
        let mut rows = 0;
        while scan.next(session)?.is_some() {
            rows += 1;
        }
        Ok(Some(rows))
    })
    .expect("count")
}

fn directories(dir: &Path, oid: u32) -> bool {
    dir.join("base").join(oid.to_string()).exists()
}

#[test]
fn a_session_enters_a_database_by_name() {
    let (_scratch, dir) = cluster();
    let engine = open(&dir, &config(IoMethod::Sync, false));
    let session = engine.session_as("postgres", "postgres").expect("enter");
    assert_eq!((session.database(), session.role()), (5, 10));
    assert_eq!((session.database_name(), session.role_name()), ("postgres", "postgres"));
    assert_eq!(engine.session_as("template1", "postgres").expect("enter").database(), 1);
    for (database, role, state, message) in [
        ("nope", "postgres", "3D000", "database \"nope\" does not exist"),
        ("postgres", "joe", "28000", "role \"joe\" does not exist"),
        ("postgres", "pg_monitor", "28000", "role \"pg_monitor\" is not permitted to log in"),
        (
            "template0",
            "postgres",
            "55000",
            "database \"template0\" is not currently accepting connections",
        ),
    ] {
        let error = engine.session_as(database, role).expect_err("refused");
        assert_eq!((error.sqlstate(), error.to_string().as_str()), (state, message));
    }
}

#[test]
fn a_copy_has_what_its_template_had_and_goes_its_own_way() {
    for strategy in [CopyStrategy::WalLog, CopyStrategy::FileCopy] {
        let (_scratch, dir) = cluster();
        let engine = open(&dir, &config(IoMethod::Sync, false));
        let mut session = engine.session().expect("session");
        let mut other = engine.session_as("template1", "postgres").expect("enter");
        fill(&mut other, "t", 3000);
        let error = create(&mut session, &new("shop", "template1", strategy)).expect_err("in use");
        assert_eq!(error.sqlstate(), "55006");
        assert_eq!(
            error.to_string(),
            "source database \"template1\" is being accessed by other users"
        );
        assert_eq!(error.detail().as_deref(), Some("There is 1 other session using the database."));
        drop(other);
        let shop = create(&mut session, &new("shop", "template1", strategy)).expect("create");
        assert_eq!(state(create(&mut session, &new("shop", "template1", strategy))), "42P04");
        assert_eq!(state(create(&mut session, &new("x", "nope", strategy))), "3D000");
        let mut in_shop = engine.session_as("shop", "postgres").expect("enter");
        assert_eq!(in_shop.database(), shop);
        assert_eq!(count(&mut in_shop, "t"), Some(3000));
        fill(&mut in_shop, "own", 10);
        assert_eq!(count(&mut session, "own"), None);
        let mut template = engine.session_as("template1", "postgres").expect("enter");
        assert_eq!(count(&mut template, "own"), None);
        drop(template);

        // A crash loses nothing of it.
        drop((in_shop, session));
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        let engine = open(&dir, &config(IoMethod::Sync, false));
        let mut in_shop = engine.session_as("shop", "postgres").expect("enter");
        assert_eq!(
            (count(&mut in_shop, "t"), count(&mut in_shop, "own")),
            (Some(3000), Some(10)),
            "{strategy:?}"
        );

        // Dropped, its files are gone, and its name is free.
        let mut session = engine.session().expect("session");
        assert_eq!(state(drop_it(&mut session, "shop", false)), "55006");
        assert!(directories(&dir, shop));
        drop(in_shop);
        assert!(drop_it(&mut session, "shop", false).expect("drop"));
        assert!(!directories(&dir, shop));
        assert_eq!(state(engine.session_as("shop", "postgres")), "3D000");
        let again = create(&mut session, &new("shop", "template0", strategy)).expect("create");
        let mut in_shop = engine.session_as("shop", "postgres").expect("enter");
        assert_eq!(count(&mut in_shop, "t"), None);
        drop((in_shop, session));
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        let engine = open(&dir, &config(IoMethod::Sync, false));
        assert!(!directories(&dir, shop) && directories(&dir, again));
        engine.session_as("shop", "postgres").expect("enter");
    }
}

#[test]
fn what_is_refused_changes_nothing() {
    let (_scratch, dir) = cluster();
    let engine = open(&dir, &config(IoMethod::Sync, false));
    let mut session = engine.session().expect("session");
    for (name, state_of, message) in [
        ("nope", "3D000", "database \"nope\" does not exist"),
        ("template1", "42809", "cannot drop a template database"),
        ("postgres", "55006", "cannot drop the currently open database"),
    ] {
        let error = drop_it(&mut session, name, false).expect_err("refused");
        assert_eq!((error.sqlstate(), error.to_string().as_str()), (state_of, message));
    }
    let low = NewDatabase { oid: Some(100), ..new("low", "template1", CopyStrategy::WalLog) };
    let error = create(&mut session, &low).expect_err("reserved");
    assert_eq!(error.to_string(), "OIDs less than 16384 are reserved for system objects");
    let bad = NewDatabase { connection_limit: Some(-2), ..low };
    let bad = NewDatabase { oid: None, ..bad };
    assert_eq!(
        create(&mut session, &bad).expect_err("limit").to_string(),
        "invalid connection limit: -2"
    );
    // One that is rolled back leaves no files.
    session.begin().expect("begin");
    session.start_command().expect("command");
    let gone = NewDatabase { oid: Some(77_777), ..new("gone", "template1", CopyStrategy::WalLog) };
    assert_eq!(session.create_database(&gone).expect("create"), 77_777);
    assert!(directories(&dir, 77_777));
    session.abort().expect("abort");
    assert!(!directories(&dir, 77_777));
    assert_eq!(state(engine.session_as("gone", "postgres")), "3D000");
    assert_eq!(create(&mut session, &gone).expect("again"), 77_777);
}

#[test]
fn databases_are_renamed_and_changed() {
    let (_scratch, dir) = cluster();
    let engine = open(&dir, &config(IoMethod::Sync, false));
    let mut session = engine.session().expect("session");
    create(&mut session, &new("a", "template1", CopyStrategy::WalLog)).expect("create");
    let rename = |session: &mut Session, from: &str, to: &str| {
        transaction(session, |session| session.rename_database(from, to))
    };
    assert_eq!(state(rename(&mut session, "a", "postgres")), "42P04");
    assert_eq!(state(rename(&mut session, "postgres", "b")), "0A000");
    rename(&mut session, "a", "b").expect("rename");
    engine.session_as("b", "postgres").expect("enter");
    let alter = |session: &mut Session, name: &'static str, value: Datum<'static>| {
        transaction(session, |session| session.alter_database("b", &[(name, value.clone())]))
    };
    alter(&mut session, "datallowconn", Datum::Bool(false)).expect("alter");
    assert_eq!(state(engine.session_as("b", "postgres")), "55000");
    alter(&mut session, "datistemplate", Datum::Bool(true)).expect("alter");
    assert_eq!(state(drop_it(&mut session, "b", false)), "42809");
    alter(&mut session, "datistemplate", Datum::Bool(false)).expect("alter");
    drop_it(&mut session, "b", false).expect("drop");
}

#[test]
fn a_database_lives_in_a_tablespace() {
    for in_place in [true, false] {
        let (scratch, dir) = cluster();
        let outside = scratch.path().join("outside");
        std::fs::create_dir(&outside).expect("a directory");
        let location = if in_place { "" } else { outside.to_str().expect("UTF-8") };
        let engine = open(&dir, &config(IoMethod::Sync, false));
        let mut session = engine.session().expect("session");
        let space = transaction(&mut session, |s| s.create_tablespace("space", None, location));
        let space = space.expect("create");
        let again = transaction(&mut session, |s| s.create_tablespace("space", None, location));
        assert_eq!(state(again), "42710");
        if !in_place {
            let other = transaction(&mut session, |s| s.create_tablespace("x", None, location));
            assert_eq!(state(other), "55006");
        }
        let shop = NewDatabase {
            tablespace: Some(space),
            ..new("shop", "template1", CopyStrategy::WalLog)
        };
        let shop = create(&mut session, &shop).expect("create");
        let folder = dir.join(format!("pg_tblspc/{space}/PG_18_202506291/{shop}"));
        assert!(folder.join("PG_VERSION").exists() && !directories(&dir, shop));
        let mut in_shop = engine.session_as("shop", "postgres").expect("enter");
        fill(&mut in_shop, "t", 500);
        drop((in_shop, session));
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        let engine = open(&dir, &config(IoMethod::Sync, false));
        let mut in_shop = engine.session_as("shop", "postgres").expect("enter");
        assert_eq!(count(&mut in_shop, "t"), Some(500));
        drop(in_shop);
        let mut session = engine.session().expect("session");
        let drop_space = |session: &mut Session| {
            transaction(session, |session| session.drop_tablespace("space"))
        };
        assert_eq!(state(drop_space(&mut session)), "55000");
        drop_it(&mut session, "shop", false).expect("drop");
        drop_space(&mut session).expect("drop");
        assert!(!dir.join(format!("pg_tblspc/{space}")).exists());
        drop(session);
        // Redo of all of it comes to the same.
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        let engine = open(&dir, &config(IoMethod::Sync, false));
        assert_eq!(state(engine.session_as("shop", "postgres")), "3D000");
        assert!(!dir.join(format!("pg_tblspc/{space}")).exists());
        engine.shutdown(ShutdownMode::Fast).expect("stop");
    }
}

#[test]
fn schemas_roles_and_the_search_path() {
    let (_scratch, dir) = cluster();
    let engine = open(&dir, &config(IoMethod::Sync, false));
    let mut session = engine.session().expect("session");
    let flags = [("rolsuper", Datum::Bool(true)), ("rolcanlogin", Datum::Bool(true))];
    let joe = transaction(&mut session, |s| s.create_role("joe", &flags)).expect("role");
    assert_eq!(state(transaction(&mut session, |s| s.create_role("joe", &[]))), "42710");
    transaction(&mut session, |s| s.create_schema("joe", Some("joe"), false)).expect("schema");
    let mut as_joe = engine.session_as("postgres", "joe").expect("enter");
    assert_eq!(as_joe.role(), joe);
    // "$user" comes before public, for this role only.
    fill(&mut as_joe, "t", 3);
    assert_eq!(count(&mut session, "t"), None);
    assert_eq!(count(&mut as_joe, "t"), Some(3));
    let table = transaction(&mut as_joe, |s| s.table(Some("joe"), "t")).expect("look");
    assert_eq!(table.expect("is there").owner, joe);
    session.settings_mut().search_path = ["nope".to_owned(), "joe".to_owned()].into();
    assert_eq!(count(&mut session, "t"), Some(3));
    let path = transaction(&mut session, Session::search_path).expect("path");
    let names: Vec<(&str, bool)> = path.iter().map(|e| (&*e.name, e.implicit)).collect();
    assert_eq!(names, [("pg_temp", true), ("pg_catalog", true), ("joe", false)]);
    session.settings_mut().search_path = ["nope".to_owned()].into();
    assert_eq!(count(&mut session, "t"), None);
    let made = transaction(&mut session, |s| s.create_table(None, "u", &[]));
    assert_eq!(state(made), "3F000");

    let error =
        transaction(&mut session, |s| s.drop_roles(&["joe".to_owned()])).expect_err("in use");
    assert_eq!(error.sqlstate(), "55006");
    drop(as_joe);
    let error = transaction(&mut session, |s| s.drop_roles(&["joe".to_owned()]))
        .expect_err("it owns things");
    assert_eq!(error.sqlstate(), "2BP01");
    assert_eq!(error.detail().as_deref(), Some("owner of schema joe\nowner of table joe.t"));
    let error = transaction(&mut session, |s| s.drop_schemas(&["joe".to_owned()], false))
        .expect_err("not empty");
    assert_eq!(error.to_string(), "cannot drop schema joe because other objects depend on it");
    assert_eq!(error.detail().as_deref(), Some("table joe.t depends on schema joe"));
    let gone =
        transaction(&mut session, |s| s.drop_schemas(&["joe".to_owned()], true)).expect("drop");
    assert_eq!(gone, ["table joe.t"]);
    transaction(&mut session, |s| s.drop_roles(&["joe".to_owned()])).expect("drop");
    assert_eq!(state(engine.session_as("postgres", "joe")), "28000");
}

/// PostgreSQL reads what was made here before a crash, and the other way round.
#[test]
fn databases_pass_from_hand_to_hand() {
    let Some(peer) = Peer::find("databases_pass_from_hand_to_hand") else { return };
    for strategy in [CopyStrategy::WalLog, CopyStrategy::FileCopy] {
        let (scratch, dir) = cluster();
        let engine = open(&dir, &config(IoMethod::Sync, false));
        let mut session = engine.session().expect("session");
        let mut template = engine.session_as("template1", "postgres").expect("enter");
        fill(&mut template, "t", 2000);
        drop(template);
        create(&mut session, &new("made", "template1", strategy)).expect("create");
        create(&mut session, &new("dropped", "template1", strategy)).expect("create");
        drop_it(&mut session, "dropped", false).expect("drop");
        drop(session);
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        drop(engine);
        let name = format!("data{}", strategy as u8);
        peer.adopt(&dir, &name);
        let server = peer.start(&name, "-c autovacuum=off");
        let query = |database: &str, sql: &str| {
            let output = peer.psql(server.port).args(["-d", database, "-c", sql]).output();
            let output = output.expect("psql");
            let log = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{sql}: {log}");
            String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
        };
        assert_eq!(query("made", "select count(*) from t"), "2000");
        assert_eq!(
            query("postgres", "select count(*) from pg_database where datname = 'dropped'"),
            "0"
        );
        query("postgres", "create database theirs template made");
        query("postgres", "create database gone strategy file_copy");
        query("postgres", "drop database gone");
        server.crash();
        let theirs = scratch.path().join("theirs");
        peer.fetch(&name, &theirs);
        let engine = open(&theirs, &config(IoMethod::Sync, false));
        let mut session = engine.session_as("theirs", "postgres").expect("enter");
        assert_eq!(count(&mut session, "t"), Some(2000));
        drop(session);
        assert_eq!(state(engine.session_as("gone", "postgres")), "3D000");
        engine.shutdown(ShutdownMode::Fast).expect("stop");
    }
}

/// A crash in the midst of a copy file by file may leave a map that was made and not written; and
/// somebody may have put files where tablespaces are.
#[test]
fn unfinished_copies_and_stray_files_do_not_keep_the_server_down() {
    let (_scratch, dir) = cluster();
    let maps = [("base/90001", &[][..]), ("base/90002", &[0; 524][..])];
    for (place, bytes) in maps {
        std::fs::create_dir(dir.join(place)).expect("directory");
        std::fs::write(dir.join(place).join("pg_filenode.map"), bytes).expect("map");
    }
    // These are no tablespaces.
    for file in ["pg_tblspc/README", "pg_tblspc/90003"] {
        std::fs::write(dir.join(file), "theirs").expect("file");
    }
    for stop in [ShutdownMode::Immediate, ShutdownMode::Fast, ShutdownMode::Fast] {
        let engine = open(&dir, &config(IoMethod::Sync, false));
        engine.session().expect("session");
        engine.shutdown(stop).expect("stop");
    }
    std::fs::write(dir.join("base/90002/pg_filenode.map"), [7; 524]).expect("map");
    let error = Engine::open(&dir, config(IoMethod::Sync, false)).expect_err("damaged").to_string();
    assert!(error.contains("contains invalid data"), "{error}");
}

/// As in PostgreSQL, a tablespace whose directory somebody has removed can be dropped.
#[test]
fn a_tablespace_without_its_directory_is_dropped_with_a_warning() {
    let (scratch, dir) = cluster();
    let outside = scratch.path().join("outside");
    std::fs::create_dir(&outside).expect("directory");
    let engine = open(&dir, &config(IoMethod::Sync, false));
    let mut session = engine.session().expect("session");
    let location = format!("{}/./", outside.display());
    let made = transaction(&mut session, |s| s.create_tablespace("space", None, &location));
    let link = dir.join(format!("pg_tblspc/{}", made.expect("create")));
    assert_eq!(std::fs::read_link(&link).expect("link"), outside);
    std::fs::remove_dir_all(&outside).expect("remove");
    session.take_warnings();
    transaction(&mut session, |s| s.drop_tablespace("space")).expect("drop");
    let warnings = session.take_warnings();
    assert!(
        warnings.iter().any(|w| w.sqlstate == "58P01" && w.message.contains("could not open")),
        "{warnings:?}"
    );
    assert!(std::fs::symlink_metadata(&link).is_err(), "the link is gone");
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}
