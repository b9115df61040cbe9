//! Page checksums.
//!
//! A page is 64 rows of 32 words. Each column runs through a multiplicative hash of its own, with a
//! start value of its own; two rows of zeros are mixed in behind, the 32 results are XORed together
//! and with the block number, and the sum is folded to 1 .. 65535. The checksum's own field counts
//! as zero.
//!
//! There are several implementations, which tests compare; [`Variant`] lists them, and
//! [`Variant::best`] is the choice at run time. The multiplication takes long, so independent
//! chains hide each other's latency: the wide ones take several pages side by side, and fetch the
//! next ones meanwhile.
//!
//! - `variant`: the list, the choice
//! - `scalar`, `sse2`, `avx2`, `avx512`, `neon`: one each
//! - `touch`: reading alone, to compare with

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod sse2;
mod touch;
mod variant;

use std::fmt;

use crate::{
    ids::{BLOCK_SIZE, BlockNumber},
    page::{Page, PageBytes, PageMut, is_all_zeros, stored_checksum},
};

pub use touch::{TOUCH_STREAMS, touch};
pub use variant::Variant;

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
                write!(
                    f,
                    "page verification failed, calculated checksum {expected} but expected {found}"
                )
            }
            Self::BadHeader => f.write_str("invalid page header"),
        }
    }
}

impl std::error::Error for PageDefect {}

/// The checksum that a page should carry at this block, counted across segments.
pub fn page_checksum(page: &PageBytes, block: BlockNumber) -> u16 {
    let [sum] = Variant::best().hash([page], [page]);
    folded(sum, block)
}

/// The checksums of pages at consecutive blocks, into `sums`, which has one place a page. Several
/// pages are taken side by side, which is faster than one after the other, in the processor's cache
/// and from memory.
pub fn checksum_pages(pages: &[PageBytes], first: BlockNumber, sums: &mut [u16]) {
    let best = Variant::best();
    best.each(pages.len(), |n| &pages[n], first, sums, best.preferred());
}

/// As [`checksum_pages`], for pages that are at several places in memory.
pub fn checksum_scattered(pages: &[&PageBytes], first: BlockNumber, sums: &mut [u16]) {
    let best = Variant::best();
    best.each(pages.len(), |n| pages[n], first, sums, best.preferred());
}

fn folded(sum: u32, block: BlockNumber) -> u16 {
    ((sum ^ block) % 65_535 + 1) as u16
}

/// Stores the checksum; a new page (all zeros) stays as it is.
pub fn set_checksum(page: &mut PageBytes, block: BlockNumber) {
    if !Page::new(page).is_new() {
        let checksum = page_checksum(page, block);
        PageMut(page).set_checksum(checksum);
    }
}

/// Checks a page read from disk: all zeros, or a right checksum and a possible header.
pub fn verify_page(page: &PageBytes, block: BlockNumber) -> Result<(), PageDefect> {
    verdict(page, || page_checksum(page, block))
}

/// As [`verify_page`], for pages at consecutive blocks that are at several places in memory. `each`
/// gets the place of each page among them, in order, and its verdict.
pub fn verify_scattered(
    pages: &[&PageBytes],
    first: BlockNumber,
    mut each: impl FnMut(usize, Result<(), PageDefect>),
) {
    let mut sums = [0; 32];
    for (group, some) in pages.chunks(sums.len()).enumerate() {
        let before = group * sums.len();
        let sums = &mut sums[..some.len()];
        checksum_scattered(some, first.wrapping_add(before as u32), sums);
        for (n, (page, sum)) in some.iter().zip(sums).enumerate() {
            each(before + n, verdict(page, || *sum));
        }
    }
}

fn verdict(bytes: &PageBytes, sum: impl FnOnce() -> u16) -> Result<(), PageDefect> {
    let page = Page::new(bytes);
    if page.is_new() {
        return if is_all_zeros(bytes) { Ok(()) } else { Err(PageDefect::BadHeader) };
    }
    let (expected, found) = (sum(), stored_checksum(bytes));
    if expected != found {
        return Err(PageDefect::BadChecksum { expected, found });
    }
    if page.header_is_sane() { Ok(()) } else { Err(PageDefect::BadHeader) }
}

