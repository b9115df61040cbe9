//! Combined command ids.
//!
//! A tuple has one field for the command that inserted it and the command that deleted it. Only the
//! transaction itself needs them. When one transaction did both, the field holds the number of a
//! pair, which this table resolves. The table ends with the transaction.

use std::sync::Arc;

use forebay_aio::sync::Mutex;
use forebay_format::CommandId;

/// The pairs of one transaction. Clones share the table.
#[derive(Debug, Clone, Default)]
pub struct ComboCommands {
    pairs: Arc<Mutex<Vec<(CommandId, CommandId)>>>,
}

impl ComboCommands {
    /// The number for a pair of inserting and deleting command.
    pub fn combine(&self, cmin: CommandId, cmax: CommandId) -> CommandId {
        let mut pairs = self.pairs.lock();
        let index = pairs.iter().position(|pair| *pair == (cmin, cmax)).unwrap_or_else(|| {
            pairs.push((cmin, cmax));
            pairs.len() - 1
        });
        index as CommandId
    }

    /// The inserting and the deleting command that a number stands for.
    pub fn resolve(&self, combo: CommandId) -> Option<(CommandId, CommandId)> {
        self.pairs.lock().get(combo as usize).copied()
    }
}
