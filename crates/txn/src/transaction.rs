//! What a session carries from begin to commit.

use forebay_format::{CommandId, FullXid, RelFileLocator, Xid, ids::INVALID_COMMAND_ID};

use crate::combo::ComboCommands;
use crate::error::TxnError;

/// A file that is removed if the transaction ends in this way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PendingDrop {
    pub(crate) rel: RelFileLocator,
    pub(crate) at_commit: bool,
}

/// A running transaction. It has an id only once it has written.
///
/// It must be given to [`commit`](crate::XactManager::commit) or
/// [`abort`](crate::XactManager::abort). Dropped, its id would count as running forever.
#[derive(Debug, Default)]
pub struct Transaction {
    pub(crate) xid: Option<FullXid>,
    command: CommandId,
    command_used: bool,
    combos: ComboCommands,
    pub(crate) drops: Vec<PendingDrop>,
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

    /// The running command, to be written into tuples. The next statement gets another one.
    pub fn use_command(&mut self) -> CommandId {
        self.command_used = true;
        self.command
    }

    /// Makes visible to the transaction what it has written so far: begins a new command, if this
    /// one wrote.
    pub fn next_command(&mut self) -> Result<(), TxnError> {
        if self.command_used {
            let next = self.command.wrapping_add(1);
            if next == INVALID_COMMAND_ID {
                return Err(TxnError::OutOfCommands);
            }
            self.command = next;
            self.command_used = false;
        }
        Ok(())
    }

    /// Its combined command ids.
    pub fn combos(&self) -> &ComboCommands {
        &self.combos
    }

    /// The relation was dropped: its files are removed if the transaction commits.
    pub fn drop_at_commit(&mut self, rel: RelFileLocator) {
        self.drops.push(PendingDrop { rel, at_commit: true });
    }

    /// The relation was created: its files are removed if the transaction aborts.
    pub fn drop_at_abort(&mut self, rel: RelFileLocator) {
        self.drops.push(PendingDrop { rel, at_commit: false });
    }

    /// The files to be removed at a commit, or at an abort.
    pub(crate) fn drops_at(&self, commit: bool) -> Vec<RelFileLocator> {
        self.drops.iter().filter(|d| d.at_commit == commit).map(|d| d.rel).collect()
    }
}
