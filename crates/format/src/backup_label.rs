//! `backup_label`: where recovery of a base backup begins.
//!
//! ```text
//!   START WAL LOCATION: 0/2000028 (file 000000010000000000000002)
//!   CHECKPOINT LOCATION: 0/2000080
//!   BACKUP METHOD: streamed
//!   BACKUP FROM: primary
//!   START TIME: 2026-11-21 01:21:39 UTC
//!   LABEL: nightly
//!   START TIMELINE: 1
//! ```

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{ids::TimelineId, lsn::Lsn};

/// The file's name.
pub const FILE_NAME: &str = "backup_label";

/// Contents of a backup label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupLabel {
    /// The redo pointer of the backup's checkpoint, where recovery begins.
    pub start: Lsn,
    /// The segment that holds it.
    pub start_file: String,
    /// The checkpoint's record.
    pub checkpoint: Lsn,
    /// "streamed" for a backup whose end is a record of the log.
    pub method: String,
    /// "primary" or "standby".
    pub from: String,
    /// When the backup began, as text.
    pub start_time: String,
    /// The backup's name.
    pub label: String,
    /// The timeline on which it began.
    pub timeline: TimelineId,
}

/// Why a backup label is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackupLabelError {
    /// A line is missing.
    #[error("there is no line \"{0}\"")]
    Missing(&'static str),
    /// A line has an invalid value.
    #[error("invalid {0} \"{1}\"")]
    Invalid(&'static str, String),
}

impl BackupLabel {
    /// The text of the file.
    pub fn to_text(&self) -> String {
        let BackupLabel {
            start,
            start_file,
            checkpoint,
            method,
            from,
            start_time,
            label,
            timeline,
        } = self;
        format!(
            "START WAL LOCATION: {start} (file {start_file})\n\
             CHECKPOINT LOCATION: {checkpoint}\n\
             BACKUP METHOD: {method}\n\
             BACKUP FROM: {from}\n\
             START TIME: {start_time}\n\
             LABEL: {label}\n\
             START TIMELINE: {timeline}\n"
        )
    }

    /// Parses the file. Unknown lines are ignored.
    pub fn parse(text: &str) -> Result<BackupLabel, BackupLabelError> {
        let field = |name: &'static str| {
            let of = |line: &str| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned);
            text.lines().find_map(of).ok_or(BackupLabelError::Missing(name))
        };
        let first = field("START WAL LOCATION")?;
        let invalid =
            |name: &'static str, value: &str| BackupLabelError::Invalid(name, value.to_owned());
        let place = first.split_once(" (file ").and_then(|(lsn, file)| {
            let file = file.strip_suffix(')')?;
            Some((lsn.parse::<Lsn>().ok()?, file.to_owned()))
        });
        let (start, start_file) = place.ok_or_else(|| invalid("START WAL LOCATION", &first))?;
        let checkpoint = field("CHECKPOINT LOCATION")?;
        // Versions before 13 don't state the timeline, but the segment's name does.
        let timeline = match field("START TIMELINE") {
            Ok(text) => text.parse::<TimelineId>().map_err(|_| invalid("START TIMELINE", &text))?,
            Err(_) => start_file
                .get(..8)
                .and_then(|digits| TimelineId::from_str_radix(digits, 16).ok())
                .ok_or_else(|| invalid("file", &start_file))?,
        };
        Ok(BackupLabel {
            start,
            start_file,
            checkpoint: checkpoint
                .parse()
                .map_err(|_| invalid("CHECKPOINT LOCATION", &checkpoint))?,
            method: field("BACKUP METHOD").unwrap_or_default(),
            from: field("BACKUP FROM").unwrap_or_default(),
            start_time: field("START TIME").unwrap_or_default(),
            label: field("LABEL").unwrap_or_default(),
            timeline,
        })
    }

    /// Name of the backup history file in `pg_wal`.
    pub fn history_file_name(&self, offset_in_segment: u64) -> String {
        format!("{}.{offset_in_segment:08X}.backup", self.start_file)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A label that PostgreSQL 18 wrote.
    const TEXT: &str = "START WAL LOCATION: 0/2000028 (file 000000010000000000000002)\n\
        CHECKPOINT LOCATION: 0/2000080\nBACKUP METHOD: streamed\nBACKUP FROM: primary\n\
        START TIME: 2026-11-21 01:21:39 UTC\nLABEL: nightly\nSTART TIMELINE: 1\n";

    #[test]
    fn a_label_reads_back() {
        let label = BackupLabel::parse(TEXT).unwrap();
        assert_eq!((label.start, label.checkpoint), (Lsn(0x200_0028), Lsn(0x200_0080)));
        assert_eq!((label.label.as_str(), label.timeline), ("nightly", 1));
        assert_eq!(label.to_text(), TEXT);
        assert_eq!(label.history_file_name(0x28), "000000010000000000000002.00000028.backup");
        let without = TEXT.replace("START TIMELINE: 1\n", "");
        assert_eq!(BackupLabel::parse(&without).unwrap(), label);
    }

    #[test]
    fn invalid_labels_are_refused() {
        for (from, to) in [
            ("0/2000028", "zero"),
            (" (file", " file"),
            ("CHECKPOINT LOC", "X"),
            ("0/2000080", "1"),
        ] {
            assert!(BackupLabel::parse(&TEXT.replace(from, to)).is_err(), "{from}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text: String) {
            let _ = BackupLabel::parse(&text);
            let locations =
                format!("START WAL LOCATION: 0/1 (file {text})\nCHECKPOINT LOCATION: 0/1");
            let _ = BackupLabel::parse(&locations);
        }
    }
}
