//! Byte positions: positions in the log that do not count page headers.
//!
//! A reservation is one addition to a *byte position*, which counts usable bytes only. An [`Lsn`]
//! counts every byte of the files. A byte position at a page boundary has two LSNs: a record that
//! ends there ends at the boundary itself, and a record that starts there starts behind the next
//! page's header.

use forebay_format::{
    Lsn,
    wal::page_header::{LONG_SIZE, SHORT_SIZE},
};

/// Size of a WAL block, which is a page of the log.
pub const WAL_BLOCK: u64 = 8192;
/// Size of the header of most pages.
pub const SHORT_HEADER: u64 = SHORT_SIZE as u64;
/// Size of the header of the first page of a segment.
pub const LONG_HEADER: u64 = LONG_SIZE as u64;

const USABLE: u64 = WAL_BLOCK - SHORT_HEADER;

/// Rounds up to a multiple of 8: the alignment of records.
pub const fn align_record(len: u64) -> u64 {
    (len + 7) & !7
}

/// Converts between byte positions and LSNs for one segment size.
#[derive(Debug, Clone, Copy)]
pub struct Positions {
    segment: u64,
}

impl Positions {
    /// `segment` is the size of a WAL segment in bytes: a power of two of at least 1 MB.
    pub fn new(segment: u64) -> Positions {
        assert!(segment.is_power_of_two() && segment >= 1 << 20, "no segment size: {segment}");
        Positions { segment }
    }

    /// Usable bytes in a segment.
    fn segment_usable(self) -> u64 {
        self.segment / WAL_BLOCK * USABLE - (LONG_HEADER - SHORT_HEADER)
    }

    /// Size of the header of the page that holds `lsn`.
    pub fn header_len(self, lsn: Lsn) -> u64 {
        if lsn.0 % self.segment < WAL_BLOCK { LONG_HEADER } else { SHORT_HEADER }
    }

    /// The LSN of a record that starts at byte position `pos`: never a page boundary.
    pub fn start_lsn(self, pos: u64) -> Lsn {
        let (segment, rest) = (pos / self.segment_usable(), pos % self.segment_usable());
        let first = WAL_BLOCK - LONG_HEADER;
        let offset = if rest < first {
            rest + LONG_HEADER
        } else {
            let rest = rest - first;
            WAL_BLOCK + rest / USABLE * WAL_BLOCK + rest % USABLE + SHORT_HEADER
        };
        Lsn(segment * self.segment + offset)
    }

    /// The LSN at which a record ends that ends at byte position `pos`: the boundary itself at the
    /// end of a page.
    pub fn end_lsn(self, pos: u64) -> Lsn {
        let (segment, rest) = (pos / self.segment_usable(), pos % self.segment_usable());
        let first = WAL_BLOCK - LONG_HEADER;
        let offset = if rest == 0 {
            0
        } else if rest <= first {
            rest + LONG_HEADER
        } else {
            let rest = rest - first;
            let (pages, within) = (rest / USABLE, rest % USABLE);
            WAL_BLOCK + pages * WAL_BLOCK + if within == 0 { 0 } else { within + SHORT_HEADER }
        };
        Lsn(segment * self.segment + offset)
    }

    /// The byte position of `lsn`, or `None` if it points into a page header.
    pub fn byte_pos(self, lsn: Lsn) -> Option<u64> {
        let (segment, offset) = (lsn.0 / self.segment, lsn.0 % self.segment);
        let (page, within) = (offset / WAL_BLOCK, offset % WAL_BLOCK);
        let header = if page == 0 { LONG_HEADER } else { SHORT_HEADER };
        let before = if page == 0 { 0 } else { WAL_BLOCK - LONG_HEADER + (page - 1) * USABLE };
        let within = match within {
            0 => 0,
            within => within.checked_sub(header)?,
        };
        Some(segment * self.segment_usable() + before + within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEG: u64 = 1 << 20;

    #[test]
    fn a_boundary_has_two_lsns() {
        let p = Positions::new(SEG);
        let end_of_first_page = WAL_BLOCK - LONG_HEADER;
        assert_eq!(p.start_lsn(0), Lsn(40));
        assert_eq!(p.end_lsn(0), Lsn(0));
        assert_eq!(p.end_lsn(end_of_first_page), Lsn(8192));
        assert_eq!(p.start_lsn(end_of_first_page), Lsn(8192 + 24));
        assert_eq!(p.end_lsn(p.segment_usable()), Lsn(SEG));
        assert_eq!(p.start_lsn(p.segment_usable()), Lsn(SEG + 40));
        assert_eq!(p.byte_pos(Lsn(8192)), Some(end_of_first_page));
        assert_eq!(p.byte_pos(Lsn(8192 + 24)), Some(end_of_first_page));
        assert_eq!(p.byte_pos(Lsn(8192 + 23)), None);
        assert_eq!(p.byte_pos(Lsn(SEG + 39)), None);
    }

    #[test]
    fn every_byte_position_survives_the_round_trip() {
        let p = Positions::new(SEG);
        let mut last = Lsn(0);
        for pos in 0..2 * p.segment_usable() + 100 {
            let (start, end) = (p.start_lsn(pos), p.end_lsn(pos));
            assert_eq!(p.byte_pos(start), Some(pos));
            assert_eq!(p.byte_pos(end), Some(pos));
            assert!(start.0 % WAL_BLOCK >= SHORT_HEADER);
            assert!(start.0 > last.0 && end.0 <= start.0);
            last = start;
        }
    }
}
