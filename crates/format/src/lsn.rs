//! Positions in the WAL, and the names of its segment files.

use std::{fmt, str::FromStr};

use crate::ids::TimelineId;

/// Size of a WAL page.
pub const WAL_BLOCK_SIZE: usize = 8192;

/// A byte position in the WAL. Zero is "none".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// No position.
    pub const INVALID: Self = Self(0);
    /// Larger than any position.
    pub const MAX: Self = Self(u64::MAX);

    /// Whether it is a position.
    pub const fn is_valid(self) -> bool {
        self.0 != 0
    }

    /// The position `bytes` behind this one.
    pub const fn add(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }

    /// Bytes from `earlier` to this position; zero if it is not earlier.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Rounds up to a multiple of 8, where a record may begin.
    pub const fn align_record(self) -> Self {
        Self((self.0 + 7) & !7)
    }

    /// Offset in its WAL page.
    pub const fn page_offset(self) -> usize {
        (self.0 % WAL_BLOCK_SIZE as u64) as usize
    }

    /// The beginning of its WAL page.
    pub const fn page_start(self) -> Self {
        Self(self.0 - self.0 % WAL_BLOCK_SIZE as u64)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 as u32)
    }
}

/// A text is not a WAL position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid WAL position: \"{0}\"")]
pub struct ParseLsnError(String);

impl FromStr for Lsn {
    type Err = ParseLsnError;

    fn from_str(text: &str) -> Result<Self, ParseLsnError> {
        let half = |part: &str| {
            let hex = (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit());
            hex.then(|| u64::from_str_radix(part, 16).ok()).flatten()
        };
        let parsed =
            text.split_once('/').and_then(|(high, low)| Some(half(high)? << 32 | half(low)?));
        parsed.map(Self).ok_or_else(|| ParseLsnError(text.to_owned()))
    }
}

/// Size of a WAL segment file: a power of two from 1 MB to 1 GB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SegmentSize(u32);

impl Default for SegmentSize {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl SegmentSize {
    /// initdb's default, 16 MB.
    pub const DEFAULT: Self = Self(16 << 20);

    /// A segment size in bytes, if it is valid.
    pub const fn new(bytes: u32) -> Option<Self> {
        if bytes.is_power_of_two() && bytes >= 1 << 20 && bytes <= 1 << 30 {
            Some(Self(bytes))
        } else {
            None
        }
    }

    /// The size in bytes.
    pub const fn bytes(self) -> u64 {
        self.0 as u64
    }

    /// The size in bytes, as the WAL's page headers store it.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Number of the segment that holds the byte at `lsn`.
    pub const fn number(self, lsn: Lsn) -> u64 {
        lsn.0 / self.bytes()
    }

    /// Number of the segment that holds the byte before `lsn`, the end of a record.
    pub const fn number_before(self, lsn: Lsn) -> u64 {
        lsn.0.saturating_sub(1) / self.bytes()
    }

    /// Offset in its segment.
    pub const fn offset(self, lsn: Lsn) -> u64 {
        lsn.0 % self.bytes()
    }

    /// Start of a segment.
    pub const fn start(self, number: u64) -> Lsn {
        Lsn(number * self.bytes())
    }

    /// Segments in 4 GB, which the second part of a file name counts.
    pub const fn per_4g(self) -> u64 {
        (1 << 32) / self.bytes()
    }

    /// Name of a segment's file: timeline and number, 24 hexadecimal digits.
    pub fn file_name(self, timeline: TimelineId, number: u64) -> String {
        format!("{timeline:08X}{:08X}{:08X}", number / self.per_4g(), number % self.per_4g())
    }

    /// Timeline and number of a segment file; `None` for any other name.
    pub fn parse_file_name(self, name: &str) -> Option<(TimelineId, u64)> {
        if !is_segment_name(name) {
            return None;
        }
        let part = |range| name.get(range).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let (timeline, high, low) =
            (part(0..8)?, u64::from(part(8..16)?), u64::from(part(16..24)?));
        (low < self.per_4g()).then(|| (timeline, high * self.per_4g() + low))
    }
}

/// Whether a file name has the form of a WAL segment's: 24 upper-case hexadecimal digits.
pub fn is_segment_name(name: &str) -> bool {
    name.len() == 24 && name.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form() {
        assert_eq!(Lsn(0x1_0000_A0B0).to_string(), "1/A0B0");
        assert_eq!("1/A0b0".parse(), Ok(Lsn(0x1_0000_A0B0)));
        for bad in ["", "/", "1/", "1", "1/123456789", "+1/0", "1/-0", "g/0"] {
            assert!(bad.parse::<Lsn>().is_err(), "{bad}");
        }
    }

    #[test]
    fn segments_and_names() {
        let size = SegmentSize::DEFAULT;
        let lsn = Lsn(0x1_0200_0010);
        assert_eq!(size.number(lsn), 258);
        assert_eq!(size.offset(lsn), 0x10);
        assert_eq!(size.number_before(Lsn(0x0200_0000)), 1);
        assert_eq!(size.file_name(1, 258), "000000010000000100000002");
        assert_eq!(size.parse_file_name("000000010000000100000002"), Some((1, 258)));
        assert_eq!(size.parse_file_name("000000010000000100000100"), None);
        assert_eq!(size.parse_file_name("00000001000000010000000a"), None);
        assert_eq!(SegmentSize::new(1 << 20).map(SegmentSize::per_4g), Some(4096));
        assert_eq!(SegmentSize::new((1 << 20) + 1), None);
        assert_eq!(SegmentSize::new(1 << 31), None);
    }
}
