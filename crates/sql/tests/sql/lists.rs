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
fn arrays_of_all_forms_are_searched() {
    let mut fixture = open("");
    fixture.rows("create table t (a int, b int)");
    fixture.rows("insert into t values (1, 4), (2, 3), (5, 5)");
    for (condition, expected) in [
        ("a < any('{1,2}')", &["1"][..]),
        ("a = all('{1,2}')", &[]),
        ("a = any('{{1,2},{3,4}}')", &["1", "2"]),
        ("a = any('[2:3]={1,2}')", &["1", "2"]),
        ("b = any(array[a + 1, a * 4])", &["1", "2"]),
    ] {
        let rows = fixture.rows(&format!("select a from t where {condition}"));
        assert_eq!(rows, expected, "{condition}");
    }
    let sql = "select * from t where (a, b) in ((1, 2), 3)";
    let lines = support::run(&mut fixture.conn, sql);
    assert!(lines[0].starts_with("! ERROR"), "{lines:?}");
    fixture.close();
}
