//! The WAL that a backup contains. A backup without an archive needs it, and that of a stopped
//! cluster, whose last segment no archive has.

use std::path::Path;
use std::sync::Arc;

use forebay_aio::{AlignedBuf, IoBackend, OpenOptions};
use forebay_format::control::Outline;
use forebay_format::lsn::WAL_BLOCK_SIZE;
use forebay_format::timeline::parse_history_file_name;
use forebay_format::{Lsn, SegmentSize};

use super::copy::{Copied, Job};
use super::walk::{Contents, WAL};
use crate::error::{ArchiveError, Result};

/// Length of a page header, and of the one at the beginning of a segment.
const PAGE_HEADER: u64 = 24;
const LONG_PAGE_HEADER: u64 = 40;
/// Plausible lengths of a checkpoint record; it has 114 bytes.
const RECORD_SIZES: std::ops::RangeInclusive<u32> = 24..=4096;

/// Where the last checkpoint's record ends: a stopped cluster needs WAL up to there.
pub(super) fn end_of_checkpoint(io: &mut IoBackend, data: &Path, outline: &Outline) -> Result<Lsn> {
    let (size, at) = (outline.wal_segment_size, outline.checkpoint);
    let path = data.join(WAL).join(size.file_name(outline.timeline, size.number(at)));
    let names = Arc::clone(io.aio().namespace());
    let file = match names.open(&path, &OpenOptions::READ) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => {
            let reason = "it holds the last checkpoint, without which no server starts";
            return Err(ArchiveError::WalGone { file: path, reason });
        }
        Err(error) => return Err(error.into()),
    };
    // The length is in the page where the record begins, since records are aligned to 8 bytes.
    let page = at.page_start();
    let mut buf = AlignedBuf::zeroed(WAL_BLOCK_SIZE)?;
    io.read_exact_at(&file, size.offset(page), &mut buf)?;
    let field = buf.get(at.page_offset()..).and_then(|rest| rest.first_chunk::<4>());
    let length = field.map(|bytes| u32::from_le_bytes(*bytes));
    let Some(length) = length.filter(|length| RECORD_SIZES.contains(length)) else {
        let reason = format!("there is no checkpoint record at {at}");
        return Err(ArchiveError::damaged(path.display(), reason));
    };
    Ok(end_of_record(at, u64::from(length), size))
}

/// Where a record ends that begins at `start`, with the page headers in between.
fn end_of_record(start: Lsn, length: u64, size: SegmentSize) -> Lsn {
    let (mut at, mut left) = (start, length);
    loop {
        let room = (WAL_BLOCK_SIZE - at.page_offset()) as u64;
        if left <= room {
            return at.add(left).align_record();
        }
        left -= room;
        let next = at.add(room);
        at = next.add(if size.offset(next) == 0 { LONG_PAGE_HEADER } else { PAGE_HEADER });
    }
}

/// The copies of the segments of a range, and of all history files.
pub(super) fn jobs(
    io: &mut IoBackend,
    data: &Path,
    to: &Path,
    outline: &Outline,
    range: (Lsn, Lsn),
) -> Result<Vec<Job>> {
    let names = Arc::clone(io.aio().namespace());
    let (size, (start, end)) = (outline.wal_segment_size, range);
    let (from, to) = (data.join(WAL), to.join(WAL));
    let mut wanted = Vec::new();
    for number in size.number(start)..=size.number_before(end) {
        let name = size.file_name(outline.timeline, number);
        if !names.exists(&from.join(&name))? {
            let reason = "a larger wal_keep_size keeps it, and so does archiving";
            return Err(ArchiveError::WalGone { file: from.join(&name), reason });
        }
        wanted.push(name);
    }
    for entry in names.list(&from)? {
        let name = entry.name.to_string_lossy();
        if parse_history_file_name(&name).is_some() {
            wanted.push(name.into_owned());
        }
    }
    let job = |name: String| Job {
        from: from.join(&name),
        to: to.join(&name),
        name: Path::new(WAL).join(&name),
        contents: Contents::Bytes,
        expected: None,
    };
    Ok(wanted.into_iter().map(job).collect())
}

/// Checks that a segment was copied, and that the copy has the length of a segment.
pub(super) fn check(job: &Job, copied: Option<&Copied>, outline: &Outline) -> Result<()> {
    let size = outline.wal_segment_size;
    let name = job.name.file_name().unwrap_or_default().to_string_lossy();
    let Some(copied) = copied else {
        let reason = "it was removed or recycled before it was copied";
        return Err(ArchiveError::WalGone { file: job.from.clone(), reason });
    };
    if size.parse_file_name(&name).is_some() && copied.size != size.bytes() {
        let why = format!("it has {} bytes, and a segment has {}", copied.size, size.bytes());
        return Err(ArchiveError::damaged(job.from.display(), why));
    }
    Ok(())
}

/// Checks that the copy of a segment begins with a page of that segment, so that it was not
/// recycled meanwhile.
pub(super) fn check_begin(io: &mut IoBackend, job: &Job, size: SegmentSize) -> Result<()> {
    let name = job.name.file_name().unwrap_or_default().to_string_lossy();
    let Some((timeline, number)) = size.parse_file_name(&name) else { return Ok(()) };
    let file = io.aio().namespace().open(&job.to, &OpenOptions::READ)?;
    let mut buf = AlignedBuf::zeroed(LONG_PAGE_HEADER as usize)?;
    io.read_exact_at(&file, 0, &mut buf)?;
    let timeline_there =
        buf.get(4..8).and_then(|b| b.first_chunk::<4>()).map(|b| u32::from_le_bytes(*b));
    let address = buf.get(8..16).and_then(|b| b.first_chunk::<8>()).map(|b| u64::from_le_bytes(*b));
    // The first segment of a timeline begins with pages of its parent.
    if timeline_there.is_none_or(|there| there == 0 || there > timeline)
        || address != Some(size.start(number).0)
    {
        let reason = "it was recycled while it was copied";
        return Err(ArchiveError::WalGone { file: job.from.clone(), reason });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_headers_count_for_the_end_of_a_record() {
        let end = |start: u64, length| end_of_record(Lsn(start), length, SegmentSize::DEFAULT).0;
        assert_eq!(end(0x100_0028, 114), 0x100_0028 + 120);
        // 48 bytes are left of the page.
        assert_eq!(end(0x100_1fd0, 114), 0x100_2000 + 24 + 72);
        assert_eq!(end(0x100_1fd0, 48), 0x100_2000);
        // And of the segment.
        assert_eq!(end(0x1ff_ffd0, 114), 0x200_0000 + 40 + 72);
    }
}
