//! Why a value can't be read, written, compared or computed.

use std::borrow::Cow;

use crate::facts::type_name;
use crate::oid::Oid;

/// Result of anything that can fail with a [`ValueError`].
pub(crate) type Result<T, E = ValueError> = std::result::Result<T, E>;

/// The error of this crate, with PostgreSQL's SQLSTATE, message and detail. Boxed, so that results
/// stay small.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct ValueError(Box<Problem>);

/// What is wrong. Types are named as in PostgreSQL's messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    #[error("invalid input syntax for type {ty}: \"{text}\"")]
    InvalidText { ty: &'static str, text: String },
    #[error("malformed array literal: \"{text}\"")]
    MalformedArray { text: String, detail: Cow<'static, str> },
    #[error(
        "binary data has array element type {of} ({found}) instead of expected {expected} ({ty})"
    )]
    ArrayElements { of: u32, found: Cow<'static, str>, expected: u32, ty: &'static str },
    #[error("value \"{text}\" is out of range for type {ty}")]
    OutOfRange { ty: &'static str, text: String },
    #[error("\"{text}\" is out of range for type {ty}")]
    FloatOutOfRange { ty: &'static str, text: String },
    #[error("value overflows numeric format")]
    NumericOverflow,
    #[error("division by zero")]
    DivisionByZero,
    #[error("invalid hexadecimal digit: \"{digit}\"")]
    HexDigit { digit: char },
    #[error("invalid hexadecimal data: odd number of digits")]
    OddHexDigits,
    /// `bytes`: those of the bad character, as `0xe2 0x28`.
    #[error("invalid byte sequence for encoding \"{encoding}\": {bytes}")]
    InvalidBytes { encoding: &'static str, bytes: String },
    #[error("invalid length in external \"numeric\" value")]
    BinaryNumeric,
    #[error("insufficient data left in message")]
    BinaryTooShort,
    #[error("incorrect binary data format")]
    BinaryTooLong,
    #[error("no binary {what} function available for type {ty}")]
    NoBinary { what: &'static str, ty: &'static str },
    #[error("{what} of type {ty} is not supported")]
    Unsupported { what: &'static str, ty: Cow<'static, str> },
    #[error("string buffer exceeds maximum allowed length ({most} bytes)")]
    TooLong { len: usize, by: usize, most: usize },
    #[error("out of memory")]
    OutOfMemory { bytes: usize },
    /// Stored bytes that are no value of their type.
    #[error("a value has {len} bytes instead of {expected}")]
    StoredLength { len: usize, expected: usize },
    #[error("{len} stored bytes are no numeric value")]
    StoredNumeric { len: usize },
    /// Any other error of PostgreSQL's.
    #[error("{text}")]
    Message { state: &'static str, text: String, detail: Option<String>, hint: Option<String> },
    #[error("values of different types cannot be compared: {values}")]
    Incomparable { values: String },
    #[error("a value that is stored out of line was not fetched")]
    NotFetched,
}

impl From<Problem> for ValueError {
    fn from(problem: Problem) -> ValueError {
        ValueError(Box::new(problem))
    }
}

impl ValueError {
    /// An error with this SQLSTATE and message.
    pub fn new(state: &'static str, text: impl Into<String>) -> ValueError {
        Problem::Message { state, text: text.into(), detail: None, hint: None }.into()
    }

    /// What is wrong.
    pub(crate) fn problem(&self) -> &Problem {
        &self.0
    }

    /// With a DETAIL line, if the error is one of [`ValueError::new`].
    pub fn with_detail(mut self, line: impl Into<String>) -> ValueError {
        if let Problem::Message { detail, .. } = &mut *self.0 {
            *detail = Some(line.into());
        }
        self
    }

    /// With a HINT line, if the error is one of [`ValueError::new`].
    pub fn with_hint(mut self, line: impl Into<String>) -> ValueError {
        if let Problem::Message { hint, .. } = &mut *self.0 {
            *hint = Some(line.into());
        }
        self
    }

    /// The refusal (0A000) of what can't be done with a value of a type that is only carried.
    pub fn carried(what: &'static str, ty: Oid) -> ValueError {
        Problem::Unsupported { what, ty: type_name(ty) }.into()
    }

    /// The five characters of PostgreSQL's error code.
    pub fn sqlstate(&self) -> &'static str {
        match *self.0 {
            Problem::InvalidText { .. } | Problem::MalformedArray { .. } => "22P02",
            Problem::OutOfRange { .. }
            | Problem::FloatOutOfRange { .. }
            | Problem::NumericOverflow => "22003",
            Problem::DivisionByZero => "22012",
            Problem::ArrayElements { .. } => "42804",
            Problem::HexDigit { .. } | Problem::OddHexDigits => "22023",
            Problem::InvalidBytes { .. } => "22021",
            Problem::BinaryNumeric | Problem::BinaryTooLong => "22P03",
            Problem::BinaryTooShort => "08P01",
            Problem::NoBinary { .. } => "42883",
            Problem::Unsupported { .. } | Problem::NotFetched => "0A000",
            Problem::TooLong { .. } => "54000",
            Problem::OutOfMemory { .. } => "53200",
            Problem::StoredLength { .. } | Problem::StoredNumeric { .. } => "XX001",
            Problem::Incomparable { .. } => "XX000",
            Problem::Message { state, .. } => state,
        }
    }

    /// PostgreSQL's DETAIL line.
    pub fn detail(&self) -> Option<String> {
        match *self.0 {
            Problem::TooLong { len, by, .. } => Some(format!(
                "Cannot enlarge string buffer containing {len} bytes by {by} more bytes."
            )),
            Problem::MalformedArray { ref detail, .. } => Some(detail.to_string()),
            Problem::Message { ref detail, .. } => detail.clone(),
            Problem::OutOfMemory { bytes } => Some(format!("Failed on request of size {bytes}.")),
            _ => None,
        }
    }

    /// PostgreSQL's HINT line.
    pub fn hint(&self) -> Option<String> {
        match &*self.0 {
            Problem::Message { hint, .. } => hint.clone(),
            _ => None,
        }
    }

    /// Whether a binary value has more bytes than its type: PostgreSQL's message depends on where
    /// the value came from.
    pub fn is_too_long_binary(&self) -> bool {
        matches!(*self.0, Problem::BinaryTooLong)
    }
}
