//! Reads the pages that were in the pool before.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_aio::BackendType;
use forebay_catalog::RelationFiles;
use forebay_format::{PageTag, RelFileLocator};
use forebay_storage::Backend;
use forebay_types::Oid;

use super::block_list::{self, BadList, BlockList};
use crate::core::Core;
use crate::error::EngineError;
use crate::pool_size;
use crate::session::Session;

/// The database number of what all databases share.
const SHARED: Oid = 0;

/// A load in progress.
struct Load<'c> {
    core: &'c Arc<Core>,
    /// Buffers that were free when it began, less those that it has filled.
    room: usize,
    /// Pages that it has read.
    read: u64,
}

/// Reads the pages of the list. Ends early if the thread is to end.
pub(super) fn load(core: &Arc<Core>) {
    let list = match read_list(core) {
        Ok(Some(list)) => list,
        Ok(None) => return,
        Err(error) => {
            tracing::warn!("{error}");
            return;
        }
    };
    pool_size::make_room(core, list.pages.len());
    let room = core.pool.summary().unused as usize;
    let mut load = Load { core, room, read: 0 };
    let by_database: Vec<&[PageTag]> = list.pages.chunk_by(|a, b| a.rel.db == b.rel.db).collect();
    let (shared, own): (Vec<_>, Vec<_>) =
        by_database.into_iter().partition(|pages| pages[0].rel.db == SHARED);
    let mut shared = shared.first().copied().unwrap_or_default();
    let mut databases: Vec<(Oid, &[PageTag])> =
        own.into_iter().map(|pages| (pages[0].rel.db, pages)).collect();
    if databases.is_empty() && !shared.is_empty() {
        databases.extend(any_database(core).map(|database| (database, &[][..])));
    }
    for (database, pages) in databases {
        if core.warm.is_stopped() {
            return;
        }
        match load.database(database, [pages, shared]) {
            Ok(()) => shared = &[],
            // It was dropped.
            Err(error) if error.sqlstate() == "3D000" => {}
            Err(error) => tracing::warn!("pages of database {database} are not read: {error}"),
        }
    }
    if !core.warm.is_stopped() {
        let (read, listed) = (load.read, list.listed);
        tracing::info!(
            "autoprewarm successfully prewarmed {read} of {listed} previously-loaded blocks"
        );
    }
}

fn read_list(core: &Core) -> Result<Option<BlockList>, BadList> {
    let io = core.aio.backend(BackendType::BackgroundWorker)?;
    let most = core.pool.max_buffers();
    block_list::read(&mut Backend::new(io).io, &core.dir, most)
}

/// A database in which shared catalogs can be found.
fn any_database(core: &Arc<Core>) -> Option<Oid> {
    let mut session = Session::of_no_database(core).ok()?;
    session.databases().ok()?.first().map(|database| database.oid)
}

impl Load<'_> {
    /// Reads pages by the catalogs of a database.
    fn database(&mut self, database: Oid, lists: [&[PageTag]; 2]) -> Result<(), EngineError> {
        let settings = self.core.config.session.clone();
        let mut session = Session::of_autovacuum(self.core, database, settings)?;
        let files: HashMap<RelFileLocator, RelationFiles> = session
            .relations_with_files()?
            .into_iter()
            .map(|relation| (relation.locator, relation))
            .collect();
        for pages in lists.into_iter().flat_map(|pages| pages.chunk_by(|a, b| a.rel == b.rel)) {
            let pages = &pages[..pages.len().min(self.room)];
            let relation = pages.first().and_then(|page| files.get(&page.rel));
            let Some(relation) = relation else { continue };
            if self.core.warm.is_stopped() {
                return Ok(());
            }
            match session.load_pages(relation, pages) {
                Ok(read) => {
                    self.read += read;
                    self.room -= pages.len().min(read as usize);
                }
                Err(error) => {
                    self.core.check_running()?;
                    let oid = relation.oid;
                    tracing::warn!("pages of relation {oid} are not read again: {error}");
                }
            }
        }
        Ok(())
    }
}
