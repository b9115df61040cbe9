//! Reading pages of relations into the pool before anybody asks for them.

use forebay_catalog::{Reader, RelationFiles};
use forebay_format::PageTag;
use forebay_txn::locks::{LockMode, LockTag};

use super::state::Session;
use crate::core::InDatabase;
use crate::error::EngineError;

/// Pages that are read before a stop is looked for.
const AT_ONCE: usize = 4096;

impl Session {
    /// The relations of the database with files.
    pub(crate) fn relations_with_files(&mut self) -> Result<Vec<RelationFiles>, EngineError> {
        self.looking(|reader| Ok(reader.relations_with_files()?))
    }

    /// Reads pages of a relation, which are sorted, in a transaction of its own. Returns their
    /// number: none if somebody else has locked the relation, or it has other files now.
    pub(crate) fn load_pages(
        &mut self,
        relation: &RelationFiles,
        pages: &[PageTag],
    ) -> Result<u64, EngineError> {
        self.begin()?;
        let done = self.start_command().and_then(|()| {
            self.call(|session, core| match session.hold_files(core, relation)? {
                true => session.read_pages(core, pages),
                false => Ok(0),
            })
        });
        match done {
            Ok(read) => {
                self.end_command();
                self.commit()?;
                Ok(read)
            }
            Err(error) => {
                self.abort()?;
                Err(error)
            }
        }
    }

    /// Locks a relation so that its files stay. False if that would have to wait, or if they have
    /// been replaced.
    fn hold_files(
        &mut self,
        core: &InDatabase,
        relation: &RelationFiles,
    ) -> Result<bool, EngineError> {
        for &oid in &relation.locks {
            let tag = LockTag::Relation { database: relation.locator.db, relation: oid };
            match self.try_lock(core, tag, LockMode::AccessShare) {
                Ok(()) => {}
                Err(error) if error.sqlstate() == "55P03" => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        Ok(reader.files_of(relation.oid)? == Some(relation.locator))
    }

    fn read_pages(&mut self, core: &InDatabase, pages: &[PageTag]) -> Result<u64, EngineError> {
        let (pool, mut read) = (&core.pool, 0);
        for pages in pages.chunk_by(|a, b| a.fork == b.fork) {
            let PageTag { rel, fork, .. } = pages[0];
            if !pool.smgr().exists(rel, fork)? {
                continue;
            }
            let end = pool.nblocks(rel, fork)?;
            for pages in pages.chunks(AT_ONCE) {
                self.check_cancel()?;
                let blocks = pages.iter().map(|page| page.block).take_while(|block| *block < end);
                let blocks: Vec<u32> = blocks.collect();
                read += forebay_storage::load_blocks(pool, &mut self.backend, (rel, fork), blocks)?;
            }
        }
        Ok(read)
    }
}
