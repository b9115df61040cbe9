//! `cargo xtask tidy`: what no compiler lint expresses.
//!
//! 1. Arrows point down: a crate uses only crates below it.
//! 2. Files stay small: none over 800 lines, but for those in `tidy-ratchet.txt`, which may only
//!    shrink.
//! 3. Bans, each with its replacement; `unsafe` only where it belongs.

use std::fs;
use std::path::{Path, PathBuf};

/// The product's crates from the bottom up. A crate may use those before it, unless [`FORBIDDEN`]
/// says no.
const LAYERS: [&str; 16] = [
    "format", "types", "aio", "wal", "storage", "archive", "txn", "access", "catalog", "engine",
    "bench", "sql", "server", "sim", "powercut", "xtask",
];

/// Arrows that would point down and are still wrong.
const FORBIDDEN: [(&str, &str, &str); 6] = [
    ("types", "format", "types knows values, not pages"),
    ("aio", "types", "aio moves bytes and knows no values"),
    ("aio", "format", "aio moves bytes and knows no PostgreSQL format"),
    ("archive", "storage", "the archive knows WAL segments, not pages"),
    ("server", "storage", "the server reaches storage through engine"),
    ("server", "wal", "the server reaches the log through engine"),
];

const LINE_LIMIT: usize = 800;
const RATCHET: &str = "tidy-ratchet.txt";

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
        instead: "go through aio's namespace and files: the data directory has one door",
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

/// Crates whose sources may hold `unsafe`; every other one forbids it in its root file.
const UNSAFE_CRATES: [&str; 4] = ["format", "aio", "wal", "storage"];

/// Runs every check and lists all that is wrong.
///
/// # Errors
/// A count, after the findings have been printed.
pub fn run(root: &Path) -> Result<(), String> {
    let mut findings = Vec::new();
    check_layers(root, &mut findings);
    let sources = rust_sources(&root.join("crates"));
    check_sizes(root, &sources, &mut findings);
    for source in &sources {
        let Ok(text) = fs::read_to_string(source) else { continue };
        let shown = relative(root, source);
        check_bans(&shown, &text, &mut findings);
    }
    check_unsafe(root, &mut findings);
    for finding in &findings {
        println!("tidy: {finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} files are in order", sources.len());
        Ok(())
    } else {
        Err(format!("{} findings", findings.len()))
    }
}

fn check_layers(root: &Path, findings: &mut Vec<String>) {
    for (rank, layer) in LAYERS.iter().enumerate() {
        let manifest = root.join("crates").join(layer).join("Cargo.toml");
        let Ok(text) = fs::read_to_string(&manifest) else { continue };
        for used in used_layers(&text) {
            let used_rank = LAYERS.iter().position(|l| *l == used);
            if used_rank.is_none_or(|r| r >= rank) {
                findings.push(format!(
                    "crates/{layer} uses {used}: arrows point down ({})",
                    LAYERS.join(" < ")
                ));
            }
            if let Some((.., why)) = FORBIDDEN.iter().find(|(a, b, _)| a == layer && *b == used) {
                findings.push(format!("crates/{layer} uses {used}: {why}"));
            }
        }
    }
}

/// The product's crates that a manifest names as dependencies (development ones do not count).
fn used_layers(manifest: &str) -> Vec<String> {
    let mut used = Vec::new();
    let mut counts = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            counts = line.trim() == "[dependencies]" || line.contains(".dependencies]");
        } else if let (true, Some(rest)) = (counts, line.strip_prefix("forebay-")) {
            used.extend(rest.split(['.', ' ', '=']).next().map(str::to_string));
        }
    }
    used
}

fn check_sizes(root: &Path, sources: &[PathBuf], findings: &mut Vec<String>) {
    let ratchet = fs::read_to_string(root.join(RATCHET)).unwrap_or_default();
    let limit_of = |path: &str| {
        ratchet.lines().filter_map(|line| line.split_once(' ')).find_map(|(lines, file)| {
            (file.trim() == path).then(|| lines.parse::<usize>().ok()).flatten()
        })
    };
    for source in sources {
        let lines = fs::read_to_string(source).map_or(0, |text| text.lines().count());
        let shown = relative(root, source);
        match limit_of(&shown) {
            None if lines > LINE_LIMIT => {
                findings.push(format!("{shown}: {lines} lines; split it (limit {LINE_LIMIT})"))
            }
            Some(limit) if lines > limit => {
                findings.push(format!("{shown}: grew to {lines} lines from {limit}"))
            }
            Some(limit) if lines < limit => {
                findings.push(format!(
                    "{shown}: shrank to {lines} lines; lower its {limit} in {RATCHET}"
                ));
            }
            _ => {}
        }
    }
}

fn check_bans(shown: &str, text: &str, findings: &mut Vec<String>) {
    // Tests may look at files and sleep-free helpers directly; the tasks name the bans themselves.
    let development = ["/tests/", "/benches/", "/examples/"].iter().any(|dir| shown.contains(dir));
    if development || shown == "crates/xtask/src/tidy.rs" {
        return;
    }
    let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    for ban in BANS.iter().filter(|ban| !ban.allowed.iter().any(|prefix| shown.starts_with(prefix)))
    {
        for (number, line) in product.lines().enumerate() {
            if line.contains(ban.text) && !line.trim_start().starts_with("//") {
                findings.push(format!(
                    "{shown}:{}: `{}` is banned; {}",
                    number + 1,
                    ban.text,
                    ban.instead
                ));
            }
        }
    }
}

fn check_unsafe(root: &Path, findings: &mut Vec<String>) {
    for layer in LAYERS.iter().filter(|layer| !UNSAFE_CRATES.contains(layer)) {
        let folder = root.join("crates").join(layer).join("src");
        for file in ["lib.rs", "main.rs"].map(|name| folder.join(name)) {
            let Ok(text) = fs::read_to_string(&file) else { continue };
            if !text.contains("#![forbid(unsafe_code)]") {
                findings
                    .push(format!("{}: must say #![forbid(unsafe_code)]", relative(root, &file)));
            }
        }
    }
}

fn rust_sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::{check_bans, used_layers};

    #[test]
    fn development_dependencies_do_not_count_as_arrows() {
        let manifest = "[dependencies]\nforebay-aio.workspace = true\n[dev-dependencies]\nforebay-sql = { path = \"x\" }\n";
        assert_eq!(used_layers(manifest), ["aio"]);
    }

    #[test]
    fn a_ban_names_its_line_and_replacement() {
        let mut findings = Vec::new();
        check_bans(
            "crates/wal/src/flush.rs",
            "fn a() {\n    thread::sleep(d);\n}\n",
            &mut findings,
        );
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("crates/wal/src/flush.rs:2:"), "{}", findings[0]);
        check_bans("crates/wal/tests/all.rs", "thread::sleep(d)", &mut findings);
        assert_eq!(findings.len(), 1);
    }
}
