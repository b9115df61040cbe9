//! backup_label: where the recovery of a base backup begins. The copied pg_control may name a later
//! checkpoint, from which pages that were copied earlier could not be recovered.

use forebay_format::backup_label::BackupLabel as Label;
use forebay_format::{Lsn, SegmentSize};

use crate::error::EngineError;

/// The file in the data directory.
pub(super) const FILE: &str = "backup_label";
/// Its name once pg_control has what it says.
pub(super) const OLD: &str = "backup_label.old";

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BackupLabel {
    /// The redo pointer of the checkpoint at which the backup began.
    pub(super) start: Lsn,
    /// That checkpoint's record.
    pub(super) checkpoint: Lsn,
    /// Their timeline.
    pub(super) timeline: u32,
    /// Whether the log must say where the backup ended.
    pub(super) end_required: bool,
    /// Whether it was taken from a standby, whose pg_control says where it ended.
    pub(super) from_standby: bool,
    /// Its name.
    pub(super) label: String,
}

impl BackupLabel {
    /// Parses the file's text.
    pub(super) fn parse(text: &str, size: SegmentSize) -> Result<BackupLabel, EngineError> {
        if text.lines().any(|line| line.starts_with("INCREMENTAL FROM LSN:")) {
            return Err(EngineError::statement(
                "55000",
                "this is an incremental backup, not a data directory",
            )
            .with_hint("Use pg_combinebackup to reconstruct a valid data directory."));
        }
        let said = Label::parse(text).map_err(|error| invalid(&error.to_string()))?;
        let named = size.parse_file_name(&said.start_file);
        let (timeline, number) =
            named.ok_or_else(|| invalid("\"START WAL LOCATION\" names no WAL file."))?;
        if number != size.number(said.start) {
            return Err(invalid(
                "The file that \"START WAL LOCATION\" names does not hold that position.",
            ));
        }
        if said.timeline != timeline {
            let stated = said.timeline;
            return Err(invalid(&format!(
                "Timeline ID parsed is {stated}, but expected {timeline}."
            )));
        }
        Ok(BackupLabel {
            start: said.start,
            checkpoint: said.checkpoint,
            timeline,
            end_required: said.method == "streamed",
            from_standby: said.from == "standby",
            label: said.label,
        })
    }
}

fn invalid(detail: &str) -> EngineError {
    EngineError::statement("55000", format!("invalid data in file \"{FILE}\"")).with_detail(detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "START WAL LOCATION: 0/2000028 (file 000000030000000000000002)\n\
        CHECKPOINT LOCATION: 0/2000080\nBACKUP METHOD: streamed\nBACKUP FROM: primary\n\
        START TIME: 2026-11-21 17:00:00 UTC\nLABEL: nightly: the second\nSTART TIMELINE: 3\n";

    fn parse(text: &str) -> Result<BackupLabel, EngineError> {
        BackupLabel::parse(text, SegmentSize::DEFAULT)
    }

    #[test]
    fn what_postgresql_writes_is_read() {
        let label = parse(TEXT).expect("a label");
        let expected = BackupLabel {
            start: Lsn(0x200_0028),
            checkpoint: Lsn(0x200_0080),
            timeline: 3,
            end_required: true,
            from_standby: false,
            label: "nightly: the second".to_owned(),
        };
        assert_eq!(label, expected);
        let standby = parse(&TEXT.replace("FROM: primary", "FROM: standby")).expect("a label");
        assert!(standby.from_standby);
        assert_eq!(parse(&TEXT.replace('\n', "\r\n")).expect("a label"), expected);
    }

    #[test]
    fn what_is_no_label_is_refused() {
        for (text, detail) in [
            (String::new(), "START WAL LOCATION"),
            (TEXT.replace("0/2000028 (", "0/3000028 ("), "does not hold"),
            (TEXT.replace("0/2000028 (", "nowhere ("), "START WAL LOCATION"),
            (TEXT.replace("file 0000", "file x"), "names no WAL file"),
            (TEXT.replace("CHECKPOINT LOCATION: 0/2000080", ""), "CHECKPOINT LOCATION"),
            (TEXT.replace("START TIMELINE: 3", "START TIMELINE: 4"), "is 4, but expected 3"),
        ] {
            let error = parse(&text).expect_err(detail);
            let said = error.detail().expect("a detail");
            assert!(said.contains(detail), "{said}");
        }
        let incremental = format!("{TEXT}INCREMENTAL FROM LSN: 0/1000028\n");
        assert!(parse(&incremental).expect_err("incremental").to_string().contains("incremental"));
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text: String) {
            let _ = parse(&text);
            let _ = parse(&format!("START WAL LOCATION: {text}\nCHECKPOINT LOCATION: {text}"));
        }
    }
}
