//! `cargo xtask tidy`: what no compiler lint expresses.
//!
//! Each check reads the sources and returns its findings, one for each line or file that is wrong.
//! `tidy-ratchet.txt` in the root allows some of them; it may only shrink.
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
//! - [`ratchet`]:   how many findings are allowed

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;

use finding::Finding;
use ratchet::Ratchet;
use sources::Sources;

mod bans;
mod crates;
mod finding;
mod functions;
mod lines;
mod modules;
mod paths;
mod ratchet;
mod readmes;
mod sources;
mod words;

/// What to report.
#[derive(Args, Default)]
pub struct Options {
    /// Print all findings of this crate (`root`: of the files outside all crates), also those that
    /// tidy-ratchet.txt allows, and fail if there are any
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
    let findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(&sources)).collect();
    if let Some(package) = &options.package {
        let own: Vec<&Finding> = findings.iter().filter(|f| &f.package == package).collect();
        own.iter().for_each(|finding| println!("tidy: {finding}"));
        return match own.len() {
            0 => Ok(()),
            count => Err(format!("{count} findings in {package}")),
        };
    }
    let ratchet = Ratchet::parse(sources.text(ratchet::FILE))?;
    let complaints = complaints(&findings, &ratchet);
    complaints.iter().for_each(|complaint| println!("tidy: {complaint}"));
    match complaints.len() {
        0 => {
            let (files, left) = (sources.count(), ratchet.total());
            println!("tidy: {files} files are in order but for {left} findings still allowed");
            Ok(())
        }
        count => Err(format!("{count} findings; `cargo xtask tidy CRATE` lists all of a crate")),
    }
}

/// The findings of each crate and check of which there are more than allowed, and each entry of the
/// ratchet that allows more than there are.
fn complaints(findings: &[Finding], ratchet: &Ratchet) -> Vec<String> {
    let mut groups: BTreeMap<(&str, &str), Vec<&Finding>> = BTreeMap::new();
    for finding in findings {
        groups.entry((&finding.package, finding.check)).or_default().push(finding);
    }
    let mut complaints = Vec::new();
    for ((package, check), group) in &groups {
        let allowed = ratchet.allowed(package, check);
        if group.len() > allowed {
            complaints.extend(group.iter().map(ToString::to_string));
            if allowed > 0 {
                let found = group.len();
                complaints.push(format!("{package} {check}: {found} findings, {allowed} allowed"));
            }
        }
    }
    for (package, check, allowed) in ratchet.entries() {
        let found = groups.get(&(package, check)).map_or(0, Vec::len);
        if found < allowed {
            complaints.push(format!(
                "{}: allows \"{package} {check} {allowed}\", and there are {found}: lower it",
                ratchet::FILE
            ));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::{Finding, Ratchet, complaints};

    fn findings(count: usize) -> Vec<Finding> {
        let finding = |n| Finding::new("circles", &format!("crates/wal/src/f{n}.rs"), n, "circle");
        (0..count).map(finding).collect()
    }

    #[test]
    fn the_ratchet_allows_exactly_what_there_is() {
        let ratchet = Ratchet::parse("wal circles 2\n").expect("a ratchet");
        for (found, wanted) in [(0, 1), (1, 1), (2, 0), (3, 4)] {
            assert_eq!(complaints(&findings(found), &ratchet).len(), wanted, "{found} found");
        }
        let none = Ratchet::parse("").expect("a ratchet");
        assert_eq!(complaints(&findings(2), &none).len(), 2);
        assert_eq!(complaints(&[], &none).len(), 0);
    }
}
