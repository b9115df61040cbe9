//! Random histories of changes, locks, pruning and bits in the visibility map, replayed from the
//! log: the pages after recovery equal those in memory, but for commands and hints, which the log
//! does not have.

use std::collections::BTreeSet;

use forebay_format::page::{PD_HAS_FREE_LINES, PD_PAGE_FULL};
use forebay_format::tuple::LockStrength;
use forebay_format::visibility_map::{self as map, ALL_VISIBLE, VALID_BITS};
use forebay_format::{BlockNumber, Page, PageBytes, PageMut};
use forebay_txn::HorizonKind;
use forebay_wal::CheckpointKind;
use proptest::prelude::{Just, ProptestConfig, any, prop, prop_oneof, proptest};
use proptest::strategy::Strategy as Strategy2;

use super::*;

const LAYOUTS: [AttrLayout; 2] = [AttrLayout::VARLENA, AttrLayout::INT4];
const COLUMNS: Columns<'static> = Columns { layouts: &LAYOUTS, keys: &[1], indexed: &[1] };

fn row_of(len: usize, key: i32) -> Vec<u8> {
    let value = vec![len as u8; len];
    form_tuple(&LAYOUTS, &[Some(&value), Some(&key.to_le_bytes())]).unwrap()
}

/// A page without what redo does not know. That it is full is noted without a record; what is left
/// to prune is not part of a prune's record.
fn masked(page: &PageBytes, pruned: bool) -> PageBytes {
    let mut copy = *page;
    let mut view = PageMut(&mut copy);
    if view.page().is_new() {
        return copy;
    }
    view.set_flag(PD_PAGE_FULL | PD_HAS_FREE_LINES, false);
    if pruned {
        view.set_prune_xid(0);
    }
    let (lower, upper) = (view.page().lower(), view.page().upper());
    for number in 1..=view.page().item_count() {
        if let Some(item) = view.item_mut(number) {
            HeapTupleMut::new(item).unwrap().set_cmax(0, false);
            // Padding is what was there before.
            let id = view.page().item_id(number).unwrap();
            let end = usize::from(id.offset + id.len);
            view.0[end..end.next_multiple_of(8)].fill(0);
        }
    }
    view.0[lower..upper].fill(0);
    copy
}

/// The pages without unused ones at the end, which are not in the log.
fn used(pages: &[PageBytes]) -> &[PageBytes] {
    let last = pages.iter().rposition(|page| !Page::new(page).is_new());
    &pages[..last.map_or(0, |last| last + 1)]
}

fn masked_all(pages: &[PageBytes], pruned: &BTreeSet<BlockNumber>) -> Vec<PageBytes> {
    let numbered = (0..).zip(used(pages));
    numbered.map(|(block, page)| masked(page, pruned.contains(&block))).collect()
}

fn compare(what: &str, before: &[PageBytes], after: &[PageBytes]) {
    assert_eq!(before.len(), after.len(), "number of pages");
    for (number, (before, after)) in before.iter().zip(after).enumerate() {
        let difference = before.iter().zip(after.iter()).position(|(a, b)| a != b);
        assert_eq!(difference, None, "{what} {number} differs at this byte");
    }
}

/// What a transaction does to one of the versions.
#[derive(Debug, Clone, Copy)]
enum Action {
    Insert {
        len: usize,
    },
    Update {
        len: usize,
        key: i32,
    },
    Delete,
    Lock {
        strength: LockStrength,
    },
    /// Begins a subtransaction, or ends the innermost one.
    Sub {
        begin: bool,
        commit: bool,
    },
    Command,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// One of several transactions that run at the same time changes the nth version.
    Act {
        who: usize,
        nth: usize,
        action: Action,
    },
    End {
        who: usize,
        commit: bool,
    },
    Prune,
    /// The nth page becomes all-visible, perhaps all-frozen.
    MarkVisible {
        nth: usize,
        frozen: bool,
    },
    Checkpoint,
    Write,
}

fn steps() -> impl Strategy2<Value = Vec<Step>> {
    let strengths = [
        LockStrength::KeyShare,
        LockStrength::Share,
        LockStrength::NoKeyExclusive,
        LockStrength::Exclusive,
    ];
    let action = prop_oneof![
        2 => (0usize..1500).prop_map(|len| Action::Insert { len }),
        6 => (0usize..1500, 0..4).prop_map(|(len, key)| Action::Update { len, key: key / 3 }),
        1 => Just(Action::Delete),
        4 => prop::sample::select(strengths.to_vec())
            .prop_map(|strength| Action::Lock { strength }),
        1 => any::<(bool, bool)>().prop_map(|(begin, commit)| Action::Sub { begin, commit }),
        2 => Just(Action::Command),
    ];
    let act = (0usize..4, any::<usize>(), action);
    let step = prop_oneof![
        20 => act.prop_map(|(who, nth, action)| Step::Act { who, nth, action }),
        5 => (0usize..4, any::<bool>()).prop_map(|(who, commit)| Step::End { who, commit }),
        3 => Just(Step::Prune),
        4 => any::<(usize, bool)>()
            .prop_map(|(nth, frozen)| Step::MarkVisible { nth, frozen }),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Write),
    ];
    prop::collection::vec(step, 1..120)
}

struct History {
    fixture: Fixture,
    heap: Heap,
    backend: Backend,
    running: Vec<Transaction>,
    versions: Vec<ItemPointer>,
    /// Blocks whose hint of what can be pruned was changed by pruning.
    pruned: BTreeSet<BlockNumber>,
}

