//! What a statement sees.

use std::sync::Arc;

use forebay_format::{CommandId, Xid};

use crate::combo::ComboCommands;
use crate::procarray::Running;

/// A view of the database: all that was committed when it was taken, and the earlier commands of
/// its own transaction. While it exists, it holds back the horizon. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Snapshot {
    running: Arc<Running>,
    own: Option<Xid>,
    command: CommandId,
    combos: ComboCommands,
}

impl Snapshot {
    /// A snapshot for command `command` of the transaction with id `own`, if it has one yet.
    ///
    /// The snapshot need not know an id that is assigned later: that id lies beyond `running`, so
    /// its rows are not seen, and they belong to this command or a later one anyway.
    pub fn new(
        running: Arc<Running>,
        own: Option<Xid>,
        command: CommandId,
        combos: ComboCommands,
    ) -> Snapshot {
        Snapshot { running, own, command, combos }
    }

    /// A snapshot that sees all that has committed, for use while nothing else runs (startup).
    pub fn of_everything(next: Xid) -> Snapshot {
        Snapshot::new(Arc::new(Running::none(next)), None, 0, ComboCommands::default())
    }

    /// Whether a transaction other than the own one counts as running.
    #[inline]
    pub fn is_running(&self, xid: Xid) -> bool {
        self.running.contains(xid)
    }

    /// Whether `xid` is the transaction that took the snapshot.
    #[inline]
    pub fn is_own(&self, xid: Xid) -> bool {
        self.own == Some(xid)
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
