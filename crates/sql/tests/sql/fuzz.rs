//! Runs the entry points of the fuzz targets over generated statements: always the same ones, so
//! that a failure repeats.

#[path = "../../../../fuzz/src/statements.rs"]
mod statements;

/// A small generator of numbers (xorshift).
struct Numbers(u64);

impl Numbers {
    fn bytes(&mut self, n: usize) -> Vec<u8> {
        let next = |numbers: &mut Numbers| {
            numbers.0 ^= numbers.0 << 13;
            numbers.0 ^= numbers.0 >> 7;
            numbers.0 ^= numbers.0 << 17;
            (numbers.0 >> 32) as u8
        };
        (0..n).map(|_| next(self)).collect()
    }
}

#[test]
fn statements_that_seek_depth() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
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
