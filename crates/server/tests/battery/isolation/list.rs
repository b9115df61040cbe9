//! The list of specifications in docs/compatibility.md: a table of their names, of what becomes of
//! them, and of what they need.

use std::collections::BTreeMap;

const DOCUMENT: &str = include_str!("../../../../../docs/compatibility.md");

/// The list: whether a specification passes, by its name.
pub fn read() -> BTreeMap<String, bool> {
    let mut list = BTreeMap::new();
    for line in DOCUMENT.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", name, word, _needs, ""] = cells[..] else { continue };
        let passes = match word {
            "yes" => true,
            "no" => false,
            _ => continue,
        };
        let Some(name) = quoted(name) else { continue };
        let twice = list.insert(name.to_owned(), passes);
        assert!(twice.is_none(), "{name} is listed twice");
    }
    assert!(!list.is_empty(), "docs/compatibility.md has no list");
    list
}

fn quoted(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.strip_suffix('`')
}
