//! Old WAL goes, as far as no base backup needs it.
//!
//! What goes lies before a segment, whatever the timeline, as with pg_archivecleanup. History files
//! stay: they are small, and without them nobody knows the way from one timeline to another. The
//! oldest goes first (in an object store the oldest few hundred), of each file its manifest: after
//! a crash nothing in the archive says that it has what it does not have, and the rest goes with
//! the next run.
//!
//! Base backups that are known: those that Forebay made into this archive, which nothing here may
//! cut; and those that others made, of which a `.backup` file tells that they once were. Who gives
//! such a file's name as the cut says that it is the oldest one that still is; before a plain
//! segment none may have been.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_aio::Backend;
use forebay_format::SegmentSize;

use super::inventory::{Inventory, Stored};
use super::{Repository, StoreError};
use crate::error::Result;
use crate::names::{Kind, WalName};

/// A base backup, and the first WAL it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededFrom {
    /// The backup.
    pub backup: String,
    /// Name of the first segment it needs.
    pub first: String,
}

/// What goes, or went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expired {
    /// The cut: what goes is before it.
    pub before: String,
    /// WAL files that go, the oldest first.
    pub files: Vec<WalName>,
    /// Bytes stored of them.
    pub bytes: u64,
}

impl Repository {
    /// Removes what is before `cut`: the name of a segment or of a `.backup` file; None: before
    /// everything that `needed` needs. With `dry_run` nothing is removed. `progress` is told how
    /// many files of how many are gone.
    pub fn expire(
        &self,
        be: &mut Backend,
        cut: Option<&WalName>,
        needed: &[NeededFrom],
        dry_run: bool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Expired> {
        let inventory = self.inventory(be)?;
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
            self.depot().remove_all(be, &manifests)?;
            let files =
                some.iter().flat_map(|stored| stored.files.iter().map(|(key, _)| key.as_str()));
            self.depot().remove_all(be, &files.collect::<Vec<&str>>())?;
            dirs.extend(some.iter().map(|stored| inventory.layout.dir(stored.name.as_str())));
            done += some.len() as u64;
            progress(done, total);
        }
        dirs.sort();
        dirs.dedup();
        self.depot().settle_removals(be, &dirs)?;
        Ok(expired)
    }
}

struct Cut {
    number: u64,
    name: String,
}

/// Where to cut, or why not.
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
            return Err(StoreError::Option(message).into());
        };
        if oldest.is_none_or(|(before, _)| number < before) {
            oldest = Some((number, one));
        }
    }
    let Some(cut) = cut else {
        let Some((number, one)) = oldest else {
            let message = "there is no base backup in the archive: say with --before what may go";
            return Err(StoreError::Option(message.to_owned()).into());
        };
        return Ok(Cut { number, name: one.first.clone() });
    };
    let Some(number) = cut.number(size) else {
        let message = format!("\"{cut}\" is neither a segment nor a .backup file of this archive");
        return Err(StoreError::Option(message).into());
    };
    if let Some((first, one)) = oldest
        && first < number
    {
        return Err(
            StoreError::Needed { first: one.first.clone(), backup: one.backup.clone() }.into()
        );
    }
    if cut.kind() != Kind::Backup {
        let told = |stored: &&Stored| stored.name.kind() == Kind::Backup;
        let older = |stored: &&Stored| stored.name.number(size).is_some_and(|first| first < number);
        if let Some(stored) = inventory.files.iter().filter(told).find(older) {
            let first = stored.name.segment().unwrap_or_default().to_owned();
            return Err(StoreError::Needed { first, backup: stored.name.to_string() }.into());
        }
    }
    let name = cut.segment().unwrap_or_default().to_owned();
    Ok(Cut { number, name })
}
