//! What redoes the records of one resource manager.

use forebay_format::wal::Rmgr;

use super::context::RedoContext;
use super::error::RedoError;
use super::record::RedoRecord;

/// Redoes the records of one resource manager.
pub trait ResourceManager: Send + Sync {
    /// The resource manager's number in record headers.
    fn id(&self) -> Rmgr;

    /// Whether records with these info bits can be redone. Crash recovery asks this of the whole
    /// log before it redoes any record; recovery from an archive asks record by record. Both call
    /// `redo` only for records that can be redone.
    fn knows(&self, info: u8) -> bool {
        let _ = info;
        true
    }

    /// Redoes a record. Before it removes or cuts files it calls
    /// [`RedoContext::before_files_go`].
    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError>;
}
