//! The bytes of a file, sparse: zeros and bytes that were never written take no memory. A clone
//! shares the list of blocks until one of the two is written, and then the blocks: most files of a
//! cluster never change between two crashes.

use std::collections::BTreeMap;

use forebay_aio::sync::Arc;

const BLOCK: usize = 4096;

/// A file's bytes and length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    blocks: Arc<BTreeMap<u64, Arc<[u8; BLOCK]>>>,
    len: u64,
}

impl Image {
    /// The file's length.
    #[expect(clippy::len_without_is_empty, reason = "a file's length, not a collection's")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Truncates, or extends with zeros.
    pub fn set_len(&mut self, len: u64) {
        if len < self.len {
            let (last, rest) = (len / BLOCK as u64, (len % BLOCK as u64) as usize);
            let blocks = Arc::make_mut(&mut self.blocks);
            drop(blocks.split_off(&len.div_ceil(BLOCK as u64)));
            if rest > 0
                && let Some(block) = blocks.get_mut(&last)
            {
                Arc::make_mut(block)[rest..].fill(0);
            }
        }
        self.len = len;
    }

    /// Reads from `offset` on as many bytes as the file has, and returns how many.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> usize {
        let n = self.len.saturating_sub(offset).min(into.len() as u64) as usize;
        for (block, within, range) in pieces(offset, n) {
            match self.blocks.get(&block) {
                Some(bytes) => {
                    into[range.clone()].copy_from_slice(&bytes[within..within + range.len()])
                }
                None => into[range].fill(0),
            }
        }
        n
    }

    /// Writes `bytes` at `offset`, and extends the file if need be.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (block, within, range) in pieces(offset, bytes.len()) {
            let piece = &bytes[range];
            if !self.blocks.contains_key(&block) && piece.iter().all(|&b| b == 0) {
                continue;
            }
            let blocks = Arc::make_mut(&mut self.blocks);
            let stored = blocks.entry(block).or_insert_with(|| Arc::new([0; BLOCK]));
            Arc::make_mut(stored)[within..within + piece.len()].copy_from_slice(piece);
        }
        self.len = self.len.max(offset + bytes.len() as u64);
    }
}

/// The blocks that `n` bytes from `offset` on touch: each block's number, where in it the bytes
/// begin, and which of the bytes they are.
fn pieces(offset: u64, n: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let position = offset + at as u64;
        let within = (position % BLOCK as u64) as usize;
        let len = (n - at).min(BLOCK - within);
        let range = at..at + len;
        at += len;
        (len > 0).then_some((position / BLOCK as u64, within, range))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_testkit::Dice;

    #[test]
    fn it_behaves_as_a_plain_row_of_bytes() {
        let mut dice = Dice::new(3);
        let (mut image, mut plain) = (Image::default(), Vec::new());
        for _ in 0..500 {
            let offset = dice.below(30_000);
            if dice.chance(200) {
                image.set_len(offset);
                plain.resize(offset as usize, 0);
            } else {
                let bytes = vec![dice.below(3) as u8; dice.below(10_000) as usize];
                let end = offset as usize + bytes.len();
                image.write(offset, &bytes);
                plain.resize(plain.len().max(end), 0);
                plain[offset as usize..end].copy_from_slice(&bytes);
            }
            assert_eq!(image.len(), plain.len() as u64);
            let mut read = vec![9; 40_000];
            let n = image.read(0, &mut read);
            assert!(read[..n] == plain[..], "the same bytes");
            let from = dice.below(30_000).min(image.len());
            let n = image.read(from, &mut read);
            assert!(read[..n] == plain[from as usize..], "from {from}");
        }
    }

    #[test]
    fn zeros_take_no_memory() {
        let mut image = Image::default();
        image.write(0, &[0; 1 << 20]);
        assert_eq!((image.len(), image.blocks.len()), (1 << 20, 0));
    }
}
