//! The WAL samples, split into records.

#![allow(dead_code, reason = "each test program uses a part of this")]

use forebay_format::{Lsn, wal::PageHeader};

/// The first pages of a segment.
pub const WAL: &[u8] = include_bytes!("../data/wal_000000010000000000000010");
/// Their position.
pub const WAL_START: Lsn = Lsn(0x100_0000);

/// All records with their positions, up to the first zero length or the end of the sample.
pub fn records() -> Vec<(Lsn, Vec<u8>)> {
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        if at == WAL.len() {
            return found;
        }
        if at % 8192 == 0 {
            at += header_size(at);
        }
        let start = at;
        let len = u32::from_le_bytes(WAL[at..at + 4].try_into().expect("four bytes")) as usize;
        if len == 0 {
            return found;
        }
        let mut record = Vec::with_capacity(len);
        while record.len() < len {
            if at % 8192 == 0 {
                at += header_size(at);
            }
            let piece = (len - record.len()).min(8192 - at % 8192);
            record.extend_from_slice(&WAL[at..at + piece]);
            at += piece;
        }
        at = at.next_multiple_of(8);
        found.push((WAL_START.add(start as u64), record));
    }
}

fn header_size(at: usize) -> usize {
    PageHeader::decode(&WAL[at..]).expect("a good page header").size()
}

/// Records about changed rows, one behind the other.
const ROWS: &[u8] = include_bytes!("../data/rows.records");

/// Records about bits that changes cleared in the visibility map, one behind the other.
const MAP_CLEARS: &[u8] = include_bytes!("../data/map_clears.records");

/// Records about B-trees and sequences, one behind the other.
const BTREES: &[u8] = include_bytes!("../data/btree.records");

/// Records about other indexes, commit timestamps and replication origins, one behind the other.
const INDEXES: &[u8] = include_bytes!("../data/indexes.records");

/// The records about other indexes, commit timestamps and replication origins.
pub fn index_records() -> Vec<Vec<u8>> {
    split(INDEXES)
}

/// The records about B-trees and sequences.
pub fn btree_records() -> Vec<Vec<u8>> {
    split(BTREES)
}

/// The records about changed rows.
pub fn row_records() -> Vec<Vec<u8>> {
    split(ROWS)
}

/// The records about cleared bits.
pub fn map_clear_records() -> Vec<Vec<u8>> {
    split(MAP_CLEARS)
}

fn split(mut rest: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let Some(len) = rest.first_chunk::<4>() {
        let (record, behind) = rest.split_at(u32::from_le_bytes(*len) as usize);
        found.push(record.to_vec());
        rest = behind;
    }
    found
}
