//! All resource managers, by number.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_txn::redo::{
    ClogRedo, CommitTsRedo, MultiXactRedo, OriginRedo, RedoContext, RedoError, RedoRecord,
    ResourceManager, StandbyRedo, XactRedo,
};

use super::brin::BrinRedo;
use super::database::{DatabaseRedo, RelationMapRedo, TablespaceRedo};
use super::generic::GenericRedo;
use super::gin::GinRedo;
use super::gist::GistRedo;
use super::hash::HashRedo;
use super::heap::{Heap2Redo, HeapRedo};
use super::logical::LogicalMessageRedo;
use super::nbtree::BtreeRedo;
use super::sequence::SequenceRedo;
use super::smgr::SmgrRedo;
use super::spgist::SpgistRedo;
use super::xlog::XlogRedo;

/// The resource managers of an engine.
pub struct Registry {
    managers: HashMap<u8, Arc<dyn ResourceManager>>,
}

impl Registry {
    /// The engine's own resource managers.
    pub fn new() -> Registry {
        let mut registry = Registry { managers: HashMap::new() };
        registry.add(Arc::new(XlogRedo));
        registry.add(Arc::new(XactRedo));
        registry.add(Arc::new(ClogRedo));
        registry.add(Arc::new(MultiXactRedo));
        registry.add(Arc::new(CommitTsRedo));
        registry.add(Arc::new(OriginRedo));
        registry.add(Arc::new(SmgrRedo));
        registry.add(Arc::new(DatabaseRedo));
        registry.add(Arc::new(RelationMapRedo));
        registry.add(Arc::new(TablespaceRedo));
        registry.add(Arc::new(StandbyRedo));
        registry.add(Arc::new(HeapRedo));
        registry.add(Arc::new(Heap2Redo));
        registry.add(Arc::new(BtreeRedo));
        registry.add(Arc::new(HashRedo));
        registry.add(Arc::new(GinRedo));
        registry.add(Arc::new(GistRedo));
        registry.add(Arc::new(SequenceRedo));
        registry.add(Arc::new(SpgistRedo));
        registry.add(Arc::new(BrinRedo));
        registry.add(Arc::new(GenericRedo));
        registry.add(Arc::new(LogicalMessageRedo));
        registry
    }

    /// Adds a manager. It replaces the one with the same number.
    pub fn add(&mut self, manager: Arc<dyn ResourceManager>) {
        self.managers.insert(manager.id().0, manager);
    }

    /// The manager that redoes a record, or an error if there is none.
    fn manager(&self, record: &RedoRecord<'_>) -> Result<&dyn ResourceManager, RedoError> {
        let header = &record.record.header;
        let manager =
            self.managers.get(&header.rmgr.0).filter(|manager| manager.knows(header.info));
        manager.map(Arc::as_ref).ok_or_else(|| record.unsupported())
    }

    /// Checks whether a record can be redone, as far as its kind and its page images tell.
    pub fn check(&self, record: &RedoRecord<'_>) -> Result<(), RedoError> {
        self.manager(record)?;
        for image in record.record.blocks.iter().filter_map(|block| block.image) {
            image.check_method().map_err(|error| record.damaged(error.to_string()))?;
        }
        Ok(())
    }

    /// Redoes a record.
    pub fn redo(
        &self,
        record: &RedoRecord<'_>,
        ctx: &mut RedoContext<'_>,
    ) -> Result<(), RedoError> {
        let header = &record.record.header;
        let manager = self.manager(record)?;
        ctx.counters.advance_past(header.xid);
        manager.redo(record, ctx)
    }
}

impl Default for Registry {
    fn default() -> Registry {
        Registry::new()
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("managers", &self.managers.len()).finish()
    }
}

/// An embedding program's resource managers, for its own records.
#[derive(Clone, Default)]
pub struct ResourceManagers(pub Vec<Arc<dyn ResourceManager>>);

impl std::fmt::Debug for ResourceManagers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|manager| manager.id())).finish()
    }
}
