//! What an ErrorResponse or NoticeResponse tells the client.

use std::fmt;

/// Severity of a report, with the word PostgreSQL uses for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The session ends.
    Fatal,
    /// The statement failed.
    Error,
    /// Something the client should know of.
    Warning,
    /// Something the client may want to know.
    Notice,
    /// Something the user asked for.
    Info,
}

impl Severity {
    /// The word that goes over the wire.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Fatal => "FATAL",
            Severity::Error => "ERROR",
            Severity::Warning => "WARNING",
            Severity::Notice => "NOTICE",
            Severity::Info => "INFO",
        }
    }

    /// Whether a report of this severity is an ErrorResponse (and not a notice).
    pub fn is_error(self) -> bool {
        matches!(self, Severity::Fatal | Severity::Error)
    }
}

/// One report to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How bad it is.
    pub severity: Severity,
    /// SQLSTATE, five characters.
    pub code: String,
    /// The primary message.
    pub message: String,
    /// More about it.
    pub detail: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// Position in the query text, in characters, counted from one.
    pub position: Option<u32>,
    /// Where it happened ("COPY t, line 3").
    pub context: Option<String>,
}

impl Report {
    /// A report with only a message.
    pub fn new(severity: Severity, code: &str, message: impl Into<String>) -> Report {
        Report {
            severity,
            code: code.to_owned(),
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            context: None,
        }
    }

    /// An ERROR.
    pub fn error(code: &str, message: impl Into<String>) -> Report {
        Report::new(Severity::Error, code, message)
    }

    /// A FATAL, after which the connection closes.
    pub fn fatal(code: &str, message: impl Into<String>) -> Report {
        Report::new(Severity::Fatal, code, message)
    }

    /// The same with a detail.
    pub fn with_detail(mut self, detail: impl Into<String>) -> Report {
        self.detail = Some(detail.into());
        self
    }

    /// The same with a hint.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Report {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.severity.word(), self.message, self.code)
    }
}

impl std::error::Error for Report {}
