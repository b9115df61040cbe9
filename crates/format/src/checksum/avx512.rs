//! AVX-512: the 32 columns are two registers.
//!
//! One instruction XORs three values, so a step is multiply, shift, XOR: the product and the
//! shifted value of this row are mixed with the words of the next one at once. The multiplication
//! takes 10 cycles on Intel's processors and 3 on AMD's Zen 4; from four pages on the arithmetic
//! units are busy all the time on both.

use std::arch::x86_64::{
    __m512i, _MM_HINT_T0, _mm_prefetch, _mm512_loadu_si512, _mm512_mask_and_epi32,
    _mm512_mullo_epi32, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_srli_epi32,
    _mm512_storeu_si512, _mm512_ternarylogic_epi32, _mm512_xor_si512,
};

use super::columns::{CHECKSUM_WORD, LANES, PRIME, ROW_BYTES, ROWS, START};
use crate::page::PageBytes;

const REGISTERS: usize = 2;
const REGISTER_BYTES: usize = 64;
const _: () = assert!(REGISTERS * REGISTER_BYTES == ROW_BYTES && LANES == REGISTERS * 16);
/// The truth table of a XOR of three.
const XOR3: i32 = 0x96;

/// Ends the round of `mixed` and begins that of the next row's words.
#[inline]
#[target_feature(enable = "avx512f")]
fn step(mixed: __m512i, next: __m512i) -> __m512i {
    let product = _mm512_mullo_epi32(mixed, _mm512_set1_epi32(PRIME as i32));
    _mm512_ternarylogic_epi32::<XOR3>(product, _mm512_srli_epi32::<17>(mixed), next)
}

/// The sixteen words at `at`, a multiple of 64 below the page's size.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(page: &PageBytes, at: usize) -> __m512i {
    let bytes: &[u8] = &page[at..at + REGISTER_BYTES];
    // SAFETY: 64 bytes are there, as the slice was just taken; the load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[inline]
fn prefetch(page: &PageBytes, at: usize) {
    // SAFETY: a hint; the address is inside the page.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(page[at..].as_ptr().cast()) };
}

/// The start values mixed with the first row, in which the checksum counts as zero.
#[inline]
#[target_feature(enable = "avx512f")]
fn first_row(page: &PageBytes) -> [__m512i; REGISTERS] {
    let mut mixed = [_mm512_setzero_si512(); REGISTERS];
    for (n, mixed) in mixed.iter_mut().enumerate() {
        let start: &[u32] = &START[n * 16..n * 16 + 16];
        // SAFETY: sixteen words are there, as the slice was just taken; the load needs no
        // alignment.
        let start = unsafe { _mm512_loadu_si512(start.as_ptr().cast()) };
        let mut words = load(page, n * REGISTER_BYTES);
        if n == 0 {
            let flags = _mm512_set1_epi32(0xffff_0000_u32 as i32);
            words = _mm512_mask_and_epi32(words, 1 << CHECKSUM_WORD, words, flags);
        }
        *mixed = _mm512_xor_si512(start, words);
    }
    mixed
}

/// The hashes of `pages`; `ahead` are the pages to come, which are fetched meanwhile.
#[allow(
    clippy::needless_range_loop,
    reason = "plain counting lets the compiler unroll all of it into registers"
)]
#[target_feature(enable = "avx512f")]
pub(super) fn hash<const N: usize>(pages: [&PageBytes; N], ahead: [&PageBytes; N]) -> [u32; N] {
    let mut sums = [[_mm512_setzero_si512(); REGISTERS]; N];
    for page in 0..N {
        sums[page] = first_row(pages[page]);
        for n in 0..REGISTERS {
            prefetch(ahead[page], n * REGISTER_BYTES);
        }
    }
    for row in 1..ROWS {
        for page in 0..N {
            for n in 0..REGISTERS {
                let at = row * ROW_BYTES + n * REGISTER_BYTES;
                prefetch(ahead[page], at);
                sums[page][n] = step(sums[page][n], load(pages[page], at));
            }
        }
    }
    let mut out = [0; N];
    for (sums, out) in sums.into_iter().zip(&mut out) {
        *out = end(sums);
    }
    out
}

/// Ends the last row's round, adds the two rounds of zeros, and makes one of all columns.
#[inline]
#[target_feature(enable = "avx512f")]
fn end(sums: [__m512i; REGISTERS]) -> u32 {
    let zero = _mm512_setzero_si512();
    let mut all = zero;
    for sum in sums {
        all = _mm512_xor_si512(all, step(step(step(sum, zero), zero), zero));
    }
    let mut lanes = [0_u32; 16];
    // SAFETY: the array has room for the 64 bytes; the store needs no alignment.
    unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), all) };
    lanes.into_iter().fold(0, |all, sum| all ^ sum)
}
