//! What is said when ids run short, in PostgreSQL's words.

use std::fmt;

use forebay_aio::sync::Arc;
use forebay_format::Oid;
use forebay_format::ids::FIRST_NORMAL_XID;
use forebay_format::multixact::FIRST_MULTI;

/// The ids that can run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdKind {
    /// Transaction ids.
    Xid,
    /// MultiXacts.
    Multi,
}

impl IdKind {
    /// The first one that is assigned, also after a wrap.
    pub(crate) const fn first(self) -> u32 {
        match self {
            IdKind::Xid => FIRST_NORMAL_XID,
            IdKind::Multi => FIRST_MULTI,
        }
    }

    /// Its name in messages.
    pub(crate) const fn plural(self) -> &'static str {
        match self {
            IdKind::Xid => "transaction IDs",
            IdKind::Multi => "MultiXactIds",
        }
    }
}

/// A database in messages: by its name, or by its OID if it is not known or gone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DatabaseName {
    /// pg_database.oid; 0 after pg_resetwal.
    pub oid: Oid,
    /// pg_database.datname
    pub name: Option<Arc<str>>,
}

impl fmt::Display for DatabaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "database \"{name}\""),
            None => write!(f, "database with OID {}", self.oid),
        }
    }
}

/// A warning for the client, in PostgreSQL's words: ids run short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdWarning {
    /// PostgreSQL's error code.
    pub sqlstate: &'static str,
    /// The message.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl fmt::Display for IdWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The hint of all messages about ids of both kinds. `avoid` are ids whose assignment would fail.
pub(crate) fn vacuum_hint(avoid: Option<&str>) -> String {
    let what = match avoid {
        None => "Execute a database-wide VACUUM in that database.".to_owned(),
        Some(ids) => format!(
            "To avoid {ids} assignment failures, execute a database-wide VACUUM in that database."
        ),
    };
    format!(
        "{what}\nYou might also need to commit or roll back old prepared transactions, or drop \
         stale replication slots."
    )
}

/// The warning that there is room for few members of MultiXacts. A database has the oldest one.
pub(crate) fn members_warning(database: Oid, left: u32) -> IdWarning {
    let message = format!(
        "database with OID {database} must be vacuumed before {left} more multixact members are \
         used"
    );
    IdWarning { sqlstate: "54000", message, hint: members_hint("that database") }
}

/// The hint of messages about members of MultiXacts. `database` is the one to be vacuumed.
pub(crate) fn members_hint(database: &str) -> String {
    format!(
        "Execute a database-wide VACUUM in {database} with reduced \
         \"vacuum_multixact_freeze_min_age\" and \"vacuum_multixact_freeze_table_age\" settings."
    )
}
