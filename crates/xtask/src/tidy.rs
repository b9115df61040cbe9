//! `cargo xtask tidy`: what no compiler lint expresses.
//!
//! Each check reads the sources and returns its findings, one for each line or file that is wrong.
//! None is allowed.
//!
//! - [`crates`]:    a crate uses only crates below it
//! - [`modules`]:   the files of a crate do not use each other in a circle
//! - [`functions`]: no function over 70 lines
//! - [`lines`]:     no line over 100 characters, no source file over 800 lines
//! - [`readmes`]:   a README.md in each crate, of at most 200 lines
//! - [`paths`]:     files that Markdown names are there
//! - [`words`]:     no private metaphors
//! - [`bans`]:      banned constructs, each with its replacement; `unsafe` only where it belongs
//! - [`sources`]:   the files that are checked
//! - [`finding`]:   what a check returns

use std::path::Path;

use clap::Args;

use finding::Finding;
use sources::Sources;

mod bans;
mod crates;
mod finding;
mod functions;
mod lines;
mod modules;
mod paths;
mod readmes;
mod sources;
mod words;

/// What to report.
#[derive(Args, Default)]
pub struct Options {
    /// Only this crate's findings (`root`: those of the files outside all crates)
    package: Option<String>,
}

const CHECKS: [fn(&Sources) -> Vec<Finding>; 8] = [
    crates::check,
    modules::check,
    functions::check,
    lines::check,
    readmes::check,
    paths::check,
    words::check,
    bans::check,
];

/// Runs every check and prints what is wrong.
///
/// # Errors
/// The number of findings, after they have been printed; or that the sources can't be read.
pub fn run(root: &Path, options: &Options) -> Result<(), String> {
    let sources = Sources::read(root)?;
    let wanted = |finding: &Finding| options.package.as_ref().is_none_or(|p| *p == finding.package);
    let findings = CHECKS.iter().flat_map(|check| check(&sources)).filter(wanted);
    let count = findings.inspect(|finding| println!("tidy: {finding}")).count();
    match count {
        0 => {
            println!("tidy: {} files are in order", sources.count());
            Ok(())
        }
        count => Err(format!("{count} findings")),
    }
}
