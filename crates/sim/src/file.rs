//! A simulated file: its content as reads see it, its content on the medium, and the changes
//! between the two.
//!
//! ```text
//!   write ──> live                                   sync ──> durable
//!         └─> unsynced: changes in order ───────────────┘
//!                  └── a crash: each sector of each change survives or not, each new length too
//! ```
//!
//! `live` is the system's cache. After a failed sync it holds bytes that never reach the medium,
//! and counts as clean until it is dropped. Direct reads see the medium.

use crate::image::Image;
use crate::survival::Survival;

/// A change that may be lost.
#[derive(Clone, Debug)]
enum Change {
    /// Bytes were written.
    Data { offset: u64, bytes: Vec<u8> },
    /// The length changed.
    Len(u64),
}

/// A write that was in flight when the power failed.
#[derive(Clone, Debug)]
pub struct InFlight {
    /// The file's number.
    pub file: u64,
    /// Where it begins.
    pub offset: u64,
    /// What it writes.
    pub bytes: Vec<u8>,
}

/// A simulated file.
#[derive(Clone, Debug, Default)]
pub struct SimFile {
    live: Image,
    durable: Image,
    /// The unsynced changes in order, each with its number.
    unsynced: Vec<(u64, Change)>,
    /// The number of the next change.
    next: u64,
    /// Whether `live` differs from the medium with all unsynced changes.
    lies: bool,
}

impl SimFile {
    /// The content as reads see it.
    pub fn live(&self) -> &Image {
        &self.live
    }

    /// The number of changes that a crash might undo.
    pub fn unsynced(&self) -> usize {
        self.unsynced.len()
    }

    /// The number of writes among them.
    pub fn unsynced_writes(&self) -> usize {
        self.writes().count()
    }

    /// The writes that a crash might undo, in order.
    pub fn writes(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.unsynced.iter().filter_map(|(_, change)| match change {
            Change::Data { offset, bytes } => Some((*offset, &bytes[..])),
            Change::Len(_) => None,
        })
    }

    /// Whether a crash might undo a change of the length.
    pub fn has_unsynced_length(&self) -> bool {
        self.unsynced.iter().any(|(_, change)| matches!(change, Change::Len(_)))
    }

