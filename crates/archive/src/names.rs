//! Names of the files that are archived, and of their status files.
//!
//! ```text
//!   0000000100000000000000A3                    a segment: timeline, number
//!   0000000100000000000000A3.partial            the last segment of a timeline that was left
//!   0000000100000000000000A3.00000028.backup    where a base backup began and ended
//!   00000002.history                            where a timeline branched off
//! ```
//!
//! History files are archived first: a recovery must know of a timeline before it finds WAL on it.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use forebay_aio::sync::Arc;
use forebay_format::lsn::is_segment_name;
use forebay_format::{SegmentSize, timeline::parse_history_file_name};

use crate::error::ArchiveError;

/// The kinds of files of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Says where a timeline branched off.
    History,
    /// A segment of the log.
    Segment,
    /// The last segment of a timeline that was left before the segment was full.
    Partial,
    /// Says where a base backup began and ended.
    Backup,
}

/// The name of a file of the log. The order is that in which files are archived: history files
/// first, the others by name.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct WalName {
    kind: Kind,
    text: Arc<str>,
}

const PARTIAL: &str = ".partial";
const BACKUP: &str = ".backup";
/// Ending of a status file: to be archived.
const READY: &str = ".ready";
/// Ending of a status file: archived, durably.
const DONE: &str = ".done";

impl WalName {
    /// None: it is not the name of a file of the log.
    pub fn parse(name: &str) -> Option<WalName> {
        Some(WalName { kind: kind_of(name)?, text: name.into() })
    }

    /// The kind of the file.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The timeline; for a history file, the one whose history it is.
    pub fn timeline(&self) -> u32 {
        u32::from_str_radix(&self.text[..8], 16).expect("a name begins with 8 hexadecimal digits")
    }

    /// The name of the segment; None for a history file.
    pub fn segment(&self) -> Option<&str> {
        (self.kind != Kind::History).then(|| &self.text[..24])
    }

    /// The segment's number. None for a history file, or if no segment of this size has the number.
    pub fn number(&self, size: SegmentSize) -> Option<u64> {
        size.parse_file_name(self.segment()?).map(|(_, number)| number)
    }

    /// Whether the file is as long as a segment.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.kind, Kind::Segment | Kind::Partial)
    }

    /// Name of the status file that says: to be archived.
    pub fn ready(&self) -> String {
        format!("{}{READY}", self.text)
    }

    /// Name of the status file that says: archived.
    pub fn done(&self) -> String {
        format!("{}{DONE}", self.text)
    }
}

/// The kind of file that has this name.
fn kind_of(name: &str) -> Option<Kind> {
    if is_segment_name(name) {
        return Some(Kind::Segment);
    }
    if parse_history_file_name(name).is_some() {
        return Some(Kind::History);
    }
    if let Some(segment) = name.strip_suffix(PARTIAL) {
        return is_segment_name(segment).then_some(Kind::Partial);
    }
    let (segment, offset) = name.strip_suffix(BACKUP)?.split_once('.')?;
    let digits = offset.len() == 8
        && offset.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b));
    (digits && is_segment_name(segment)).then_some(Kind::Backup)
}

impl Ord for WalName {
    fn cmp(&self, other: &WalName) -> Ordering {
        let later = |name: &WalName| name.kind != Kind::History;
        later(self).cmp(&later(other)).then_with(|| self.text.cmp(&other.text))
    }
}

