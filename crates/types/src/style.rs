//! The settings that text forms depend on.

use crate::datetime::zone::Zone;
use crate::encoding::Encoding;
use crate::oid::Oid;
use crate::sqltype::SqlType;

/// How dates are written: the first word of `DateStyle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are the setting's words")]
pub enum DateFormat {
    #[default]
    Iso,
    Postgres,
    Sql,
    German,
    /// As XML and JSON have it: ISO with a T, and zones with minutes. No word of the setting.
    Xsd,
}

/// The order of day, month and year, where it is not plain: the second word of `DateStyle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are the setting's words")]
pub enum DateOrder {
    #[default]
    Mdy,
    Dmy,
    Ymd,
}

/// How intervals are written: `IntervalStyle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are the setting's words")]
pub enum IntervalStyle {
    #[default]
    Postgres,
    PostgresVerbose,
    SqlStandard,
    Iso8601,
}

/// How bytea is written: `bytea_output`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are the setting's words")]
pub enum ByteaOutput {
    #[default]
    Hex,
    Escape,
}

/// The names of the objects that OIDs of types like regclass stand for.
pub trait ObjectNames: std::fmt::Debug + Send + Sync {
    /// The text of an OID of one of these types; None if it is to be shown as a number.
    fn name(&self, ty: SqlType, oid: Oid) -> Option<String>;
}

/// A session's settings for text forms, and the time of its transaction.
#[derive(Clone, Debug)]
pub struct TextStyle<'n> {
    /// The first word of `DateStyle`.
    pub date_format: DateFormat,
    /// The second word of `DateStyle`.
    pub date_order: DateOrder,
    /// `IntervalStyle`
    pub interval: IntervalStyle,
    /// `TimeZone`
    pub zone: Zone,
    /// `extra_float_digits`: above 0 as few digits as are read back the same, else so many more
    /// than the type always keeps.
    pub extra_float_digits: i32,
    /// `bytea_output`
    pub bytea: ByteaOutput,
    /// When the transaction began, in microseconds since 2000: what `now` and `today` mean.
    pub now: i64,
    /// The encoding of the database.
    pub encoding: Encoding,
    /// `client_encoding`
    pub client: Encoding,
    /// Names for regclass and its like. Without them such values are refused.
    pub names: Option<&'n dyn ObjectNames>,
}

impl Default for TextStyle<'_> {
    fn default() -> Self {
        TextStyle {
            date_format: DateFormat::default(),
            date_order: DateOrder::default(),
            interval: IntervalStyle::default(),
            zone: Zone::utc(),
            extra_float_digits: 1,
            bytea: ByteaOutput::default(),
            now: 0,
            encoding: Encoding::default(),
            client: Encoding::default(),
            names: None,
        }
    }
}
