//! AVX2: the 32 columns are four registers.

use std::arch::x86_64::{
    __m256i, _MM_HINT_T0, _mm_prefetch, _mm256_and_si256, _mm256_loadu_si256, _mm256_mullo_epi32,
    _mm256_set1_epi32, _mm256_setr_epi32, _mm256_setzero_si256, _mm256_srli_epi32,
    _mm256_storeu_si256, _mm256_xor_si256,
};

use super::columns::{LANES, PRIME, ROW_BYTES, ROWS, START};
use crate::page::PageBytes;

const REGISTERS: usize = 4;
const REGISTER_BYTES: usize = 32;
/// Bytes that come from memory at a time.
const LINE: usize = 64;
const _: () = assert!(REGISTERS * REGISTER_BYTES == ROW_BYTES && LANES == REGISTERS * 8);

#[inline]
#[target_feature(enable = "avx2")]
fn mix(sum: __m256i, words: __m256i) -> __m256i {
    let mixed = _mm256_xor_si256(sum, words);
    let product = _mm256_mullo_epi32(mixed, _mm256_set1_epi32(PRIME as i32));
    _mm256_xor_si256(product, _mm256_srli_epi32::<17>(mixed))
}

/// The eight words at `at`, a multiple of 32 below the page's size.
#[inline]
#[target_feature(enable = "avx2")]
fn load(page: &PageBytes, at: usize) -> __m256i {
    let bytes: &[u8] = &page[at..at + REGISTER_BYTES];
    // SAFETY: 32 bytes are there, as the slice was just taken; the load needs no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn start() -> [__m256i; REGISTERS] {
    let mut sums = [_mm256_setzero_si256(); REGISTERS];
    for (n, sum) in sums.iter_mut().enumerate() {
        let start: &[u32] = &START[n * 8..n * 8 + 8];
        // SAFETY: eight words are there, as the slice was just taken; the load needs no alignment.
        *sum = unsafe { _mm256_loadu_si256(start.as_ptr().cast()) };
    }
    sums
}

#[inline]
fn prefetch(page: &PageBytes, at: usize) {
    // SAFETY: a hint; the address is inside the page.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(page[at..].as_ptr().cast()) };
}

/// The hashes of `pages`; `ahead` are the pages to come, which are fetched meanwhile.
#[allow(
    clippy::needless_range_loop,
    reason = "plain counting lets the compiler unroll all of it into registers"
)]
#[target_feature(enable = "avx2")]
pub(super) fn hash<const N: usize>(pages: [&PageBytes; N], ahead: [&PageBytes; N]) -> [u32; N] {
    let mut sums = [start(); N];
    let keep = _mm256_setr_epi32(-1, -1, 0xffff_0000_u32 as i32, -1, -1, -1, -1, -1);
    for page in 0..N {
        prefetch(ahead[page], 0);
        prefetch(ahead[page], LINE);
        sums[page][0] = mix(sums[page][0], _mm256_and_si256(load(pages[page], 0), keep));
        for n in 1..REGISTERS {
            sums[page][n] = mix(sums[page][n], load(pages[page], n * REGISTER_BYTES));
        }
    }
    for row in 1..ROWS {
        for page in 0..N {
            prefetch(ahead[page], row * ROW_BYTES);
            prefetch(ahead[page], row * ROW_BYTES + LINE);
            for n in 0..REGISTERS {
                let at = row * ROW_BYTES + n * REGISTER_BYTES;
                sums[page][n] = mix(sums[page][n], load(pages[page], at));
            }
        }
    }
    let mut out = [0; N];
    for (sums, out) in sums.into_iter().zip(&mut out) {
        *out = end(sums);
    }
    out
}

/// The two rounds of zeros, and all columns as one.
#[inline]
#[target_feature(enable = "avx2")]
fn end(sums: [__m256i; REGISTERS]) -> u32 {
    let zero = _mm256_setzero_si256();
    let mut all = zero;
    for sum in sums {
        all = _mm256_xor_si256(all, mix(mix(sum, zero), zero));
    }
    let mut lanes = [0_u32; 8];
    // SAFETY: the array has room for the 32 bytes; the store needs no alignment.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), all) };
    lanes.into_iter().fold(0, |all, sum| all ^ sum)
}
