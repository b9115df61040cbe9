//! SQL over the engine: parse, bind, plan, execute.
//!
//! - `connection/`: what the server drives: scripts, prepared statements, portals, COPY,
//!   transactions
//! - `settings.rs`: the trait through which SHOW and SET reach the server's settings
//! - `error.rs`: SqlError: a PostgreSQL report

#![forbid(unsafe_code)]

pub mod connection;
mod copy;
pub mod error;
mod exec;
mod parse;
mod plan;
pub mod settings;

pub use connection::{
    ColumnDesc, CommandTag, Connection, CopyIn, Executed, Format, Identity, RowRef, RowSink,
    Script, Step, TransactionStatus,
};
pub use error::{ColumnName, Report, Severity, SqlError};
pub use forebay_types::{Datum, SqlType};
pub use settings::{SetScope, SettingRow, Settings, Shown};
