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

/// The pages from `first` to `last`, which may lie behind the wrap of their ids. Files that are
/// missing one after the other are told together: a damaged id may demand any number of them.
fn check_span(
    reader: &StatusReader,
    of: StatusFiles,
    (first, last): (i64, i64),
    per_page: u32,
    say: &mut dyn FnMut(&Path, &str),
) -> Result<(), EngineError> {
    let wrap = i64::from(u32::MAX / per_page);
    let spans = if first <= last { [(first, last), (1, 0)] } else { [(first, wrap), (0, last)] };
    // Recovery that redoes a truncation of pg_xact leaves pg_control's oldest transaction alone, so
    // the first files may be gone. A tuple that needs one of them is told.
    let mut may_be_gone = of == StatusFiles::Transactions;
    let mut missing = None;
    for (first, last) in spans.into_iter().filter(|(first, last)| first <= last) {
        for segment in slru::segment(first)..=slru::segment(last) {
            let path = segment_path(&reader.dir, of, segment);
            let end = ((segment + 1) * slru::PAGES_PER_SEGMENT - 1).min(last);
            let needed = slru::segment_offset(end) + BLOCK_SIZE as u64;
            let Some(stat) = reader.io.aio().namespace().stat(&path)? else {
                missing.get_or_insert((path, 0)).1 += 1;
                continue;
            };
            let gap = missing.take();
            if !std::mem::take(&mut may_be_gone) {
                say_missing(gap, say);
            }
            if stat.len < needed {
                say(&path, &format!("file has {} bytes instead of {needed}", stat.len));
            }
        }
    }
    say_missing(missing, say);
    Ok(())
}

/// Tells files that are missing, by the first one and their number.
fn say_missing(gap: Option<(PathBuf, u32)>, say: &mut dyn FnMut(&Path, &str)) {
    match gap {
        None => {}
        Some((path, 1)) => say(&path, "file is missing"),
        Some((path, count)) => say(&path, &format!("file is missing, and {} after it", count - 1)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use forebay_aio::BackendType;
    use forebay_format::FullXid;

    use super::*;
    use crate::config::IoMethod;

    /// What is told of the segments 0 to 3 of pg_xact if these are there.
    fn told(there: &[i64]) -> Vec<String> {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("pg_xact")).expect("a directory");
        for &segment in there {
            let path = segment_path(dir.path(), StatusFiles::Transactions, segment);
            let file = fs::File::create(path).expect("a file");
            let len = slru::PAGES_PER_SEGMENT as u64 * BLOCK_SIZE as u64;
            file.set_len(len).expect("a length");
        }
        let aio = crate::io::standalone(IoMethod::Sync, 1).expect("I/O");
        let io = aio.backend(BackendType::Standalone).expect("a backend");
        let counters = Counters {
            next_xid: FullXid::new(0, 7 << 19),
            oldest_xid: 700,
            next_multi: 1,
            next_member: 1,
            oldest_multi: 1,
        };
        let mut found = Vec::new();
        let mut say = |path: &Path, what: &str| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            found.push(format!("{name}: {what}"));
        };
        check_files(&mut StatusReader::new(io, dir.path()), &counters, &mut say).expect("a check");
        found
    }

    #[test]
    fn only_the_first_files_of_pg_xact_may_be_missing() {
        assert_eq!(told(&[0, 1, 2, 3]), [""; 0]);
        assert_eq!(told(&[2, 3]), [""; 0]);
        assert_eq!(told(&[0, 2, 3]), ["0001: file is missing"]);
        assert_eq!(told(&[1, 3]), ["0002: file is missing"]);
        assert_eq!(told(&[0, 1, 2]), ["0003: file is missing"]);
        assert_eq!(told(&[0]), ["0001: file is missing, and 2 after it"]);
        assert_eq!(told(&[]), ["0000: file is missing, and 3 after it"]);
    }
}
