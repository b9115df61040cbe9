//! One thing that is wrong in one place.

use std::fmt::{self, Display, Formatter};

/// What a check has found.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// The check's name.
    pub check: &'static str,
    /// The folder of the crate below `crates/`, or "root".
    pub package: String,
    path: String,
    line: usize,
    text: String,
}

impl Finding {
    /// A finding at a line (from 1) of a file, whose path is relative to the root.
    pub fn new(check: &'static str, path: &str, line: usize, text: impl Into<String>) -> Finding {
        let (package, path) = (package_of(path).to_owned(), path.to_owned());
        Finding { check, package, path, line, text: text.into() }
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.check, self.text)
    }
}

/// The crate that a file belongs to.
fn package_of(path: &str) -> &str {
    let folder = path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
    folder.map_or("root", |(package, _)| package)
}

#[cfg(test)]
mod tests {
    use super::Finding;

    #[test]
    fn a_finding_names_its_crate_and_line() {
        let finding = Finding::new("lines", "crates/wal/src/lib.rs", 7, "too long");
        assert_eq!(finding.package, "wal");
        assert_eq!(finding.to_string(), "crates/wal/src/lib.rs:7: lines: too long");
        assert_eq!(Finding::new("lines", "docs/a.md", 1, "").package, "root");
    }
}
