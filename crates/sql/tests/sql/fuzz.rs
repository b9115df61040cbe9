//! Runs the entry points of the fuzz targets over generated statements: always the same ones, so
//! that a failure repeats.

#[path = "../../../../fuzz/src/statements.rs"]
mod statements;

use forebay_testkit::Dice;

#[test]
fn statements_that_seek_depth() {
    let mut numbers = Dice::new(1);
    for round in 0..600 {
        let data = numbers.bytes(4 + 2 * (round % 5));
        statements::bind(&data);
    }
}

#[test]
fn every_repetition_by_itself() {
    for piece in 0..90 {
        for number in [5, 6, 7] {
            statements::bind(&[0, 0, piece, number]);
        }
    }
}

#[test]
fn texts_of_the_golden_files_cut_anywhere() {
    let golden = include_str!("../golden/expressions.txt");
    for case in crate::support::cases(golden) {
        let sql = case.query.as_bytes();
        for end in (0..sql.len()).step_by(7) {
            statements::parse(&sql[..end]);
        }
    }
}
