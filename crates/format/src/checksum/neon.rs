//! NEON, on 64-bit ARM: the 32 columns are eight registers.

use std::arch::aarch64::{
    uint32x4_t, vandq_u32, vdupq_n_u32, veorq_u32, vld1q_u8, vld1q_u32, vmulq_u32,
    vreinterpretq_u32_u8, vshrq_n_u32, vst1q_u32,
};

use super::columns::{LANES, PRIME, ROW_BYTES, ROWS, START};
use crate::page::PageBytes;

const REGISTERS: usize = 8;
const REGISTER_BYTES: usize = 16;
const _: () = assert!(REGISTERS * REGISTER_BYTES == ROW_BYTES && LANES == REGISTERS * 4);
/// The checksum's bits in the first register.
const KEEP: [u32; 4] = [u32::MAX, u32::MAX, 0xffff_0000, u32::MAX];

#[inline]
#[target_feature(enable = "neon")]
fn mix(sum: uint32x4_t, words: uint32x4_t) -> uint32x4_t {
    let mixed = veorq_u32(sum, words);
    veorq_u32(vmulq_u32(mixed, vdupq_n_u32(PRIME)), vshrq_n_u32::<17>(mixed))
}

/// The four words at `at`, a multiple of 16 below the page's size.
#[inline]
#[target_feature(enable = "neon")]
fn load(page: &PageBytes, at: usize) -> uint32x4_t {
    let bytes: &[u8] = &page[at..at + REGISTER_BYTES];
    // SAFETY: 16 bytes are there, as the slice was just taken; a load of bytes needs no alignment.
    vreinterpretq_u32_u8(unsafe { vld1q_u8(bytes.as_ptr()) })
}

#[inline]
#[target_feature(enable = "neon")]
fn load_words(words: &[u32]) -> uint32x4_t {
    let words: &[u32] = &words[..4];
    // SAFETY: four words are there, as the slice was just taken.
    unsafe { vld1q_u32(words.as_ptr()) }
}

/// The hashes of pages, side by side.
#[target_feature(enable = "neon")]
pub(super) fn hash<const N: usize>(pages: [&PageBytes; N]) -> [u32; N] {
    let zero = vdupq_n_u32(0);
    let mut sums = [[zero; REGISTERS]; N];
    for (page, sums) in pages.iter().zip(&mut sums) {
        for (n, sum) in sums.iter_mut().enumerate() {
            let words = load(page, n * REGISTER_BYTES);
            let words = if n == 0 { vandq_u32(words, load_words(&KEEP)) } else { words };
            *sum = mix(load_words(&START[n * 4..]), words);
        }
    }
    for row in 1..ROWS {
        for (page, sums) in pages.iter().zip(&mut sums) {
            for (n, sum) in sums.iter_mut().enumerate() {
                *sum = mix(*sum, load(page, row * ROW_BYTES + n * REGISTER_BYTES));
            }
        }
    }
    let mut out = [0; N];
    for (sums, out) in sums.into_iter().zip(&mut out) {
        let mut all = zero;
        for sum in sums {
            all = veorq_u32(all, mix(mix(sum, zero), zero));
        }
        let mut lanes = [0_u32; 4];
        // SAFETY: the array has room for the 16 bytes.
        unsafe { vst1q_u32(lanes.as_mut_ptr(), all) };
        *out = lanes.into_iter().fold(0, |all, sum| all ^ sum);
    }
    out
}
