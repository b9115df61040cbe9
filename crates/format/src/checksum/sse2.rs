//! SSE2: the 32 columns are eight registers.
//!
//! Every x86-64 processor has SSE2. A program built without options uses it, such as a
//! distribution's PostgreSQL, so it is the baseline of measurements. SSE2 cannot multiply four
//! words at once, so this multiplies two words twice.

use std::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_loadu_si128, _mm_mul_epu32, _mm_set1_epi32, _mm_setr_epi32,
    _mm_setzero_si128, _mm_shuffle_epi32, _mm_srli_epi32, _mm_srli_epi64, _mm_storeu_si128,
    _mm_unpacklo_epi32, _mm_xor_si128,
};

use super::columns::{LANES, PRIME, ROW_BYTES, ROWS, START};
use crate::page::PageBytes;

const REGISTERS: usize = 8;
const REGISTER_BYTES: usize = 16;
const _: () = assert!(REGISTERS * REGISTER_BYTES == ROW_BYTES && LANES == REGISTERS * 4);

#[inline]
#[target_feature(enable = "sse2")]
fn mix(sum: __m128i, words: __m128i) -> __m128i {
    let mixed = _mm_xor_si128(sum, words);
    let prime = _mm_set1_epi32(PRIME as i32);
    let even = _mm_shuffle_epi32::<0b10_00>(_mm_mul_epu32(mixed, prime));
    let odd = _mm_shuffle_epi32::<0b10_00>(_mm_mul_epu32(_mm_srli_epi64::<32>(mixed), prime));
    _mm_xor_si128(_mm_unpacklo_epi32(even, odd), _mm_srli_epi32::<17>(mixed))
}

/// The four words at `at`, a multiple of 16 below the page's size.
#[inline]
#[target_feature(enable = "sse2")]
fn load(page: &PageBytes, at: usize) -> __m128i {
    let bytes: &[u8] = &page[at..at + REGISTER_BYTES];
    // SAFETY: 16 bytes are there, as the slice was just taken; the load needs no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// The hashes of pages, one after the other: eight registers of one page are half of all there are.
#[target_feature(enable = "sse2")]
pub(super) fn hash<const N: usize>(pages: [&PageBytes; N]) -> [u32; N] {
    pages.map(|page| hash_one(page))
}

#[target_feature(enable = "sse2")]
fn hash_one(page: &PageBytes) -> u32 {
    let zero = _mm_setzero_si128();
    let keep = _mm_setr_epi32(-1, -1, 0xffff_0000_u32 as i32, -1);
    let mut sums = [zero; REGISTERS];
    for (n, sum) in sums.iter_mut().enumerate() {
        let start: &[u32] = &START[n * 4..n * 4 + 4];
        // SAFETY: four words are there, as the slice was just taken; the load needs no alignment.
        let start = unsafe { _mm_loadu_si128(start.as_ptr().cast()) };
        let words = load(page, n * REGISTER_BYTES);
        *sum = mix(start, if n == 0 { _mm_and_si128(words, keep) } else { words });
    }
    for row in 1..ROWS {
        for (n, sum) in sums.iter_mut().enumerate() {
            *sum = mix(*sum, load(page, row * ROW_BYTES + n * REGISTER_BYTES));
        }
    }
    let mut all = zero;
    for sum in sums {
        all = _mm_xor_si128(all, mix(mix(sum, zero), zero));
    }
    let mut lanes = [0_u32; 4];
    // SAFETY: the array has room for the 16 bytes; the store needs no alignment.
    unsafe { _mm_storeu_si128(lanes.as_mut_ptr().cast(), all) };
    lanes.into_iter().fold(0, |all, sum| all ^ sum)
}
