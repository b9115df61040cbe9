//! Page checksums.
//!
//! A page is 64 rows of 32 words. Each column runs through a multiplicative hash of its own, with a start value of its own; two
//! rows of zeros are mixed in behind, the 32 results are XORed together and with the block number, and the sum is folded to 1
//! .. 65535. The checksum's own field counts as zero.
//!
//! There are three implementations, which a test compares; the best is chosen at run time: plain code; AVX2, where the 32 columns
//! are four registers; AVX-512, where they are two. The multiplication is long, so independent chains hide each other's latency:
//! each takes several pages side by side.

use std::fmt;

use crate::{
    ids::{BLOCK_SIZE, BlockNumber},
    page::{Page, PageBytes, PageMut},
};

const LANES: usize = 32;
const PRIME: u32 = 16_777_619;
const ROW_BYTES: usize = LANES * 4;
const ROWS: usize = BLOCK_SIZE / ROW_BYTES;
/// The word that holds the checksum (its low half) and the flags (its high half).
const CHECKSUM_WORD: usize = 2;

const _: () = assert!(ROWS == 64 && CHECKSUM_WORD * 4 == 8);

/// Start values of the columns.
const START: [u32; LANES] = [
    0x5b1f_36e9,
    0xb852_5960,
    0x02ab_50aa,
    0x1de6_6d2a,
    0x79ff_467a,
    0x9bb9_f8a3,
    0x217e_7cd2,
    0x83e1_3d2c,
    0xf8d4_474f,
    0xe39e_b970,
    0x42c6_ae16,
    0x9932_16fa,
    0x7b09_3b5d,
    0x98da_ff3c,
    0xf718_902a,
    0x0b1c_9cdb,
    0xe58f_764b,
    0x1876_36bc,
    0x5d7b_3bb1,
    0xe73d_e7de,
    0x92be_c979,
    0xcca6_c0b2,
    0x304a_0979,
    0x85aa_43d4,
    0x7831_25bb,
    0x6ca8_eaa2,
    0xe407_eac6,
    0x4b5c_fc3e,
    0x9fbf_8c76,
    0x15ca_20be,
    0xf2ca_9fd3,
    0x959b_d756,
];

/// Why a page read from disk is not to be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageDefect {
    /// The checksum is not that of the bytes.
    BadChecksum {
        /// What the bytes give.
        expected: u16,
        /// What the page says.
        found: u16,
    },
    /// The header is impossible.
    BadHeader,
}

impl fmt::Display for PageDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadChecksum { expected, found } => {
                write!(f, "page verification failed, calculated checksum {expected} but expected {found}")
            }
            Self::BadHeader => f.write_str("invalid page header"),
        }
    }
}

impl std::error::Error for PageDefect {}

/// The checksum that a page should carry at this block, counted across segments.
pub fn page_checksum(page: &PageBytes, block: BlockNumber) -> u16 {
    let [sum] = hash([page]);
    folded(sum, block)
}

/// The checksums of pages at consecutive blocks, into `sums`, which has one place a page. Pages are taken four at a time, so that
/// the long multiplications of one fill the gaps of the others: worth it for pages that are in the processor's cache.
pub fn checksum_pages(pages: &[PageBytes], first: BlockNumber, sums: &mut [u16]) {
    assert_eq!(pages.len(), sums.len(), "one place a page");
    let (fours, rest) = pages.as_chunks::<4>();
    let (four_sums, rest_sums) = sums.as_chunks_mut::<4>();
    let mut block = first;
    for (four, out) in fours.iter().zip(four_sums) {
        for (sum, place) in hash(four.each_ref()).into_iter().zip(out) {
            *place = folded(sum, block);
            block = block.wrapping_add(1);
        }
    }
    for (page, place) in rest.iter().zip(rest_sums) {
        *place = page_checksum(page, block);
        block = block.wrapping_add(1);
    }
}

fn folded(sum: u32, block: BlockNumber) -> u16 {
    ((sum ^ block) % 65_535 + 1) as u16
}

/// Stores the checksum; a new page (all zeros) stays as it is.
pub fn set_checksum(page: &mut PageBytes, block: BlockNumber) {
    if !Page(page).is_new() {
        let checksum = page_checksum(page, block);
        PageMut(page).set_checksum(checksum);
    }
}

/// Checks a page read from disk: all zeros, or a right checksum and a possible header.
pub fn verify_page(page: &PageBytes, block: BlockNumber) -> Result<(), PageDefect> {
    let view = Page(page);
    if view.is_new() {
        return if view.is_all_zeros() { Ok(()) } else { Err(PageDefect::BadHeader) };
    }
    let (expected, found) = (page_checksum(page, block), view.checksum());
    if expected != found {
        return Err(PageDefect::BadChecksum { expected, found });
    }
    if view.header_is_sane() { Ok(()) } else { Err(PageDefect::BadHeader) }
}

/// As [`verify_page`], for a cluster without checksums.
pub fn verify_header(page: &PageBytes) -> Result<(), PageDefect> {
    let view = Page(page);
    let good = if view.is_new() { view.is_all_zeros() } else { view.header_is_sane() };
    if good { Ok(()) } else { Err(PageDefect::BadHeader) }
}

