//! A simulated file: what everybody reads now, what is surely on the medium, and what happened in between.
//!
//! ```text
//!   write ──> live                                   sync ──> durable
//!         └─> unsynced: changes in order ───────────────┘
//!                  └── a crash: each sector of each change survives or not, each new length too
//! ```

use crate::image::Image;
use crate::survival::Survival;

/// The unit that a medium writes whole or not at all.
pub(crate) const SECTOR: usize = 512;

/// What may be lost.
#[derive(Clone, Debug)]
enum Change {
    /// Bytes were written.
    Data { offset: u64, bytes: Vec<u8> },
    /// The file got another length.
    Len(u64),
}

/// A file.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimFile {
    live: Image,
    durable: Image,
    unsynced: Vec<Change>,
}

impl SimFile {
    pub fn live(&self) -> &Image {
        &self.live
    }

    /// Changes that a crash might undo.
    pub fn unsynced(&self) -> usize {
        self.unsynced.len()
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        let grows = end > self.live.len();
        self.live.write(offset, bytes);
        self.unsynced.push(Change::Data { offset, bytes: bytes.to_vec() });
        if grows {
            self.unsynced.push(Change::Len(end));
        }
    }

    pub fn set_len(&mut self, len: u64) {
        if len != self.live.len() {
            self.live.set_len(len);
            self.unsynced.push(Change::Len(len));
        }
    }

    /// All that is unsynced goes to the medium; what a failed sync made the system forget does not.
    pub fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            match change {
                Change::Data { offset, bytes } => self.durable.write(offset, &bytes),
                Change::Len(len) => self.durable.set_len(len),
            }
        }
    }

    /// A sync that failed: the system calls the changes clean, and forgets that they never reached the medium. They can be read
    /// until a crash.
    pub fn forget_unsynced(&mut self) {
        self.unsynced.clear();
    }

    /// The file as a crash leaves it.
    pub fn after_crash(&self, survival: &mut Survival) -> SimFile {
        let mut image = self.durable.clone();
        let mut len = image.len();
        for change in &self.unsynced {
            match change {
                // A length that is lost takes back neither what was cut before nor what was written.
                Change::Len(new) => {
                    if survival.length() {
                        image.set_len(*new);
                        len = *new;
                    }
                }
                Change::Data { offset, bytes } => {
                    let mut at = *offset;
                    let unit = survival.begin_write();
                    for piece in split(*offset, bytes, unit) {
                        if survival.piece() {
                            image.write(at, piece);
                        }
                        at += piece.len() as u64;
                    }
                }
            }
        }
        // Sectors beyond the length that is known are lost with it.
        image.set_len(len);
        SimFile { live: image.clone(), durable: image, unsynced: Vec::new() }
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

    #[test]
    fn what_is_synced_stays_and_the_rest_is_chance() {
        let mut file = SimFile::default();
        file.write(0, &[1; 4 * SECTOR]);
        assert_eq!(bytes(&file.after_crash(&mut Survival::none())), []);
        assert_eq!(bytes(&file.after_crash(&mut Survival::all())), [1; 4 * SECTOR]);
        file.sync();
        file.write(SECTOR as u64, &[2; 2 * SECTOR]);
        assert_eq!(bytes(&file.after_crash(&mut Survival::none())), [1; 4 * SECTOR]);
        let mut seen = [0; 4];
        for seed in 0..200 {
            let left = bytes(&file.after_crash(&mut Survival::random(seed)));
            let sectors: Vec<u8> = left.chunks(SECTOR).map(|s| s[0]).collect();
            assert!(left.chunks(SECTOR).all(|s| s.iter().all(|&b| b == s[0])), "a sector is whole");
            assert_eq!((sectors[0], sectors[3]), (1, 1));
            seen[usize::from(sectors[1] == 2) * 2 + usize::from(sectors[2] == 2)] += 1;
        }
        assert!(seen.iter().all(|&n| n > 10), "both, either and none: {seen:?}");
    }

    #[test]
    fn a_length_is_lost_by_itself() {
        let mut file = SimFile::default();
        file.write(0, &[1; SECTOR]);
        file.sync();
        file.write(SECTOR as u64, &[2; SECTOR]);
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let left = bytes(&file.after_crash(&mut Survival::random(seed)));
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
        assert_eq!(bytes(&file.after_crash(&mut Survival::all())), [1; SECTOR]);
        // A later sync that succeeds says nothing about them.
        file.write(SECTOR as u64, &[3; SECTOR]);
        file.sync();
        let left = bytes(&file.after_crash(&mut Survival::all()));
        assert_eq!((left[0], left[SECTOR]), (1, 3));
    }
}
