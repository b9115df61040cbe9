//! `backup_manifest`: lists the files of a backup, in the format of PostgreSQL's pg_verifybackup.
//!
//! ```text
//!   { "PostgreSQL-Backup-Manifest-Version": 2,
//!   "System-Identifier": 7440...,               (only version 2: PostgreSQL 17 and later)
//!   "Files": [
//!   { "Path": "base/1/1259", "Size": 114688, "Last-Modified": "2026-11-21 01:21:39 GMT",
//!     "Checksum-Algorithm": "SHA256", "Checksum": "..." },
//!   ...
//!   ],
//!   "WAL-Ranges": [
//!   { "Timeline": 1, "Start-LSN": "0/2000028", "End-LSN": "0/2000120" }
//!   ],
//!   "Manifest-Checksum": "SHA-256 of all lines before this one"}
//! ```
//!
//! A path that is not UTF-8 is written in hexadecimal digits, as "Encoded-Path". Files in pg_wal
//! are not listed.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use forebay_format::Lsn;
use forebay_format::ids::TimelineId;
use forebay_types::time::date_and_time;
use serde::Deserialize;
use serde_json::Value;

use super::json;
use crate::digest::{ChecksumKind, Digest};
use crate::error::ManifestError;

/// The file's name.
pub const FILE_NAME: &str = "backup_manifest";

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestFile {
    /// Relative to the data directory.
    pub path: PathBuf,
    /// Length in bytes.
    pub size: u64,
    /// Time of its last change in seconds since 1970; not read back.
    pub modified: i64,
    /// The kind of its checksum.
    pub kind: ChecksumKind,
    /// The checksum in hexadecimal digits.
    pub checksum: String,
}

/// WAL that a backup needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct WalRange {
    /// The timeline.
    #[serde(rename = "Timeline")]
    pub timeline: TimelineId,
    /// Where the range begins.
    #[serde(rename = "Start-LSN", with = "json::text")]
    pub start: Lsn,
    /// Where the range ends.
    #[serde(rename = "End-LSN", with = "json::text")]
    pub end: Lsn,
}

/// The contents of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// System identifier of the cluster; version 1 does not have it.
    pub system_id: Option<u64>,
    /// The files.
    pub files: Vec<ManifestFile>,
    /// The WAL.
    pub wal: Vec<WalRange>,
}

/// The file as JSON.
#[derive(Deserialize)]
struct ManifestJson {
    #[serde(rename = "System-Identifier")]
    system_id: Option<u64>,
    #[serde(rename = "Files")]
    files: Vec<FileJson>,
    #[serde(rename = "WAL-Ranges")]
    wal: Vec<WalRange>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct FileJson {
    path: Option<String>,
    #[serde(rename = "Encoded-Path")]
    encoded_path: Option<String>,
    size: u64,
    #[serde(rename = "Checksum-Algorithm")]
    algorithm: Option<String>,
    checksum: Option<String>,
}

impl Manifest {
    /// The text of the file.
    pub fn to_text(&self) -> String {
        let mut out = String::with_capacity(256 * self.files.len() + 256);
        // Writing to a String does not fail.
        match self.system_id {
            Some(id) => {
                let _ = write!(
                    out,
                    "{{ \"PostgreSQL-Backup-Manifest-Version\": 2,\n\"System-Identifier\": {id},\n"
                );
            }
            None => out.push_str("{ \"PostgreSQL-Backup-Manifest-Version\": 1,\n"),
        }
        out.push_str("\"Files\": [");
        for (n, file) in self.files.iter().enumerate() {
            out.push_str(if n == 0 { "\n" } else { ",\n" });
            push_file(&mut out, file);
        }
        out.push_str("\n],\n\"WAL-Ranges\": [");
        for (n, WalRange { timeline, start, end }) in self.wal.iter().enumerate() {
            out.push_str(if n == 0 { "\n" } else { ",\n" });
            let _ = write!(
                out,
                "{{ \"Timeline\": {timeline}, \"Start-LSN\": \"{start}\", \"End-LSN\": \"{end}\" }}"
            );
        }
        out.push_str("\n],\n");
        let sum = Digest::of(out.as_bytes());
        let _ = writeln!(out, "\"Manifest-Checksum\": \"{sum}\"}}");
        out
    }

