//! No row of the catalogs refers to what is gone: sessions whose DDL meets wait for each other, a
//! transaction uses the schemas that it has made, and temporary tables go with all they have. And
//! what PostgreSQL has made and cannot be changed as PostgreSQL changes it is left as it is.

use std::path::Path;

use crate::fixture::{Fixture, across, open, open_made};
use crate::support::run;
use forebay_engine::check::{CheckObserver, CheckOptions, CheckedRelation, Finding, check};
use forebay_engine::{Engine, InitOptions, ShutdownMode};
use forebay_testkit::peer::Peer;

/// What a statement comes to that meets another session's open transaction, which then commits.
fn meets(fixture: &mut Fixture, change: &str, statement: &str) -> String {
    let mut other = fixture.connect();
    let lines = across(fixture, change, || run(&mut other, statement));
    other.close();
    lines.into_iter().next().expect("a line")
}

fn refused(fixture: &mut Fixture, statement: &str) -> String {
    let lines = run(&mut fixture.conn, statement);
    lines.into_iter().find(|line| line.starts_with('!')).unwrap_or_default()
}

#[test]
fn who_drops_and_who_refers_wait_for_each_other() {
    let mut fixture = open_made(|dir| {
        std::fs::create_dir(dir).expect("directory");
        let options = InitOptions {
            wal_segment_size: 1 << 20,
            sync: false,
            templates: true,
            ..InitOptions::default()
        };
        Engine::init(dir, &options).expect("init");
    });
    fixture.rows("create role r; create role s; create role m");
    fixture.rows("create database d");
    fixture.rows("create schema a; create schema b; create schema c; create schema e");
    fixture.rows("create sequence q; create sequence p; create sequence o; create sequence n");
    fixture.rows("create table t (a int); create table u (a int); create table v (a int)");
    fixture.rows("create index v_a on v (a)");
    let space = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("directory");
    fixture.rows(&format!("create tablespace space location '{}'", space.path().display()));
    let mut wrong = Vec::new();
    for (change, statement, expected) in [
        ("create table a.t (a int)", "drop schema a", "2BP01 cannot drop schema a"),
        ("drop schema b", "create table b.t (a int)", "3F000 schema \"b\" does not exist"),
        ("create sequence c.lost", "drop schema c cascade", "cascades to sequence c.lost"),
        ("alter schema e owner to r", "drop role r", "2BP01 role \"r\" cannot be dropped"),
        ("drop role s", "alter table t owner to s", "42704 role \"s\" does not exist"),
        ("grant m to r", "drop role m", "DROP ROLE"),
        ("alter table t alter a set default nextval('q')", "drop sequence q", "2BP01 cannot drop"),
        ("drop sequence p", "alter table t alter a set default nextval('p')", "42P01 relation"),
        ("comment on table t is 'lost'", "drop table t", "DROP TABLE"),
        ("comment on index v_a is 'lost'", "drop table v", "DROP TABLE"),
        ("drop table u", "comment on table u is 'lost'", "42P01 relation \"u\" does not exist"),
        ("alter sequence o rename to o2", "drop sequence o", "42P01 sequence \"o\" does not"),
        ("alter sequence n rename to n2", "alter sequence n increment 2", "42P01 relation \"n\""),
        ("alter database d set work_mem = '2MB'", "drop database d", "DROP DATABASE"),
        (
            "alter tablespace space rename to other",
            "drop tablespace space",
            "42704 tablespace \"space\" does not exist",
        ),
        (
            "alter tablespace other rename to another",
            "create database d tablespace other",
            "42704 tablespace \"other\" does not exist",
        ),
    ] {
        let found = meets(&mut fixture, change, statement);
        if !found.contains(expected) {
            wrong.push(format!("{change} / {statement}: {found}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (what, query) in [
        ("a relation", "select relname from pg_class where relname = 'lost'"),
        ("a comment", "select objoid from pg_description where description = 'lost'"),
        (
            "a membership",
            "select member from pg_auth_members where grantor = 10 and roleid > 16383",
        ),
        ("a setting", "select setdatabase from pg_db_role_setting"),
    ] {
        assert_eq!(fixture.rows(query), [""; 0], "{what}");
    }
    fixture.close();
}

#[test]
fn a_transaction_uses_the_schemas_that_it_has_made() {
    let mut fixture = open("");
    fixture.rows("create schema app; create table app.t (a int)");
    fixture.rows("begin; drop schema app cascade; create schema app");
    fixture.rows("create table app.t (a int, b text); commit");
    fixture.rows("insert into app.t values (1, 'x')");
    fixture.rows("begin; alter schema app rename to old; create schema app");
    fixture.rows("create table app.t (a int); insert into app.t values (2); commit");
    fixture.rows("vacuum");
    let mut fixture = fixture.restart(ShutdownMode::Fast);
    assert_eq!(fixture.rows("select a from old.t"), ["1"]);
    assert_eq!(fixture.rows("select a from app.t"), ["2"]);
    fixture.rows("drop schema old cascade; drop schema app cascade");
    assert_eq!(fixture.rows("select relname from pg_class where oid > 16383"), [""; 0]);
    fixture.close();
}

#[test]
fn temporary_tables_go_with_what_belongs_to_them() {
    const MAKE: &str = "create temp table t (a serial primary key, b int); \
                        create temp sequence s; \
                        create temp table u (a int default nextval('s'), b int references t)";
    const LEFT: &str = "select relname from pg_class where oid > 16383 and relpersistence = 't'";
    let mut fixture = open("");
    let mut other = fixture.connect();
    assert_eq!(run(&mut other, MAKE).last().map(String::as_str), Some("Z I"));
    assert!(!fixture.rows(LEFT).is_empty());
    other.close();
    assert_eq!(fixture.rows(LEFT), [""; 0]);
    fixture.rows(MAKE);
    fixture.rows("discard temp");
    assert_eq!(fixture.rows(LEFT), [""; 0]);
    fixture.rows("begin; create temp table t (a serial primary key) on commit drop; commit");
    assert_eq!(fixture.rows(LEFT), [""; 0]);
    fixture.close();
}

#[test]
fn a_serial_column_goes_with_its_sequence() {
    let mut fixture = open("");
    fixture.rows("create table t (a serial, b int); alter table t drop column a");
    assert_eq!(fixture.rows("select relname from pg_class where relname = 't_a_seq'"), [""; 0]);
    fixture.rows("create table u (a serial, b int)");
    fixture.rows("create table v (a int default nextval('u_a_seq'), b int)");
    let found = refused(&mut fixture, "alter table u drop column a");
    assert!(found.contains("2BP01 cannot drop column a of table u"), "{found}");
    fixture.rows("alter table u drop column a cascade; insert into v (b) values (1)");
    assert_eq!(fixture.rows("select a, b from v"), ["\\N\t1"]);
    let defaults = "select attname from pg_attribute where attrelid = 'v'::regclass and atthasdef";
    assert_eq!(fixture.rows(defaults), [""; 0]);
    fixture.close();
}

/// Tables that PostgreSQL makes and Forebay cannot.
const MADE: [&str; 11] = [
    "create table parent (a int)",
    "create table child (b int) inherits (parent)",
    "create type made as (a int, b text)",
    "create table typed of made",
    "create table parts (a int) partition by range (a)",
    "create table part partition of parts for values from (0) to (10)",
    "create materialized view mv as select 1 as a",
    "create unique index mv_a on mv (a)",
    "create access method heap2 type table handler heap_tableam_handler",
    "create table other (a int) using heap2",
    "create table broken (a int)",
];

/// Notes what a check finds.
#[derive(Default)]
struct Findings(Vec<String>);

impl CheckObserver for Findings {
    fn found(&mut self, relation: &CheckedRelation, finding: &Finding) {
        self.0.push(format!("{}: {finding}", relation.name));
    }
    fn file(&mut self, _: &Path, message: &str) {
        self.0.push(message.to_owned());
    }
}

#[test]
fn what_postgresql_has_made_stays_as_it_can_read_it() {
    let Some(peer) = Peer::find("what_postgresql_has_made_stays_as_it_can_read_it") else { return };
    peer.init("made");
    let server = peer.start("made", "-c autovacuum=off");
    MADE.iter().for_each(|statement| drop(server.query(statement)));
    server.query("update pg_class set relnamespace = 4242 where relname = 'broken'");
    drop(server);

    let mut fixture = open_made(|dir| peer.fetch("made", dir));
    for table in ["parent", "child", "typed", "part", "mv", "other"] {
        for action in
            ["add column c int", "rename column a to c", "drop column a", "add check (true)"]
        {
            let statement = format!("alter table {table} {action}");
            let found = refused(&mut fixture, &statement);
            assert!(found.contains("0A000 cannot alter"), "{statement}: {found}");
        }
    }
    for statement in [
        "insert into other values (1)",
        "truncate other",
        "create index on other (a)",
        "copy other from stdin",
        "update other set a = 1",
        "delete from other",
    ] {
        let found = refused(&mut fixture, statement);
        assert!(found.contains("0A000") && found.contains("access method"), "{statement}: {found}");
    }
    for statement in ["vacuum", "vacuum full", "analyze"] {
        let lines = run(&mut fixture.conn, statement);
        let told = lines.iter().any(|line| line.contains("XX001") && line.contains("4242"));
        let skips = statement != "vacuum full" || lines.iter().any(|l| l.contains("skipping 3"));
        let done = lines.iter().any(|line| line.starts_with('='));
        assert!(told && skips && done, "{statement}: {lines:?}");
    }
    assert!(!fixture.rows("select relname from pg_stat_user_tables").is_empty());
    let dir = fixture.dir().to_owned();
    fixture.engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    let mut findings = Findings::default();
    check(&dir, &CheckOptions::default(), &mut findings).expect("a check");
    let homeless = |line: &String| line.contains("relation \"broken\"") && line.contains("4242");
    assert!(findings.0.iter().any(homeless), "{:?}", findings.0);
    fixture.conn.close();
}
