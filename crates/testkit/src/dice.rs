//! Random choices that follow from a seed.

/// A generator of choices (SplitMix64). The same seed makes the same choices.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The choices of `seed`.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.any() % n
    }

    /// An index of a list of `len` items, which is not empty.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// One of these, of which there is at least one.
    pub fn pick<'s, T: ?Sized>(&mut self, of: &[&'s T]) -> &'s T {
        of[self.index(of.len())]
    }

    /// Bytes that do not compress.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len.next_multiple_of(8));
        while bytes.len() < len {
            bytes.extend_from_slice(&self.any().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }

    /// True with a probability of `share` in a thousand.
    pub fn chance(&mut self, share: u32) -> bool {
        self.below(1000) < u64::from(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_choices() {
        let row = |seed| (0..20).map(move |_| 0).scan(Dice::new(seed), |d, _: i32| Some(d.any()));
        assert!(row(7).eq(row(7)));
        assert!(!row(7).eq(row(8)));
    }

    #[test]
    fn shares_are_about_right() {
        let mut dice = Dice::new(1);
        let hits = (0..10_000).filter(|_| dice.chance(250)).count();
        assert!((2_300..2_700).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| !dice.chance(0) && dice.chance(1000) && dice.below(3) < 3));
    }
}
