//! Expressions, series, VALUES, names, syntax errors and transactions, against answers recorded
//! from PostgreSQL 18.

use crate::support;

#[test]
fn answers_as_postgresql_does() {
    let golden = include_str!("../golden/expressions.txt");
    assert!(support::cases(golden).len() > 200, "too few cases were read");
    let wrong = support::differences(&mut support::without_tables(), golden);
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
