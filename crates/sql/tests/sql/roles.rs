//! SET ROLE, SET SESSION AUTHORIZATION, REASSIGN OWNED and DROP OWNED, against answers recorded
//! from PostgreSQL 18; and what a role may do that is no superuser.

use crate::fixture::{open, open_made, rows};
use crate::support;
use forebay_testkit::peer::Peer;

#[test]
fn answers_as_postgresql_does() {
    let mut fixture = open("");
    let golden = include_str!("../golden/roles.txt");
    assert!(support::cases(golden).len() > 80, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Such a role works with what it owns. All else would need its privileges.
#[test]
fn a_role_that_is_no_superuser_uses_what_it_owns() {
    let mut fixture = open("");
    fixture.rows("create role plain; create role other; create schema own authorization plain");
    fixture.rows("create table t (a int); create index i on t (a); create sequence s");
    fixture.rows("set role plain");
    fixture.rows("create table own.t (a serial primary key, b text)");
    fixture.rows("create index on own.t (b)");
    fixture.rows("insert into own.t (b) values ('x'), ('y'); update own.t set b = 'z' where a = 1");
    assert_eq!(fixture.rows("select * from own.t order by 1"), ["1\tz", "2\ty"]);
    fixture.rows("alter table own.t add c int default 3; truncate own.t; drop table own.t");
    fixture.rows("create temp table mine (a int); insert into mine values (1)");
    assert_eq!(fixture.rows("select current_user, session_user"), ["plain\tpostgres"]);
    for refused in [
        "select * from t",
        "insert into t values (1)",
        "delete from t",
        "truncate t",
        "drop table t",
        "drop index i",
        "alter table t add b int",
        "create index on t (a)",
        "copy t to stdout",
        "alter sequence s restart",
        "drop sequence s",
        "create table u (a int)",
        "create table own.u (a int) tablespace pg_default",
        "alter table mine owner to other",
        "select nextval('s')",
        "select * from pg_class",
        "select * from pg_settings",
        "select pg_relation_size('t')",
        "create role x",
        "create schema x",
        "create database x",
        "comment on table mine is 'x'",
        "vacuum mine",
        "checkpoint",
        "reindex table mine",
        "drop owned by other",
    ] {
        let lines = support::run(&mut fixture.conn, refused);
        let error = lines.iter().find(|line| line.starts_with("! ERROR 0A000"));
        assert!(error.is_some_and(|e| e.contains("as role \"plain\"")), "{refused}: {lines:?}");
    }
    fixture.rows("reset role");
    assert_eq!(fixture.rows("select count(*) from t"), ["0"]);
    // A session that acts for such a role cannot become another one.
    fixture.rows("set session authorization plain");
    let lines = support::run(&mut fixture.conn, "set role other; select 1");
    assert!(lines.iter().any(|line| line.starts_with("! ERROR 0A000")), "{lines:?}");
    fixture.close();
}

/// As in PostgreSQL, only who drops a role waits for those who refer to it.
#[test]
fn roles_are_changed_while_somebody_gives_them_something() {
    let mut fixture = open("");
    fixture.rows("create role r; create role q");
    let mut other = fixture.connect();
    rows(&mut other, "set lock_timeout = 2000");
    fixture.rows("begin; create schema x authorization r");
    rows(&mut other, "alter role r connection limit 3; grant r to q; revoke r from q");
    rows(&mut other, "alter role r rename to s; alter role s set lock_timeout = 5");
    let lines = support::run(&mut other, "drop role s");
    assert!(lines.iter().any(|line| line.starts_with("! ERROR 55P03")), "{lines:?}");
    fixture.rows("commit");
    let lines = support::run(&mut other, "drop role s");
    assert!(lines.iter().any(|line| line.contains("owner of schema x")), "{lines:?}");
    other.close();
    fixture.close();
}

/// PostgreSQL would give new objects privileges.
#[test]
fn what_would_have_default_privileges_is_not_created() {
    let Some(peer) = Peer::find("what_would_have_default_privileges") else { return };
    peer.init("theirs");
    let server = peer.start("theirs", "-c autovacuum=off");
    server.query("create schema s; create role r");
    server.query("alter default privileges grant select on tables to public");
    server.query("alter default privileges in schema s grant usage on sequences to public");
    server.query("alter default privileges for role r grant usage on schemas to public");
    drop(server);
    let mut fixture = open_made(|dir| peer.fetch("theirs", dir));
    for refused in [
        "create table t (a int)",
        "create table s.t as select 1 as a",
        "create sequence s.q",
        "create schema x authorization r",
    ] {
        let lines = support::run(&mut fixture.conn, refused);
        assert!(lines.iter().any(|line| line.starts_with("! ERROR 0A000")), "{refused}: {lines:?}");
    }
    fixture.rows("create sequence q; create schema x; set role r");
    fixture.rows("create temp table t (a int)");
    fixture.close();
}
