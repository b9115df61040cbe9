//! Under which key an archive stores a file.
//!
//! | Layout | Stored file | Manifest |
//! |---|---|---|
//! | plain | `NAME`, `NAME.zst` ... | `NAME.manifest` |
//! | hashed | `wal/HH/NAME`, `wal/HH/NAME.zst` ... | `wal/HH/NAME.manifest` |
//!
//! `cp`, other restore commands and pg_archivecleanup understand the plain layout. The hashed one
//! spreads the files over 256 directories: `HH` is the first byte of the name's SHA-256. The marker
//! file and the base backups under `backups/` have the same place in both.

use forebay_aio::named_enum;

use super::codec::Codec;
use crate::digest::Digest;
use crate::durable_dir::TEMPORARY;
use crate::names::WalName;

/// Ending of a manifest's name.
pub(super) const MANIFEST: &str = ".manifest";
/// Directory of the WAL files in the hashed layout.
const WAL: &str = "wal/";

named_enum! {
    /// The layouts.
    #[derive(Default)]
    LayoutKind {
        /// All files in one directory, under their own names.
        #[default]
        Plain = "plain",
        /// Files spread over 256 directories.
        Hashed = "hashed",
    }
}

impl LayoutKind {
    /// The directory of a WAL file and its manifest: empty, or with a slash at the end.
    pub(super) fn dir(self, name: &str) -> String {
        match self {
            LayoutKind::Plain => String::new(),
            LayoutKind::Hashed => {
                let [first, ..] = *Digest::of(name.as_bytes()).bytes();
                format!("{WAL}{first:02x}/")
            }
        }
    }

    /// Key of the manifest of a WAL file.
    pub(super) fn manifest(self, name: &str) -> String {
        format!("{}{name}{MANIFEST}", self.dir(name))
    }

    /// The prefix of the keys of all WAL files.
    pub(super) fn root(self) -> &'static str {
        match self {
            LayoutKind::Plain => "",
            LayoutKind::Hashed => WAL,
        }
    }

    /// What is stored under a key.
    pub(super) fn classify(self, key: &str) -> Entry {
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

/// What is stored under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// A stored WAL file, perhaps compressed or encrypted.
    Stored(WalName),
    /// The manifest of one.
    Manifest(WalName),
    /// A file that is being stored, or that a dead process left behind.
    Temporary,
    /// Not a file of an archive.
    Foreign,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wal(name: &str) -> WalName {
        WalName::parse(name).expect("a name")
    }

    #[test]
    fn each_file_has_one_key() {
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
