//! Where in an archive a file lies.
//!
//! | Layout | Stored file | Manifest |
//! |---|---|---|
//! | plain | `NAME`, `NAME.zst` ... | `NAME.manifest` |
//! | hashed | `wal/HH/NAME`, `wal/HH/NAME.zst` ... | `wal/HH/NAME.manifest` |
//!
//! Plain is what `cp`, restore commands of others and pg_archivecleanup understand. Hashed spreads
//! the files over 256 directories, `HH` being the first byte of the name's SHA-256. The archive's
//! own file, and what lies under `backups/`, is the same in both.

use super::codec::Codec;
use crate::digest::Digest;
use crate::names::WalName;
use crate::place::TEMPORARY;

/// Ending of a manifest's name.
pub(crate) const MANIFEST: &str = ".manifest";
/// Where the hashed layout keeps WAL.
const WAL: &str = "wal/";

/// The layouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LayoutKind {
    /// All files in one directory, under their own names.
    #[default]
    Plain,
    /// Spread over directories.
    Hashed,
}

impl LayoutKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            LayoutKind::Plain => "plain",
            LayoutKind::Hashed => "hashed",
        }
    }

    /// By its name.
    pub fn by_name(name: &str) -> Option<LayoutKind> {
        [LayoutKind::Plain, LayoutKind::Hashed].into_iter().find(|kind| kind.name() == name)
    }

    /// Beginning of the keys of all that belongs to this file: its directory, with a slash, or
    /// nothing.
    pub(crate) fn dir(self, name: &str) -> String {
        match self {
            LayoutKind::Plain => String::new(),
            LayoutKind::Hashed => {
                let [first, ..] = *Digest::of(name.as_bytes()).bytes();
                format!("{WAL}{first:02x}/")
            }
        }
    }

    /// Key of the manifest.
    pub(crate) fn manifest(self, name: &str) -> String {
        format!("{}{name}{MANIFEST}", self.dir(name))
    }

    /// Where all WAL lies: the prefix to list.
    pub(crate) fn root(self) -> &'static str {
        match self {
            LayoutKind::Plain => "",
            LayoutKind::Hashed => WAL,
        }
    }

    /// What lies under this key.
    pub(crate) fn classify(self, key: &str) -> Entry {
        let (dir, file) = key
            .rsplit_once('/')
            .map_or(("", key), |(_, file)| key.split_at(key.len() - file.len()));
        if file.starts_with(TEMPORARY) {
            return Entry::Temporary;
        }
        if let Some(name) = file.strip_suffix(MANIFEST)
            && let Some(name) = WalName::parse(name)
        {
            return if self.dir(name.as_str()) == dir {
                Entry::Manifest(name)
            } else {
                Entry::Foreign
            };
        }
        let known = Codec::ENDINGS.iter().find_map(|&ending| {
            let name = file.strip_suffix(ending)?;
            WalName::parse(name)
        });
        match known {
            Some(name) if self.dir(name.as_str()) == dir => Entry::Stored(name),
            _ => Entry::Foreign,
        }
    }
}

/// What lies under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A stored WAL file, perhaps compressed or encrypted.
    Stored(WalName),
    /// The manifest of one.
    Manifest(WalName),
    /// Something that is being stored, or was when its process ended.
    Temporary,
    /// Not of an archive.
    Foreign,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wal(name: &str) -> WalName {
        WalName::parse(name).expect("a name")
    }

    #[test]
    fn each_file_has_one_place() {
        let name = "000000010000000000000003";
        for layout in [LayoutKind::Plain, LayoutKind::Hashed] {
            let dir = layout.dir(name);
            assert!(dir.starts_with(layout.root()));
            for ending in Codec::ENDINGS {
                assert_eq!(
                    layout.classify(&format!("{dir}{name}{ending}")),
                    Entry::Stored(wal(name))
                );
            }
            assert_eq!(layout.classify(&layout.manifest(name)), Entry::Manifest(wal(name)));
            assert_eq!(layout.classify(&format!("{dir}{TEMPORARY}{name}.1.2")), Entry::Temporary);
            assert_eq!(layout.classify(&format!("{dir}{name}.gz")), Entry::Foreign);
            assert_eq!(layout.classify(&format!("elsewhere/{name}")), Entry::Foreign);
        }
        let history = "00000002.history";
        assert_eq!(LayoutKind::Plain.classify(history), Entry::Stored(wal(history)));
        let backup = "000000010000000000000003.00000028.backup";
        assert_eq!(LayoutKind::Plain.classify(backup), Entry::Stored(wal(backup)));
    }
}
