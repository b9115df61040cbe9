//! The `forebay` program.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    forebay_server::cli::run()
}
