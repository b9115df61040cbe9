//! SQL over the engine: parse, bind, plan, execute.
//!
//! - `connection/`: what the server drives: scripts, prepared statements, portals, COPY,
//!   transactions
//! - `plan/`: names looked up, types settled: a plan
//! - `exec/`: plans run
//! - `views/`: computed views: their columns
//! - `copy/`: COPY's formats
//! - `parse/`: query strings to statements
//! - `column.rs`: columns of results
//! - `pieces.rs`: messages without their long values
//! - `settings.rs`: the trait through which SHOW and SET reach the server's settings
//! - `error.rs`: SqlError: a PostgreSQL report

#![forbid(unsafe_code)]

mod analyze;
mod column;
pub mod connection;
mod copy;
pub mod error;
mod exec;
mod parse;
pub mod pieces;
mod plan;
pub mod settings;
mod views;

pub use connection::{
    ColumnDesc, CommandTag, Connection, CopyIn, Executed, Format, Identity, RowRef, RowSink,
    Script, Step, TransactionStatus,
};
pub use error::{ColumnName, Report, Severity, SqlError};
pub use exec::Compiler as IndexCompiler;
pub use forebay_types::{Datum, Encoding, SqlType};
pub use settings::{
    IsolationLevel, PlanSettings, SessionSettings, SetScope, SettingRow, Settings, Shown,
    TransactionModes,
};
