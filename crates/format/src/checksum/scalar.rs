//! Plain code, to which the tests compare the other variants. The compiler vectorizes it for the
//! baseline of the architecture.

use super::columns::{CHECKSUM_WORD, LANES, PRIME, ROW_BYTES, START};
use crate::page::PageBytes;

fn round(sums: &mut [u32; LANES], row: &[u32; LANES]) {
    for (sum, word) in sums.iter_mut().zip(row) {
        let mixed = *sum ^ word;
        *sum = mixed.wrapping_mul(PRIME) ^ (mixed >> 17);
    }
}

/// The hashes of pages, one after the other.
pub(super) fn hash<const N: usize>(pages: [&PageBytes; N]) -> [u32; N] {
    pages.map(hash_one)
}

fn hash_one(page: &PageBytes) -> u32 {
    let mut sums = START;
    let (rows, _) = page.as_chunks::<ROW_BYTES>();
    for (n, row) in rows.iter().enumerate() {
        let (words, _) = row.as_chunks::<4>();
        let mut values = [0; LANES];
        for (value, word) in values.iter_mut().zip(words) {
            *value = u32::from_le_bytes(*word);
        }
        if n == 0 {
            values[CHECKSUM_WORD] &= 0xffff_0000;
        }
        round(&mut sums, &values);
    }
    round(&mut sums, &[0; LANES]);
    round(&mut sums, &[0; LANES]);
    sums.into_iter().fold(0, |all, sum| all ^ sum)
}
