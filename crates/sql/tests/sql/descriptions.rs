//! Definitions of foreign keys, comments and names of roles, against answers recorded from
//! PostgreSQL 18.

use crate::fixture::open;
use crate::support;

#[test]
fn answers_as_postgresql_does() {
    let mut fixture = open("");
    let golden = include_str!("../golden/descriptions.txt");
    assert!(support::cases(golden).len() > 30, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
