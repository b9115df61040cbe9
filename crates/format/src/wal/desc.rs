//! Descriptions of records, for messages and tests.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fmt;

use crate::wal::{
    brin, clog, commit_ts, database, gin, gist, hash, heap, multixact, nbtree, origin,
    record::DecodedRecord, relation_map, rmgr::Rmgr, sequence, smgr, spgist, standby, tablespace,
    xact, xlog,
};

/// The kind of a record as `pg_waldump` names it; `None` for resource managers whose records are
/// not known here.
pub fn kind_name(rmgr: Rmgr, info: u8) -> Option<&'static str> {
    let kind = info & super::rmgr::INFO_RMGR_MASK;
    match rmgr {
        Rmgr::XLOG => Some(xlog::name(kind)),
        Rmgr::XACT => Some(xact::name(kind)),
        Rmgr::SMGR => Some(smgr::name(kind)),
        Rmgr::DBASE => Some(database::name(kind)),
        Rmgr::TBLSPC => Some(tablespace::name(kind)),
        Rmgr::RELMAP => Some(relation_map::name(kind)),
        Rmgr::CLOG => Some(clog::name(kind)),
        Rmgr::MULTIXACT => Some(multixact::name(kind)),
        Rmgr::STANDBY => Some(standby::name(kind)),
        Rmgr::HEAP2 => Some(heap::heap2_name(kind)),
        Rmgr::HEAP => Some(heap::heap_name(kind)),
        Rmgr::BTREE => Some(nbtree::name(kind)),
        Rmgr::HASH => Some(hash::name(kind)),
        Rmgr::GIN => Some(gin::name(kind)),
        Rmgr::GIST => Some(gist::name(kind)),
        Rmgr::SEQ => Some(sequence::name(kind)),
        Rmgr::SPGIST => Some(spgist::name(kind)),
        Rmgr::BRIN => Some(brin::name(kind)),
        Rmgr::COMMIT_TS => Some(commit_ts::name(kind)),
        Rmgr::ORIGIN => Some(origin::name(kind)),
        Rmgr::GENERIC if kind == 0 => Some("Generic"),
        Rmgr::LOGICAL_MESSAGE if kind == 0 => Some("MESSAGE"),
        _ => None,
    }
}

impl fmt::Display for DecodedRecord<'_> {
    /// Resource manager, kind, transaction, length, pages: `Heap INSERT, tx 700, 67 bytes, block 0
    /// of base/5/16384 (image)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = &self.header;
        write!(f, "{} ", header.rmgr)?;
        match kind_name(header.rmgr, header.info) {
            Some(name) => f.write_str(name)?,
            None => write!(f, "record {:#04x}", header.kind())?,
        }
        write!(f, ", tx {}, {} bytes", header.xid, header.total_len)?;
        for block in &self.blocks {
            write!(f, ", {}", block.tag)?;
            match block.image {
                Some(image) if image.apply() => f.write_str(" (image)")?,
                Some(_) => f.write_str(" (image for comparison)")?,
                None => {}
            }
        }
        Ok(())
    }
}
