//! A README.md in each crate, short enough to be read.

use super::finding::Finding;
use super::sources::Sources;

const LIMIT: usize = 200;

/// One finding for each crate that has no README.md, or one of more than 200 lines.
pub fn check(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in sources.packages().map(|package| format!("crates/{package}/README.md")) {
        let lines = sources.text(&path).lines().count();
        if lines == 0 {
            findings.push(Finding::new("readmes", &path, 1, "the crate has no README.md"));
        } else if lines > LIMIT {
            let text = format!("{lines} lines; the limit is {LIMIT}");
            findings.push(Finding::new("readmes", &path, lines, text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{LIMIT, Sources, check};

    #[test]
    fn a_missing_and_a_long_readme_are_found() {
        for (lines, found) in [(0, 1), (1, 0), (LIMIT, 0), (LIMIT + 1, 1)] {
            let sources = Sources::from([
                ("crates/wal/Cargo.toml", ""),
                ("crates/wal/README.md", &"a line\n".repeat(lines)),
            ]);
            assert_eq!(check(&sources).len(), found, "{lines} lines");
        }
    }
}
