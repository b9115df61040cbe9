//! The first segment of a new timeline that branches off in the middle of one of its parent's.
//!
//! ```text
//!   parent's segment   | records     | records that the new timeline does not have |
//!                      |             ^ at                                          |
//!   new segment        | same bytes  | zeros                                       |
//! ```
//!
//! The file gets its name when it is complete and durable. A file that has the name before can only
//! be left from an attempt that was not acknowledged.

use forebay_aio::{Aio, AioError, AlignedBuf, File, IoBackend, OpenOptions, sync::Arc};
use forebay_format::{SegmentSize, timeline::TimelineHistory};

use std::path::Path;

use crate::error::WalError;
use crate::segments::TEMPORARY;

/// Bytes copied at once.
const CHUNK: usize = 1 << 20;

/// Makes the first segment of the last timeline of `history`, unless that timeline begins at the
/// start of a segment. The segment is durable on return, and the log can be started there.
pub fn begin_timeline(
    aio: &Arc<Aio>,
    io: &mut IoBackend,
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
    // The newest parent that has the segment: older timelines may have other records there.
    let mut parent_file = None;
    for parent in parents.iter().rev() {
        let path = dir.join(size.file_name(parent.timeline, number));
        match namespace.open(&path, &OpenOptions::READ) {
            Ok(file) => {
                parent_file = Some(file);
                break;
            }
            Err(e) if e.is_not_found() => {}
            Err(e) => return Err(WalError::segment("open", &path, e)),
        }
    }
    let missing = || WalError::Resume { at, reason: "its segment does not exist".to_owned() };
    let parent_file = parent_file.ok_or_else(missing)?;
    let temporary = dir.join(format!("{TEMPORARY}{}", std::process::id()));
    let done = copy_prefix(aio, io, &parent_file, &temporary, size, size.offset(at))
        .and_then(|()| namespace.rename(&temporary, &path))
        .and_then(|()| namespace.sync_dir(dir));
    done.map_err(|e| {
        // If this fails too, the next start removes the file.
        let _ = namespace.unlink(&temporary);
        WalError::segment("create", &path, e)
    })
}

/// Makes a segment with the first `keep` bytes of `from` and zeros behind them, and syncs it.
fn copy_prefix(
    aio: &Arc<Aio>,
    io: &mut IoBackend,
    from: &File,
    to: &Path,
    size: SegmentSize,
    keep: u64,
) -> Result<(), AioError> {
    let file = aio.namespace().open(to, &OpenOptions::READ_WRITE.create().truncate())?;
    let mut offset = 0;
    while offset < size.bytes() {
        let len = (size.bytes() - offset).min(CHUNK as u64) as usize;
        let mut chunk = AlignedBuf::zeroed(len)?;
        if offset < keep {
            io.read_exact_at(from, offset, &mut chunk)?;
            let kept = (keep - offset).min(len as u64) as usize;
            chunk[kept..].fill(0);
        }
        io.write_all_at(&file, offset, &chunk)?;
        offset += len as u64;
    }
    io.fsync(&file)
}
