//! How values are written in `backup.json` and `backup_manifest`, for `#[serde(with)]`.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Values that are written as text.
pub(super) mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(value: &impl Display, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub fn deserialize<'de, T: FromStr, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(|_| D::Error::custom(format_args!("invalid value \"{text}\"")))
    }
}

/// Values that are written as text, or null.
pub(super) mod optional_text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(bound(deserialize = "T: FromStr"))]
    struct Text<T>(#[serde(with = "super::text")] T);

    pub fn serialize<S: Serializer>(
        value: &Option<impl Display>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(|value| value.to_string()).serialize(to)
    }

    pub fn deserialize<'de, T: FromStr, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        Ok(Option::<Text<T>>::deserialize(from)?.map(|Text(value)| value))
    }
}

/// Segment sizes, in bytes.
pub(super) mod segment_size {
    use forebay_format::SegmentSize;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(size: &SegmentSize, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u32(size.get())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SegmentSize, D::Error> {
        let bytes = u32::deserialize(from)?;
        let invalid = || D::Error::custom(format_args!("invalid segment size {bytes}"));
        SegmentSize::new(bytes).ok_or_else(invalid)
    }
}

/// Kinds of checksums, by their names.
pub(super) mod checksum_kind {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::digest::ChecksumKind;

    pub fn serialize<S: Serializer>(kind: &ChecksumKind, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(kind.name().unwrap_or("none"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ChecksumKind, D::Error> {
        let name = String::deserialize(from)?;
        let unknown =
            || D::Error::custom(format_args!("unrecognized checksum algorithm: \"{name}\""));
        ChecksumKind::by_name(&name).ok_or_else(unknown)
    }
}

/// For `#[serde(deserialize_with)]`: an OID, as text of decimal digits.
pub(super) fn oid<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let oid = String::deserialize(from)?;
    if oid.is_empty() || !oid.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(D::Error::custom(format_args!("invalid OID \"{oid}\"")));
    }
    Ok(oid)
}

/// Optional paths, as arrays of bytes, since a path need not be UTF-8.
pub(super) mod path_bytes {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
        path.as_ref().map(|path| path.as_os_str().as_bytes()).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
        let bytes = Option::<Vec<u8>>::deserialize(from)?;
        Ok(bytes.map(|bytes| PathBuf::from(OsString::from_vec(bytes))))
    }
}
