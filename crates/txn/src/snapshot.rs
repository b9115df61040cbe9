//! What a statement sees.

use std::sync::Arc;

use forebay_aio as aio;
use forebay_format::{CommandId, Xid};

use crate::combo::ComboCommands;
use crate::error::TxnError;
use crate::procarray::Running;
use crate::subtrans::Subtrans;
use crate::subxids::Subxids;
use crate::transaction::Transaction;

/// A view of the database: all that was committed when it was taken, and the earlier commands of
/// its own transaction. While it exists, it holds back the horizon. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Snapshot {
    running: Arc<Running>,
    own: Option<Xid>,
    own_subxacts: Subxids,
    command: CommandId,
    combos: ComboCommands,
}

impl Snapshot {
    /// A snapshot for the running command of a transaction.
    ///
    /// The snapshot need not know an id that is assigned later: that id lies beyond `running`, so
    /// its rows are not seen, and they belong to this command or a later one anyway.
    pub fn new(running: Arc<Running>, tx: &Transaction) -> Snapshot {
        Snapshot {
            running,
            own: tx.xid(),
            own_subxacts: tx.own.clone(),
            command: tx.command(),
            combos: tx.combos().clone(),
        }
    }

    /// A snapshot that sees all that has committed, for use while nothing else runs (startup).
    pub fn of_everything(next: Xid) -> Snapshot {
        Snapshot::new(Arc::new(Running::none(next)), &Transaction::new())
    }

    /// Whether a transaction or subtransaction other than the own ones counts as running.
    ///
    /// # Panics
    /// If a transaction had more subtransactions than the snapshot lists, and `xid` may be one of
    /// them. Only [`Snapshot::is_running_in`] can tell then.
    #[inline]
    pub fn is_running(&self, xid: Xid) -> bool {
        self.running.contains(xid)
    }

    /// The same; None if only [`Snapshot::is_running_in`] can tell.
    #[inline]
    pub fn is_known_running(&self, xid: Xid) -> Option<bool> {
        self.running.known(xid)
    }

    /// Whether a transaction or subtransaction other than the own ones counts as running. Looks for
    /// its parent if the snapshot does not list all subtransactions.
    #[inline]
    pub fn is_running_in(
        &self,
        io: &mut aio::IoBackend,
        subtrans: &Subtrans,
        xid: Xid,
    ) -> Result<bool, TxnError> {
        self.running.contains_in(io, subtrans, xid)
    }

    /// Whether `xid` is the transaction that took the snapshot, or one of its subtransactions that
    /// has not aborted.
    #[inline]
    pub fn is_own(&self, xid: Xid) -> bool {
        self.own == Some(xid) || self.own_subxacts.contains(xid)
    }

    /// Effects of this command and later ones of the own transaction are not seen.
    pub fn command(&self) -> CommandId {
        self.command
    }

    /// The combined command ids of the own transaction.
    pub fn combos(&self) -> &ComboCommands {
        &self.combos
    }

    /// All older transactions were over.
    pub fn xmin(&self) -> Xid {
        self.running.xmin
    }

    /// This transaction and all younger ones had not ended.
    pub fn xmax(&self) -> Xid {
        self.running.xmax
    }
}
