//! A simulated file: what everybody reads now, what is surely on the medium, and what happened in
//! between.
//!
//! ```text
//!   write ──> live                                   sync ──> durable
//!         └─> unsynced: changes in order ───────────────┘
//!                  └── a crash: each sector of each change survives or not, each new length too
//! ```
//!
//! `live` is the system's cache. After a failed sync it holds what the medium never got and never
//! will, and calls it clean: such a cache lies, until it is dropped. Who reads directly reads the
//! medium.

use crate::image::Image;
use crate::survival::Survival;

/// The unit that a medium writes whole or not at all.
pub const SECTOR: usize = 512;

/// What may be lost.
#[derive(Clone, Debug)]
enum Change {
    /// Bytes were written.
    Data { offset: u64, bytes: Vec<u8> },
    /// The file got another length.
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

/// A file.
#[derive(Clone, Debug, Default)]
pub struct SimFile {
    live: Image,
    durable: Image,
    /// Each with its number, in order.
    unsynced: Vec<(u64, Change)>,
    /// The next change's number.
    next: u64,
    /// Whether `live` differs from what the medium and the unsynced changes come to.
    lies: bool,
}

impl SimFile {
    /// What everybody reads.
    pub fn live(&self) -> &Image {
        &self.live
    }

    /// Changes that a crash might undo.
    pub fn unsynced(&self) -> usize {
        self.unsynced.len()
    }

    /// Writes among them.
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

    /// Whether a crash might undo a change of its length.
    pub fn has_unsynced_length(&self) -> bool {
        self.unsynced.iter().any(|(_, change)| matches!(change, Change::Len(_)))
    }

    /// A write that a crash may undo.
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

    /// A write that is durable when it returns; nothing else becomes so.
    pub fn write_durably(&mut self, offset: u64, bytes: &[u8]) {
        self.live.write(offset, bytes);
        self.durable.write(offset, bytes);
        self.overtake(offset, bytes.len());
    }

    /// A write of which the system has the bytes, and the medium never gets them; a direct one
    /// nobody has.
    pub fn lose_write(&mut self, offset: u64, bytes: &[u8], direct: bool) {
        if direct {
            self.live.set_len(self.live.len().max(offset + bytes.len() as u64));
        } else {
            self.live.write(offset, bytes);
            self.lies = true;
        }
    }

    /// Bytes that reach the medium without anybody's doing.
    pub fn damage(&mut self, offset: u64, bytes: &[u8]) {
        self.durable.write(offset, bytes);
        self.overtake(offset, bytes.len());
        self.lies = true;
    }

    /// What was written to these bytes earlier, and is not durable, will not come over them any
    /// more.
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

    /// Cuts the file, or extends it with zeros.
    pub fn set_len(&mut self, len: u64) {
        if len != self.live.len() {
            self.live.set_len(len);
            self.change(Change::Len(len));
        }
    }

    /// All that is unsynced goes to the medium; what a failed sync made the system forget does not.
    /// Whether there was anything.
    pub fn sync(&mut self) -> bool {
        self.sync_until(self.mark())
    }

    /// What tells the changes up to now from later ones.
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

    /// A sync that failed: the system calls the changes clean, and forgets that they never reached
    /// the medium. They can be read until the cache is dropped.
    pub fn forget_unsynced(&mut self) {
        self.lies |= !self.unsynced.is_empty();
        self.unsynced.clear();
    }

    /// The system drops what it caches as clean.
    pub fn forget_cached(&mut self) {
        if self.lies {
            self.live = self.medium();
            self.lies = false;
        }
    }

    /// What a direct read finds.
    pub fn read_direct(&self, offset: u64, into: &mut [u8]) -> usize {
        if self.lies { self.medium().read(offset, into) } else { self.live.read(offset, into) }
    }

    /// What is on the medium once the system has written what it still means to.
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
                // A length that is lost takes back neither what was cut before nor what was
                // written.
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
        // Sectors beyond the length that is known are lost with it.
        image.set_len(len);
        SimFile { live: image.clone(), durable: image, ..SimFile::default() }
    }
}

/// Puts down those pieces of a write that survive.
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

/// The pieces of `bytes`, cut where a unit of the medium begins.
fn split(offset: u64, bytes: &[u8], unit: usize) -> impl Iterator<Item = &[u8]> {
    let head = (unit - (offset % unit as u64) as usize).min(bytes.len());
    let (first, rest) = bytes.split_at(head);
    std::iter::once(first).chain(rest.chunks(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // A later sync that succeeds says nothing about them.
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
