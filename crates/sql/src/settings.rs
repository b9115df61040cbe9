//! The server's settings as statements reach them: the server implements [`Settings`]; SHOW, SET,
//! RESET and `current_setting` use it.

use crate::error::Result;
pub use forebay_engine::SessionSettings;

/// How far a SET reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetScope {
    /// `SET` or `SET SESSION`: survives the transaction if it commits.
    Session,
    /// `SET LOCAL`: until the end of the transaction.
    Local,
}

/// A setting's current value under its canonical spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The name as PostgreSQL spells it (`TimeZone`, whatever case was asked for).
    pub name: String,
    /// The value as SHOW prints it, with its unit.
    pub value: String,
}

/// A row of `pg_settings`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the view's columns")]
pub struct SettingRow {
    pub name: String,
    pub setting: String,
    pub unit: Option<String>,
    pub category: String,
    pub short_desc: String,
    pub context: String,
    pub vartype: String,
    pub source: String,
    pub min_val: Option<String>,
    pub max_val: Option<String>,
    pub enumvals: Option<Vec<String>>,
    pub boot_val: Option<String>,
    pub reset_val: Option<String>,
    /// The value as SHOW prints it (not a column of the view).
    pub shown: String,
}

/// Settings of one session. Names come in any case.
pub trait Settings: Send {
    /// The value, or the error PostgreSQL gives (42704 `unrecognized configuration parameter "x"`).
    fn show(&self, name: &str) -> Result<Shown>;
    /// Sets a value; `None` is DEFAULT.
    fn set(&mut self, name: &str, value: Option<&str>, scope: SetScope) -> Result<()>;
    /// `RESET ALL`.
    fn reset_all(&mut self) -> Result<()>;
    /// All settings in the order of `SHOW ALL` (by name, case ignored).
    fn all(&self) -> Vec<SettingRow>;
    /// A number that grows with every change: while it stays the same, `engine` need not be asked
    /// again.
    fn change_count(&self) -> u64;
    /// What the engine's session is to run with; a connection hands it down before a statement.
    fn engine(&self) -> SessionSettings;
    /// Asks the server to read its configuration files again; true if it was asked.
    fn reload_server(&mut self) -> bool;
    /// The transaction has ended: keep what was SET (committed) or undo it; LOCAL values end either
    /// way.
    fn end_transaction(&mut self, committed: bool);
}
