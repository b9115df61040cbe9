//! Names and contents of segments.

use forebay_archive::WalName;
use forebay_format::SegmentSize;
use forebay_format::wal::page_header::{LongHeader, PageHeader};
use forebay_testkit::Dice;

/// The cluster of the tests.
pub const SYSTEM: u64 = 7_418_000_000_000_000_001;
/// The smallest size, so that tests are quick.
pub const SIZE: SegmentSize = match SegmentSize::new(1 << 20) {
    Some(size) => size,
    None => panic!("a size"),
};

pub fn wal_name(name: &str) -> WalName {
    WalName::parse(name).expect("a name")
}

/// Contents of a segment, which follow from its name: a page header, and bytes that compress to
/// about a third.
pub fn segment_bytes(timeline: u32, number: u64, system: u64) -> Vec<u8> {
    let mut bytes = segment_bytes_of(SIZE, timeline, number, system);
    bytes.iter_mut().skip(8192).enumerate().filter(|(n, _)| n % 3 != 0).for_each(|(_, b)| *b = 0);
    bytes
}

/// Contents of a segment of some size, which do not compress.
pub fn segment_bytes_of(size: SegmentSize, timeline: u32, number: u64, system: u64) -> Vec<u8> {
    let mut bytes = Dice::new(u64::from(timeline) << 32 ^ number).bytes(size.bytes() as usize);
    write_header(&mut bytes, size, timeline, number, system);
    bytes
}

/// Writes the page header at the beginning of a segment.
pub fn write_header(bytes: &mut [u8], size: SegmentSize, timeline: u32, number: u64, system: u64) {
    let long = LongHeader { system_id: system, segment_size: size.get(), block_size: 8192 };
    let page_addr = size.start(number);
    PageHeader { info: 0, timeline, page_addr, rem_len: 0, long: Some(long) }.encode(bytes);
}
