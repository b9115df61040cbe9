//! Operators, functions, casts and common types over all types, against answers recorded from
//! PostgreSQL 18. What is not supported is refused by name, never answered otherwise.

use crate::support;

/// Statements of a file that are refused, and that differ, at most: less is better. Those that
/// differ do so in positions and contexts of errors, syntax that the parser does not know, and
/// errors of constant expressions, which PostgreSQL meets after it described the result.
fn check(golden: &str, most_refused: usize, differing: usize) {
    let mut conn = support::without_tables();
    let (mut wrong, mut refused) = (Vec::new(), Vec::new());
    let cases = support::cases(golden);
    for case in &cases {
        let got = support::run(&mut conn, &case.query);
        if got == case.expected {
            continue;
        }
        let refusal = got.iter().find(|line| line.starts_with("! ERROR 0A000"));
        match refusal {
            Some(line) => refused.push(format!("{}: {line}", case.query)),
            None => wrong
                .push(format!("Q {}\n  want {:#?}\n  got  {:#?}", case.query, case.expected, got)),
        }
    }
    let all = cases.len();
    assert!(wrong.len() <= differing, "{} of {all} differ:\n{}", wrong.len(), wrong.join("\n"));
    let list = refused.join("\n");
    assert!(refused.len() <= most_refused, "{} of {all} refused:\n{list}", refused.len());
}

#[test]
fn functions_are_chosen_and_answer_as_postgresql_does() {
    check(include_str!("../golden/functions.txt"), 40, 20);
}

#[test]
fn operators_and_casts_of_all_pairs_of_types_are_chosen_as_postgresql_does() {
    check(include_str!("../golden/overloads.txt"), 400, 8);
}
