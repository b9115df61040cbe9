//! Constructs that are banned in product code, each with its replacement.

use super::finding::Finding;
use super::sources::Sources;

/// A construct that is banned in the product's sources.
struct Ban {
    text: &'static str,
    /// Path prefixes (from the root) in which it is allowed all the same.
    allowed: &'static [&'static str],
    instead: &'static str,
}

const BANS: [Ban; 13] = [
    Ban {
        text: "thread::sleep",
        allowed: &[],
        instead: "wait on a condition variable or channel for what you wait for",
    },
    Ban {
        text: "std::fs::",
        allowed: &[
            "crates/aio/src/",
            "crates/server/src/",
            "crates/powercut/src/save.rs",
            "crates/xtask/",
        ],
        instead: "go through aio's namespace and files, the one way to the data directory",
    },
    Ban {
        text: "std::sync::Mutex",
        allowed: &["crates/aio/src/sync.rs", "crates/xtask/"],
        instead: "use forebay_aio::sync::Mutex",
    },
    Ban {
        text: "parking_lot::",
        allowed: &["crates/aio/src/sync.rs"],
        instead: "use forebay_aio::sync, so that a checked run can replace the primitives",
    },
    Ban {
        text: "std::sync::atomic",
        allowed: &["crates/aio/src/sync", "crates/format/", "crates/xtask/"],
        instead: "use forebay_aio::sync::atomic, so that a checked run can replace it",
    },
    Ban {
        text: "std::thread",
        allowed: &["crates/aio/src/sync", "crates/xtask/"],
        instead: "use forebay_aio::sync::thread, so that a checked run can replace it",
    },
    Ban {
        text: "std::time::",
        allowed: &["crates/aio/src/sync", "crates/xtask/"],
        instead: "use forebay_aio::sync, where the clocks come from",
    },
    Ban {
        text: "std::sync::mpsc",
        allowed: &["crates/xtask/"],
        instead: "use a lock and a condition variable of forebay_aio::sync",
    },
    Ban {
        text: "thread_local!",
        allowed: &[],
        instead: "pass the backend's context as an argument",
    },
    Ban {
        text: "static mut",
        allowed: &[],
        instead: "put it into the engine's state: two engines share a process",
    },
    Ban {
        text: "println!",
        allowed: &["crates/server/src/", "crates/xtask/"],
        instead: "use tracing, or return the text",
    },
    Ban {
        text: "tokio::",
        allowed: &["crates/archive/src/store/objects/", "crates/sql/", "crates/server/"],
        instead: "use aio: no runtime below sql but for requests to object stores",
    },
    Ban { text: "extern crate", allowed: &[], instead: "use the dependency by its path" },
];

/// The file that names the bans, and what tests are made of.
const EXEMPT: [&str; 2] = ["crates/xtask/src/tidy/bans.rs", "crates/testkit/"];

/// One finding for each line of product code that holds a banned construct. Comments and unit tests
/// do not count.
pub fn check(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    let exempt = |path: &str| {
        path.contains("/tests/") || EXEMPT.iter().any(|exempt| path.starts_with(exempt))
    };
    for (path, text) in sources.product().filter(|(path, _)| !exempt(path)) {
        let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
        let applies = |ban: &&Ban| !ban.allowed.iter().any(|prefix| path.starts_with(prefix));
        for ban in BANS.iter().filter(applies) {
            for (number, line) in (1..).zip(product.lines()) {
                if line.contains(ban.text) && !line.trim_start().starts_with("//") {
                    let text = format!("`{}` is banned; {}", ban.text, ban.instead);
                    findings.push(Finding::new("bans", path, number, text));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{Sources, check};

    #[test]
    fn a_ban_names_its_line_and_replacement() {
        let text = "fn a() {\n    thread::sleep(d);\n}\n";
        let findings = check(&Sources::from([("crates/wal/src/flush.rs", text)]));
        assert_eq!(findings.len(), 1);
        let found = findings[0].to_string();
        assert!(found.starts_with("crates/wal/src/flush.rs:2: bans: `thread::sleep`"), "{found}");
    }

    #[test]
    fn tests_comments_and_allowed_places_are_left_alone() {
        for (path, text, found) in [
            ("crates/wal/src/a.rs", "use std::fs::File;", 1),
            ("crates/wal/tests/a.rs", "use std::fs::File;", 0),
            ("crates/wal/src/ring/tests/a.rs", "use std::fs::File;", 0),
            ("crates/aio/src/a.rs", "use std::fs::File;", 0),
            ("crates/wal/src/a.rs", "// std::fs::File\n", 0),
            ("crates/wal/src/a.rs", "#[cfg(test)]\nmod tests { use std::fs::File; }", 0),
        ] {
            assert_eq!(check(&Sources::from([(path, text)])).len(), found, "{path}: {text}");
        }
    }
}
