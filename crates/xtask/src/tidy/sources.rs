//! The files of the crates, `fuzz/`, `docs/` and the root. The text of Rust sources, manifests and
//! Markdown is read once, before the checks run; of other files only the name is known.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The folders that are read whole; of the root itself, only its files are.
const FOLDERS: [&str; 3] = ["crates", "docs", "fuzz"];

/// Texts by their paths relative to the root.
pub struct Sources(BTreeMap<String, String>);

impl Sources {
    /// Reads the files of the project at `root`.
    ///
    /// # Errors
    /// The file or folder that can't be read.
    pub fn read(root: &Path) -> Result<Sources, String> {
        let mut sources = Sources(BTreeMap::new());
        sources.read_folder(root, "")?;
        for folder in FOLDERS.into_iter().filter(|folder| root.join(folder).is_dir()) {
            sources.read_folder(root, folder)?;
        }
        Ok(sources)
    }

    /// Reads a folder's files, and its folders unless it is the root.
    fn read_folder(&mut self, root: &Path, folder: &str) -> Result<(), String> {
        let failed = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
        let here = root.join(folder);
        for entry in fs::read_dir(&here).map_err(|e| failed(&here, e))? {
            let path = entry.map_err(|e| failed(&here, e))?.path();
            let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            if path.is_dir() {
                if !folder.is_empty() && !path.ends_with("target") {
                    self.read_folder(root, &shown)?;
                }
            } else if is_checked(&shown) {
                let text = fs::read_to_string(&path).map_err(|e| failed(&path, e))?;
                self.0.insert(shown, text);
            } else {
                self.0.insert(shown, String::new());
            }
        }
        Ok(())
    }

    /// The text of a file, empty if there is none.
    pub fn text(&self, path: &str) -> &str {
        self.0.get(path).map_or("", String::as_str)
    }

    /// Whether there is such a file.
    pub fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// Whether a path is that of a file, or of a folder that holds one.
    pub fn leads_to(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.has(path) || self.0.keys().any(|file| file.starts_with(&folder))
    }

    /// How many files there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Path and text of the files whose names end so (with the dot).
    pub fn ending(&self, end: &str) -> impl Iterator<Item = (&str, &str)> {
        let all = self.0.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        all.filter(move |(path, _)| path.ends_with(end))
    }

    /// Path and text of the Rust files of product code: those below `crates/NAME/src/`.
    pub fn product(&self) -> impl Iterator<Item = (&str, &str)> {
        self.ending(".rs").filter(|(path, _)| path.split('/').nth(2) == Some("src"))
    }

    /// The names of the crates' folders.
    pub fn packages(&self) -> impl Iterator<Item = &str> {
        let manifests = self.0.keys().filter_map(|path| path.strip_suffix("/Cargo.toml"));
        manifests.filter_map(|folder| folder.strip_prefix("crates/"))
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Sources {
    fn from(files: [(&str, &str); N]) -> Sources {
        Sources(files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect())
    }
}

fn is_checked(path: &str) -> bool {
    [".rs", ".md", "/Cargo.toml"].iter().any(|end| path.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::Sources;

    #[test]
    fn files_are_found_by_kind() {
        let sources = Sources::from([
            ("crates/wal/Cargo.toml", ""),
            ("crates/wal/src/lib.rs", "mod a;"),
            ("crates/wal/tests/all.rs", ""),
            ("docs/a.md", ""),
        ]);
        assert_eq!(sources.packages().collect::<Vec<_>>(), ["wal"]);
        assert_eq!(
            sources.product().map(|(path, _)| path).collect::<Vec<_>>(),
            ["crates/wal/src/lib.rs"]
        );
        assert_eq!(sources.ending(".rs").count(), 2);
        assert!(sources.has("docs/a.md") && !sources.has("docs/b.md"));
    }

    #[test]
    fn this_project_is_read() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sources = Sources::read(&root).expect("read");
        assert!(sources.has("README.md") && sources.has("crates/xtask/src/tidy/sources.rs"));
        assert!(sources.packages().any(|package| package == "xtask"));
        assert_eq!(sources.text("Cargo.lock"), "", "not read");
    }
}