/// The hashes of `N` pages, by the widest registers the processor has.
fn hash<const N: usize>(pages: [&PageBytes; N]) -> [u32; N] {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F, as just found.
            return unsafe { avx512::hash(pages) };
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, as just found.
            return unsafe { avx2::hash(pages) };
        }
    }
    scalar::hash(pages)
}

mod scalar {
    use super::{CHECKSUM_WORD, LANES, PRIME, PageBytes, ROW_BYTES, START};

    fn round(sums: &mut [u32; LANES], row: &[u32; LANES]) {
        for (sum, word) in sums.iter_mut().zip(row) {
            let mixed = *sum ^ word;
            *sum = mixed.wrapping_mul(PRIME) ^ (mixed >> 17);
        }
    }

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
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm256_and_si256, _mm256_loadu_si256, _mm256_mullo_epi32, _mm256_set1_epi32,
        _mm256_setr_epi32, _mm256_setzero_si256, _mm256_srli_epi32, _mm256_storeu_si256, _mm256_xor_si256,
    };

    use super::{LANES, PRIME, PageBytes, ROW_BYTES, ROWS, START};

    const REGISTERS: usize = 4;
    const REGISTER_BYTES: usize = 32;
    const _: () = assert!(REGISTERS * REGISTER_BYTES == ROW_BYTES && LANES == REGISTERS * 8);

    #[target_feature(enable = "avx2")]
    fn mix(sum: __m256i, words: __m256i) -> __m256i {
        let mixed = _mm256_xor_si256(sum, words);
        let product = _mm256_mullo_epi32(mixed, _mm256_set1_epi32(PRIME as i32));
        _mm256_xor_si256(product, _mm256_srli_epi32::<17>(mixed))
    }

    /// The eight words at `at`, a multiple of 32 below the page's size.
    #[target_feature(enable = "avx2")]
    fn load(page: &PageBytes, at: usize) -> __m256i {
        let bytes: &[u8] = &page[at..at + REGISTER_BYTES];
        // SAFETY: 32 bytes are there, as the slice was just taken; the load needs no alignment.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

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

    #[target_feature(enable = "avx2")]
    pub(super) fn hash<const N: usize>(pages: [&PageBytes; N]) -> [u32; N] {
        let mut sums = [start(); N];
        let keep = _mm256_setr_epi32(-1, -1, 0xffff_0000_u32 as i32, -1, -1, -1, -1, -1);
        for (page, sums) in pages.iter().zip(&mut sums) {
            sums[0] = mix(sums[0], _mm256_and_si256(load(page, 0), keep));
            for (n, sum) in sums.iter_mut().enumerate().skip(1) {
                *sum = mix(*sum, load(page, n * REGISTER_BYTES));
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
            *out = end(sums);
        }
        out
    }

    /// The two rounds of zeros, and all columns as one.
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
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        __m512i, _mm512_loadu_si512, _mm512_mask_and_epi32, _mm512_mullo_epi32, _mm512_set1_epi32,
        _mm512_setzero_si512, _mm512_srli_epi32, _mm512_storeu_si512, _mm512_xor_si512,
    };

    use super::{CHECKSUM_WORD, LANES, PRIME, PageBytes, ROW_BYTES, ROWS, START};

    const REGISTERS: usize = 2;
    const REGISTER_BYTES: usize = 64;
    const _: () = assert!(REGISTERS * REGISTER_BYTES == ROW_BYTES && LANES == REGISTERS * 16);

    #[target_feature(enable = "avx512f")]
    fn mix(sum: __m512i, words: __m512i) -> __m512i {
        let mixed = _mm512_xor_si512(sum, words);
        let product = _mm512_mullo_epi32(mixed, _mm512_set1_epi32(PRIME as i32));
        _mm512_xor_si512(product, _mm512_srli_epi32::<17>(mixed))
    }

    /// The sixteen words at `at`, a multiple of 64 below the page's size.
    #[target_feature(enable = "avx512f")]
    fn load(page: &PageBytes, at: usize) -> __m512i {
        let bytes: &[u8] = &page[at..at + REGISTER_BYTES];
        // SAFETY: 64 bytes are there, as the slice was just taken; the load needs no alignment.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx512f")]
    fn start() -> [__m512i; REGISTERS] {
        let mut sums = [_mm512_setzero_si512(); REGISTERS];
        for (n, sum) in sums.iter_mut().enumerate() {
            let start: &[u32] = &START[n * 16..n * 16 + 16];
            // SAFETY: sixteen words are there, as the slice was just taken; the load needs no alignment.
            *sum = unsafe { _mm512_loadu_si512(start.as_ptr().cast()) };
        }
        sums
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn hash<const N: usize>(pages: [&PageBytes; N]) -> [u32; N] {
        let mut sums = [start(); N];
        for (page, sums) in pages.iter().zip(&mut sums) {
            let (first, flags) = (load(page, 0), _mm512_set1_epi32(0xffff_0000_u32 as i32));
            sums[0] = mix(sums[0], _mm512_mask_and_epi32(first, 1 << CHECKSUM_WORD, first, flags));
            for (n, sum) in sums.iter_mut().enumerate().skip(1) {
                *sum = mix(*sum, load(page, n * REGISTER_BYTES));
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
            *out = end(sums);
        }
        out
    }

    /// The two rounds of zeros, and all columns as one.
    #[target_feature(enable = "avx512f")]
    fn end(sums: [__m512i; REGISTERS]) -> u32 {
        let zero = _mm512_setzero_si512();
        let mut all = zero;
        for sum in sums {
            all = _mm512_xor_si512(all, mix(mix(sum, zero), zero));
        }
        let mut lanes = [0_u32; 16];
        // SAFETY: the array has room for the 64 bytes; the store needs no alignment.
        unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), all) };
        lanes.into_iter().fold(0, |all, sum| all ^ sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page(seed: &[u8]) -> PageBytes {
        let mut bytes = [0; BLOCK_SIZE];
        for (n, byte) in bytes.iter_mut().enumerate() {
            *byte = (n as u8).wrapping_mul(31) ^ seed.get(n % seed.len().max(1)).copied().unwrap_or(0);
        }
        bytes
    }

    /// Every implementation that this processor can run gives what plain code gives.
    fn agree<const N: usize>(pages: [&PageBytes; N]) {
        let expected = scalar::hash(pages);
        assert_eq!(hash(pages), expected);
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has AVX2, as just found.
                assert_eq!(unsafe { avx2::hash(pages) }, expected);
            }
            if std::arch::is_x86_feature_detected!("avx512f") {
                // SAFETY: the processor has AVX-512F, as just found.
                assert_eq!(unsafe { avx512::hash(pages) }, expected);
            }
        }
    }

    #[test]
    fn the_block_number_matters_and_the_checksum_field_does_not() {
        let mut bytes = [0; BLOCK_SIZE];
        PageMut(&mut bytes).init(0);
        set_checksum(&mut bytes, 7);
        assert_eq!(verify_page(&bytes, 7), Ok(()));
        let found = Page(&bytes).checksum();
        assert_ne!(found, 0);
        assert_eq!(
            verify_page(&bytes, 8),
            Err(PageDefect::BadChecksum { expected: page_checksum(&bytes, 8), found })
        );
        set_checksum(&mut bytes, 8);
        assert_eq!(verify_page(&bytes, 8), Ok(()));
    }

    #[test]
    fn zeros_are_good_and_nearly_zeros_are_not() {
        let mut bytes = [0; BLOCK_SIZE];
        set_checksum(&mut bytes, 3);
        assert!(Page(&bytes).is_all_zeros());
        assert_eq!((verify_page(&bytes, 3), verify_header(&bytes)), (Ok(()), Ok(())));
        bytes[8000] = 1;
        assert_eq!(verify_page(&bytes, 3), Err(PageDefect::BadHeader));
        assert_eq!(verify_header(&bytes), Err(PageDefect::BadHeader));
    }

    #[test]
    fn an_impossible_header_is_found_behind_a_right_checksum() {
        let mut bytes = [0; BLOCK_SIZE];
        let mut page = PageMut(&mut bytes);
        page.init(0);
        page.set_lower(8192);
        page.set_upper(8000);
        set_checksum(&mut bytes, 1);
        assert_eq!(verify_page(&bytes, 1), Err(PageDefect::BadHeader));
    }

    #[test]
    fn damage_is_found() {
        let mut bytes = page(b"seed");
        let good = page_checksum(&bytes, 1);
        for at in (0..BLOCK_SIZE).step_by(97).filter(|at| !(8..10).contains(at)) {
            bytes[at] ^= 0x10;
            assert_ne!(page_checksum(&bytes, 1), good, "byte {at}");
            bytes[at] ^= 0x10;
        }
    }

    proptest! {
        #[test]
        fn all_implementations_agree(seed: Vec<u8>, at in 0..BLOCK_SIZE, value: u8, first: u32) {
            let mut pages = [page(&seed); 7];
            for (n, page) in pages.iter_mut().enumerate() {
                page[(at + n * 1001) % BLOCK_SIZE] = value.wrapping_add(n as u8);
            }
            for page in &pages {
                agree([page]);
            }
            agree([&pages[0], &pages[1]]);
            agree([&pages[3], &pages[4], &pages[5], &pages[6]]);
            for count in 0..=pages.len() {
                let mut sums = vec![0; count];
                checksum_pages(&pages[..count], first, &mut sums);
                for (n, sum) in sums.into_iter().enumerate() {
                    prop_assert_eq!(sum, page_checksum(&pages[n], first.wrapping_add(n as u32)));
                }
            }
        }

        #[test]
        fn the_checksum_field_is_not_covered(seed: Vec<u8>, checksum: u16, block: u32) {
            let mut bytes = page(&seed);
            let before = page_checksum(&bytes, block);
            PageMut(&mut bytes).set_checksum(checksum);
            prop_assert_eq!(page_checksum(&bytes, block), before);
        }
    }
}
