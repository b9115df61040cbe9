//! Defects behind the end of a log that a reader could take for its continuation, as PostgreSQL's
//! own tests make them.
#![allow(dead_code, reason = "each test program uses a part")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use forebay_format::{
    Lsn, SegmentSize,
    wal::{
        PageHeader, RecordHeader, Rmgr, page_header::FIRST_IS_CONTINUATION, record::HEADER_SIZE,
    },
};

const BLOCK: u64 = 8192;

/// A defect, and the expected result.
#[derive(Clone, Copy)]
pub struct Defect {
    pub name: &'static str,
    /// Bytes left in the page behind the last valid record.
    pub room: u64,
    /// The record's length field.
    pub total_len: u32,
    pub prev: Prev,
    /// The header of the next page, if the record continues there.
    pub next: Next,
    /// A part of the expected reason.
    pub reason: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Prev {
    Right,
    Wrong,
}

/// The page header behind the record's first part.
#[derive(Clone, Copy, PartialEq)]
pub enum Next {
    /// The record ends in its page.
    None,
    Right,
    Magic(u16),
    Info(u16),
    Address(u64),
    NoFlag,
    RemLen(u32),
}

/// Well inside a page: the record's header fits.
const INSIDE: u64 = 4000;
/// So close to the page's end that the header continues on the next page.
const SPLIT: u64 = 16;
/// Longer than a page.
const LONG: u32 = 12_000;

const fn single(
    name: &'static str,
    room: u64,
    total_len: u32,
    prev: Prev,
    reason: &'static str,
) -> Defect {
    Defect { name, room, total_len, prev, next: Next::None, reason }
}

const fn multi(name: &'static str, room: u64, next: Next, reason: &'static str) -> Defect {
    Defect { name, room, total_len: LONG, prev: Prev::Right, next, reason }
}

/// All defects.
pub const DEFECTS: [Defect; 16] = [
    single("length zero", INSIDE, 0, Prev::Right, "invalid record length"),
    single("length short", INSIDE, 23, Prev::Right, "invalid record length"),
    single("length short at the end of a page", SPLIT, 23, Prev::Right, "invalid record length"),
    single("previous link", INSIDE, 100, Prev::Wrong, "prev-link"),
    single("checksum", INSIDE, 100, Prev::Right, "incorrect checksum"),
    multi("page magic zero", INSIDE, Next::Magic(0), "magic number 0000"),
    multi("page magic", INSIDE, Next::Magic(0xcafe), "magic number CAFE"),
    multi("page address", INSIDE, Next::Address(0xbeef_0000), "unexpected address"),
    multi("page info bits", INSIDE, Next::Info(0x1234), "info bits 1234"),
    multi("continuation flag", INSIDE, Next::NoFlag, "contrecord flag"),
    multi("remaining length", INSIDE, Next::RemLen(123), "contrecord length 123"),
    multi("page magic zero, split header", SPLIT, Next::Magic(0), "magic number 0000"),
    multi("page address, split header", SPLIT, Next::Address(0xbeef_0000), "unexpected address"),
    multi("continuation flag, split header", SPLIT, Next::NoFlag, "contrecord flag"),
    multi("remaining length, split header", SPLIT, Next::RemLen(123), "contrecord length 123"),
    Defect {
        name: "previous link, split header",
        room: SPLIT,
        total_len: LONG,
        prev: Prev::Wrong,
        next: Next::Right,
        reason: "prev-link",
    },
];

/// The defect with a name.
pub fn defect(name: &str) -> Defect {
    *DEFECTS.iter().find(|defect| defect.name == name).expect("a defect of that name")
}

impl Defect {
    /// Whether the record counts as incomplete, and is skipped later.
    pub fn is_incomplete(&self) -> bool {
        self.next != Next::None
    }

    /// Writes the defect to `at`, behind the record at `last`, in the segment files of `dir`.
    pub fn write(&self, dir: &Path, size: SegmentSize, timeline: u32, at: Lsn, last: Lsn) {
        let next_page = at.page_start().add(BLOCK);
        assert_eq!(next_page.since(at), self.room, "the log was not brought to the right place");
        let prev = if self.prev == Prev::Right { last } else { Lsn(0xdead_beef) };
        let header = RecordHeader {
            total_len: self.total_len,
            xid: 0,
            prev,
            info: 0x20,
            rmgr: Rmgr::XLOG,
            crc: 0x0bad_c0de,
        };
        let mut record = header.encode().to_vec();
        record.resize(HEADER_SIZE.max(self.total_len as usize), 0x77);
        let (first, rest) = record.split_at(record.len().min(self.room as usize));
        let put = |at: Lsn, bytes: &[u8]| {
            let path = dir.join(size.file_name(timeline, size.number(at)));
            let file = File::options().write(true).open(path).expect("segment");
            file.write_all_at(bytes, size.offset(at)).expect("written");
        };
        put(at, first);
        if self.next == Next::None {
            return;
        }
        let rem_len = rest.len() as u32;
        let mut right = PageHeader {
            info: FIRST_IS_CONTINUATION,
            timeline,
            page_addr: next_page,
            rem_len,
            long: None,
        };
        match self.next {
            Next::Address(address) => right.page_addr = Lsn(address),
            Next::NoFlag => right.info = 0,
            Next::RemLen(len) => right.rem_len = len,
            _ => {}
        }
        let mut page = vec![0; BLOCK as usize];
        let begin = right.encode(&mut page);
        match self.next {
            Next::Magic(magic) => page[..2].copy_from_slice(&magic.to_le_bytes()),
            Next::Info(info) => page[2..4].copy_from_slice(&info.to_le_bytes()),
            _ => {}
        }
        let fits = rest.len().min(page.len() - begin);
        page[begin..begin + fits].copy_from_slice(&rest[..fits]);
        put(next_page, &page);
    }
}
