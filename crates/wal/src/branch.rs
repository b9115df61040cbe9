//! The first segment of a new timeline, where it leaves its parent in the middle of one.
//!
//! ```text
//!   parent's   | records ... | records that are left behind ... |
//!              |             ^ at
//!   the new    | the same    | zeros                            |
//! ```
//!
//! The file gets its name when it is whole and durable. One of that name can only be left from an
//! attempt that nobody heard of.

use forebay_aio::{Aio, AioError, AlignedBuf, Backend, File, OpenOptions, sync::Arc};
use forebay_format::{SegmentSize, timeline::TimelineHistory};

use std::path::Path;

use crate::error::WalError;
use crate::segments::TEMPORARY;

/// Bytes copied at once.
const CHUNK: usize = 1 << 20;

/// Makes the segment in which the last timeline of `history` begins, where it begins in the middle
/// of one; durable on return. The log can then be started there.
pub fn begin_timeline(
    aio: &Arc<Aio>,
    io: &mut Backend,
    dir: &Path,
    size: SegmentSize,
    history: &TimelineHistory,
) -> Result<(), WalError> {
    let Some((new, parents)) = history.stretches().split_last() else { return Ok(()) };
    let (at, number) = (new.begin, size.number(new.begin));
    if size.offset(at) == 0 {
        return Ok(());
    }
    let namespace = aio.namespace();
    let path = dir.join(size.file_name(new.timeline, number));
    let wrong = |reason: String| WalError::Resume { at, reason };
    // The youngest that got as far: older ones may have another past there.
    let mut old = None;
    for parent in parents.iter().rev() {
        let path = dir.join(size.file_name(parent.timeline, number));
        match namespace.open(&path, &OpenOptions::READ) {
            Ok(file) => {
                old = Some(file);
                break;
            }
            Err(e) if e.is_not_found() => {}
            Err(e) => return Err(WalError::segment("open", &path, e)),
        }
    }
    let old = old.ok_or_else(|| wrong("its segment does not exist".to_owned()))?;
    let temporary = dir.join(format!("{TEMPORARY}{}", std::process::id()));
    let done = copy(aio, io, &old, &temporary, size, size.offset(at))
        .and_then(|()| namespace.rename(&temporary, &path))
        .and_then(|()| namespace.sync_dir(dir));
    done.map_err(|e| {
        // What is left of it is removed by the next start at the latest.
        let _ = namespace.unlink(&temporary);
        WalError::segment("create", &path, e)
    })
}

/// Makes a segment that has the first `keep` bytes of another one, and syncs it.
fn copy(
    aio: &Arc<Aio>,
    io: &mut Backend,
    old: &File,
    to: &Path,
    size: SegmentSize,
    keep: u64,
) -> Result<(), AioError> {
    let file = aio.namespace().open(to, &OpenOptions::READ_WRITE.create().truncate())?;
    let mut offset = 0;
    while offset < size.bytes() {
        let len = usize::try_from(size.bytes() - offset).unwrap_or(CHUNK).min(CHUNK);
        let mut chunk = AlignedBuf::zeroed(len)?;
        if offset < keep {
            io.read_exact_at(old, offset, &mut chunk)?;
            let kept = usize::try_from(keep - offset).unwrap_or(len).min(len);
            chunk[kept..].fill(0);
        }
        io.write_all_at(&file, offset, &chunk)?;
        offset += len as u64;
    }
    io.fsync(&file)
}