impl History {
    fn new() -> History {
        let fixture = Fixture::new();
        let (backend, heap) = (fixture.backend(), fixture.heap(TABLE));
        let running = (0..4).map(|_| Transaction::new()).collect();
        let (versions, pruned) = (Vec::new(), BTreeSet::new());
        let mut history = History { fixture, heap, backend, running, versions, pruned };
        history.act(0, 0, Action::Insert { len: 30 });
        history
    }

    fn end(&mut self, who: usize, commit: bool) {
        let (io, xacts) = (&mut self.backend.io, &self.fixture.xacts);
        let mut tx = std::mem::take(&mut self.running[who]);
        match commit {
            true => xacts.commit(io, &mut tx).unwrap(),
            false => xacts.abort(io, &mut tx).unwrap(),
        };
    }

    fn act(&mut self, who: usize, nth: usize, action: Action) {
        let History { fixture, heap, backend, running, versions, .. } = self;
        let (tx, at) = (&mut running[who], nth % versions.len().max(1));
        match action {
            Action::Insert { len } => {
                let author = fixture.author(backend, tx);
                let row = row_of(len, 0);
                match len % 4 {
                    1 => {
                        let place = heap.insert_tentatively(backend, author, 7, &row).unwrap();
                        heap.confirm(backend, author.xid, place).unwrap();
                        versions.push(place);
                    }
                    3 => {
                        let place = heap.insert_tentatively(backend, author, 7, &row).unwrap();
                        heap.take_back(backend, author.xid, place).unwrap();
                    }
                    _ => versions.push(heap.insert(backend, author, &row).unwrap()),
                }
            }
            Action::Update { len, key } => {
                let attempt = fixture.change(backend, tx, |backend, changer| {
                    placed(heap.update(backend, changer, versions[at], &row_of(len, key), &COLUMNS))
                });
                if let Attempt::Done(place) = attempt {
                    versions.push(place);
                }
            }
            Action::Delete => {
                fixture.delete(backend, heap, tx, versions[at]);
            }
            Action::Lock { strength } => {
                fixture.change(backend, tx, |backend, changer| {
                    heap.lock(backend, changer, versions[at], strength)
                });
            }
            Action::Sub { begin: true, .. } => tx.begin_sub(),
            Action::Sub { .. } if tx.depth() == 0 => {}
            Action::Sub { commit: true, .. } => tx.release_sub(),
            Action::Sub { .. } => {
                fixture.xacts.abort_sub(&mut backend.io, tx).unwrap();
            }
            Action::Command => tx.next_command().unwrap(),
        }
    }

    fn prune(&mut self) {
        let mut pruner = self.heap.pruner(HorizonKind::Data, 0, None).unwrap();
        for block in 0..self.heap.pool.nblocks(TABLE, Fork::Main).unwrap() {
            let tag = self.heap.tag(block);
            let pin = self.heap.pool.read(&mut self.backend, tag, Strategy::Normal).unwrap();
            let hint = || pin.lock_shared().page().prune_xid();
            let before = hint();
            pruner.prune(&mut self.backend, &pin).unwrap();
            if hint() != before {
                self.pruned.insert(block);
            }
        }
    }

    /// Sets a page's bits as vacuum does. Whether they are true of its rows does not matter here.
    fn mark_visible(&mut self, nth: usize, frozen: bool) {
        let (heap, backend) = (&self.heap, &mut self.backend);
        let block = nth as u32 % heap.pool.nblocks(TABLE, Fork::Main).unwrap();
        let bits = if frozen { VALID_BITS } else { ALL_VISIBLE };
        let map_pin = crate::vm::pin_or_make(&heap.pool, backend, TABLE, block).unwrap();
        let pin = heap.pool.read(backend, heap.tag(block), Strategy::Normal).unwrap();
        let mut guard = pin.lock_exclusive();
        if !guard.page().is_new() {
            heap.set_visible(backend, &mut guard, &map_pin, 0, bits).unwrap();
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Act { who, nth, action } => self.act(who, nth, action),
            Step::End { who, commit } => self.end(who, commit),
            Step::Prune => self.prune(),
            Step::MarkVisible { nth, frozen } => self.mark_visible(nth, frozen),
            // From here on the first change of each page logs its image.
            Step::Checkpoint => {
                let kind = CheckpointKind::Online { wal_level: 1 };
                self.fixture.wal.begin_checkpoint(&mut self.backend.io, kind).unwrap();
            }
            Step::Write => self.fixture.write_all(&mut self.backend),
        }
    }

    /// Replays the log over a copy of the files, once and twice, and compares.
    fn crash_and_compare(&mut self) {
        self.fixture.wal.flush_all(&mut self.backend.io).unwrap();
        let backend = &mut self.backend;
        let before = masked_all(&self.fixture.pages(backend, TABLE), &self.pruned);
        let map_before = self.fixture.map_pages(backend, TABLE);
        for times in [1, 2] {
            let (mut recovered, _dir) = self.fixture.recover_copy(times);
            let after = masked_all(&recovered.pages(TABLE), &self.pruned);
            compare("block", &before, &after);
            compare("page of the map", used(&map_before), used(&recovered.map_pages(TABLE)));
        }
        for (block, page) in (0..).zip(&before) {
            let marked = map_before.first().is_some_and(|map| map::get(Page::new(map), block) != 0);
            assert!(!marked || Page::new(page).is_all_visible(), "the map claims more of {block}");
        }
        for page in &before {
            forebay_format::line_pointers::check(Page::new(page)).unwrap();
        }
        assert_eq!(self.fixture.failures.all(), Vec::<String>::new());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn redo_restores_pages_after_any_history(steps in steps()) {
        let mut history = History::new();
        steps.into_iter().for_each(|step| history.step(step));
        history.crash_and_compare();
    }
}
