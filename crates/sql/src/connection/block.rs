//! Where a connection stands: in a transaction block, in an implicit transaction, in none.

use crate::settings::TransactionModes;

/// Transaction status of ReadyForQuery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TransactionStatus {
    /// `I`: no transaction block.
    #[default]
    Idle,
    /// `T`: in a transaction block.
    InBlock,
    /// `E`: in a failed transaction block.
    Failed,
}

impl TransactionStatus {
    /// The byte of ReadyForQuery.
    pub fn as_byte(self) -> u8 {
        match self {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InBlock => b'T',
            TransactionStatus::Failed => b'E',
        }
    }
}

/// Where a connection stands.
#[derive(Debug, Default)]
pub struct Transaction {
    /// The block.
    pub block: TransactionStatus,
    /// The engine's transaction is running (in a block, or implicit).
    pub running: bool,
    /// The implicit transaction has several statements: some that need a block can do with it.
    pub implicit_block: bool,
    /// Names of the open savepoints, outermost first: each is a subtransaction of the engine's. In
    /// a failed block the innermost has aborted there.
    pub savepoints: Vec<Box<str>>,
    /// The settings' change count when `defaults` were read.
    pub defaults_at: Option<u64>,
    /// Modes of transactions to come.
    pub defaults: TransactionModes,
}