    /// Parses the file; a damaged one is refused as a whole.
    pub fn parse(text: &[u8]) -> Result<Manifest, ManifestError> {
        let bad = |what: &str| ManifestError::syntax(what);
        let body =
            text.strip_suffix(b"\n").ok_or_else(|| bad("last line not newline-terminated"))?;
        let at = body
            .iter()
            .rposition(|byte| *byte == b'\n')
            .ok_or_else(|| bad("expected at least 2 lines"))?;
        let (covered, _) = text.split_at(at + 1);
        let unparsable = |error| ManifestError::syntax(format!("could not parse: {error}"));
        // The checksum comes first, and then the version: they explain what else is wrong.
        let all: Value = serde_json::from_slice(text).map_err(unparsable)?;
        let stated = all.get("Manifest-Checksum").and_then(Value::as_str);
        let stated = stated.ok_or_else(|| bad("manifest has no checksum"))?;
        if !stated.eq_ignore_ascii_case(&Digest::of(covered).to_string()) {
            return Err(ManifestError::Check);
        }
        let version = all.get("PostgreSQL-Backup-Manifest-Version").and_then(Value::as_u64);
        let version = version.filter(|version| [1, 2].contains(version));
        let version = version.ok_or_else(|| bad("unexpected manifest version"))?;
        let all = ManifestJson::deserialize(all).map_err(unparsable)?;
        let system_id = all.system_id.filter(|_| version == 2);
        if version == 2 && system_id.is_none() {
            return Err(bad("missing system identifier"));
        }
        let files = all.files.into_iter().map(read_file).collect::<Result<_, _>>()?;
        Ok(Manifest { system_id, files, wal: all.wal })
    }
}

fn push_file(out: &mut String, file: &ManifestFile) {
    out.push_str("{ ");
    match file.path.to_str() {
        Some(path) => {
            let _ = write!(out, "\"Path\": {}", Value::from(path));
        }
        None => {
            let digits = hex::encode(file.path.as_os_str().as_bytes());
            let _ = write!(out, "\"Encoded-Path\": \"{digits}\"");
        }
    }
    let time = date_and_time(file.modified);
    let _ = write!(out, ", \"Size\": {}, \"Last-Modified\": \"{time} GMT\"", file.size);
    if let Some(kind) = file.kind.name() {
        let _ = write!(
            out,
            ", \"Checksum-Algorithm\": \"{kind}\", \"Checksum\": \"{}\"",
            file.checksum
        );
    }
    out.push_str(" }");
}

fn read_file(entry: FileJson) -> Result<ManifestFile, ManifestError> {
    let path = match (entry.path, entry.encoded_path) {
        (Some(path), None) => PathBuf::from(path),
        (None, Some(digits)) => {
            let bytes = hex::decode(digits);
            let bytes = bytes.map_err(|_| ManifestError::syntax("could not decode file name"))?;
            PathBuf::from(OsString::from_vec(bytes))
        }
        _ => return Err(ManifestError::syntax("missing path name, or two")),
    };
    if !is_within(&path) {
        let reason = format!("path \"{}\" leads out of the data directory", path.display());
        return Err(ManifestError::Syntax(reason));
    }
    let (kind, checksum) = match (entry.algorithm, entry.checksum) {
        (None, None) => (ChecksumKind::None, String::new()),
        (Some(name), Some(checksum)) => {
            let unknown = || format!("unrecognized checksum algorithm: \"{name}\"");
            let kind = ChecksumKind::by_name(&name);
            let kind = kind.ok_or_else(|| ManifestError::Syntax(unknown()))?;
            (kind, checksum.to_ascii_lowercase())
        }
        _ => {
            let reason = "checksum without algorithm, or algorithm without checksum";
            return Err(ManifestError::syntax(reason));
        }
    };
    Ok(ManifestFile { path, size: entry.size, modified: 0, kind, checksum })
}

/// Whether a path stays below the directory that it is relative to.
fn is_within(path: &Path) -> bool {
    let mut parts = path.components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Manifest {
        let file = |path: &str, kind: ChecksumKind, checksum: &str| ManifestFile {
            path: PathBuf::from(path),
            size: 17,
            modified: 0,
            kind,
            checksum: checksum.to_owned(),
        };
        let odd = PathBuf::from(OsString::from_vec(b"base/\xff\x01".to_vec()));
        Manifest {
            system_id: Some(u64::MAX),
            files: vec![
                file("PG_VERSION", ChecksumKind::Crc32c, "0a0b0c0d"),
                file("base/1/with \"quotes\" and \u{1}\n", ChecksumKind::None, ""),
                ManifestFile { path: odd, ..file("x", ChecksumKind::Crc32c, "00000000") },
            ],
            wal: vec![WalRange { timeline: 3, start: Lsn(0x200_0028), end: Lsn(1 << 32) }],
        }
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let manifest = sample();
        assert_eq!(Manifest::parse(manifest.to_text().as_bytes()), Ok(manifest.clone()));
        let older = Manifest { system_id: None, files: Vec::new(), wal: Vec::new() };
        assert_eq!(Manifest::parse(older.to_text().as_bytes()), Ok(older));
    }

    #[test]
    fn every_changed_byte_is_detected() {
        let text = sample().to_text().into_bytes();
        for at in 0..text.len() {
            let mut changed = text.clone();
            changed[at] ^= 1;
            assert!(Manifest::parse(&changed).is_err(), "byte {at}");
        }
        for len in 0..text.len() {
            assert!(Manifest::parse(&text[..len]).is_err(), "cut to {len}");
        }
    }

    #[test]
    fn the_checksum_is_checked_first_and_then_the_version() {
        let text = sample().to_text();
        let refusal = |text: &str| Manifest::parse(text.as_bytes()).unwrap_err();
        let damaged = text.replace("\"Size\": 17", "\"Sizf\": 17").replace("0/2000028", "x");
        assert_eq!(refusal(&damaged), ManifestError::Check);
        let none = text.replace("Manifest-Checksum", "Manifest-Chequesum");
        assert_eq!(refusal(&none), ManifestError::syntax("manifest has no checksum"));
        let sealed = |text: &str| {
            let covered = &text[..text.trim_end().rfind('\n').unwrap() + 1];
            let sum = Digest::of(covered.as_bytes());
            format!("{covered}\"Manifest-Checksum\": \"{sum}\"}}\n")
        };
        let later = sealed(&damaged.replace("Version\": 2", "Version\": 3"));
        assert_eq!(refusal(&later), ManifestError::syntax("unexpected manifest version"));
        let other = refusal(&sealed(&damaged)).to_string();
        assert!(other.starts_with("could not parse: missing field"), "{other}");
    }

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        for path in ["/etc/passwd", "../x", "base/../../x", ""] {
            let mut manifest = sample();
            manifest.files[0].path = PathBuf::from(path);
            assert!(Manifest::parse(manifest.to_text().as_bytes()).is_err(), "{path:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Manifest::parse(&text);
            let mut ended = text;
            ended.extend(b"\n{}\n");
            let _ = Manifest::parse(&ended);
        }
    }
}
