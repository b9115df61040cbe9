//! Verifies an archive. Every file is read, decrypted, decompressed and compared with its manifest;
//! a segment's header must match its name. Then the names tell whether a segment is missing.
//!
//! A gap is a segment that is missing between two others of its timeline, or between the segments
//! of a timeline's parent and the place where the timeline begins. Segments before the first one
//! are no gap: they were expired.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::fmt;

use forebay_aio::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use forebay_aio::sync::{Arc, Mutex, thread};
use forebay_aio::{Aio, BackendType, IoBackend};
use forebay_format::SegmentSize;
use forebay_format::timeline::TimelineHistory;

use super::codec::Codec;
use super::inventory::{Inventory, Stored, TimelineRange};
use super::manifest::Manifest;
use super::repository::Repository;
use crate::error::{ArchiveError, Result};
use crate::names::{Kind, WalName};
use crate::source;

/// A problem of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// A file can't be read, or does not match its manifest or its name.
    Damaged {
        /// The WAL file.
        name: WalName,
        /// What is wrong.
        reason: String,
    },
    /// There is a manifest, but no file.
    Missing {
        /// The WAL file.
        name: WalName,
    },
    /// There is a file without a manifest: another program stored it, or a push was interrupted.
    NoManifest {
        /// The WAL file.
        name: WalName,
    },
    /// Several files are stored under one name.
    Twice {
        /// The WAL file.
        name: WalName,
        /// Key of a file that the manifest does not name.
        key: String,
    },
    /// Segments are missing.
    Gap {
        /// Name of the first missing one.
        first: String,
        /// Name of the last missing one.
        last: String,
        /// How many are missing.
        count: u64,
    },
    /// A file does not belong to an archive.
    Foreign {
        /// Its key.
        key: String,
    },
    /// A file is being stored, or a dead process left it.
    Unfinished {
        /// Its key.
        key: String,
    },
}

impl Problem {
    /// Whether WAL may be lost. The other problems are harmless.
    pub fn is_serious(&self) -> bool {
        matches!(self, Problem::Damaged { .. } | Problem::Missing { .. } | Problem::Gap { .. })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Damaged { name, reason } => write!(f, "{name}: {reason}"),
            Problem::Missing { name } => {
                write!(f, "{name}: the file is missing, its manifest is there")
            }
            Problem::NoManifest { name } => write!(f, "{name}: it has no manifest"),
            Problem::Twice { name, key } => {
                write!(f, "{name}: \"{key}\" is stored beside what the manifest names")
            }
            Problem::Gap { first, count: 1, .. } => write!(f, "{first} is missing"),
            Problem::Gap { first, last, count } => {
                write!(f, "{first} to {last} ({count} segments) are missing")
            }
            Problem::Foreign { key } => write!(f, "\"{key}\" is not of an archive"),
            Problem::Unfinished { key } => write!(f, "\"{key}\" was being stored, or still is"),
        }
    }
}

/// The result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// Number of WAL files.
    pub files: u64,
    /// Bytes of their stored files.
    pub bytes: u64,
    /// Problems of files, by name; then gaps, then the others.
    pub problems: Vec<Problem>,
}

/// How to verify.
#[derive(Debug, Clone, Copy)]
pub struct VerifyOptions {
    /// Threads that read.
    pub threads: usize,
    /// Check only names and manifests; read no file.
    pub quick: bool,
}

impl Default for VerifyOptions {
    fn default() -> VerifyOptions {
        VerifyOptions { threads: 2, quick: false }
    }
}

