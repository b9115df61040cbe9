//! Files that Markdown names: they are there.

use super::finding::Finding;
use super::sources::Sources;

/// Texts that tell of the past.
const EXEMPT: [&str; 2] = ["docs/results/", "CHANGELOG.md"];

/// One finding for each path below `crates/`, between backticks, that leads to no checked file or
/// folder. What follows a colon, such as a function's name, does not count.
pub fn check(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in sources.ending(".md") {
        if EXEMPT.iter().any(|exempt| path.starts_with(exempt)) {
            continue;
        }
        for (number, line) in (1..).zip(text.lines()) {
            for named in line.split('`').skip(1).step_by(2) {
                let named = named.split(':').next().unwrap_or(named);
                if named.starts_with("crates/") && is_path(named) && !sources.leads_to(named) {
                    let text = format!("there is no {named}");
                    findings.push(Finding::new("paths", path, number, text));
                }
            }
        }
    }
    findings
}

/// Whether a text is one path, and no pattern of several.
fn is_path(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    text.chars().all(plain) && !text.contains("..")
}

#[cfg(test)]
mod tests {
    use super::{Sources, check};

    #[test]
    fn named_files_and_folders_are_there() {
        for (text, found) in [
            ("See `crates/wal/src/ring.rs`.", 0),
            ("See `crates/wal/src/ring.rs:write`, `crates/wal/src` and `crates/wal`.", 0),
            ("See `crates/wal/src/gone.rs`.", 1),
            ("See `crates/wal/sr`, or `crates/gone`.", 2),
            ("See crates/gone, `crates/NAME{.rs}`, `crates/*/tests` and `crates/...`.", 0),
        ] {
            let sources = Sources::from([("crates/wal/src/ring.rs", ""), ("docs/a.md", text)]);
            assert_eq!(check(&sources).len(), found, "{text}");
        }
    }
}
