//! Only reads pages: an upper limit for the speed of a checksum, for measurements.

use super::variant::Variant;
use crate::page::PageBytes;

/// How many pages can be read at the same time. Memory is faster with several streams.
pub const TOUCH_STREAMS: [usize; 3] = [1, 4, 8];

/// Reads every byte once with the widest registers, and returns a sum of all. Reads `streams` pages
/// at the same time, which is one of [`TOUCH_STREAMS`]; other numbers count as 1.
pub fn touch(pages: &[PageBytes], streams: usize) -> u64 {
    match streams {
        4 => groups::<4>(pages),
        8 => groups::<8>(pages),
        _ => groups::<1>(pages),
    }
}

fn groups<const N: usize>(pages: &[PageBytes]) -> u64 {
    let (groups, rest) = pages.as_chunks::<N>();
    let all = groups.iter().map(|group| sum(group.each_ref()));
    let rest = rest.iter().map(|page| sum([page]));
    all.chain(rest).fold(0, u64::wrapping_add)
}

fn sum<const N: usize>(pages: [&PageBytes; N]) -> u64 {
    match Variant::best() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the best variant is one that the processor has.
        Variant::Avx512 => unsafe { x86_64::avx512(pages) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Variant::Avx2 => unsafe { x86_64::avx2(pages) },
        _ => plain(pages),
    }
}

/// The compiler vectorizes it.
fn plain<const N: usize>(pages: [&PageBytes; N]) -> u64 {
    let mut all = 0_u64;
    for page in pages {
        let (words, _) = page.as_chunks::<8>();
        all = words.iter().fold(all, |all, word| all.wrapping_add(u64::from_le_bytes(*word)));
    }
    all
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::{
        _mm256_add_epi64, _mm256_loadu_si256, _mm256_setzero_si256, _mm256_storeu_si256,
        _mm512_add_epi64, _mm512_loadu_si512, _mm512_reduce_add_epi64, _mm512_setzero_si512,
    };

    use crate::{ids::BLOCK_SIZE, page::PageBytes};

    #[allow(
        clippy::needless_range_loop,
        reason = "plain counting lets the compiler unroll all of it into registers"
    )]
    #[target_feature(enable = "avx512f")]
    pub(super) fn avx512<const N: usize>(pages: [&PageBytes; N]) -> u64 {
        let mut sums = [[_mm512_setzero_si512(); 2]; N];
        for at in (0..BLOCK_SIZE).step_by(128) {
            for page in 0..N {
                for n in 0..2 {
                    let bytes: &[u8] = &pages[page][at + n * 64..at + n * 64 + 64];
                    // SAFETY: 64 bytes are there, as the slice was just taken; the load needs no
                    // alignment.
                    sums[page][n] = _mm512_add_epi64(sums[page][n], unsafe {
                        _mm512_loadu_si512(bytes.as_ptr().cast())
                    });
                }
            }
        }
        let mut all = _mm512_setzero_si512();
        for sum in sums.as_flattened() {
            all = _mm512_add_epi64(all, *sum);
        }
        _mm512_reduce_add_epi64(all) as u64
    }

    #[allow(
        clippy::needless_range_loop,
        reason = "plain counting lets the compiler unroll all of it into registers"
    )]
    #[target_feature(enable = "avx2")]
    pub(super) fn avx2<const N: usize>(pages: [&PageBytes; N]) -> u64 {
        let mut all = _mm256_setzero_si256();
        let mut sums = [[_mm256_setzero_si256(); 2]; N];
        for at in (0..BLOCK_SIZE).step_by(64) {
            for page in 0..N {
                for n in 0..2 {
                    let bytes: &[u8] = &pages[page][at + n * 32..at + n * 32 + 32];
                    // SAFETY: 32 bytes are there, as the slice was just taken; the load needs no
                    // alignment.
                    sums[page][n] = _mm256_add_epi64(sums[page][n], unsafe {
                        _mm256_loadu_si256(bytes.as_ptr().cast())
                    });
                }
            }
        }
        for sum in sums.as_flattened() {
            all = _mm256_add_epi64(all, *sum);
        }
        let mut lanes = [0_u64; 4];
        // SAFETY: the array has room for the 32 bytes; the store needs no alignment.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), all) };
        lanes.into_iter().fold(0, u64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::BLOCK_SIZE;

    #[test]
    fn every_byte_is_read_once_however_many_streams() {
        let mut pages = vec![[0_u8; BLOCK_SIZE]; 19];
        for (n, byte) in pages.as_flattened_mut().iter_mut().enumerate() {
            *byte = (n * 31 / 8) as u8;
        }
        let expected = pages.iter().map(|page| plain([page])).fold(0, u64::wrapping_add);
        for streams in TOUCH_STREAMS {
            assert_eq!(touch(&pages, streams), expected, "{streams} streams");
        }
        assert_eq!(touch(&[], 4), 0);
    }
}
