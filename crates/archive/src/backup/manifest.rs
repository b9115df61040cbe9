//! `backup_manifest`: which files a backup has, as PostgreSQL's pg_verifybackup reads it.
//!
//! ```text
//!   { "PostgreSQL-Backup-Manifest-Version": 2,
//!   "System-Identifier": 7440...,                                     (version 2: PostgreSQL 17 and later)
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
//! A path that is no UTF-8 is told in hexadecimal digits, as "Encoded-Path". Files in pg_wal are
//! not listed.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use forebay_format::Lsn;
use forebay_format::ids::TimelineId;
use forebay_types::time::date_and_time;
use serde_json::Value;

use super::digest::{ChecksumKind, hex, sha256};

/// The file's name.
pub const FILE_NAME: &str = "backup_manifest";

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestFile {
    /// Relative to the data directory.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    /// Seconds since 1970; not read back.
    pub modified: i64,
    /// Which checksum it has.
    pub kind: ChecksumKind,
    /// The checksum in hexadecimal digits.
    pub checksum: String,
}

/// WAL that a backup needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalRange {
    /// On this timeline.
    pub timeline: TimelineId,
    /// From here.
    pub start: Lsn,
    /// To here.
    pub end: Lsn,
}

/// What a manifest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The cluster; manifests before version 2 don't tell.
    pub system_id: Option<u64>,
    /// The files.
    pub files: Vec<ManifestFile>,
    /// The WAL.
    pub wal: Vec<WalRange>,
}

/// Why a manifest can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Its own checksum is wrong: it was cut or changed.
    #[error("manifest checksum mismatch")]
    Checksum,
    /// It is no manifest.
    #[error("{0}")]
    Syntax(String),
}

fn bad(what: &str) -> ManifestError {
    ManifestError::Syntax(what.to_owned())
}

impl Manifest {
    /// The whole file's text.
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
        let sum = sha256(out.as_bytes());
        let _ = writeln!(out, "\"Manifest-Checksum\": \"{sum}\"}}");
        out
    }

    /// Reads it; a damaged one is refused as a whole.
    pub fn parse(text: &[u8]) -> Result<Manifest, ManifestError> {
        let body =
            text.strip_suffix(b"\n").ok_or_else(|| bad("last line not newline-terminated"))?;
        let at = body
            .iter()
            .rposition(|byte| *byte == b'\n')
            .ok_or_else(|| bad("expected at least 2 lines"))?;
        let (covered, _) =
            text.split_at_checked(at + 1).ok_or_else(|| bad("expected at least 2 lines"))?;
        let all: Value =
            serde_json::from_slice(text).map_err(|e| bad(&format!("could not parse: {e}")))?;
        let stated =
            text_of(&all, "Manifest-Checksum").ok_or_else(|| bad("missing Manifest-Checksum"))?;
        if !stated.eq_ignore_ascii_case(&sha256(covered)) {
            return Err(ManifestError::Checksum);
        }
        let system_id = match all.get("PostgreSQL-Backup-Manifest-Version").and_then(Value::as_u64)
        {
            Some(1) => None,
            Some(2) => {
                let id = all.get("System-Identifier").and_then(Value::as_u64);
                Some(id.ok_or_else(|| bad("invalid system identifier in manifest"))?)
            }
            _ => return Err(bad("unexpected manifest version")),
        };
        let list = |name: &str| {
            all.get(name).and_then(Value::as_array).ok_or_else(|| bad(&format!("missing {name}")))
        };
        let files = list("Files")?.iter().map(read_file).collect::<Result<_, _>>()?;
        let wal = list("WAL-Ranges")?.iter().map(read_range).collect::<Result<_, _>>()?;
        Ok(Manifest { system_id, files, wal })
    }
}

fn push_file(out: &mut String, file: &ManifestFile) {
    out.push_str("{ ");
    match file.path.to_str() {
        Some(path) => {
            out.push_str("\"Path\": ");
            push_string(out, path);
        }
        None => {
            let _ = write!(out, "\"Encoded-Path\": \"{}\"", hex(file.path.as_os_str().as_bytes()));
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

/// A string as JSON has it.
fn push_string(out: &mut String, text: &str) {
    out.push_str(&Value::from(text).to_string());
}

fn text_of<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name).and_then(Value::as_str)
}

fn read_file(entry: &Value) -> Result<ManifestFile, ManifestError> {
    let path = match (text_of(entry, "Path"), text_of(entry, "Encoded-Path")) {
        (Some(path), None) => PathBuf::from(path),
        (None, Some(digits)) => {
            let bytes = unhex(digits).ok_or_else(|| bad("could not decode file name"))?;
            PathBuf::from(OsString::from_vec(bytes))
        }
        _ => return Err(bad("missing path name, or two")),
    };
    if !is_within(&path) {
        return Err(bad(&format!("path \"{}\" leads out of the data directory", path.display())));
    }
    let size = entry.get("Size").and_then(Value::as_u64).ok_or_else(|| bad("missing size"))?;
    let (kind, checksum) = match (text_of(entry, "Checksum-Algorithm"), text_of(entry, "Checksum"))
    {
        (None, None) => (ChecksumKind::None, String::new()),
        (Some(name), Some(sum)) => {
            let kind = ChecksumKind::by_name(name)
                .ok_or_else(|| bad(&format!("unrecognized checksum algorithm: \"{name}\"")))?;
            (kind, sum.to_ascii_lowercase())
        }
        _ => return Err(bad("checksum without algorithm, or algorithm without checksum")),
    };
    Ok(ManifestFile { path, size, modified: 0, kind, checksum })
}

fn read_range(entry: &Value) -> Result<WalRange, ManifestError> {
    let timeline =
        entry.get("Timeline").and_then(Value::as_u64).and_then(|t| TimelineId::try_from(t).ok());
    let lsn = |name: &str| text_of(entry, name).and_then(|text| text.parse::<Lsn>().ok());
    match (timeline, lsn("Start-LSN"), lsn("End-LSN")) {
        (Some(timeline), Some(start), Some(end)) => Ok(WalRange { timeline, start, end }),
        _ => Err(bad("invalid WAL range")),
    }
}

/// Does a path stay below the directory it is relative to?
fn is_within(path: &Path) -> bool {
    let mut parts = path.components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok())
        .collect()
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
    fn a_manifest_reads_back() {
        let manifest = sample();
        assert_eq!(Manifest::parse(manifest.to_text().as_bytes()), Ok(manifest.clone()));
        let older = Manifest { system_id: None, files: Vec::new(), wal: Vec::new() };
        assert_eq!(Manifest::parse(older.to_text().as_bytes()), Ok(older));
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let text = sample().to_text().into_bytes();
        for at in 0..text.len() {
            let mut changed = text.clone();
            changed[at] ^= 1;
            // The digits of the checksum itself may be of the other case.
            assert!(Manifest::parse(&changed).is_err(), "byte {at}");
        }
        for len in 0..text.len() {
            assert!(Manifest::parse(&text[..len]).is_err(), "cut to {len}");
        }
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