impl PartialOrd for WalName {
    fn partial_cmp(&self, other: &WalName) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for WalName {
    type Err = ArchiveError;

    fn from_str(name: &str) -> Result<WalName, ArchiveError> {
        WalName::parse(name).ok_or_else(|| ArchiveError::Name { name: name.to_owned() })
    }
}

impl fmt::Display for WalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for WalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A status file in `archive_status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The file is to be archived.
    Ready(WalName),
    /// The file is archived.
    Done(WalName),
    /// Not the status of a file of the log.
    Junk,
}

impl Mark {
    /// Parses a name in `archive_status`.
    pub fn parse(name: &str) -> Mark {
        let marked = |end| name.strip_suffix(end).and_then(WalName::parse);
        match (marked(READY), marked(DONE)) {
            (Some(file), _) => Mark::Ready(file),
            (_, Some(file)) => Mark::Done(file),
            _ => Mark::Junk,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> WalName {
        WalName::parse(text).expect(text)
    }

    #[test]
    fn kinds() {
        let seg = "0000000100000002000000A3";
        for (text, kind) in [
            (seg.to_owned(), Kind::Segment),
            (format!("{seg}.partial"), Kind::Partial),
            (format!("{seg}.00000028.backup"), Kind::Backup),
            ("0000000A.history".to_owned(), Kind::History),
        ] {
            let name = name(&text);
            assert_eq!(name.kind(), kind);
            assert_eq!(name.to_string(), text);
            assert_eq!(name.timeline(), if kind == Kind::History { 10 } else { 1 });
            assert_eq!(name.segment(), (kind != Kind::History).then_some(seg));
            assert_eq!(name.is_whole(), matches!(kind, Kind::Segment | Kind::Partial));
        }
        assert_eq!(name(seg).number(SegmentSize::DEFAULT), Some(2 * 256 + 0xA3));
        assert_eq!(
            name("000000010000000200000100").number(SegmentSize::DEFAULT),
            None,
            "16 MB: 256 in 4 GB"
        );
    }

    #[test]
    fn junk() {
        for text in [
            "",
            "xlogtemp.123",
            "0000000100000002000000a3",
            "0000000100000002000000A",
            "0000000100000002000000A3.",
            "0000000100000002000000A3.partial.partial",
            "0000000100000002000000A3.28.backup",
            "0000000100000002000000A3.backup",
            "history.backup.partial",
            "..............................",
            "0000000A.history.history",
            "\u{e9}000000100000002000000A3",
        ] {
            assert_eq!(WalName::parse(text), None, "{text:?}");
            assert!(text.parse::<WalName>().is_err());
            assert_eq!(Mark::parse(&format!("{text}.ready")), Mark::Junk);
        }
    }

    #[test]
    fn history_files_go_first_and_then_by_name() {
        let mut all = [
            "000000010000000000000002",
            "00000003.history",
            "000000010000000000000001.partial",
            "000000010000000000000001",
            "00000002.history",
            "000000020000000000000001",
            "000000010000000000000001.00000028.backup",
        ]
        .map(name);
        all.sort();
        let sorted: Vec<&str> = all.iter().map(WalName::as_str).collect();
        assert_eq!(
            sorted,
            [
                "00000002.history",
                "00000003.history",
                "000000010000000000000001",
                "000000010000000000000001.00000028.backup",
                "000000010000000000000001.partial",
                "000000010000000000000002",
                "000000020000000000000001",
            ]
        );
    }

    #[test]
    fn marks() {
        let file = name("00000002.history");
        assert_eq!(Mark::parse(&file.ready()), Mark::Ready(file.clone()));
        assert_eq!(Mark::parse(&file.done()), Mark::Done(file.clone()));
        assert_eq!(Mark::parse("00000002.history"), Mark::Junk);
        assert_eq!(Mark::parse("00000002.history.ready.done"), Mark::Junk);
    }

    proptest! {
        #[test]
        fn any_text_is_a_name_or_not(
            text: String,
            shaped in "[0-9A-F]{24}(\\.[0-9A-F]{8})?(\\.(backup|partial|history))?",
        ) {
            for text in [text, shaped] {
                if let Some(name) = WalName::parse(&text) {
                    prop_assert_eq!(name.as_str(), &text);
                    prop_assert_eq!(Mark::parse(&name.ready()), Mark::Ready(name.clone()));
                    // What PostgreSQL's archiver takes for a name.
                    prop_assert!((16..=40).contains(&text.len()));
                }
            }
        }
    }
}
