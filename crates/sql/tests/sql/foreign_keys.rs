//! Foreign keys and deferrable keys, against answers recorded from PostgreSQL 18; and what several
//! sessions make of them.

use crate::fixture::{across, open, rows, wait_for_wait};
use crate::support::{self, Recorder};
use std::thread;

#[test]
fn answers_as_postgresql_does() {
    let mut fixture = open("");
    let golden = include_str!("../golden/foreign_keys.txt");
    assert!(support::cases(golden).len() > 330, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// The error of a statement that fails.
fn refusal(conn: &mut forebay_sql::Connection, sql: &str) -> String {
    let lines = support::run(conn, sql);
    let error = lines.iter().find(|line| line.starts_with('!'));
    error.unwrap_or_else(|| panic!("{sql}: {lines:?}")).clone()
}

const PARENT: &str = "create table pk (a int primary key, b int); insert into pk values (1, 1), \
                      (2, 2)";

#[test]
fn a_child_waits_for_the_parent_that_is_deleted() {
    let mut fixture = open("");
    fixture.rows(PARENT);
    fixture.rows("create table fk (a int references pk)");
    let mut other = fixture.connect();
    let answer = across(&mut fixture, "delete from pk where a = 1", || {
        refusal(&mut other, "insert into fk values (1)")
    });
    let violates = "violates foreign key constraint \"fk_a_fkey\"";
    assert_eq!(answer, format!("! ERROR 23503 insert or update on table \"fk\" {violates}"));
    // What is no part of the key may change meanwhile.
    fixture.rows("begin");
    fixture.rows("update pk set b = 3 where a = 2");
    rows(&mut other, "insert into fk values (2)");
    fixture.rows("commit");
    other.close();
    fixture.close();
}

#[test]
fn a_parent_waits_for_the_child_that_is_inserted() {
    let mut fixture = open("");
    fixture.rows(PARENT);
    fixture.rows("create table fk (a int references pk)");
    let mut other = fixture.connect();
    let answer = across(&mut fixture, "insert into fk values (1)", || {
        refusal(&mut other, "delete from pk where a = 1")
    });
    let what = "on table \"pk\" violates foreign key constraint \"fk_a_fkey\" on table \"fk\"";
    assert_eq!(answer, format!("! ERROR 23503 update or delete {what}"));
    let mut third = fixture.connect();
    fixture.rows("begin");
    fixture.rows("insert into fk values (2)");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| rows(&mut third, "delete from pk where a = 2"));
        wait_for_wait(&fixture.engine, &waiting);
        rows(&mut fixture.conn, "rollback");
        waiting.join().expect("there is no child");
    });
    other.close();
    third.close();
    fixture.close();
}

#[test]
fn a_cascade_of_a_repeatable_read_transaction_finds_newer_children() {
    let mut fixture = open("");
    fixture.rows(PARENT);
    fixture.rows("create table fk (a int references pk on delete cascade)");
    fixture.rows("create table strict (a int references pk)");
    let mut other = fixture.connect();
    rows(&mut other, "begin isolation level repeatable read");
    rows(&mut other, "select count(*) from pk");
    fixture.rows("insert into fk values (1)");
    fixture.rows("insert into strict values (2)");
    let refused = refusal(&mut other, "delete from pk where a = 1");
    assert_eq!(refused, "! ERROR 40001 could not serialize access due to concurrent update");
    rows(&mut other, "rollback");
    rows(&mut other, "begin isolation level repeatable read");
    assert_eq!(rows(&mut other, "select count(*) from strict"), ["1"]);
    rows(&mut other, "rollback");
    rows(&mut other, "begin isolation level repeatable read");
    rows(&mut other, "select count(*) from pk");
    fixture.rows("insert into pk values (3, 3)");
    // Its own snapshot decides whether there is a parent.
    let refused = refusal(&mut other, "insert into fk values (3)");
    assert!(refused.contains("violates foreign key constraint"), "{refused}");
    other.close();
    fixture.close();
}

#[test]
fn prepared_statements_and_other_sessions_learn_of_a_new_key() {
    let mut fixture = open("");
    fixture.rows(PARENT);
    fixture.rows("create table fk (a int)");
    let mut other = fixture.connect();
    other.parse("write", "insert into fk values ($1)", &[23]).expect("parse");
    let mut write = |value: &[u8]| {
        let bound = other.bind("", "write", &[], &[Some(value)], &[]);
        let done = bound.and_then(|()| other.execute("", 0, &mut Recorder::default()).map(drop));
        let synced = other.sync();
        done.and(synced)
    };
    write(b"7").expect("there is no key");
    fixture.rows("delete from fk");
    fixture.rows("alter table fk add foreign key (a) references pk");
    assert_eq!(write(b"7").expect_err("no parent").sqlstate, "23503");
    write(b"1").expect("a parent");
    fixture.rows("alter table fk drop constraint fk_a_fkey");
    write(b"7").expect("there is no key any more");
    other.close();
    fixture.close();
}

#[test]
fn long_chains_of_cascades_take_no_stack() {
    let mut fixture = open("");
    fixture
        .rows("create table chain (id int primary key, up int references chain on delete cascade)");
    fixture.rows("create index on chain (up)");
    fixture.rows("insert into chain select i, nullif(i - 1, 0) from generate_series(1, 5000) i");
    fixture.rows("delete from chain where id = 1");
    assert_eq!(fixture.rows("select count(*) from chain"), ["0"]);
    fixture.close();
}

#[test]
fn a_deferrable_key_waits_for_who_may_free_it() {
    let mut fixture = open("");
    fixture.rows("create table u (a int unique deferrable, b int); insert into u values (1, 1)");
    let mut other = fixture.connect();
    across(&mut fixture, "delete from u where a = 1", || {
        rows(&mut other, "insert into u values (1, 2)");
    });
    let answer = across(&mut fixture, "insert into u values (5, 1)", || {
        refusal(&mut other, "insert into u values (5, 2)")
    });
    let what = "! ERROR 23505 duplicate key value violates unique constraint \"u_a_key\"";
    assert_eq!(answer, what);
    other.close();
    fixture.close();
}
