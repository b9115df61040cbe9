//! What a session carries from begin to commit.

use forebay_format::{CommandId, FullXid, RelFileLocator, Xid, ids::INVALID_COMMAND_ID};

use super::ComboCommands;
use crate::EngineError;

/// A file that goes when the transaction ends one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PendingDrop {
    pub(super) rel: RelFileLocator,
    pub(super) at_commit: bool,
}

/// A running transaction. It has an id only once it has written.
///
/// It must be given to [`commit`](super::XactManager::commit) or
/// [`abort`](super::XactManager::abort): dropped, its id would count as running for ever.
#[derive(Debug, Default)]
pub struct Transaction {
    pub(super) xid: Option<FullXid>,
    command: CommandId,
    command_used: bool,
    combos: ComboCommands,
    pub(super) drops: Vec<PendingDrop>,
}

impl Transaction {
    /// A transaction that has done nothing yet.
    pub fn new() -> Transaction {
        Transaction::default()
    }

    /// Its id, if it has written.
    pub fn xid(&self) -> Option<Xid> {
        self.xid.map(FullXid::xid)
    }

    /// Its id with the epoch, if it has written.
    pub fn full_xid(&self) -> Option<FullXid> {
        self.xid
    }

    /// The running command, for reading.
    pub fn command(&self) -> CommandId {
        self.command
    }

    /// The running command, to be written into tuples: the next statement must get another.
    pub fn use_command(&mut self) -> CommandId {
        self.command_used = true;
        self.command
    }

    /// What was written so far becomes visible to the transaction itself: a new command, if this
    /// one wrote.
    pub fn next_command(&mut self) -> Result<(), EngineError> {
        if self.command_used {
            let next = self.command.wrapping_add(1);
            if next == INVALID_COMMAND_ID {
                return Err(EngineError::statement(
                    "54000",
                    "cannot have more than 2^32-2 commands in a transaction",
                ));
            }
            self.command = next;
            self.command_used = false;
        }
        Ok(())
    }

    /// Pairs of commands.
    pub fn combos(&self) -> &ComboCommands {
        &self.combos
    }

    /// The relation's files go if the transaction commits (it was dropped).
    pub fn drop_at_commit(&mut self, rel: RelFileLocator) {
        self.drops.push(PendingDrop { rel, at_commit: true });
    }

    /// The relation's files go if the transaction aborts (it was created).
    pub fn drop_at_abort(&mut self, rel: RelFileLocator) {
        self.drops.push(PendingDrop { rel, at_commit: false });
    }

    /// What goes at an end of this kind.
    pub(super) fn drops_at(&self, commit: bool) -> Vec<RelFileLocator> {
        self.drops.iter().filter(|d| d.at_commit == commit).map(|d| d.rel).collect()
    }
}
