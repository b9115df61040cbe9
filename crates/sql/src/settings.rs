//! The server's settings as statements reach them: the server implements [`Settings`]; SHOW, SET,
//! RESET and `current_setting` use it.

use crate::error::Result;
pub use forebay_engine::SessionSettings;
use forebay_types::TextStyle;

/// How far a SET reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetScope {
    /// `SET` or `SET SESSION`: survives the transaction if it commits.
    Session,
    /// `SET LOCAL`: until the end of the transaction.
    Local,
}

/// How much of other transactions a transaction sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IsolationLevel {
    /// The same as read committed, under its own name.
    ReadUncommitted,
    /// Each statement sees what has committed before it began.
    #[default]
    ReadCommitted,
    /// All statements see what had committed before the first of them.
    RepeatableRead,
}

impl IsolationLevel {
    /// All of them.
    pub const ALL: [IsolationLevel; 3] = [
        IsolationLevel::ReadUncommitted,
        IsolationLevel::ReadCommitted,
        IsolationLevel::RepeatableRead,
    ];

    /// Its name, as SHOW prints it.
    pub fn name(self) -> &'static str {
        match self {
            IsolationLevel::ReadUncommitted => "read uncommitted",
            IsolationLevel::ReadCommitted => "read committed",
            IsolationLevel::RepeatableRead => "repeatable read",
        }
    }
}

/// What a transaction may do and see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionModes {
    /// What it sees of others.
    pub isolation: IsolationLevel,
    /// Whether it must not write.
    pub read_only: bool,
    /// DEFERRABLE, which has no effect on transactions that are not serializable.
    pub deferrable: bool,
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

/// What the planner goes by, under PostgreSQL's names.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are the settings")]
pub struct PlanSettings {
    pub seq_page_cost: f64,
    pub random_page_cost: f64,
    pub cpu_tuple_cost: f64,
    pub cpu_index_tuple_cost: f64,
    pub cpu_operator_cost: f64,
    /// In pages.
    pub effective_cache_size: f64,
    /// In kB.
    pub work_mem: f64,
    pub enable_seqscan: bool,
    pub enable_bitmapscan: bool,
    pub enable_indexscan: bool,
    pub enable_indexonlyscan: bool,
    pub enable_sort: bool,
}

impl Default for PlanSettings {
    fn default() -> PlanSettings {
        PlanSettings {
            seq_page_cost: 1.0,
            random_page_cost: 4.0,
            cpu_tuple_cost: 0.01,
            cpu_index_tuple_cost: 0.005,
            cpu_operator_cost: 0.0025,
            effective_cache_size: 524_288.0,
            work_mem: 4096.0,
            enable_seqscan: true,
            enable_bitmapscan: true,
            enable_indexscan: true,
            enable_indexonlyscan: true,
            enable_sort: true,
        }
    }
}

/// Settings of one session. Names come in any case.
pub trait Settings: Send {
    /// The value, or the error PostgreSQL gives (42704 `unrecognized configuration parameter "x"`).
    fn show(&self, name: &str) -> Result<Shown>;
    /// Sets a value; `None` is DEFAULT.
    fn set(&mut self, name: &str, value: Option<&str>, scope: SetScope) -> Result<()>;
    /// Fails if a session could not set it to this value.
    fn check(&self, name: &str, value: &str) -> Result<()>;
    /// `RESET ALL`.
    fn reset_all(&mut self) -> Result<()>;
    /// All settings in the order of `SHOW ALL` (by name, case ignored).
    fn all(&self) -> Vec<SettingRow>;
    /// A number that grows with every change: while it stays the same, `engine` need not be asked
    /// again.
    fn change_count(&self) -> u64;
    /// The modes of transactions to come: the settings `default_transaction_*`.
    fn transaction_defaults(&self) -> TransactionModes;
    /// What the engine's session is to run with; a connection hands it down before a statement.
    fn engine(&self) -> SessionSettings;
    /// What text forms depend on.
    fn text_style(&self) -> TextStyle<'static> {
        TextStyle::default()
    }

    /// What statements are planned by.
    fn planning(&self) -> PlanSettings;
    /// The same settings, for another thread of the session, which reads them.
    fn share(&self) -> Box<dyn Settings>;
    /// Asks the server to read its configuration files again; true if it was asked.
    fn reload_server(&mut self) -> bool;
    /// A subtransaction begins.
    fn begin_subtransaction(&mut self);
    /// The innermost subtransaction has ended. If it was released, what was SET in it is undone or
    /// kept with the one around it. If it was rolled back, this is undone now.
    fn end_subtransaction(&mut self, released: bool);
    /// The transaction has ended, and all subtransactions with it: keep what was SET (committed) or
    /// undo it; LOCAL values end either way.
    fn end_transaction(&mut self, committed: bool);
}
