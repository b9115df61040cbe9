//! Arrows between crates: a crate uses only crates below it.

use super::finding::Finding;
use super::sources::Sources;

/// The crates from the bottom up, those that are still to come among them. A crate may use those
/// before it, unless [`FORBIDDEN`] says no.
const LAYERS: [&str; 19] = [
    "format",
    "types",
    "collation",
    "aio",
    "wal",
    "archive",
    "storage",
    "txn",
    "access",
    "catalog",
    "engine",
    "bench",
    "sql",
    "query",
    "server", // and for development only:
    "testkit",
    "sim",
    "powercut",
    "xtask",
];

/// Arrows that point down and are still wrong: who, to whom, and why.
const FORBIDDEN: [(&str, &[&str], &str); 4] = [
    ("types", &["format"], "format, types and aio know nothing of each other"),
    ("aio", &["format", "types"], "format, types and aio know nothing of each other"),
    ("storage", &["archive"], "the buffer pool knows nothing of archives"),
    (
        "server",
        &["wal", "archive", "storage", "txn", "access", "catalog"],
        "the server reaches nothing under engine",
    ),
];

/// Crates whose sources may hold `unsafe`; every other one forbids it in its root file.
const UNSAFE: [&str; 5] = ["format", "collation", "aio", "wal", "storage"];

/// One finding for each dependency that points up or is forbidden, for each crate that has no layer
/// here, and for each that does not forbid `unsafe`.
pub fn check(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in sources.packages() {
        let manifest = format!("crates/{package}/Cargo.toml");
        for (line, used) in dependencies(sources.text(&manifest)) {
            if let Some(why) = wrong(package, used) {
                let text = format!("{package} uses {used}: {why}");
                findings.push(Finding::new("crates", &manifest, line, text));
            }
        }
        if !UNSAFE.contains(&package) {
            for root in ["lib.rs", "main.rs"].map(|name| format!("crates/{package}/src/{name}")) {
                if sources.has(&root) && !sources.text(&root).contains("#![forbid(unsafe_code)]") {
                    let text = "must say #![forbid(unsafe_code)]";
                    findings.push(Finding::new("crates", &root, 1, text));
                }
            }
        }
    }
    findings
}

/// Why one crate may not use another, if it may not.
fn wrong(package: &str, used: &str) -> Option<String> {
    let rank = |name| LAYERS.iter().position(|layer| *layer == name);
    match (rank(package), rank(used)) {
        (Some(own), Some(other)) if other < own => {}
        (Some(_), Some(_)) => {
            return Some(format!("arrows point down ({})", LAYERS.join(" < ")));
        }
        _ => return Some("a crate without a place in the layers (xtask's tidy/crates.rs)".into()),
    }
    let forbidden = |(from, to, _): &&(&str, &[&str], &str)| *from == package && to.contains(&used);
    FORBIDDEN.iter().find(forbidden).map(|(.., why)| (*why).to_owned())
}

/// The project's crates that a manifest names as dependencies, with their lines. Development
/// dependencies do not count.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut counts = false;
    for (line, text) in (1..).zip(manifest.lines()) {
        if text.starts_with('[') {
            counts = text.trim() == "[dependencies]" || text.contains(".dependencies]");
        } else if let (true, Some(rest)) = (counts, text.strip_prefix("forebay-")) {
            found.extend(rest.split(['.', ' ', '=']).next().map(|used| (line, used)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Sources, check, wrong};

    #[test]
    fn arrows_up_and_forbidden_ones_are_wrong() {
        for (package, used, is_wrong) in [
            ("sql", "engine", false),
            ("server", "engine", false),
            ("archive", "wal", false),
            ("server", "aio", false),
            ("engine", "sql", true),
            ("wal", "wal", true),
            ("aio", "format", true),
            ("types", "format", true),
            ("archive", "storage", true),
            ("server", "catalog", true),
            ("engine", "testkit", true),
            ("sim", "engine", false),
            ("wal", "unheard-of", true),
        ] {
            assert_eq!(wrong(package, used).is_some(), is_wrong, "{package} -> {used}");
        }
    }

    #[test]
    fn development_dependencies_do_not_count() {
        let manifest = "[dependencies]\nforebay-sql.workspace = true\n\
                        [dev-dependencies]\nforebay-server = { path = \"x\" }\n";
        let sources = Sources::from([("crates/wal/Cargo.toml", manifest)]);
        let findings = check(&sources);
        assert_eq!(findings.len(), 1);
        assert!(
            findings[0].to_string().starts_with("crates/wal/Cargo.toml:2: crates: wal uses sql")
        );
    }

    #[test]
    fn unsafe_is_forbidden_by_the_root_file() {
        let root =
            |text| Sources::from([("crates/sql/Cargo.toml", ""), ("crates/sql/src/lib.rs", text)]);
        assert_eq!(check(&root("mod a;\n")).len(), 1);
        assert_eq!(check(&root("#![forbid(unsafe_code)]\n")).len(), 0);
    }
}