impl Repository {
    /// Verifies the archive. Any thread calls `progress` with the bytes done and their total.
    pub fn verify(
        &self,
        aio: &Arc<Aio>,
        options: &VerifyOptions,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Verification> {
        let mut io = aio.backend(BackendType::Standalone)?;
        let inventory = self.inventory(&mut io)?;
        let work = Work {
            total: inventory.bytes(),
            done: AtomicU64::new(0),
            next: AtomicUsize::new(0),
            found: Mutex::new(BTreeMap::new()),
            failed: Mutex::new(None),
        };
        progress(0, work.total);
        let run = |io: &mut IoBackend| self.verify_some(io, &inventory, options, &work, progress);
        thread::scope(|scope| {
            for _ in 1..options.threads.max(1) {
                // With fewer threads it just takes longer.
                if let Ok(mut io) = aio.backend(BackendType::Standalone) {
                    scope.spawn(move || run(&mut io));
                }
            }
            run(&mut io);
        });
        if let Some(error) = work.failed.lock().take() {
            return Err(error);
        }
        let mut problems: Vec<Problem> =
            std::mem::take(&mut *work.found.lock()).into_values().flatten().collect();
        let histories = self.histories(&mut io, &inventory, &mut problems);
        problems.extend(gaps(&inventory, &histories));
        problems.extend(
            inventory.temporary.iter().map(|(key, _)| Problem::Unfinished { key: key.clone() }),
        );
        problems
            .extend(inventory.foreign.iter().map(|(key, _)| Problem::Foreign { key: key.clone() }));
        let bytes = work.done.load(Ordering::Relaxed);
        Ok(Verification { files: inventory.files.len() as u64, bytes, problems })
    }

    fn verify_some(
        &self,
        io: &mut IoBackend,
        inventory: &Inventory,
        options: &VerifyOptions,
        work: &Work,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) {
        while work.failed.lock().is_none() {
            let number = work.next.fetch_add(1, Ordering::Relaxed);
            let Some(stored) = inventory.files.get(number) else { return };
            match self.verify_one(io, inventory, stored, options.quick) {
                Ok(problems) if problems.is_empty() => {}
                Ok(problems) => {
                    work.found.lock().insert(number, problems);
                }
                Err(error) => {
                    work.failed.lock().get_or_insert(error);
                    return;
                }
            }
            let bytes = stored.bytes();
            let done = work.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
            progress(done, work.total);
        }
    }

    /// The problems of one file. An error says nothing about the file, only about the depot.
    fn verify_one(
        &self,
        io: &mut IoBackend,
        inventory: &Inventory,
        stored: &Stored,
        quick: bool,
    ) -> Result<Vec<Problem>> {
        let mut problems = Vec::new();
        let name = &stored.name;
        let manifest = match self.manifest(io, inventory.layout, name) {
            Ok(manifest) => manifest,
            Err(error) => {
                problems.push(self.damage(name, error)?);
                return Ok(problems);
            }
        };
        let Some(manifest) = manifest else {
            if stored.files.is_empty() {
                // It is being expired: its manifest was removed after the listing.
                return Ok(problems);
            }
            problems.push(Problem::NoManifest { name: name.clone() });
            if !quick {
                problems.extend(self.read_one(io, inventory, name, None)?);
            }
            return Ok(problems);
        };
        let key = format!("{}{}", inventory.layout.dir(name.as_str()), manifest.stored);
        for (other, _) in stored.files.iter().filter(|(found, _)| *found != key) {
            problems.push(Problem::Twice { name: name.clone(), key: other.clone() });
        }
        match stored.files.iter().find(|(found, _)| *found == key) {
            None => problems.push(Problem::Missing { name: name.clone() }),
            Some((_, size)) if *size != manifest.stored_size => {
                let reason =
                    format!("it has {size} bytes, but was stored with {}", manifest.stored_size);
                problems.push(Problem::Damaged { name: name.clone(), reason });
            }
            Some(_) if quick => {}
            Some(_) => problems.extend(self.read_one(io, inventory, name, Some(&manifest))?),
        }
        Ok(problems)
    }

    /// Reads a whole file.
    fn read_one(
        &self,
        io: &mut IoBackend,
        inventory: &Inventory,
        name: &WalName,
        manifest: Option<&Manifest>,
    ) -> Result<Option<Problem>> {
        if let (Some(manifest), None) = (manifest, &self.options().key)
            && manifest.codec.key.is_some()
        {
            // Without the key, the stored bytes can still be compared with the manifest.
            return self.read_sealed(io, inventory, name, manifest);
        }
        let mut head = Vec::new();
        let read = self.fetch(io, name, &mut |_, bytes| {
            if head.is_empty() {
                head.extend(bytes.iter().take(64));
            }
            Ok(())
        });
        let fetched = match read {
            Ok(Some(fetched)) => fetched,
            Ok(None) => return Ok(Some(Problem::Missing { name: name.clone() })),
            Err(error) => return self.damage(name, error).map(Some),
        };
        let system = inventory.system.or(manifest.and_then(|manifest| manifest.origin.system));
        let wrong = source::check_stored(name, &head, fetched.size, system).err();
        Ok(wrong.map(|reason| Problem::Damaged { name: name.clone(), reason }))
    }

    fn read_sealed(
        &self,
        io: &mut IoBackend,
        inventory: &Inventory,
        name: &WalName,
        manifest: &Manifest,
    ) -> Result<Option<Problem>> {
        let key = format!("{}{}", inventory.layout.dir(name.as_str()), manifest.stored);
        let plain = Codec::default();
        let read = self.read_back(io, name, &key, plain, u64::MAX, &mut |_, _| Ok(()))?;
        let Some(read) = read else { return Ok(Some(Problem::Missing { name: name.clone() })) };
        if read.stored_sha256 == manifest.stored_sha256 {
            return Ok(None);
        }
        let reason = format!(
            "what is stored has SHA-256 {}, but was stored with {}",
            read.stored_sha256, manifest.stored_sha256
        );
        Ok(Some(Problem::Damaged { name: name.clone(), reason }))
    }

    /// The problem that an error reports; an error that says nothing about the file stays an error.
    fn damage(&self, name: &WalName, error: ArchiveError) -> Result<Problem> {
        match error {
            ArchiveError::Missing { .. } => Ok(Problem::Missing { name: name.clone() }),
            ArchiveError::Damaged { .. }
            | ArchiveError::Manifest { .. }
            | ArchiveError::OtherKey { .. }
            | ArchiveError::Unsealed { .. }
            | ArchiveError::Forged { .. } => {
                Ok(Problem::Damaged { name: name.clone(), reason: error.to_string() })
            }
            other => Err(other),
        }
    }

    /// The timelines' histories that can be read.
    fn histories(
        &self,
        io: &mut IoBackend,
        inventory: &Inventory,
        problems: &mut Vec<Problem>,
    ) -> BTreeMap<u32, TimelineHistory> {
        let mut histories = BTreeMap::new();
        for stored in inventory.files.iter().filter(|stored| stored.name.kind() == Kind::History) {
            let mut bytes = Vec::new();
            let read = self.fetch(io, &stored.name, &mut |_, piece| {
                bytes.extend_from_slice(piece);
                Ok(())
            });
            // If it can't be read, that was reported already.
            let Ok(Some(_)) = read else { continue };
            let timeline = stored.name.timeline();
            match TimelineHistory::parse(timeline, &String::from_utf8_lossy(&bytes)) {
                Ok(history) => {
                    histories.insert(timeline, history);
                }
                Err(error) => {
                    problems.push(Problem::Damaged {
                        name: stored.name.clone(),
                        reason: error.to_string(),
                    });
                }
            }
        }
        histories
    }
}

/// The state that the threads share.
struct Work {
    total: u64,
    done: AtomicU64,
    next: AtomicUsize,
    found: Mutex<BTreeMap<usize, Vec<Problem>>>,
    failed: Mutex<Option<ArchiveError>>,
}

/// The missing segments.
fn gaps(inventory: &Inventory, histories: &BTreeMap<u32, TimelineHistory>) -> Vec<Problem> {
    let Some(size) = inventory.segment_size else { return Vec::new() };
    let ranges = inventory.ranges();
    let mut found = Vec::new();
    for (before, after) in ranges.iter().zip(ranges.iter().skip(1)) {
        if before.timeline == after.timeline {
            found.push(gap(size, before.timeline, before.last + 1, after.first - 1));
        }
    }
    for (timeline, history) in histories {
        let Some(own) = ranges.iter().find(|range| range.timeline == *timeline) else { continue };
        found.extend(gap_before(size, &ranges, history, own));
    }
    found
}

/// The gap between the parent's last segment before the switch and the timeline's first segment.
fn gap_before(
    size: SegmentSize,
    ranges: &[TimelineRange],
    history: &TimelineHistory,
    own: &TimelineRange,
) -> Option<Problem> {
    let parent = history.stretches().iter().rev().nth(1)?;
    let switch = size.number(parent.end?);
    let upto = ranges
        .iter()
        .filter(|range| range.timeline == parent.timeline && range.first < switch)
        .map(|range| range.last)
        .max()?;
    if own.first > switch {
        return Some(gap(size, own.timeline, switch, own.first - 1));
    }
    (upto + 1 < switch).then(|| gap(size, parent.timeline, upto + 1, switch - 1))
}

fn gap(size: SegmentSize, timeline: u32, first: u64, last: u64) -> Problem {
    let name = |number| size.file_name(timeline, number);
    Problem::Gap { first: name(first), last: name(last), count: (last + 1).saturating_sub(first) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::layout::LayoutKind;
    use forebay_format::Lsn;

    fn inventory(segments: &[(u32, std::ops::RangeInclusive<u64>)]) -> Inventory {
        let size = SegmentSize::DEFAULT;
        let names = segments.iter().flat_map(|(timeline, numbers)| {
            numbers
                .clone()
                .map(|number| WalName::parse(&size.file_name(*timeline, number)).expect("a name"))
        });
        let files = names
            .map(|name| Stored {
                files: vec![(name.to_string(), size.bytes())],
                name,
                manifest: None,
            })
            .collect();
        Inventory {
            layout: LayoutKind::Plain,
            system: None,
            files,
            temporary: Vec::new(),
            foreign: Vec::new(),
            segment_size: Some(size),
        }
    }

    fn missing(problems: &[Problem]) -> Vec<String> {
        problems.iter().map(Problem::to_string).collect()
    }

    #[test]
    fn gaps_in_a_timeline() {
        let none = BTreeMap::new();
        assert_eq!(gaps(&inventory(&[(1, 3..=9)]), &none), []);
        let found = gaps(&inventory(&[(1, 3..=9), (1, 11..=12), (1, 16..=16)]), &none);
        assert_eq!(
            missing(&found),
            [
                "00000001000000000000000A is missing",
                "00000001000000000000000D to 00000001000000000000000F (3 segments) are missing"
            ]
        );
    }

    #[test]
    fn gaps_between_timelines() {
        let size = SegmentSize::DEFAULT;
        let two = TimelineHistory::alone(1).branch(2, Lsn(size.start(6).0 + 0x100));
        let histories = BTreeMap::from([(2, two)]);
        // The parent's segments up to the switch are there, whether it continued after it or not.
        assert_eq!(gaps(&inventory(&[(1, 3..=8), (2, 6..=7)]), &histories), []);
        assert_eq!(gaps(&inventory(&[(1, 3..=5), (2, 6..=7)]), &histories), []);
        // All of the parent's segments were expired.
        assert_eq!(gaps(&inventory(&[(2, 7..=9)]), &histories), []);
        let found = gaps(&inventory(&[(1, 3..=4), (2, 6..=7)]), &histories);
        assert_eq!(missing(&found), ["000000010000000000000005 is missing"]);
        let found = gaps(&inventory(&[(1, 3..=5), (2, 8..=8)]), &histories);
        assert_eq!(
            missing(&found),
            ["000000020000000000000006 to 000000020000000000000007 (2 segments) are missing"]
        );
    }
}