    /// Writes bytes that a crash may undo.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        let grows = end > self.live.len();
        self.live.write(offset, bytes);
        self.change(Change::Data { offset, bytes: bytes.to_vec() });
        if grows {
            self.change(Change::Len(end));
        }
    }

    fn change(&mut self, change: Change) {
        self.unsynced.push((self.next, change));
        self.next += 1;
    }

    /// Writes bytes that are durable on return. Nothing else becomes durable.
    pub fn write_durably(&mut self, offset: u64, bytes: &[u8]) {
        self.live.write(offset, bytes);
        self.durable.write(offset, bytes);
        self.overtake(offset, bytes.len());
    }

    /// Loses a write: the system has the bytes and the medium never gets them. A lost direct write
    /// is nowhere.
    pub fn lose_write(&mut self, offset: u64, bytes: &[u8], direct: bool) {
        if direct {
            self.live.set_len(self.live.len().max(offset + bytes.len() as u64));
        } else {
            self.live.write(offset, bytes);
            self.lies = true;
        }
    }

    /// Changes bytes on the medium without a write.
    pub fn damage(&mut self, offset: u64, bytes: &[u8]) {
        self.durable.write(offset, bytes);
        self.overtake(offset, bytes.len());
        self.lies = true;
    }

    /// Removes these bytes from earlier unsynced writes, which would otherwise overwrite them
    /// later.
    fn overtake(&mut self, offset: u64, len: usize) {
        let end = offset + len as u64;
        let mut kept = Vec::with_capacity(self.unsynced.len());
        for (number, change) in self.unsynced.drain(..) {
            match change {
                Change::Data { offset: at, bytes }
                    if at < end && at + bytes.len() as u64 > offset =>
                {
                    let (before, after) =
                        (offset.saturating_sub(at) as usize, end.saturating_sub(at) as usize);
                    if before > 0 {
                        kept.push((
                            number,
                            Change::Data { offset: at, bytes: bytes[..before].to_vec() },
                        ));
                    }
                    if after < bytes.len() {
                        kept.push((
                            number,
                            Change::Data { offset: end, bytes: bytes[after..].to_vec() },
                        ));
                    }
                }
                other => kept.push((number, other)),
            }
        }
        self.unsynced = kept;
    }

    /// Truncates the file, or extends it with zeros.
    pub fn set_len(&mut self, len: u64) {
        if len != self.live.len() {
            self.live.set_len(len);
            self.change(Change::Len(len));
        }
    }

    /// Makes all unsynced changes durable, except those that a failed sync has dropped. Returns
    /// whether there were any.
    pub fn sync(&mut self) -> bool {
        self.sync_until(self.mark())
    }

    /// A mark between the changes so far and later ones.
    pub fn mark(&self) -> u64 {
        self.next
    }

    /// As [`SimFile::sync`], for the changes before a mark.
    pub fn sync_until(&mut self, mark: u64) -> bool {
        let n = self.unsynced.partition_point(|(number, _)| *number < mark);
        for (_, change) in self.unsynced.drain(..n) {
            match change {
                Change::Data { offset, bytes } => self.durable.write(offset, &bytes),
                Change::Len(len) => self.durable.set_len(len),
            }
        }
        n > 0
    }

    /// A failed sync: the system calls the changes clean although they never reach the medium.
    /// Reads see them until the cache is dropped.
    pub fn forget_unsynced(&mut self) {
        self.lies |= !self.unsynced.is_empty();
        self.unsynced.clear();
    }

    /// Drops what the system caches as clean.
    pub fn forget_cached(&mut self) {
        if self.lies {
            self.live = self.medium();
            self.lies = false;
        }
    }

    /// Reads past the cache.
    pub fn read_direct(&self, offset: u64, into: &mut [u8]) -> usize {
        if self.lies { self.medium().read(offset, into) } else { self.live.read(offset, into) }
    }

    /// The medium's content once the system has written all unsynced changes.
    fn medium(&self) -> Image {
        let mut image = self.durable.clone();
        for (_, change) in &self.unsynced {
            match change {
                Change::Data { offset, bytes } => image.write(*offset, bytes),
                Change::Len(len) => image.set_len(*len),
            }
        }
        image
    }

    /// The file as a crash leaves it, with these writes in flight.
    pub fn after_crash<'w>(
        &self,
        survival: &mut Survival,
        in_flight: impl Iterator<Item = &'w InFlight>,
    ) -> SimFile {
        let mut image = self.durable.clone();
        let mut len = image.len();
        for (_, change) in &self.unsynced {
            match change {
                // A lost length restores nothing that was cut, and removes nothing written.
                Change::Len(new) => {
                    if survival.length() {
                        image.set_len(*new);
                        len = *new;
                    }
                }
                Change::Data { offset, bytes } => {
                    survive(&mut image, survival, *offset, bytes);
                    survival.end_write(false);
                }
            }
        }
        for write in in_flight {
            survive(&mut image, survival, write.offset, &write.bytes);
            let end = write.offset + write.bytes.len() as u64;
            if survival.end_write(true) && end > len && survival.length() {
                len = end;
            }
        }
        // Sectors beyond the surviving length are lost with it.
        image.set_len(len);
        SimFile { live: image.clone(), durable: image, ..SimFile::default() }
    }
}

/// Applies the pieces of a write that survive.
fn survive(image: &mut Image, survival: &mut Survival, offset: u64, bytes: &[u8]) {
    let mut at = offset;
    let unit = survival.begin_write();
    for piece in split(offset, bytes, unit) {
        if survival.piece() {
            image.write(at, piece);
        }
        at += piece.len() as u64;
    }
}

