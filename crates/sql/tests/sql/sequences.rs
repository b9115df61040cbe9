//! Sequences, against answers recorded from PostgreSQL 18; and values that several sessions take.

use crate::fixture::{open, rows};
use crate::support;
use forebay_engine::ShutdownMode;

#[test]
fn answers_as_postgresql_does() {
    let mut fixture = open("");
    let golden = include_str!("../golden/sequences.txt");
    assert!(support::cases(golden).len() > 200, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn defaults_and_checks_answer_as_postgresql_s_do() {
    let mut fixture = open("");
    let golden = include_str!("../golden/defaults.txt");
    assert!(support::cases(golden).len() > 100, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn tables_are_altered_as_postgresql_does_it() {
    let mut fixture = open("");
    let golden = include_str!("../golden/alter_table.txt");
    assert!(support::cases(golden).len() > 75, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Sessions that take values at the same time get each one once, with and without values of their
/// own, while another session changes the sequence.
#[test]
fn sessions_share_a_sequence() {
    const SESSIONS: usize = 8;
    const VALUES: usize = 300;
    let mut fixture = open("");
    fixture.rows("create sequence one; create sequence few cache 7");
    for name in ["one", "few"] {
        let next = format!("select nextval('{name}')");
        let mut connections: Vec<_> = (0..SESSIONS).map(|_| fixture.connect()).collect();
        let mut all: Vec<i64> = std::thread::scope(|scope| {
            let take = |conn: &mut forebay_sql::Connection| -> Vec<i64> {
                (0..VALUES).map(|_| rows(conn, &next)[0].parse().expect("a number")).collect()
            };
            let sessions: Vec<_> =
                connections.iter_mut().map(|conn| scope.spawn(move || take(conn))).collect();
            for _ in 0..5 {
                fixture.rows(&format!("alter sequence {name} no cycle"));
            }
            sessions.into_iter().flat_map(|session| session.join().expect("join")).collect()
        });
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), SESSIONS * VALUES, "each value of {name} comes once");
        if name == "one" {
            assert_eq!(all.last(), Some(&((SESSIONS * VALUES) as i64)), "and none is left out");
        }
        connections.into_iter().for_each(forebay_sql::Connection::close);
    }
    fixture.close();
}

/// A crash skips values that were logged ahead, and hands out none again.
#[test]
fn a_crash_skips_values() {
    let mut fixture = open("");
    fixture.rows("create sequence s; create unlogged sequence u; create table t (a serial)");
    let before = fixture.rows("select nextval('s'), nextval('u') from generate_series(1, 5)");
    assert_eq!(before.last().map(String::as_str), Some("5\t5"));
    fixture.rows("insert into t values (default), (default)");
    let mut fixture = fixture.restart(ShutdownMode::Immediate);
    // The unlogged one begins again.
    assert_eq!(fixture.rows("select nextval('s'), nextval('u')"), ["34\t1"]);
    assert_eq!(fixture.rows("insert into t default values returning a"), ["34"]);
    let mut fixture = fixture.restart(ShutdownMode::Fast);
    assert_eq!(fixture.rows("select nextval('s'), nextval('u')"), ["35\t2"]);
    fixture.close();
}
