//! Writing out.
//!
//! | module | what it holds |
//! |---|---|
//! | `run` | runs of neighbours: locked, checksummed, written as one I/O |
//! | `behind` | victims and rings: writes that nobody waits for, if that can be |
//!
//! Passes over many pages go through [`crate::WriteStream`].

mod behind;
mod run;

pub(crate) use behind::Started;
pub(crate) use run::Run;

use super::BufferPool;
use super::desc::DIRTY;
use crate::error::StorageError;
use crate::write_stream::{WriteOptions, WriteStream};
use crate::{Backend, Pace};
use forebay_format::{Oid, PageTag, RelFileLocator};

/// Which pages a pass writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteScope {
    /// All.
    All,
    /// Those of a database.
    Database(Oid),
    /// Those of a relation.
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

/// What a pass wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteReport {
    /// Pages written.
    pub buffers: u64,
    /// Writes they took.
    pub writes: u64,
}

impl BufferPool {
    /// Writes all dirty pages of the scope, sorted by file and block, combined, several writes in
    /// flight. What is dirty when the call begins is in the files when it returns;
    /// [`Self::sync_pending`] makes it durable.
    pub fn write_dirty(
        &self,
        be: &mut Backend,
        scope: WriteScope,
    ) -> Result<WriteReport, StorageError> {
        self.write_paced(be, scope, WriteOptions::checkpoint(self), &mut crate::pace::FullSpeed)
    }

    /// As [`Self::write_dirty`], at the pace of the caller's choice: it may rest between any two
    /// writes.
    pub fn write_paced(
        &self,
        be: &mut Backend,
        scope: WriteScope,
        options: WriteOptions,
        pace: &mut dyn Pace,
    ) -> Result<WriteReport, StorageError> {
        let pages = self.dirty_pages_of(scope);
        let mut stream = WriteStream::new(self, options);
        let mut done = 0;
        while let Some(run) = next_run(&pages[done..], stream.combine()) {
            let pushed = run.iter().try_for_each(|&(tag, buf)| stream.push_buffer(be, tag, buf));
            if let Err(error) = pushed {
                return stream.abandon(be, error);
            }
            while stream.next_written().is_some() {}
            done += run.len();
            if done < pages.len() && pace.is_ahead(done, pages.len()) {
                // Nobody shall wait for a page that we hold while we rest.
                stream.drain(be)?;
                pace.rest(done, pages.len());
            }
        }
        stream.finish(be)
    }

    /// Dirty pages by file and block, with their buffers; taken down without pins, so each may have
    /// changed.
    fn dirty_pages_of(&self, scope: WriteScope) -> Vec<(PageTag, u32)> {
        let mut pages: Vec<(PageTag, u32)> = Vec::new();
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

/// The neighbours that sorted pages begin with, at most `limit` of them; none where there are no
/// pages.
fn next_run(pages: &[(PageTag, u32)], limit: usize) -> Option<&[(PageTag, u32)]> {
    let &(first, _) = pages.first()?;
    let continues = |&(n, &(tag, _)): &(usize, &(PageTag, u32))| {
        tag == PageTag { block: first.block.saturating_add(n as u32), ..first }
    };
    let len = pages.iter().take(limit).enumerate().take_while(continues).count();
    Some(&pages[..len.max(1)])
}
