//! Words that stand for something else: private metaphors, each with the word to write instead.
//!
//! They are looked for, as whole words, in the identifiers and comments of Rust sources and in
//! Markdown. An identifier is taken apart at underscores and capitals: `WalCompany` holds
//! "company".

use std::ops::Range;

use proc_macro2::{TokenStream, TokenTree};

use super::finding::Finding;
use super::sources::Sources;

/// Words, and what to write instead.
const BANNED: [(&[&str], &str); 6] = [
    (&["company", "companies"], "group commit, or the committers it waits for"),
    (&["crowd", "crowds"], "waiters"),
    (&["bell", "bells"], "event"),
    (&["bed", "beds"], "fixture"),
    (&["racer", "racers"], "the thread that competes, by what it does"),
    (&["door", "doors"], "file layer, or interface"),
];

/// Files that name the words to tell what they mean, or that tell of the past.
const EXEMPT: [&str; 3] = ["crates/xtask/src/tidy/words.rs", "docs/results/", "CHANGELOG.md"];

/// One finding for each line and word.
pub fn check(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in sources.ending(".rs").chain(sources.ending(".md")) {
        if EXEMPT.iter().any(|exempt| path.starts_with(exempt)) {
            continue;
        }
        let prose = if path.ends_with(".md") { text.to_owned() } else { without_strings(text) };
        for (number, line) in (1..).zip(prose.lines()) {
            for (banned, instead) in &BANNED {
                let holds = |word: &&&str| words(line).any(|found| found == **word);
                if let Some(word) = banned.iter().find(holds) {
                    let text = format!("\"{word}\": write {instead}");
                    findings.push(Finding::new("words", path, number, text));
                }
            }
        }
    }
    findings
}

/// The words of a line in lower case.
fn words(line: &str) -> impl Iterator<Item = String> {
    line.split(|c: char| !c.is_alphanumeric()).flat_map(|word| {
        let mut parts: Vec<String> = vec![String::new()];
        let mut after_small = false;
        for c in word.chars() {
            if c.is_uppercase() && after_small {
                parts.push(String::new());
            }
            after_small = !c.is_uppercase();
            if let Some(part) = parts.last_mut() {
                part.extend(c.to_lowercase());
            }
        }
        parts
    })
}

/// A Rust source with its string and character literals blanked out: code and comments are left. A
/// text that is no Rust is left whole.
fn without_strings(text: &str) -> String {
    let mut literals = Vec::new();
    if let Ok(tokens) = text.parse::<TokenStream>() {
        add_literals(tokens, &mut literals);
    }
    let mut bytes = text.as_bytes().to_vec();
    for range in literals {
        // A doc comment is a literal, too.
        if !text[range.clone()].starts_with("//") && !text[range.clone()].starts_with("/*") {
            let literal = &mut bytes[range];
            literal.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The places of all literals.
fn add_literals(tokens: TokenStream, literals: &mut Vec<Range<usize>>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => add_literals(group.stream(), literals),
            TokenTree::Literal(literal) => literals.push(literal.span().byte_range()),
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Sources, check, words};

    #[test]
    fn identifiers_are_taken_apart() {
        let found: Vec<String> = words("let wal_crowd = CommitBed::in2Doors(IOBell);").collect();
        for word in ["crowd", "commit", "bed", "doors"] {
            assert!(found.iter().any(|other| other == word), "{word}: {found:?}");
        }
    }

    #[test]
    fn comments_and_identifiers_are_read_and_strings_are_not() {
        for (text, found) in [
            ("struct Company;", 1),
            ("/// The Bell.\nfn f() {}", 1),
            ("// Waits for company at a bell.\n", 2),
            ("/* a\n crowd */ fn f() {}", 1),
            ("//! doors\nmod a;", 1),
            ("fn f() { g(r#\"a bed\"#, \"a door\", 'd', b\"bell\"); }", 0),
            ("fn f() { g(\"ä\", \"a door\"); /* Doors! */ }", 1),
            ("// embedded, indoors, bellows", 0),
        ] {
            let findings = check(&Sources::from([("crates/wal/src/a.rs", text)]));
            assert_eq!(findings.len(), found, "{text}: {findings:?}");
        }
    }

    #[test]
    fn the_line_and_the_replacement_are_named() {
        let findings = check(&Sources::from([("docs/a.md", "One.\n\nThe crowd waits.\n")]));
        assert_eq!(findings[0].to_string(), "docs/a.md:3: words: \"crowd\": write waiters");
        assert_eq!(check(&Sources::from([("docs/results/a.md", "crowd")])).len(), 0);
    }
}
