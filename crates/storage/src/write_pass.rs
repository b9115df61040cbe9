//! Passes that write all dirty pages of a scope, as a checkpoint does; and their speed.

use crate::error::StorageError;
use crate::pool::desc::DIRTY;
use crate::pool::{Backend, BufferPool};
use crate::stream::{WriteOptions, WriteReport, WriteStream};
use forebay_format::{Oid, PageTag, RelFileLocator};

/// Decides when a pass pauses. The pass asks between writes, and holds no lock while it pauses.
pub trait Pace {
    /// Whether the pass is ahead of its schedule, with `done` of `total` pages behind it.
    fn is_ahead(&mut self, done: usize, total: usize) -> bool;

    /// Pauses until the pass is no longer ahead, or until there is a reason to go on at once.
    fn rest(&mut self, done: usize, total: usize);
}

/// The pace of a pass that never pauses.
#[derive(Debug, Clone, Copy, Default)]
pub struct FullSpeed;

impl Pace for FullSpeed {
    fn is_ahead(&mut self, _done: usize, _total: usize) -> bool {
        false
    }

    fn rest(&mut self, _done: usize, _total: usize) {}
}

/// Which pages a pass writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteScope {
    /// All pages.
    All,
    /// The pages of a database.
    Database(Oid),
    /// The pages of a relation.
    Relation(RelFileLocator),
}

impl WriteScope {
    fn covers(self, tag: &PageTag) -> bool {
        match self {
            WriteScope::All => true,
            WriteScope::Database(db) => tag.rel.db == db,
            WriteScope::Relation(rel) => tag.rel == rel,
        }
    }
}

impl BufferPool {
    /// Writes all dirty pages of the scope, sorted by file and block and combined, with several
    /// writes in flight. Pages that are dirty at the call are in the files when it returns;
    /// [`Self::sync_pending`] makes them durable.
    pub fn write_dirty(
        &self,
        backend: &mut Backend,
        scope: WriteScope,
    ) -> Result<WriteReport, StorageError> {
        self.write_paced(backend, scope, WriteOptions::checkpoint(self), &mut FullSpeed)
    }

    /// As [`Self::write_dirty`], but `pace` may pause the pass between any two writes.
    pub fn write_paced(
        &self,
        backend: &mut Backend,
        scope: WriteScope,
        options: WriteOptions,
        pace: &mut dyn Pace,
    ) -> Result<WriteReport, StorageError> {
        let pages = self.dirty_pages_of(scope);
        let mut stream = WriteStream::new(self, options);
        let mut done = 0;
        while let Some(run) = next_run(&pages[done..], stream.combine()) {
            let pushed =
                run.iter().try_for_each(|&(tag, buf)| stream.push_buffer(backend, tag, buf));
            if let Err(error) = pushed {
                return stream.abandon(backend, error);
            }
            while stream.next_written().is_some() {}
            done += run.len();
            if done < pages.len() && pace.is_ahead(done, pages.len()) {
                // No page stays locked during the pause.
                stream.drain(backend)?;
                pace.rest(done, pages.len());
            }
        }
        stream.finish(backend)
    }

    /// Lists the dirty pages of the scope with their buffers, by file and block. It takes no pins,
    /// so the buffers are only hints.
    fn dirty_pages_of(&self, scope: WriteScope) -> Vec<(PageTag, u32)> {
        let mut pages: Vec<(PageTag, u32)> = Vec::new();
        let _no_moves = self.moves.read();
        for (buf, desc) in self.core.descs.iter().enumerate() {
            if desc.load() & DIRTY != 0 {
                let tag = desc.tag();
                if scope.covers(&tag) {
                    pages.push((tag, buf as u32));
                }
            }
        }
        pages.sort_unstable_by_key(|&(tag, _)| tag);
        pages
    }
}

/// Returns the neighbours at the start of the sorted pages, at most `limit`. None if there are no
/// pages.
fn next_run(pages: &[(PageTag, u32)], limit: usize) -> Option<&[(PageTag, u32)]> {
    let &(first, _) = pages.first()?;
    let continues = |&(n, &(tag, _)): &(usize, &(PageTag, u32))| {
        tag == PageTag { block: first.block.saturating_add(n as u32), ..first }
    };
    let len = pages.iter().take(limit).enumerate().take_while(continues).count();
    Some(&pages[..len.max(1)])
}
