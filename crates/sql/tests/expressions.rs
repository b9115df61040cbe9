//! Expressions, series, VALUES, names, syntax errors and transactions, against answers recorded from PostgreSQL 18.

mod support;

#[test]
fn answers_as_postgresql_does() {
    let mut conn = support::detached();
    let mut wrong = Vec::new();
    let cases = support::cases(include_str!("golden/expressions.txt"));
    assert!(cases.len() > 200, "only {} cases were read", cases.len());
    for case in cases {
        let got = support::run(&mut conn, &case.query.replace("\\n", "\n"));
        if got != case.expected {
            wrong.push(format!("Q {}\n  want {:#?}\n  got  {:#?}", case.query, case.expected, got));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
