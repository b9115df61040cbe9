//! `backup.json`: describes a backup in an archive. It lies beside the backup's data.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::ids::TimelineId;
use forebay_format::{Lsn, SegmentSize};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::json;
use super::walk::Tablespace;
use crate::digest::ChecksumKind;

/// The file's name.
pub(super) const FILE_NAME: &str = "backup.json";
/// Version of the file format.
const VERSION: u64 = 1;

/// Describes a base backup.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct About {
    /// Its name in the archive.
    pub name: String,
    /// Its label, for people.
    pub label: String,
    /// System identifier of the cluster.
    pub system_id: u64,
    /// PostgreSQL's major version.
    pub major: u32,
    /// The timeline it was made on.
    pub timeline: TimelineId,
    /// WAL is needed from here on.
    #[serde(with = "json::text")]
    pub start: Lsn,
    /// The backup is consistent once WAL up to here is replayed. None: the backup is incomplete.
    #[serde(default, with = "json::optional_text")]
    pub stop: Option<Lsn>,
    /// Length of WAL segments.
    #[serde(with = "json::segment_size")]
    pub segment_size: SegmentSize,
    /// When it began, in seconds since 1970.
    pub began: i64,
    /// When it ended, in seconds since 1970.
    pub ended: Option<i64>,
    /// Number of files, without those in pg_wal.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// The checksums in its manifest.
    #[serde(with = "json::checksum_kind")]
    pub checksums: ChecksumKind,
    /// Number of verified pages; 0 if the cluster has no page checksums.
    pub pages: u64,
    /// Number of damaged pages.
    pub damaged: u64,
    /// A server was running during the backup, so it has a backup_label.
    pub live: bool,
    /// The backup contains the WAL that it needs.
    pub has_wal: bool,
    /// Its tablespaces.
    pub tablespaces: Vec<Tablespace>,
}

impl About {
    /// Name of the first WAL segment that the backup needs.
    pub fn first_segment(&self) -> String {
        self.segment_size.file_name(self.timeline, self.segment_size.number(self.start))
    }

    pub(super) fn to_text(&self) -> String {
        let mut all = serde_json::to_value(self).expect("all fields can be written as JSON");
        all["version"] = VERSION.into();
        format!("{all:#}\n")
    }

    /// Parses the file. The error is the reason why it is invalid.
    pub(super) fn parse(text: &[u8]) -> Result<About, String> {
        let invalid = |error| format!("could not parse: {error}");
        let all: Value = serde_json::from_slice(text).map_err(invalid)?;
        if all.get("version").and_then(Value::as_u64) != Some(VERSION) {
            return Err("it was written by another version of Forebay".to_owned());
        }
        About::deserialize(all).map_err(invalid)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::path::PathBuf;

    use super::*;
    use proptest::prelude::*;

    pub(in crate::backup) fn sample() -> About {
        let odd = PathBuf::from(OsString::from_vec(b"/srv/\xff".to_vec()));
        About {
            name: "20261121T012139Z".to_owned(),
            label: "with \"quotes\"".to_owned(),
            system_id: u64::MAX,
            major: 18,
            timeline: 3,
            start: Lsn(0x200_0028),
            stop: Some(Lsn(1 << 40)),
            segment_size: SegmentSize::DEFAULT,
            began: 1_795_224_099,
            ended: Some(1_795_224_199),
            files: 9,
            bytes: 1 << 50,
            checksums: ChecksumKind::Crc32c,
            pages: 7,
            damaged: 1,
            live: true,
            has_wal: false,
            tablespaces: vec![
                Tablespace { oid: "16390".to_owned(), location: Some(odd) },
                Tablespace { oid: "16391".to_owned(), location: None },
            ],
        }
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let about = sample();
        assert_eq!(About::parse(about.to_text().as_bytes()), Ok(about.clone()));
        assert_eq!(about.first_segment(), "000000030000000000000002");
        let begun = About { stop: None, ended: None, tablespaces: Vec::new(), ..about };
        assert_eq!(About::parse(begun.to_text().as_bytes()), Ok(begun));
    }

    #[test]
    fn invalid_files_are_refused() {
        let text = sample().to_text();
        for (from, to) in [
            ("\"version\": 1", "\"version\": 2"),
            ("0/2000028", "x"),
            ("16777216", "5"),
            ("\"16390\"", "\"../x\""),
        ] {
            assert!(text.contains(from), "{from}");
            assert!(About::parse(text.replace(from, to).as_bytes()).is_err(), "{from}");
        }
    }

    /// The format on disk.
    #[test]
    fn it_is_written_in_this_way() {
        let text = About { tablespaces: Vec::new(), stop: None, ..sample() }.to_text();
        let expected = r#"{
  "began": 1795224099,
  "bytes": 1125899906842624,
  "checksums": "CRC32C",
  "damaged": 1,
  "ended": 1795224199,
  "files": 9,
  "has_wal": false,
  "label": "with \"quotes\"",
  "live": true,
  "major": 18,
  "name": "20261121T012139Z",
  "pages": 7,
  "segment_size": 16777216,
  "start": "0/2000028",
  "stop": null,
  "system_id": 18446744073709551615,
  "tablespaces": [],
  "timeline": 3,
  "version": 1
}
"#;
        assert_eq!(text, expected);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = About::parse(&text);
        }
    }
}
