//! The list of specifications in docs/compatibility.md: a table of their names, of what becomes of
//! them, and of what they need.

use std::collections::BTreeMap;
use std::fmt;

const DOCUMENT: &str = include_str!("../../../../../docs/compatibility.md");

/// What becomes of a specification.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Both servers give the same output.
    Unaltered,
    /// They do when keys and indexes are struck from it.
    Struck,
    /// It needs what Forebay does not have.
    No,
}

const WORDS: [(&str, Verdict); 3] =
    [("unaltered", Verdict::Unaltered), ("without keys", Verdict::Struck), ("no", Verdict::No)];

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = WORDS.iter().find(|(_, verdict)| verdict == self);
        f.write_str(word.map_or("", |(word, _)| word))
    }
}

/// How a specification is listed.
#[derive(Clone, Copy)]
pub struct Listed {
    /// Whether it is listed at all.
    pub known: bool,
    pub verdict: Verdict,
}

impl Listed {
    pub const NONE: Listed = Listed { known: false, verdict: Verdict::No };
}

/// The list, by name.
pub fn read() -> BTreeMap<String, Listed> {
    let mut list = BTreeMap::new();
    for line in DOCUMENT.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", name, word, _needs, ""] = cells[..] else { continue };
        let verdict = WORDS.iter().find(|(known, _)| *known == word);
        let (Some(name), Some((_, verdict))) = (quoted(name), verdict) else { continue };
        let listed = Listed { known: true, verdict: *verdict };
        let twice = list.insert(name.to_owned(), listed);
        assert!(twice.is_none(), "{name} is listed twice");
    }
    assert!(!list.is_empty(), "docs/compatibility.md has no list");
    list
}

fn quoted(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.strip_suffix('`')
}
