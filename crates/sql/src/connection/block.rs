//! Where a connection stands: in a transaction block, in an implicit transaction, in none.

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
    /// READ ONLY of the one that is running.
    pub read_only: bool,
    /// READ ONLY of transactions to come.
    pub default_read_only: bool,
}
