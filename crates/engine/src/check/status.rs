//! Pages of `pg_xact` and `pg_multixact`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_access::check::{Counters, StatusFiles, StatusPages};
use forebay_aio::{AlignedBuf, IoBackend, OpenOptions};
use forebay_format::ids::xid_previous;
use forebay_format::multixact::{self, MEMBERS_PER_PAGE, OFFSETS_PER_PAGE};
use forebay_format::slru::{self, XACTS_PER_PAGE};
use forebay_format::{BLOCK_SIZE, PageBytes};

use crate::error::EngineError;

/// Most pages that are kept: 16 MB, the status of 67 million transactions.
const KEPT: usize = 2048;

/// The status files of a cluster, read when they are asked for.
pub(super) struct StatusReader {
    io: IoBackend,
    dir: PathBuf,
    pages: HashMap<(StatusFiles, i64), Option<Box<PageBytes>>>,
}

impl StatusReader {
    pub(super) fn new(io: IoBackend, dir: &Path) -> StatusReader {
        StatusReader { io, dir: dir.to_owned(), pages: HashMap::new() }
    }

    fn read(&mut self, of: StatusFiles, page: i64) -> Option<Box<PageBytes>> {
        let path = segment_path(&self.dir, of, slru::segment(page));
        let names = Arc::clone(self.io.aio().namespace());
        let file = names.open(&path, &OpenOptions::READ).ok()?;
        let mut buf = AlignedBuf::zeroed(BLOCK_SIZE).ok()?;
        self.io.read_exact_at(&file, slru::segment_offset(page), &mut buf).ok()?;
        buf.first_chunk().copied().map(Box::new)
    }
}

impl StatusPages for StatusReader {
    fn page(&mut self, of: StatusFiles, page: i64) -> Option<&PageBytes> {
        let key = (of, page);
        if !self.pages.contains_key(&key) {
            if self.pages.len() >= KEPT {
                self.pages.clear();
            }
            let read = self.read(of, page);
            self.pages.insert(key, read);
        }
        self.pages.get(&key)?.as_deref()
    }
}

fn segment_path(dir: &Path, of: StatusFiles, segment: i64) -> PathBuf {
    dir.join(of.directory()).join(slru::segment_name(segment))
}

/// Says which pages are missing of those that the counters demand.
pub(super) fn check_files(
    reader: &mut StatusReader,
    counters: &Counters,
    say: &mut dyn FnMut(&Path, &str),
) -> Result<(), EngineError> {
    let Counters { next_xid, oldest_xid, next_multi, next_member, oldest_multi } = *counters;
    if next_xid.xid() != oldest_xid {
        let newest = xid_previous(next_xid.xid());
        let span = (slru::xact_page(oldest_xid), slru::xact_page(newest));
        check_span(reader, StatusFiles::Transactions, span, XACTS_PER_PAGE, say)?;
    }
    if next_multi == oldest_multi {
        return Ok(());
    }
    let newest = next_multi.wrapping_sub(1);
    let span = (multixact::offsets_page(oldest_multi), multixact::offsets_page(newest));
    check_span(reader, StatusFiles::MultiOffsets, span, OFFSETS_PER_PAGE, say)?;
    let page = reader.page(StatusFiles::MultiOffsets, span.0);
    let first = page.map_or(0, |page| multixact::offset(page, oldest_multi));
    if first != 0 {
        let newest = next_member.wrapping_sub(1);
        let span = (multixact::members_page(first), multixact::members_page(newest));
        check_span(reader, StatusFiles::MultiMembers, span, MEMBERS_PER_PAGE, say)?;
    }
    Ok(())
}

/// The pages from `first` to `last`, which may lie behind the wrap of their ids.
fn check_span(
    reader: &StatusReader,
    of: StatusFiles,
    (first, last): (i64, i64),
    per_page: u32,
    say: &mut dyn FnMut(&Path, &str),
) -> Result<(), EngineError> {
    let wrap = i64::from(u32::MAX / per_page);
    let spans = if first <= last { [(first, last), (1, 0)] } else { [(first, wrap), (0, last)] };
    for (first, last) in spans.into_iter().filter(|(first, last)| first <= last) {
        for segment in slru::segment(first)..=slru::segment(last) {
            let path = segment_path(&reader.dir, of, segment);
            let end = ((segment + 1) * slru::PAGES_PER_SEGMENT - 1).min(last);
            let needed = slru::segment_offset(end) + BLOCK_SIZE as u64;
            match reader.io.aio().namespace().stat(&path)? {
                None => say(&path, "file is missing"),
                Some(stat) if stat.len < needed => {
                    say(&path, &format!("file has {} bytes instead of {needed}", stat.len));
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}
