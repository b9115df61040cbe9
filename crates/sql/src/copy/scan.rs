//! Finding delimiters, quotes and newlines in COPY data, 64 bytes at a time.

/// Bytes looked at in one step.
const BLOCK: usize = 64;

/// Walks over the places of four bytes in a piece of data.
pub struct Scanner<'d> {
    data: &'d [u8],
    wanted: [u8; 4],
    /// Where the present block begins.
    base: usize,
    /// A bit for each place in the block that has not been handed out.
    mask: u64,
}

impl<'d> Scanner<'d> {
    /// At the start of `data`.
    pub fn new(data: &'d [u8], wanted: [u8; 4]) -> Scanner<'d> {
        let mut scanner = Scanner { data, wanted, base: 0, mask: 0 };
        scanner.load();
        scanner
    }

    /// Goes to a place: `next` looks from it on.
    pub fn seek(&mut self, at: usize) {
        self.base = at;
        self.load();
    }

    /// The next place of a wanted byte.
    #[inline]
    pub fn next(&mut self) -> Option<usize> {
        while self.mask == 0 {
            self.base += BLOCK;
            if self.base >= self.data.len() {
                self.base = self.data.len();
                return None;
            }
            self.load();
        }
        let at = self.base + self.mask.trailing_zeros() as usize;
        self.mask &= self.mask - 1;
        Some(at)
    }

    #[inline]
    fn load(&mut self) {
        let rest = self.data.get(self.base..).unwrap_or_default();
        self.mask = match rest.first_chunk::<BLOCK>() {
            Some(block) => places(block, self.wanted),
            None => {
                let mut block = [0; BLOCK];
                block.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
                places(&block, self.wanted) & ((1 << rest.len()) - 1)
            }
        };
    }
}

/// A bit for each place of a wanted byte. Written for the compiler to make it vector instructions.
#[inline]
fn places(block: &[u8; BLOCK], wanted: [u8; 4]) -> u64 {
    /// Times eight bytes of 0 or 1, the highest byte holds one bit of each.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let [a, b, c, d] = wanted;
    let hits = block.map(|byte| u8::from((byte == a) | (byte == b) | (byte == c) | (byte == d)));
    let (words, _) = hits.as_chunks::<8>();
    words.iter().enumerate().fold(0, |mask, (i, word)| {
        mask | (u64::from_le_bytes(*word).wrapping_mul(GATHER) >> 56) << (i * 8)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_wanted_byte_is_found(
            data in prop::collection::vec(0u8..12, 0..300),
            from in 0usize..300,
        ) {
            let wanted = [0, 3, 4, 11];
            let from = from.min(data.len());
            let mut scanner = Scanner::new(&data, wanted);
            let mut all = Vec::new();
            while let Some(at) = scanner.next() {
                all.push(at);
            }
            prop_assert_eq!(scanner.next(), None);
            let want: Vec<usize> =
                data.iter().zip(0..).filter(|(b, _)| wanted.contains(b)).map(|(_, i)| i).collect();
            prop_assert_eq!(&all, &want);
            scanner.seek(from);
            prop_assert_eq!(scanner.next(), want.into_iter().find(|at| *at >= from));
        }
    }
}
