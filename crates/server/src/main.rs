//! The `forebay` program.
#![forbid(unsafe_code)]

fn main() {}
