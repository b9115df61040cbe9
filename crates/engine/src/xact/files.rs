//! Files that go with the end of a transaction.

use forebay_format::RelFileLocator;
use forebay_storage::{Backend, BufferPool};

use crate::EngineError;

/// Removes the files of relations that an ended transaction has dropped, or has created in vain.
/// Nobody may be using them: the transaction's locks are still held.
pub fn drop_files(
    pool: &BufferPool,
    be: &mut Backend,
    rels: &[RelFileLocator],
) -> Result<(), EngineError> {
    for &rel in rels {
        pool.drop_relation(be, rel)?;
    }
    Ok(())
}
