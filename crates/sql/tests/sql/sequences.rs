//! Sequences, against answers recorded from PostgreSQL 18; and values that several sessions take.

use crate::fixture::open;
use crate::support;

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
    assert!(support::cases(golden).len() > 90, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
