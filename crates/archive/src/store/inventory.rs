//! What an archive holds, by the names of its files.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;

use forebay_aio::Backend;
use forebay_format::SegmentSize;

use super::Repository;
use super::depot::BACKUPS;
use super::layout::{Entry, LayoutKind};
use super::manifest::Marker;
use crate::error::Result;
use crate::names::{Kind, WalName};

/// A file of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The WAL file.
    pub name: WalName,
    /// Keys and bytes of what is stored under the name. More than one is too many.
    pub files: Vec<(String, u64)>,
    /// Key of the manifest, if there is one.
    pub manifest: Option<String>,
}

/// What an archive holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inventory {
    /// How it is laid out.
    pub layout: LayoutKind,
    /// Whose WAL it is.
    pub system: Option<u64>,
    /// Its files, in the order in which WAL files are archived.
    pub files: Vec<Stored>,
    /// Files that were being stored, or still are: key and bytes.
    pub temporary: Vec<(String, u64)>,
    /// Files that are not of an archive: key and bytes.
    pub foreign: Vec<(String, u64)>,
    /// Bytes of a segment, as the first that could be asked said it.
    pub segment_size: Option<SegmentSize>,
}

/// Segments of a timeline that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineRange {
    /// The timeline.
    pub timeline: u32,
    /// The first one's number.
    pub first: u64,
    /// The last one's number.
    pub last: u64,
    /// Bytes stored.
    pub bytes: u64,
}

impl Repository {
    /// What is there.
    pub fn inventory(&self, be: &mut Backend) -> Result<Inventory> {
        let Marker { layout, system, .. } = self.ascertain(be)?;
        let mut files: BTreeMap<WalName, Stored> = BTreeMap::new();
        let (mut temporary, mut foreign) = (Vec::new(), Vec::new());
        for object in self.depot.list(be, layout.root())? {
            if object.key == Marker::NAME || is_elsewhere(&object.key) {
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
        inventory.segment_size = self.segment_size(be, &inventory)?;
        Ok(inventory)
    }

    /// The first segment's manifest says it; else the length of an uncompressed one.
    fn segment_size(&self, be: &mut Backend, inventory: &Inventory) -> Result<Option<SegmentSize>> {
        let segments = || inventory.files.iter().filter(|stored| stored.name.is_whole());
        if let Some(stored) = segments().find(|stored| stored.manifest.is_some())
            && let Ok(Some(manifest)) = self.manifest(be, inventory.layout, &stored.name)
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

/// Base backups have their own.
fn is_elsewhere(key: &str) -> bool {
    key.strip_prefix(BACKUPS).is_some_and(|rest| rest.starts_with('/'))
}

impl Stored {
    /// Bytes stored.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes).sum()
    }
}

impl Inventory {
    /// Runs of segments without a gap, by timeline and number.
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

    /// Bytes of all its files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(Stored::bytes).sum()
    }

    /// Whether a segment is there.
    pub fn has(&self, timeline: u32, number: u64) -> bool {
        self.ranges()
            .iter()
            .any(|range| range.timeline == timeline && (range.first..=range.last).contains(&number))
    }
}
