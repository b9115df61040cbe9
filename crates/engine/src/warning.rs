//! Warnings for the client of a session.

use forebay_storage::ReadWarning;
use forebay_txn::IdWarning;

/// A warning, in PostgreSQL's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// PostgreSQL's error code.
    pub sqlstate: &'static str,
    /// The message.
    pub message: String,
    /// DETAIL
    pub detail: Option<String>,
    /// HINT
    pub hint: Option<String>,
}

impl Warning {
    /// A warning of no particular class (01000).
    pub(crate) fn new(message: impl Into<String>) -> Warning {
        Warning { sqlstate: "01000", message: message.into(), detail: None, hint: None }
    }
}

impl From<IdWarning> for Warning {
    fn from(warning: IdWarning) -> Warning {
        let IdWarning { sqlstate, message, hint } = warning;
        Warning { sqlstate, message, detail: None, hint: Some(hint) }
    }
}

/// A read that accepted damaged pages (XX001).
impl From<ReadWarning> for Warning {
    fn from(warning: ReadWarning) -> Warning {
        Warning {
            sqlstate: "XX001",
            message: warning.to_string(),
            detail: warning.detail(),
            hint: warning.hint(),
        }
    }
}
