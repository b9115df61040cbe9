//! Operators, functions, casts and common types over all types, against answers recorded from
//! PostgreSQL 18. What is not supported is refused by name, never answered otherwise.

use crate::support;

/// Statements of a file that are refused at most: less is better.
fn check(golden: &str, most_refused: usize) {
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
    assert!(wrong.is_empty(), "{} of {all} differ:\n{}", wrong.len(), wrong.join("\n"));
    let list = refused.join("\n");
    assert!(refused.len() <= most_refused, "{} of {all} refused:\n{list}", refused.len());
}

#[test]
fn functions_are_chosen_and_answer_as_postgresql_does() {
    check(include_str!("../golden/functions.txt"), 20);
}

#[test]
fn operators_and_casts_of_all_pairs_of_types_are_chosen_as_postgresql_does() {
    check(include_str!("../golden/overloads.txt"), 8);
}