/// The pieces of `bytes`, cut at the medium's units.
fn split(offset: u64, bytes: &[u8], unit: usize) -> impl Iterator<Item = &[u8]> {
    let head = (unit - (offset % unit as u64) as usize).min(bytes.len());
    let (first, rest) = bytes.split_at(head);
    std::iter::once(first).chain(rest.chunks(unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survival::SECTOR;

    fn bytes(file: &SimFile) -> Vec<u8> {
        let mut all = vec![0; file.live().len() as usize];
        file.live().read(0, &mut all);
        all
    }

    fn crashed(file: &SimFile, survival: &mut Survival) -> Vec<u8> {
        bytes(&file.after_crash(survival, [].iter()))
    }

    #[test]
    fn what_is_synced_stays_and_the_rest_is_chance() {
        let mut file = SimFile::default();
        file.write(0, &[1; 4 * SECTOR]);
        assert_eq!(crashed(&file, &mut Survival::none()), Vec::<u8>::new());
        assert_eq!(crashed(&file, &mut Survival::all()), [1; 4 * SECTOR]);
        file.sync();
        file.write(SECTOR as u64, &[2; 2 * SECTOR]);
        assert_eq!(crashed(&file, &mut Survival::none()), [1; 4 * SECTOR]);
        let mut seen = [0; 4];
        for seed in 0..200 {
            let left = crashed(&file, &mut Survival::random(seed));
            let sectors: Vec<u8> = left.chunks(SECTOR).map(|s| s[0]).collect();
            assert!(left.chunks(SECTOR).all(|s| s.iter().all(|&b| b == s[0])), "a sector is whole");
            assert_eq!((sectors[0], sectors[3]), (1, 1));
            seen[usize::from(sectors[1] == 2) * 2 + usize::from(sectors[2] == 2)] += 1;
        }
        assert!(seen.iter().all(|&n| n > 10), "both, either and none: {seen:?}");
    }

    #[test]
    fn a_sync_covers_what_was_written_before_its_mark() {
        let mut file = SimFile::default();
        file.write(0, &[1; 2 * SECTOR]);
        let mark = file.mark();
        file.write(0, &[2; SECTOR]);
        assert!(file.sync_until(mark));
        let [none, all] =
            [Survival::none(), Survival::all()].map(|mut s| crashed(&file, &mut s)[0]);
        assert_eq!((none, all), (1, 2), "the later write is in doubt");
        assert!(!file.sync_until(mark), "nothing is left before the mark");
        assert!(file.sync());
        assert_eq!(crashed(&file, &mut Survival::none())[0], 2);
    }

    #[test]
    fn a_length_is_lost_by_itself() {
        let mut file = SimFile::default();
        file.write(0, &[1; SECTOR]);
        file.sync();
        file.write(SECTOR as u64, &[2; SECTOR]);
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let left = crashed(&file, &mut Survival::random(seed));
            seen.insert((left.len(), left.get(SECTOR).copied()));
        }
        let possible = [(SECTOR, None), (2 * SECTOR, Some(0)), (2 * SECTOR, Some(2))];
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), possible);
    }

    #[test]
    fn after_a_failed_sync_the_bytes_are_read_but_lost() {
        let mut file = SimFile::default();
        file.write(0, &[1; SECTOR]);
        file.sync();
        file.write(0, &[2; SECTOR]);
        file.forget_unsynced();
        assert_eq!(bytes(&file), [2; SECTOR]);
        assert_eq!(crashed(&file, &mut Survival::all()), [1; SECTOR]);
        // A later sync that succeeds does not make them durable.
        file.write(SECTOR as u64, &[3; SECTOR]);
        file.sync();
        let left = crashed(&file, &mut Survival::all());
        assert_eq!((left[0], left[SECTOR]), (1, 3));
        // Read past the cache, or once it is dropped, they are gone.
        let mut sector = [0; SECTOR];
        file.read_direct(0, &mut sector);
        assert_eq!(sector, [1; SECTOR]);
        assert_eq!(bytes(&file)[0], 2);
        file.forget_cached();
        assert_eq!(bytes(&file)[0], 1);
    }

    #[test]
    fn a_durable_write_makes_nothing_else_durable_and_is_not_overtaken() {
        let mut file = SimFile::default();
        file.write(0, &[1; 4 * SECTOR]);
        file.sync();
        file.write(0, &[2; 3 * SECTOR]);
        file.write_durably(SECTOR as u64, &[3; SECTOR]);
        assert_eq!(bytes(&file).chunks(SECTOR).map(|s| s[0]).collect::<Vec<_>>(), [2, 3, 2, 1]);
        let of = |survival: &mut Survival| -> Vec<u8> {
            crashed(&file, survival).chunks(SECTOR).map(|s| s[0]).collect()
        };
        assert_eq!(of(&mut Survival::none()), [1, 3, 1, 1]);
        assert_eq!(of(&mut Survival::all()), [2, 3, 2, 1]);
    }

    #[test]
    fn a_write_in_flight_may_have_reached_the_medium() {
        let mut file = SimFile::default();
        file.write(0, &[1; 2 * SECTOR]);
        file.sync();
        let write = InFlight { file: 0, offset: 0, bytes: vec![2; SECTOR] };
        let of = |mut survival: Survival| {
            bytes(&file.after_crash(&mut survival, [&write].into_iter()))[0]
        };
        assert_eq!((of(Survival::none()), of(Survival::all())), (1, 2));
        assert_eq!((of(Survival::chosen(0)), of(Survival::chosen(1))), (1, 2));
        assert_eq!(bytes(&file)[0], 1, "nobody has read it before");
    }
}
