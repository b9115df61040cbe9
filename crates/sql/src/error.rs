//! The error of this crate: a PostgreSQL report with its SQLSTATE, ready for the wire.

use std::fmt;

use forebay_engine::nodes::NodeError;
use forebay_engine::{EngineError, InterruptKind, ObjectName};
use forebay_types::ValueError;

/// Severity of a report, as the protocol's `S` and `V` fields spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The statement failed.
    Error,
    /// The session must end.
    Fatal,
    /// The server must stop.
    Panic,
    /// The statement went on; the user should know.
    Warning,
    /// Information the user may want.
    Notice,
    /// Information the user has asked for.
    Info,
}

impl Severity {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
            Severity::Panic => "PANIC",
            Severity::Warning => "WARNING",
            Severity::Notice => "NOTICE",
            Severity::Info => "INFO",
        }
    }
}

/// The fields of an ErrorResponse or a NoticeResponse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How bad it is.
    pub severity: Severity,
    /// Five characters, as PostgreSQL's errcodes list them.
    pub sqlstate: &'static str,
    /// The primary message.
    pub message: String,
    /// Field D.
    pub detail: Option<String>,
    /// Field H.
    pub hint: Option<String>,
    /// Field P: 1-based, in characters of the query string.
    pub position: Option<u32>,
    /// Field W.
    pub context: Option<String>,
    /// Fields s, t and c.
    pub column: Option<ColumnName>,
    /// Fields s, t and n.
    pub object: Option<ObjectName>,
}

/// The column that an error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnName {
    /// Its table's schema.
    pub schema: String,
    /// Its table.
    pub table: String,
    /// Its name.
    pub column: String,
}

/// An error, or (with a lesser severity) a notice. Boxed: results that carry it stay small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError(Box<Report>);

/// Result of anything that can fail with a report.
pub type Result<T, E = SqlError> = std::result::Result<T, E>;

impl SqlError {
    /// A report of any severity.
    pub fn report(
        severity: Severity,
        sqlstate: &'static str,
        message: impl Into<String>,
    ) -> SqlError {
        SqlError(Box::new(Report {
            severity,
            sqlstate,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            context: None,
            column: None,
            object: None,
        }))
    }

    /// An error with the given SQLSTATE.
    pub fn new(sqlstate: &'static str, message: impl Into<String>) -> SqlError {
        SqlError::report(Severity::Error, sqlstate, message)
    }

    /// A warning.
    pub fn warning(sqlstate: &'static str, message: impl Into<String>) -> SqlError {
        SqlError::report(Severity::Warning, sqlstate, message)
    }

    /// A notice.
    pub fn notice(sqlstate: &'static str, message: impl Into<String>) -> SqlError {
        SqlError::report(Severity::Notice, sqlstate, message)
    }

