//! Computes, stores and verifies the checksums of pages.

use std::fmt;

use super::{columns::folded, variant::Variant};
use crate::{
    ids::BlockNumber,
    page::{Page, PageBytes, PageMut, is_all_zeros, stored_checksum},
};

/// Why a page is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageDefect {
    /// The stored checksum is wrong.
    BadChecksum {
        /// The computed checksum.
        expected: u16,
        /// The stored checksum.
        found: u16,
    },
    /// The header is not plausible.
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

/// The checksum of a page at `block`, which is counted across segments.
pub fn page_checksum(page: &PageBytes, block: BlockNumber) -> u16 {
    let [sum] = Variant::best().hash([page], [page]);
    folded(sum, block)
}

/// Computes the checksums of pages at consecutive blocks into `sums`, which has one element a page.
/// This is faster than one page after the other, because several are hashed at the same time.
pub fn checksum_pages(pages: &[PageBytes], first: BlockNumber, sums: &mut [u16]) {
    let best = Variant::best();
    best.each(pages.len(), |n| &pages[n], first, sums, best.preferred());
}

/// Like [`checksum_pages`], for pages that are not contiguous in memory.
pub fn checksum_scattered(pages: &[&PageBytes], first: BlockNumber, sums: &mut [u16]) {
    let best = Variant::best();
    best.each(pages.len(), |n| pages[n], first, sums, best.preferred());
}

/// Stores the checksum. A new page (all zeros) gets none.
pub fn set_checksum(page: &mut PageBytes, block: BlockNumber) {
    if !Page::new(page).is_new() {
        let checksum = page_checksum(page, block);
        PageMut(page).set_checksum(checksum);
    }
}

/// Verifies a page: it must be all zeros, or have a correct checksum and a plausible header.
pub fn verify_page(page: &PageBytes, block: BlockNumber) -> Result<(), PageDefect> {
    verify(page, || page_checksum(page, block))
}

/// Like [`verify_page`], for pages at consecutive blocks that are not contiguous in memory. Calls
/// `each` with the index of each page, in order, and its result.
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
            each(before + n, verify(page, || *sum));
        }
    }
}

fn verify(bytes: &PageBytes, sum: impl FnOnce() -> u16) -> Result<(), PageDefect> {
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

/// Like [`verify_page`], for a cluster without checksums.
pub fn verify_header(page: &PageBytes) -> Result<(), PageDefect> {
    let view = Page::new(page);
    let good = if view.is_new() { is_all_zeros(page) } else { view.header_is_sane() };
    if good { Ok(()) } else { Err(PageDefect::BadHeader) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::BLOCK_SIZE;
    use proptest::prelude::*;

    fn page(seed: &[u8]) -> PageBytes {
        let mut bytes = [0; BLOCK_SIZE];
        for (n, byte) in bytes.iter_mut().enumerate() {
            *byte =
                (n as u8).wrapping_mul(31) ^ seed.get(n % seed.len().max(1)).copied().unwrap_or(0);
        }
        bytes
    }

    /// Every variant that this processor has must compute the same checksums as the scalar one,
    /// with any number of pages at a time.
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
    fn the_best_variant_is_available_and_its_preference_valid() {
        assert!(Variant::best().is_available());
        assert!(Variant::available().any(|variant| variant == Variant::Scalar));
        for variant in Variant::ALL {
            assert!(Variant::SIDE_BY_SIDE.contains(&variant.preferred()), "{}", variant.name());
        }
    }

    #[test]
    fn scattered_pages_get_the_results_of_single_ones() {
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
            verify_scattered(&some, 1000, |n, result| got.push((n, result)));
            let one = |(n, page): (usize, &&PageBytes)| (n, verify_page(page, 1000 + n as u32));
            assert_eq!(got, some.iter().enumerate().map(one).collect::<Vec<_>>());
            let bad = [3, 33, 69].iter().filter(|&&n| n < count).count();
            assert_eq!(got.iter().filter(|(_, result)| result.is_err()).count(), bad);
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
    fn a_page_of_zeros_is_valid_but_not_with_another_byte() {
        let mut bytes = [0; BLOCK_SIZE];
        set_checksum(&mut bytes, 3);
        assert!(is_all_zeros(&bytes));
        assert_eq!((verify_page(&bytes, 3), verify_header(&bytes)), (Ok(()), Ok(())));
        bytes[8000] = 1;
        assert_eq!(verify_page(&bytes, 3), Err(PageDefect::BadHeader));
        assert_eq!(verify_header(&bytes), Err(PageDefect::BadHeader));
    }

    #[test]
    fn an_implausible_header_is_found_despite_a_correct_checksum() {
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
        fn all_implementations_agree_on_noise(
            bytes in proptest::collection::vec(any::<u8>(), 5 * BLOCK_SIZE),
            first: u32,
        ) {
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
