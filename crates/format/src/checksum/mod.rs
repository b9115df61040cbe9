//! Page checksums.
//!
//! A page is 64 rows of 32 words of 4 bytes. Each column of words goes through a multiplicative
//! hash with a start value of its own; two rows of zeros follow. The 32 results are combined with
//! XOR, then XORed with the block number, and folded to 1 .. 65535. The checksum's own field counts
//! as zero.
//!
//! ```text
//!            column 0   1   ...  31
//!   row 0       |       |         |
//!   ...         ▼       ▼         ▼       hash = (hash ^ word) * PRIME ^ ((hash ^ word) >> 17)
//!   row 63      |       |         |
//!   2 x zeros   ▼       ▼         ▼
//!               └─ XOR ─┴─ ... ───┘ ─▶ XOR block number ─▶ modulo 65535, + 1
//! ```
//!
//! There are several implementations; [`Variant::best`] is the fastest that the processor has. The
//! multiplication has a long latency, which independent chains hide. The wide variants therefore
//! hash several pages at the same time, and prefetch the next ones.
//!
//! - `columns`: the parameters of the hash
//! - `pages`: computes, stores and verifies checksums
//! - `variant`: the list of variants, and the choice
//! - `scalar`, `sse2`, `avx2`, `avx512`, `neon`: the variants
//! - `touch`: only reads pages, for comparison

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod columns;
#[cfg(target_arch = "aarch64")]
mod neon;
mod pages;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod sse2;
mod touch;
mod variant;

pub use pages::{
    PageDefect, checksum_pages, checksum_scattered, page_checksum, set_checksum, verify_header,
    verify_page, verify_scattered,
};
pub use touch::{TOUCH_STREAMS, touch};
pub use variant::Variant;