/// As [`verify_page`], for a cluster without checksums.
pub fn verify_header(page: &PageBytes) -> Result<(), PageDefect> {
    let view = Page::new(page);
    let good = if view.is_new() { is_all_zeros(page) } else { view.header_is_sane() };
    if good { Ok(()) } else { Err(PageDefect::BadHeader) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page(seed: &[u8]) -> PageBytes {
        let mut bytes = [0; BLOCK_SIZE];
        for (n, byte) in bytes.iter_mut().enumerate() {
            *byte =
                (n as u8).wrapping_mul(31) ^ seed.get(n % seed.len().max(1)).copied().unwrap_or(0);
        }
        bytes
    }

    /// Every implementation that this processor can run gives what plain code gives, however many
    /// pages it takes at a time.
    fn agree(pages: &[PageBytes], first: BlockNumber) {
        let plain: Vec<u16> = pages
            .iter()
            .enumerate()
            .map(|(n, page)| Variant::Scalar.page_checksum(page, first.wrapping_add(n as u32)))
            .collect();
        let mut sums = vec![0; pages.len()];
        for variant in Variant::available() {
            for side_by_side in Variant::SIDE_BY_SIDE {
                sums.fill(0);
                variant.checksum_pages(pages, first, &mut sums, side_by_side);
                assert_eq!(sums, plain, "{}, {side_by_side} side by side", variant.name());
            }
            for (n, page) in pages.iter().enumerate() {
                let sum = variant.page_checksum(page, first.wrapping_add(n as u32));
                assert_eq!(sum, plain[n], "{}, page {n}", variant.name());
            }
        }
        sums.fill(0);
        checksum_pages(pages, first, &mut sums);
        assert_eq!(sums, plain);
        sums.fill(0);
        let scattered: Vec<&PageBytes> = pages.iter().collect();
        checksum_scattered(&scattered, first, &mut sums);
        assert_eq!(sums, plain);
    }

    #[test]
    fn the_best_variant_is_there_and_its_preference_is_possible() {
        assert!(Variant::best().is_available());
        assert!(Variant::available().any(|variant| variant == Variant::Scalar));
        for variant in Variant::ALL {
            assert!(Variant::SIDE_BY_SIDE.contains(&variant.preferred()), "{}", variant.name());
        }
    }

    #[test]
    fn scattered_pages_get_the_verdicts_of_single_ones() {
        let mut pages = vec![[0; BLOCK_SIZE]; 70];
        for (n, page) in pages.iter_mut().enumerate().filter(|(n, _)| n % 7 != 3) {
            PageMut(page).init(0);
            set_checksum(page, 1000 + n as u32);
        }
        pages[3][5000] = 1; // new, but not all zeros
        pages[33][5000] ^= 1;
        pages[69][100] ^= 1;
        for count in [0, 1, 31, 32, 33, 64, 65, 70] {
            let some: Vec<&PageBytes> = pages[..count].iter().collect();
            let mut got = Vec::new();
            verify_scattered(&some, 1000, |n, verdict| got.push((n, verdict)));
            let one = |(n, page): (usize, &&PageBytes)| (n, verify_page(page, 1000 + n as u32));
            assert_eq!(got, some.iter().enumerate().map(one).collect::<Vec<_>>());
            let bad = [3, 33, 69].iter().filter(|&&n| n < count).count();
            assert_eq!(got.iter().filter(|(_, verdict)| verdict.is_err()).count(), bad);
        }
    }

    #[test]
    fn a_variant_that_the_processor_lacks_is_refused() {
        for variant in Variant::ALL.into_iter().filter(|variant| !variant.is_available()) {
            assert!(std::panic::catch_unwind(|| variant.page_checksum(&page(b""), 0)).is_err());
        }
    }

    #[test]
    fn the_block_number_matters_and_the_checksum_field_does_not() {
        let mut bytes = [0; BLOCK_SIZE];
        PageMut(&mut bytes).init(0);
        set_checksum(&mut bytes, 7);
        assert_eq!(verify_page(&bytes, 7), Ok(()));
        let found = stored_checksum(&bytes);
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
        assert!(is_all_zeros(&bytes));
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
            for count in 0..=pages.len() {
                agree(&pages[..count], first);
            }
        }

        #[test]
        fn all_implementations_agree_on_noise(bytes in proptest::collection::vec(any::<u8>(), 5 * BLOCK_SIZE), first: u32) {
            let (pages, _) = bytes.as_chunks::<BLOCK_SIZE>();
            agree(pages, first);
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
