//! Combined command ids.
//!
//! A tuple has one field for the command that inserted it and the one that deleted it; only the
//! transaction itself needs either. When one transaction does both, the field holds the number of a
//! pair, which this table resolves. It dies with the transaction, for then nobody asks any more.

use std::sync::Arc;

use forebay_aio::sync::Mutex;
use forebay_format::CommandId;

/// The pairs of one transaction; clones are the same table.
#[derive(Debug, Clone, Default)]
pub struct ComboCommands {
    pairs: Arc<Mutex<Vec<(CommandId, CommandId)>>>,
}

impl ComboCommands {
    /// The number of a pair of inserting and deleting command.
    pub fn combine(&self, cmin: CommandId, cmax: CommandId) -> CommandId {
        let mut pairs = self.pairs.lock();
        let index = pairs.iter().position(|pair| *pair == (cmin, cmax)).unwrap_or_else(|| {
            pairs.push((cmin, cmax));
            pairs.len() - 1
        });
        index as CommandId
    }

    /// The commands a number stands for: inserting, deleting.
    pub fn resolve(&self, combo: CommandId) -> Option<(CommandId, CommandId)> {
        self.pairs.lock().get(combo as usize).copied()
    }
}
