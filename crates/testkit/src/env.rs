//! Environment variables that set the sizes of tests.

/// The number in a variable, if it is set.
///
/// # Panics
/// When it holds something else.
pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}, not a number")))
}

/// How many interleavings shuttle tries: `FOREBAY_SHUTTLE_ROUNDS`, or as many as given.
pub fn shuttle_rounds(usual: usize) -> usize {
    number("FOREBAY_SHUTTLE_ROUNDS").map_or(usual, |rounds| rounds as usize)
}
