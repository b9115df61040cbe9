//! Records made by hand.

use forebay_format::wal::{BlockRef, heap};

use super::*;

/// A record that owns its bytes.
#[derive(Debug, Clone)]
pub(super) struct Owned {
    rmgr: Rmgr,
    pub(super) info: u8,
    xid: u32,
    pub(super) main: Vec<u8>,
    /// Number, page, whether redo initializes it, data.
    pub(super) blocks: Vec<(u8, PageTag, bool, Vec<u8>)>,
}

impl Owned {
    pub(super) fn new(rmgr: Rmgr, info: u8, xid: u32, main: impl Into<Vec<u8>>) -> Owned {
        Owned { rmgr, info, xid, main: main.into(), blocks: Vec::new() }
    }

    pub(super) fn with(mut self, id: u8, tag: PageTag, data: impl Into<Vec<u8>>) -> Owned {
        let heap = [Rmgr::HEAP, Rmgr::HEAP2].contains(&self.rmgr);
        let will_init = heap && id == 0 && self.info & heap::INIT_PAGE != 0;
        self.blocks.push((id, tag, will_init, data.into()));
        self
    }

    /// With a page that redo initializes.
    pub(super) fn with_new(mut self, id: u8, tag: PageTag, data: impl Into<Vec<u8>>) -> Owned {
        self.blocks.push((id, tag, true, data.into()));
        self
    }

    pub(super) fn view(&self) -> DecodedRecord<'_> {
        let mut view = record(self.rmgr, self.info, self.xid, &self.main);
        view.blocks.extend(self.blocks.iter().map(|&(id, tag, will_init, ref data)| BlockRef {
            id,
            tag,
            will_init,
            image: None,
            data,
        }));
        view
    }
}

pub(super) fn main_page(block: u32) -> PageTag {
    PageTag::new(TABLE, Fork::Main, block)
}

/// Redoes the records from the beginning; then again from each of them on.
pub(super) fn redo_and_again(records: &[Owned]) -> Feeder {
    let views: Vec<_> = records.iter().map(Owned::view).collect();
    let mut feeder = Feeder::new();
    feeder.redo(&views).0.unwrap();
    let pages = feeder.recovered.pages(TABLE);
    for first in 0..views.len() {
        feeder.redo_from(first as u64, &views[first..]).0.unwrap();
        assert_same(&pages, &feeder.recovered.pages(TABLE));
    }
    feeder
}
