//! Bringing a relation into memory, in three ways, and a look at what the kernel caches.
//!
//! | module | what it holds |
//! |---|---|
//! | `scratch` | reading and dropping what was read |
//! | `kernel` | the kernel's cache: asking it to read, and how much of a file it has |

mod kernel;
mod scratch;

pub use kernel::kernel_cached_pages;

use crate::Backend;
use crate::error::StorageError;
use crate::pool::{BufferPool, Strategy};
use crate::stream::{ReadStream, StreamFlags, StreamSettings};
use forebay_format::{BlockNumber, Fork, RelFileLocator};
use std::ops::Range;
use std::sync::Arc;

/// Where prewarm brings the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrewarmMode {
    /// Asks the kernel to read them ahead, and does not wait. With direct I/O there is nothing that
    /// the kernel could read into, and nothing is done; neither does PostgreSQL.
    Prefetch,
    /// Reads them and drops them, unverified: into the kernel's cache, if files go through it.
    Read,
    /// Into the buffer pool.
    Buffer,
}

/// Reads in flight at once.
const DEPTH: u32 = 32;

/// Brings blocks `range` of a fork in, and returns how many they are.
pub fn prewarm(
    pool: &Arc<BufferPool>,
    be: &mut Backend,
    rel: RelFileLocator,
    fork: Fork,
    range: Range<BlockNumber>,
    mode: PrewarmMode,
) -> Result<u64, StorageError> {
    match mode {
        PrewarmMode::Prefetch => kernel::prefetch(pool, rel, fork, range),
        PrewarmMode::Read => scratch::read(pool, be, rel, fork, range),
        PrewarmMode::Buffer => {
            let (mut next, end) = (range.start, range.end);
            let blocks = move || {
                let block = (next < end).then_some(next);
                next = next.saturating_add(1);
                block
            };
            let combine = pool.config.combine_limit;
            let mut stream = ReadStream::new(
                pool,
                rel,
                fork,
                blocks,
                StreamFlags::FULL,
                Strategy::Normal,
                StreamSettings::new(DEPTH, combine),
            );
            let mut n = 0;
            while stream.next(be)?.is_some() {
                n += 1;
            }
            Ok(n)
        }
    }
}
