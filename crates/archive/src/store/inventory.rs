//! Lists what an archive holds, by the names of its files.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;

use forebay_aio::IoBackend;
use forebay_format::SegmentSize;

use super::depot::BACKUPS;
use super::layout::{Entry, LayoutKind};
use super::manifest::Marker;
use super::repository::Repository;
use crate::error::Result;
use crate::names::{Kind, WalName};

/// A WAL file in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its name.
    pub name: WalName,
    /// Keys and lengths in bytes of its stored files. More than one is a mistake.
    pub files: Vec<(String, u64)>,
    /// Key of its manifest, if there is one.
    pub manifest: Option<String>,
}

/// What an archive holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inventory {
    /// Its layout.
    pub layout: LayoutKind,
    /// System identifier of the cluster whose WAL it holds.
    pub system: Option<u64>,
    /// Its WAL files, in the order in which they are archived.
    pub files: Vec<Stored>,
    /// Files that are being stored, or that a dead process left: key and length in bytes.
    pub temporary: Vec<(String, u64)>,
    /// Files that do not belong to an archive: key and length in bytes.
    pub foreign: Vec<(String, u64)>,
    /// Length of a segment, if any segment tells.
    pub segment_size: Option<SegmentSize>,
}

/// Consecutive segments of a timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineRange {
    /// The timeline.
    pub timeline: u32,
    /// Number of the first segment.
    pub first: u64,
    /// Number of the last segment.
    pub last: u64,
    /// Bytes of the stored files.
    pub bytes: u64,
}

impl Repository {
    /// Lists the archive.
    pub fn inventory(&self, io: &mut IoBackend) -> Result<Inventory> {
        let Marker { layout, system, .. } = self.require_marker(io)?;
        let mut files: BTreeMap<WalName, Stored> = BTreeMap::new();
        let (mut temporary, mut foreign) = (Vec::new(), Vec::new());
        for object in self.depot.list(io, layout.root())? {
            if object.key == Marker::NAME || is_of_backup(&object.key) {
                continue;
            }
            match layout.classify(&object.key) {
                Entry::Stored(name) => {
                    entry(&mut files, name).files.push((object.key, object.size))
                }
                Entry::Manifest(name) => entry(&mut files, name).manifest = Some(object.key),
                Entry::Temporary => temporary.push((object.key, object.size)),
                Entry::Foreign => foreign.push((object.key, object.size)),
            }
        }
        let files: Vec<Stored> = files.into_values().collect();
        let mut inventory =
            Inventory { layout, system, files, temporary, foreign, segment_size: None };
        inventory.segment_size = self.segment_size(io, &inventory)?;
        Ok(inventory)
    }

    /// The length of a segment, from the first segment's manifest or else from an uncompressed one.
    fn segment_size(
        &self,
        io: &mut IoBackend,
        inventory: &Inventory,
    ) -> Result<Option<SegmentSize>> {
        let segments = || inventory.files.iter().filter(|stored| stored.name.is_whole());
        if let Some(stored) = segments().find(|stored| stored.manifest.is_some())
            && let Ok(Some(manifest)) = self.manifest(io, inventory.layout, &stored.name)
            && let Some(size) = manifest.origin.segment_size.and_then(SegmentSize::new)
        {
            return Ok(Some(size));
        }
        let plain = |stored: &Stored| {
            let (key, size) = stored.files.first()?;
            let plain = key.ends_with(stored.name.as_str());
            plain.then(|| u32::try_from(*size).ok().and_then(SegmentSize::new)).flatten()
        };
        Ok(segments().find_map(plain))
    }
}

fn entry(files: &mut BTreeMap<WalName, Stored>, name: WalName) -> &mut Stored {
    let empty = Stored { name: name.clone(), files: Vec::new(), manifest: None };
    files.entry(name).or_insert(empty)
}

/// Whether the file belongs to a base backup.
fn is_of_backup(key: &str) -> bool {
    key.strip_prefix(BACKUPS).is_some_and(|rest| rest.starts_with('/'))
}

impl Stored {
    /// Bytes of its stored files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes).sum()
    }
}

impl Inventory {
    /// Ranges of segments without a gap, by timeline and number.
    pub fn ranges(&self) -> Vec<TimelineRange> {
        let Some(size) = self.segment_size else { return Vec::new() };
        let mut ranges: Vec<TimelineRange> = Vec::new();
        for stored in self.files.iter().filter(|stored| stored.name.kind() == Kind::Segment) {
            let Some(number) = stored.name.number(size) else { continue };
            let (timeline, bytes) = (stored.name.timeline(), stored.bytes());
            match ranges.last_mut() {
                Some(last) if last.timeline == timeline && last.last + 1 == number => {
                    last.last = number;
                    last.bytes += bytes;
                }
                _ => ranges.push(TimelineRange { timeline, first: number, last: number, bytes }),
            }
        }
        ranges
    }

    /// Bytes of all stored WAL files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(Stored::bytes).sum()
    }
}
