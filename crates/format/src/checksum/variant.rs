//! The list of variants, and the choice among them.

use super::{columns::folded, scalar};
use crate::{ids::BlockNumber, page::PageBytes};

/// An implementation of the page checksum. All compute the same checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// Plain code, on every processor.
    Scalar,
    /// 128-bit registers, on every x86-64 processor.
    Sse2,
    /// 256-bit registers.
    Avx2,
    /// 512-bit registers (AVX-512F).
    Avx512,
    /// 64-bit ARM.
    Neon,
}

impl Variant {
    /// All variants, the faster ones of an architecture last.
    pub const ALL: [Variant; 5] =
        [Variant::Scalar, Variant::Sse2, Variant::Avx2, Variant::Avx512, Variant::Neon];

    /// How many pages [`Variant::checksum_pages`] can hash at the same time.
    pub const SIDE_BY_SIDE: [usize; 3] = [1, 2, 4];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Scalar => "scalar",
            Variant::Sse2 => "sse2",
            Variant::Avx2 => "avx2",
            Variant::Avx512 => "avx512",
            Variant::Neon => "neon",
        }
    }

    /// Whether this processor can run it.
    pub fn is_available(self) -> bool {
        match self {
            Variant::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Variant::Sse2 => true,
            #[cfg(target_arch = "x86_64")]
            Variant::Avx2 => std::arch::is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Variant::Avx512 => std::arch::is_x86_feature_detected!("avx512f"),
            #[cfg(target_arch = "aarch64")]
            Variant::Neon => true,
            #[allow(
                unreachable_patterns,
                reason = "which variants are left depends on the architecture"
            )]
            _ => false,
        }
    }

    /// The variants that this processor can run.
    pub fn available() -> impl Iterator<Item = Variant> {
        Variant::ALL.into_iter().filter(|variant| variant.is_available())
    }

    /// The fastest available variant: the one with the widest registers.
    #[inline]
    pub fn best() -> Variant {
        if cfg!(target_arch = "aarch64") {
            Variant::Neon
        } else if Variant::Avx512.is_available() {
            Variant::Avx512
        } else if Variant::Avx2.is_available() {
            Variant::Avx2
        } else if cfg!(target_arch = "x86_64") {
            Variant::Sse2
        } else {
            Variant::Scalar
        }
    }

    /// How many pages to hash at the same time: as many as fit the registers.
    pub fn preferred(self) -> usize {
        match self {
            Variant::Scalar | Variant::Sse2 => 1,
            Variant::Avx2 | Variant::Neon => 2,
            Variant::Avx512 => 4,
        }
    }

    /// The checksum of one page.
    ///
    /// # Panics
    /// If this processor can't run the variant.
    pub fn page_checksum(self, page: &PageBytes, block: BlockNumber) -> u16 {
        self.assert_available();
        let [sum] = self.hash([page], [page]);
        folded(sum, block)
    }

    /// The checksums of pages at consecutive blocks, into `sums`, `side_by_side` at a time (one of
    /// [`Variant::SIDE_BY_SIDE`]).
    ///
    /// # Panics
    /// If this processor can't run the variant, if `sums` has not one place a page, or for another
    /// number side by side.
    pub fn checksum_pages(
        self,
        pages: &[PageBytes],
        first: BlockNumber,
        sums: &mut [u16],
        side_by_side: usize,
    ) {
        self.assert_available();
        self.each(pages.len(), |n| &pages[n], first, sums, side_by_side);
    }

    /// As [`Variant::checksum_pages`], over pages wherever they are. The caller has seen to it that
    /// the variant can be run.
    pub(super) fn each<'p>(
        self,
        count: usize,
        page: impl Fn(usize) -> &'p PageBytes,
        first: BlockNumber,
        sums: &mut [u16],
        side_by_side: usize,
    ) {
        assert_eq!(count, sums.len(), "one place a page");
        match side_by_side {
            1 => self.groups::<1>(page, first, sums),
            2 => self.groups::<2>(page, first, sums),
            4 => self.groups::<4>(page, first, sums),
            other => panic!("{other} pages side by side"),
        }
    }

    fn groups<'p, const N: usize>(
        self,
        page: impl Fn(usize) -> &'p PageBytes,
        first: BlockNumber,
        sums: &mut [u16],
    ) {
        let last = sums.len().saturating_sub(1);
        let (groups, rest) = sums.as_chunks_mut::<N>();
        let mut at = 0;
        for group in groups {
            let pages = std::array::from_fn(|n| page(at + n));
            // Behind the last there is nothing more to fetch.
            let ahead = std::array::from_fn(|n| page((at + N + n).min(last)));
            for (n, (sum, place)) in self.hash::<N>(pages, ahead).into_iter().zip(group).enumerate()
            {
                *place = folded(sum, first.wrapping_add((at + n) as u32));
            }
            at += N;
        }
        for place in rest {
            let [sum] = self.hash([page(at)], [page((at + 1).min(last))]);
            *place = folded(sum, first.wrapping_add(at as u32));
            at += 1;
        }
    }

    /// The hashes of `pages`; those `ahead` are fetched meanwhile. For variants that this processor
    /// can run.
    #[inline]
    pub(super) fn hash<const N: usize>(
        self,
        pages: [&PageBytes; N],
        ahead: [&PageBytes; N],
    ) -> [u32; N] {
        debug_assert!(self.is_available());
        let _ = ahead;
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: every x86-64 processor has SSE2.
            Variant::Sse2 => unsafe { super::sse2::hash(pages) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the processor has it: public callers have checked, and `best` chooses among
            // what it has.
            Variant::Avx2 => unsafe { super::avx2::hash(pages, ahead) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Variant::Avx512 => unsafe { super::avx512::hash(pages, ahead) },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: every 64-bit ARM processor that Rust supports has NEON.
            Variant::Neon => unsafe { super::neon::hash(pages) },
            _ => scalar::hash(pages),
        }
    }

    fn assert_available(self) {
        assert!(self.is_available(), "this processor can't run {}", self.name());
    }
}
