//! The length of lines, in characters, and of source files, in lines.

use super::finding::Finding;
use super::sources::Sources;

const CHARACTERS: usize = 100;
const LINES: usize = 800;

/// One finding for each line of Rust or Markdown over 100 characters, and for each Rust file over
/// 800 lines. Tables, links and addresses can't be broken: tables of Markdown and of doc comments
/// may be wider, and so may lines that hold a link or an address.
pub fn check(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in sources.ending(".rs").chain(sources.ending(".md")) {
        let markdown = path.ends_with(".md");
        for (number, line) in (1..).zip(text.lines()) {
            let length = line.chars().count();
            if length > CHARACTERS && !may_be_wide(line, markdown) {
                let text = format!("{length} characters; the limit is {CHARACTERS}");
                findings.push(Finding::new("lines", path, number, text));
            }
        }
        let lines = text.lines().count();
        if !markdown && lines > LINES {
            let text = format!("{lines} lines; split it (the limit is {LINES})");
            findings.push(Finding::new("files", path, lines, text));
        }
    }
    findings
}

fn may_be_wide(line: &str, markdown: bool) -> bool {
    let line = line.trim_start();
    let comment = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"));
    let prose = if markdown { Some(line) } else { comment.map(str::trim_start) };
    let unbreakable = |prose: &str| prose.starts_with('|') || prose.contains("](");
    prose.is_some_and(unbreakable) || line.contains("http://") || line.contains("https://")
}

#[cfg(test)]
mod tests {
    use super::{Sources, check};

    #[test]
    fn characters_are_counted() {
        let wide = "ä".repeat(101);
        for (path, line, found) in [
            ("crates/wal/src/a.rs", "ä".repeat(100), 0),
            ("crates/wal/src/a.rs", wide.clone(), 1),
            ("crates/wal/src/a.rs", format!("| {wide}"), 1),
            ("crates/wal/src/a.rs", format!("// https://{wide}"), 0),
            ("crates/wal/src/a.rs", format!("    //! | {wide}"), 0),
            ("crates/wal/src/a.rs", format!("// | {wide}"), 1),
            ("docs/a.md", wide.clone(), 1),
            ("docs/a.md", format!("| {wide} |"), 0),
            ("docs/a.md", format!("[{wide}](b.md)"), 0),
        ] {
            let findings = check(&Sources::from([(path, &*line)]));
            assert_eq!(findings.len(), found, "{path}: {line}");
        }
    }

    #[test]
    fn long_files_are_found() {
        for (lines, found) in [(800, 0), (801, 1)] {
            let text = "\n".repeat(lines);
            assert_eq!(check(&Sources::from([("crates/wal/src/a.rs", &*text)])).len(), found);
            assert_eq!(check(&Sources::from([("docs/a.md", &*text)])).len(), 0);
        }
    }
}
