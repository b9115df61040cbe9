//! Types whose values are OIDs of rows: what names mean, and how rows are named, against answers
//! recorded from PostgreSQL 18; and as parameters

use crate::fixture::open;
use crate::support;

#[test]
fn names_of_rows_are_postgresql_s() {
    let mut fixture = open("");
    let golden = include_str!("../golden/reg_types.txt");
    assert!(support::cases(golden).len() > 50, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
