//! Collations in statements, blanks of character(n) and OIDs of rows out of subqueries, against
//! answers recorded from PostgreSQL 18; and what nothing chooses a collation for.

use crate::fixture::open;
use crate::support;

#[test]
fn texts_are_compared_by_their_collations_as_in_postgresql() {
    let mut fixture = open("");
    let golden = include_str!("../golden/collations.txt");
    assert!(support::cases(golden).len() > 90, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// PostgreSQL finds most of this when it compares the first texts.
#[test]
fn columns_that_disagree_need_a_collate_clause() {
    let mut fixture = open("");
    fixture.rows("create table t (a text collate \"unicode\", b text collate \"C\")");
    for (query, sqlstate, what) in [
        ("select 1 from t where a = b", "42P22", "string comparison"),
        ("select 1 from t where a < b", "42P22", "string comparison"),
        ("select 1 from t where (a, 1) < (b, 1)", "42P22", "string comparison"),
        ("select 1 from t where a in ('x', b)", "42P22", "string comparison"),
        ("select 1 from t where a is distinct from b", "42P22", "string comparison"),
        ("select nullif(a, b) from t", "42P22", "string comparison"),
        ("select greatest(a, b) from t", "42P22", "string comparison"),
        ("select max(a || b) from t", "42P22", "string comparison"),
        ("select upper(a || b) from t", "42P22", "upper() function"),
        ("select 1 from t where a like b", "42P22", "LIKE"),
        ("select 1 from t where a ilike b", "42P22", "ILIKE"),
        ("select 1 from t order by a || b", "42P21", "\"unicode\" and \"C\""),
        ("select 1 from t group by a || b", "42P21", "\"unicode\" and \"C\""),
    ] {
        let lines = support::run(&mut fixture.conn, query);
        let begin = format!("! ERROR {sqlstate} ");
        let found = lines.iter().any(|line| line.starts_with(&begin) && line.ends_with(what));
        assert!(found, "{query}: {lines:?}");
    }
    assert!(fixture.rows("select 1 from t where a = b collate \"C\"").is_empty());
    fixture.close();
}
