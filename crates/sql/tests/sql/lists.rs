//! IN, ANY, ALL and comparisons of rows, by indexes and without them, against answers recorded from
//! PostgreSQL 18

use crate::fixture::open;
use crate::support;

#[test]
fn lists_and_rows_are_compared_as_postgresql_compares_them() {
    let mut fixture = open("");
    let golden = include_str!("../golden/lists.txt");
    assert!(support::cases(golden).len() > 70, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_arrays_and_rows_cannot_do_is_refused_by_name() {
    let mut fixture = open("");
    fixture.rows("create table t (a int, b int)");
    for sql in [
        "select * from t where a < any('{1,2}')",
        "select * from t where a = all('{1,2}')",
        "select * from t where a = any('{{1,2},{3,4}}')",
        "select * from t where a = any('[2:3]={1,2}')",
        "select array[1,2]",
        "select * from t where (a, b) in ((1, 2), 3)",
    ] {
        let lines = support::run(&mut fixture.conn, sql);
        assert!(lines[0].starts_with("! ERROR 0A000"), "{sql}: {lines:?}");
    }
    fixture.close();
}
