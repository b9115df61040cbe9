//! Removes old WAL that no base backup needs.
//!
//! All WAL before one segment is removed, on every timeline, as pg_archivecleanup does. History
//! files stay: they are small, and without them no recovery finds the way from one timeline to
//! another. The oldest file is removed first (in an object store, the oldest few hundred), and its
//! manifest before the file. So after a crash every manifest has its file, and the next run removes
//! the rest.
//!
//! Base backups are known in two ways. Forebay's own backups in this archive are listed: the cut
//! must not remove WAL that they need. Backups of other programs leave a `.backup` file, which
//! stays when the backup is deleted. If the cut is the name of such a file, that backup is taken to
//! be the oldest one that still exists. If it is a segment, there must be no older `.backup` file.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_aio::IoBackend;
use forebay_format::SegmentSize;

use super::inventory::{Inventory, Stored};
use super::repository::Repository;
use crate::error::{ArchiveError, Result};
use crate::names::{Kind, WalName};

/// A base backup, complete or not, and the first segment that it needs: the segments up to its end
/// to become consistent, and all later ones to recover beyond that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededFrom {
    /// The backup.
    pub backup: String,
    /// Name of the segment.
    pub first: String,
}

/// The files that were removed, or that would be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expired {
    /// The cut: name of the first segment that stays.
    pub before: String,
    /// The removed WAL files, the oldest first.
    pub files: Vec<WalName>,
    /// Bytes of their stored files.
    pub bytes: u64,
}

impl Repository {
    /// Removes all WAL before `cut`, the name of a segment or of a `.backup` file; None: all that
    /// no backup in `needed` needs. With `dry_run` nothing is removed. `progress` is called with
    /// the number of removed files and their total.
    pub fn expire(
        &self,
        io: &mut IoBackend,
        cut: Option<&WalName>,
        needed: &[NeededFrom],
        dry_run: bool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Expired> {
        let inventory = self.inventory(io)?;
        let Some(size) = inventory.segment_size else { return Ok(Expired::default()) };
        let cut = decide(&inventory, size, cut, needed)?;
        let number = |name: &WalName| name.number(size);
        let mut going: Vec<&Stored> = inventory
            .files
            .iter()
            .filter(|stored| number(&stored.name).is_some_and(|number| number < cut.number))
            .collect();
        going.sort_by_key(|stored| (number(&stored.name), stored.name.clone()));
        let expired = Expired {
            before: cut.name,
            files: going.iter().map(|stored| stored.name.clone()).collect(),
            bytes: going.iter().map(|stored| stored.bytes()).sum(),
        };
        if dry_run {
            return Ok(expired);
        }
        let total = going.len() as u64;
        let mut dirs: Vec<String> = Vec::new();
        let mut done = 0;
        for some in going.chunks(self.depot().removals().max(1)) {
            let manifests: Vec<&str> =
                some.iter().filter_map(|stored| stored.manifest.as_deref()).collect();
            self.depot().remove_all(io, &manifests)?;
            let files =
                some.iter().flat_map(|stored| stored.files.iter().map(|(key, _)| key.as_str()));
            self.depot().remove_all(io, &files.collect::<Vec<&str>>())?;
            dirs.extend(some.iter().map(|stored| inventory.layout.dir(stored.name.as_str())));
            done += some.len() as u64;
            progress(done, total);
        }
        dirs.sort();
        dirs.dedup();
        self.depot().sync_removals(io, &dirs)?;
        Ok(expired)
    }
}

struct Cut {
    number: u64,
    name: String,
}

/// Decides where to cut.
fn decide(
    inventory: &Inventory,
    size: SegmentSize,
    cut: Option<&WalName>,
    needed: &[NeededFrom],
) -> Result<Cut> {
    let number_of = |name: &str| WalName::parse(name).and_then(|name| name.number(size));
    let mut oldest: Option<(u64, &NeededFrom)> = None;
    for one in needed {
        let Some(number) = number_of(&one.first) else {
            let (backup, first) = (&one.backup, &one.first);
            let message = format!(
                "base backup \"{backup}\" needs WAL from \"{first}\" on, which is no segment"
            );
            return Err(ArchiveError::Refused(message));
        };
        if oldest.is_none_or(|(before, _)| number < before) {
            oldest = Some((number, one));
        }
    }
    let Some(cut) = cut else {
        let Some((number, one)) = oldest else {
            let message = "there is no base backup in the archive: say with --before what may go";
            return Err(ArchiveError::refused(message));
        };
        return Ok(Cut { number, name: one.first.clone() });
    };
    let Some(number) = cut.number(size) else {
        let message = format!("\"{cut}\" is neither a segment nor a .backup file of this archive");
        return Err(ArchiveError::Refused(message));
    };
    let segment = |name: &WalName| name.segment().expect("it has a number").to_owned();
    if let Some((first, one)) = oldest
        && first < number
    {
        let (first, backup) = (one.first.clone(), one.backup.clone());
        return Err(ArchiveError::Needed { first, backup });
    }
    if cut.kind() != Kind::Backup {
        let told = |stored: &&Stored| stored.name.kind() == Kind::Backup;
        let older = |stored: &&Stored| stored.name.number(size).is_some_and(|first| first < number);
        if let Some(stored) = inventory.files.iter().filter(told).find(older) {
            let (first, backup) = (segment(&stored.name), stored.name.to_string());
            return Err(ArchiveError::Needed { first, backup });
        }
    }
    Ok(Cut { number, name: segment(cut) })
}
