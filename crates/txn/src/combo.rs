//! Combined command ids.
//!
//! A tuple has one field for the command that inserted it and the command that deleted it. Only the
//! transaction itself needs them. When one transaction did both, the field holds the number of a
//! pair, which this table resolves. The table ends with the transaction.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_aio::sync::Mutex;
use forebay_format::CommandId;

/// The pairs of one transaction. Clones share the table.
#[derive(Debug, Clone, Default)]
pub struct ComboCommands {
    pairs: Arc<Mutex<Pairs>>,
}

#[derive(Debug, Default)]
struct Pairs {
    by_number: Vec<(CommandId, CommandId)>,
    /// A transaction may have a pair for each of a million commands.
    numbers: HashMap<(CommandId, CommandId), CommandId>,
}

impl ComboCommands {
    /// The number for a pair of inserting and deleting command.
    pub fn combine(&self, cmin: CommandId, cmax: CommandId) -> CommandId {
        let Pairs { by_number, numbers } = &mut *self.pairs.lock();
        *numbers.entry((cmin, cmax)).or_insert_with(|| {
            by_number.push((cmin, cmax));
            (by_number.len() - 1) as CommandId
        })
    }

    /// The inserting and the deleting command that a number stands for.
    pub fn resolve(&self, combo: CommandId) -> Option<(CommandId, CommandId)> {
        self.pairs.lock().by_number.get(combo as usize).copied()
    }
}
