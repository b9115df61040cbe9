//! A new index, without rows.

use forebay_format::Fork;
use forebay_format::nbtree::{META_BLOCK, Meta};
use forebay_storage::{Backend, Strategy};

use super::relation::{Index, IndexShape};
use crate::error::AccessError;
use crate::heap::critical;

impl IndexShape {
    /// Whether equal keys have equal bytes, so that they may share a tuple.
    pub fn is_equal_image(&self) -> bool {
        self.keys.len() == self.layouts.len()
            && self.keys.iter().all(|key| key.order.is_equal_image())
    }
}

impl Index {
    /// Makes the meta page of an index whose file is empty.
    pub fn create(&self, backend: &mut Backend) -> Result<(), AccessError> {
        self.known.set_root(None);
        self.known.set_last_leaf(None);
        self.make_meta(backend, Fork::Main)
    }

    /// Makes the initialization fork, an empty tree to which recovery takes an unlogged index back.
    /// It is logged.
    pub fn create_init(&self, backend: &mut Backend) -> Result<(), AccessError> {
        let mut index = Index { logged: true, ..self.clone() };
        forebay_aio::planted_bug!(backend.io.aio(), InitPageNotLogged, index.logged = false);
        index.make_meta(backend, Fork::Init)
    }

    fn make_meta(&self, backend: &mut Backend, fork: Fork) -> Result<(), AccessError> {
        self.ensure_log_room(backend)?;
        let pages = self.pool.extend(backend, self.locator, fork, 1, Strategy::Normal)?;
        let page = pages.into_iter().next();
        let page = page.filter(|page| page.tag().block == META_BLOCK).ok_or_else(|| {
            AccessError::Internal(format!("index \"{}\" has pages already", self.shape.name))
        })?;
        let mut page = page.into_exclusive();
        critical(self.failure.as_ref(), "could not create an index", || {
            page.mark_dirty();
            let meta = Meta::new(META_BLOCK, 0, self.shape.is_equal_image());
            meta.init_page(&mut page.page_mut());
            self.log_image(backend, &mut page)
        })
    }
}
