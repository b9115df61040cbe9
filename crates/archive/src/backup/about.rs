//! `backup.json`: what a backup in an archive is, beside its data.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use forebay_format::ids::TimelineId;
use forebay_format::{Lsn, SegmentSize};
use serde_json::{Value, json};

use super::digest::ChecksumKind;
use super::walk::Tablespace;

/// The file's name.
pub(super) const FILE_NAME: &str = "backup.json";
/// Of the file's layout.
const VERSION: u64 = 1;

/// A base backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its name in the archive.
    pub name: String,
    /// What its maker called it.
    pub label: String,
    /// The cluster.
    pub system_id: u64,
    /// PostgreSQL's major version.
    pub major: u32,
    /// The timeline it was made on.
    pub timeline: TimelineId,
    /// WAL is needed from here on.
    pub start: Lsn,
    /// The backup is consistent when WAL up to here is replayed. None: it is not complete.
    pub stop: Option<Lsn>,
    /// Size of WAL segments.
    pub segment_size: SegmentSize,
    /// When it began, in seconds since 1970.
    pub began: i64,
    /// When it ended.
    pub ended: Option<i64>,
    /// Files, those in pg_wal not counted.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Which checksums its manifest has.
    pub checksums: ChecksumKind,
    /// Pages that were verified; none if the cluster has no page checksums.
    pub pages: u64,
    /// Those of them that are damaged.
    pub damaged: u64,
    /// A server was running: the backup has a backup_label.
    pub live: bool,
    /// It has the WAL that it needs.
    pub has_wal: bool,
    /// Its tablespaces.
    pub tablespaces: Vec<Tablespace>,
}

impl About {
    /// Name of the first WAL segment that is needed.
    pub fn first_segment(&self) -> String {
        self.segment_size.file_name(self.timeline, self.segment_size.number(self.start))
    }

    pub(super) fn to_text(&self) -> String {
        let tablespaces: Vec<Value> = self
            .tablespaces
            .iter()
            .map(|Tablespace { oid, location }| {
                // Bytes, since a path need not be UTF-8.
                let location = location.as_ref().map(|path| path.as_os_str().as_bytes().to_vec());
                json!({ "oid": oid, "location": location })
            })
            .collect();
        let all = json!({
            "version": VERSION,
            "name": self.name,
            "label": self.label,
            "system_id": self.system_id,
            "major": self.major,
            "timeline": self.timeline,
            "start": self.start.to_string(),
            "stop": self.stop.map(|lsn| lsn.to_string()),
            "segment_size": self.segment_size.get(),
            "began": self.began,
            "ended": self.ended,
            "files": self.files,
            "bytes": self.bytes,
            "checksums": self.checksums.name().unwrap_or("none"),
            "pages": self.pages,
            "damaged": self.damaged,
            "live": self.live,
            "has_wal": self.has_wal,
            "tablespaces": tablespaces,
        });
        format!("{all:#}\n")
    }

    /// Reads it. What is wrong otherwise.
    pub(super) fn parse(text: &[u8]) -> Result<About, String> {
        let all: Value =
            serde_json::from_slice(text).map_err(|e| format!("could not parse: {e}"))?;
        if all.get("version").and_then(Value::as_u64) != Some(VERSION) {
            return Err("it was written by another version of Forebay".to_owned());
        }
        let read = |name| Field { all: &all, name };
        let lsn = |field: Field<'_>| field.text()?.parse::<Lsn>().map_err(|_| field.bad());
        let segment_size =
            u32::try_from(read("segment_size").number()?).ok().and_then(SegmentSize::new);
        let spaces = read("tablespaces").value().and_then(Value::as_array);
        let spaces = spaces.ok_or_else(|| read("tablespaces").bad())?;
        Ok(About {
            name: read("name").text()?.to_owned(),
            label: read("label").text()?.to_owned(),
            system_id: read("system_id").number()?,
            major: read("major").small()?,
            timeline: read("timeline").small()?,
            start: lsn(read("start"))?,
            stop: read("stop").optional(lsn)?,
            segment_size: segment_size.ok_or_else(|| read("segment_size").bad())?,
            began: read("began").time()?,
            ended: read("ended").optional(|field| field.time())?,
            files: read("files").number()?,
            bytes: read("bytes").number()?,
            checksums: ChecksumKind::by_name(read("checksums").text()?)
                .ok_or_else(|| read("checksums").bad())?,
            pages: read("pages").number()?,
            damaged: read("damaged").number()?,
            live: read("live").yes()?,
            has_wal: read("has_wal").yes()?,
            tablespaces: spaces.iter().map(tablespace).collect::<Result<_, _>>()?,
        })
    }
}

fn tablespace(entry: &Value) -> Result<Tablespace, String> {
    let bad = || "invalid tablespace".to_owned();
    let oid = entry.get("oid").and_then(Value::as_str).ok_or_else(bad)?;
    if oid.is_empty() || !oid.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    let location = match entry.get("location") {
        None | Some(Value::Null) => None,
        Some(bytes) => {
            let byte =
                |value: &Value| value.as_u64().and_then(|n| u8::try_from(n).ok()).ok_or_else(bad);
            let bytes: Vec<u8> =
                bytes.as_array().ok_or_else(bad)?.iter().map(byte).collect::<Result<_, _>>()?;
            Some(PathBuf::from(OsString::from_vec(bytes)))
        }
    };
    Ok(Tablespace { oid: oid.to_owned(), location })
}

/// A value of the file.
#[derive(Clone, Copy)]
struct Field<'v> {
    all: &'v Value,
    name: &'static str,
}

impl<'v> Field<'v> {
    fn value(self) -> Option<&'v Value> {
        self.all.get(self.name)
    }

    fn bad(self) -> String {
        format!("invalid \"{}\"", self.name)
    }

    fn text(self) -> Result<&'v str, String> {
        self.value().and_then(Value::as_str).ok_or_else(|| self.bad())
    }

    fn number(self) -> Result<u64, String> {
        self.value().and_then(Value::as_u64).ok_or_else(|| self.bad())
    }

    fn small(self) -> Result<u32, String> {
        u32::try_from(self.number()?).map_err(|_| self.bad())
    }

    fn time(self) -> Result<i64, String> {
        self.value().and_then(Value::as_i64).ok_or_else(|| self.bad())
    }

    fn yes(self) -> Result<bool, String> {
        self.value().and_then(Value::as_bool).ok_or_else(|| self.bad())
    }

    /// None where it is null.
    fn optional<T>(
        self,
        read: impl Fn(Field<'v>) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        if self.value().is_none_or(Value::is_null) { Ok(None) } else { read(self).map(Some) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
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
    fn it_reads_back() {
        let about = sample();
        assert_eq!(About::parse(about.to_text().as_bytes()), Ok(about.clone()));
        assert_eq!(about.first_segment(), "000000030000000000000002");
        let begun = About { stop: None, ended: None, tablespaces: Vec::new(), ..about };
        assert_eq!(About::parse(begun.to_text().as_bytes()), Ok(begun));
    }

    #[test]
    fn damage_is_told() {
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

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = About::parse(&text);
        }
    }
}