    /// SQLSTATE 0A000: known to PostgreSQL, not to this server.
    pub fn unsupported(what: impl fmt::Display) -> SqlError {
        SqlError::new(state::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// Sets the detail line.
    pub fn detail(mut self, detail: impl Into<String>) -> SqlError {
        self.0.detail = Some(detail.into());
        self
    }

    /// Sets the hint line.
    pub fn hint(mut self, hint: impl Into<String>) -> SqlError {
        self.0.hint = Some(hint.into());
        self
    }

    /// Sets detail and hint, where there are.
    pub fn explained(
        mut self,
        detail: Option<impl Into<String>>,
        hint: Option<impl Into<String>>,
    ) -> SqlError {
        (self.0.detail, self.0.hint) = (detail.map(Into::into), hint.map(Into::into));
        self
    }

    /// The same report with another severity.
    pub fn severity(mut self, severity: Severity) -> SqlError {
        self.0.severity = severity;
        self
    }

    /// Sets the position unless there is one already: the innermost caller knows it best. 0 sets
    /// nothing.
    pub fn at(mut self, position: u32) -> SqlError {
        if self.0.position.is_none() && position > 0 {
            self.0.position = Some(position);
        }
        self
    }

    /// Takes the position away.
    pub(crate) fn unplaced(mut self) -> SqlError {
        self.0.position = None;
        self
    }

    /// Where in the query string it is.
    pub(crate) fn position(&self) -> Option<u32> {
        self.0.position
    }

    /// Replaces the position, if the error has one.
    pub(crate) fn set_position(&mut self, position: u32) {
        if self.0.position.is_some() && position > 0 {
            self.0.position = Some(position);
        }
    }

    /// Adds a context line below those already there.
    pub fn context(mut self, line: impl Into<String>) -> SqlError {
        let line = line.into();
        self.0.context = Some(match self.0.context.take() {
            Some(inner) => format!("{inner}\n{line}"),
            None => line,
        });
        self
    }

    /// Sets the constraint that it is about.
    pub fn about(mut self, object: ObjectName) -> SqlError {
        self.0.object = Some(object);
        self
    }

    /// Sets the column that it is about.
    pub fn column(mut self, column: ColumnName) -> SqlError {
        self.0.column = Some(column);
        self
    }
}

impl std::ops::Deref for SqlError {
    type Target = Report;
    fn deref(&self) -> &Report {
        &self.0
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (SQLSTATE {})", self.severity.as_str(), self.message, self.sqlstate)
    }
}

impl std::error::Error for SqlError {}

impl From<ValueError> for SqlError {
    fn from(e: ValueError) -> SqlError {
        SqlError::new(e.sqlstate(), e.to_string()).explained(e.detail(), None::<String>)
    }
}

impl From<NodeError> for SqlError {
    fn from(e: NodeError) -> SqlError {
        SqlError::new(e.sqlstate(), e.to_string())
    }
}

impl From<EngineError> for SqlError {
    fn from(e: EngineError) -> SqlError {
        let sqlstate = e.sqlstate();
        let severity =
            if matches!(sqlstate, "57P01" | "57P02") { Severity::Fatal } else { Severity::Error };
        let mut report =
            SqlError::report(severity, sqlstate, e.to_string()).explained(e.detail(), e.hint());
        report.0.object = e.object().cloned();
        e.context().into_iter().fold(report, SqlError::context)
    }
}

impl From<InterruptKind> for SqlError {
    fn from(kind: InterruptKind) -> SqlError {
        let severity = match kind {
            InterruptKind::Cancel => Severity::Error,
            InterruptKind::Terminate => Severity::Fatal,
        };
        SqlError::report(severity, kind.sqlstate(), kind.message())
    }
}

/// SQLSTATEs used by this crate, by PostgreSQL's condition names.
#[allow(missing_docs, reason = "the names are PostgreSQL's condition names")]
pub mod state {
    pub const SUCCESSFUL_COMPLETION: &str = "00000";
    pub const WARNING: &str = "01000";
    pub const FEATURE_NOT_SUPPORTED: &str = "0A000";
    pub const PROTOCOL_VIOLATION: &str = "08P01";
    pub const NUMERIC_VALUE_OUT_OF_RANGE: &str = "22003";
    pub const DIVISION_BY_ZERO: &str = "22012";
    pub const CHARACTER_NOT_IN_REPERTOIRE: &str = "22021";
    pub const INVALID_PARAMETER_VALUE: &str = "22023";
    pub const INVALID_ESCAPE_SEQUENCE: &str = "22025";
    pub const INVALID_BINARY_REPRESENTATION: &str = "22P03";
    pub const BAD_COPY_FILE_FORMAT: &str = "22P04";
    pub const NOT_NULL_VIOLATION: &str = "23502";
    pub const ACTIVE_SQL_TRANSACTION: &str = "25001";
    pub const IN_FAILED_SQL_TRANSACTION: &str = "25P02";
    pub const NO_ACTIVE_SQL_TRANSACTION: &str = "25P01";
    pub const READ_ONLY_SQL_TRANSACTION: &str = "25006";
    pub const INVALID_CURSOR_STATE: &str = "24000";
    pub const INVALID_SQL_STATEMENT_NAME: &str = "26000";
    pub const INVALID_CURSOR_NAME: &str = "34000";
    pub const INVALID_SAVEPOINT: &str = "3B001";
    pub const INVALID_SCHEMA_NAME: &str = "3F000";
    pub const INSUFFICIENT_PRIVILEGE: &str = "42501";
    pub const SYNTAX_ERROR: &str = "42601";
    pub const AMBIGUOUS_COLUMN: &str = "42702";
    pub const UNDEFINED_COLUMN: &str = "42703";
    pub const UNDEFINED_OBJECT: &str = "42704";
    pub const DUPLICATE_COLUMN: &str = "42701";
    pub const DUPLICATE_CURSOR: &str = "42P03";
    pub const DUPLICATE_PREPARED_STATEMENT: &str = "42P05";
    pub const AMBIGUOUS_FUNCTION: &str = "42725";
    pub const GROUPING_ERROR: &str = "42803";
    pub const DATATYPE_MISMATCH: &str = "42804";
    pub const WRONG_OBJECT_TYPE: &str = "42809";
    pub const CANNOT_COERCE: &str = "42846";
    pub const UNDEFINED_FUNCTION: &str = "42883";
    pub const UNDEFINED_TABLE: &str = "42P01";
    pub const UNDEFINED_PARAMETER: &str = "42P02";
    pub const DUPLICATE_TABLE: &str = "42P07";
    pub const INVALID_COLUMN_REFERENCE: &str = "42P10";
    pub const INVALID_CURSOR_DEFINITION: &str = "42P11";
    pub const INVALID_TABLE_DEFINITION: &str = "42P16";
    pub const INDETERMINATE_DATATYPE: &str = "42P18";
    pub const OUT_OF_MEMORY: &str = "53200";
    pub const PROGRAM_LIMIT_EXCEEDED: &str = "54000";
    pub const STATEMENT_TOO_COMPLEX: &str = "54001";
    pub const TOO_MANY_COLUMNS: &str = "54011";
    pub const TOO_MANY_ARGUMENTS: &str = "54023";
    pub const OBJECT_NOT_IN_PREREQUISITE_STATE: &str = "55000";
    pub const OBJECT_IN_USE: &str = "55006";
    pub const LOCK_NOT_AVAILABLE: &str = "55P03";
    pub const QUERY_CANCELED: &str = "57014";
    pub const INTERNAL_ERROR: &str = "XX000";
    pub const DATA_CORRUPTED: &str = "XX001";
}
