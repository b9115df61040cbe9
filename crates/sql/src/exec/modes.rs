//! The running transaction's modes: what SET TRANSACTION and the settings `transaction_*` change,
//! and when they may.

use crate::error::{Result, SqlError, state};
use crate::settings::{IsolationLevel, TransactionModes};
use forebay_types::{Datum, SqlType, text_in};

/// A setting that stands for a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// transaction_isolation
    Isolation,
    /// transaction_read_only
    ReadOnly,
    /// transaction_deferrable
    Deferrable,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 3] = [Mode::Isolation, Mode::ReadOnly, Mode::Deferrable];

    /// The setting's name.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Isolation => "transaction_isolation",
            Mode::ReadOnly => "transaction_read_only",
            Mode::Deferrable => "transaction_deferrable",
        }
    }

    /// The mode that a setting stands for, if any.
    pub fn by_name(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.name().eq_ignore_ascii_case(name))
    }
}

/// The running transaction's modes. Without one, those of the last.
#[derive(Clone, Debug, Default)]
pub struct Modes {
    now: TransactionModes,
    /// What it began with.
    first: TransactionModes,
    /// Whether a statement of the transaction has needed a snapshot.
    queried: bool,
    /// For each open subtransaction, whether the transaction around it is read only.
    around: Vec<bool>,
}

fn too_late(message: &str) -> SqlError {
    SqlError::new(state::ACTIVE_SQL_TRANSACTION, message)
}

impl Modes {
    /// A transaction begins.
    pub fn begin(&mut self, modes: TransactionModes) {
        *self = Modes { now: modes, first: modes, ..Modes::default() };
    }

    /// The transaction has failed: a chained one begins as it began.
    pub fn fail(&mut self) {
        self.begin(self.first);
    }

    /// A subtransaction begins.
    pub fn begin_subtransaction(&mut self) {
        self.around.push(self.now.read_only);
    }

    /// The innermost subtransaction has ended: the transaction around it is as read only as before.
    pub fn end_subtransaction(&mut self) {
        if let Some(read_only) = self.around.pop() {
            self.now.read_only = read_only;
        }
    }

    /// A statement needs a snapshot: from now on, modes can hardly be changed. True the first time.
    pub fn query(&mut self) -> bool {
        !std::mem::replace(&mut self.queried, true)
    }

    /// The modes.
    pub fn now(&self) -> TransactionModes {
        self.now
    }

    /// The value of the setting, as SHOW prints it.
    pub fn show(&self, mode: Mode) -> String {
        let on = |on| if on { "on" } else { "off" };
        match mode {
            Mode::Isolation => self.now.isolation.name(),
            Mode::ReadOnly => on(self.now.read_only),
            Mode::Deferrable => on(self.now.deferrable),
        }
        .to_owned()
    }

    /// Reads a value of the setting, and sets it.
    pub fn set(&mut self, mode: Mode, value: Option<&str>) -> Result<()> {
        let name = mode.name();
        let Some(value) = value else {
            let message = format!("parameter \"{name}\" cannot be reset");
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
        };
        if mode == Mode::Isolation {
            return self.set_isolation(level(name, value)?);
        }
        let Ok(Datum::Bool(on)) = text_in(value, SqlType::Bool) else {
            let message = format!("parameter \"{name}\" requires a Boolean value");
            return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
        };
        if mode == Mode::ReadOnly { self.set_read_only(on) } else { self.set_deferrable(on) }
    }

    /// Sets the isolation level, which must come before all queries.
    pub fn set_isolation(&mut self, level: IsolationLevel) -> Result<()> {
        if level != self.now.isolation {
            if self.queried {
                let message = "SET TRANSACTION ISOLATION LEVEL must be called before any query";
                return Err(too_late(message));
            }
            if !self.around.is_empty() {
                let message =
                    "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction";
                return Err(too_late(message));
            }
        }
        self.now.isolation = level;
        Ok(())
    }

    /// Sets READ ONLY, at any time, or READ WRITE, before all queries.
    pub fn set_read_only(&mut self, read_only: bool) -> Result<()> {
        if !read_only && self.now.read_only {
            if !self.around.is_empty() {
                let message =
                    "cannot set transaction read-write mode inside a read-only transaction";
                return Err(too_late(message));
            }
            if self.queried {
                let message = "transaction read-write mode must be set before any query";
                return Err(too_late(message));
            }
        }
        self.now.read_only = read_only;
        Ok(())
    }

    /// Sets [NOT] DEFERRABLE, before all queries.
    pub fn set_deferrable(&mut self, deferrable: bool) -> Result<()> {
        let message = if !self.around.is_empty() {
            "SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction"
        } else if self.queried {
            "SET TRANSACTION [NOT] DEFERRABLE must be called before any query"
        } else {
            self.now.deferrable = deferrable;
            return Ok(());
        };
        Err(too_late(message))
    }
}

fn level(name: &str, value: &str) -> Result<IsolationLevel> {
    if value.eq_ignore_ascii_case("serializable") {
        return Err(SqlError::unsupported("isolation level SERIALIZABLE"));
    }
    let is = |level: &IsolationLevel| level.name().eq_ignore_ascii_case(value);
    IsolationLevel::ALL.into_iter().find(is).ok_or_else(|| {
        let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
        SqlError::new(state::INVALID_PARAMETER_VALUE, message).hint(
            "Available values: serializable, repeatable read, read committed, read uncommitted.",
        )
    })
}
