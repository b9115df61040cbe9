//! Tables with their B-trees: which pages are read first, and what is kept until they were.
//!
//! The pages of a table's indexes come before its own. A thread that comes to a page of the table
//! waits until the other threads have done with the indexes, then compares its rows with their
//! entries. If the entries need more memory than they may, the table is compared in several rounds,
//! each with some of its blocks, and the indexes are read again for each.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use forebay_access::check::{BtreeTally, Finding, IndexEntries, LiveKeys, PageTally, Root};
use forebay_aio::sync::{Condvar, Mutex, MutexGuard};
use forebay_format::nbtree::MAX_TIDS_PER_PAGE;
use forebay_format::page::MAX_HEAP_TUPLES;
use forebay_format::{BlockNumber, ItemPointer, PageBytes};

use super::catalogs::{Btree, Relation};

/// Bytes of an entry in memory.
const ENTRY: u64 = 16;

/// Findings of several relations.
pub(super) type Findings = Vec<(Arc<Relation>, Finding)>;

/// An index of a group.
struct Member {
    relation: Arc<Relation>,
    blocks: BlockNumber,
    /// What its pages told, after the first round: whether all could be read.
    complete: OnceLock<bool>,
    keys: OnceLock<LiveKeys>,
    /// Live rows with keys that are there several times.
    live: Mutex<Vec<ItemPointer>>,
}

/// A table with its B-trees. Without the table only the indexes are checked.
pub(super) struct Group {
    table: Option<Arc<Relation>>,
    table_blocks: BlockNumber,
    members: Vec<Member>,
}

/// What a piece is for its group.
#[derive(Debug)]
pub(super) enum Part {
    /// Nothing: its pages are checked by themselves.
    None,
    /// Part of an index, by its number.
    Index(Ticket, usize),
    /// Part of the table.
    Table(Ticket),
}

/// Tells a round that a piece is done with, when it is dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    pub round: Arc<Round>,
    of_table: bool,
}

/// One reading of a group's indexes, and of some blocks of its table.
pub(super) struct Round {
    group: Arc<Group>,
    /// The round that checks the indexes themselves; `None`: this one.
    first: Option<Arc<Round>>,
    blocks: Range<BlockNumber>,
    tallies: Vec<Mutex<BtreeTally>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Pieces that are not done with.
    of_indexes: usize,
    of_table: usize,
    /// The entries of the indexes, from when they are complete until the table has been compared.
    entries: Option<Arc<Vec<IndexEntries>>>,
    finished: bool,
}

impl std::fmt::Debug for Round {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Round").field("blocks", &self.blocks).finish_non_exhaustive()
    }
}

impl Ticket {
    pub(super) fn new(round: &Arc<Round>, of_table: bool) -> Ticket {
        let mut state = round.state.lock();
        *if of_table { &mut state.of_table } else { &mut state.of_indexes } += 1;
        Ticket { round: Arc::clone(round), of_table }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.round.state.lock();
        *if self.of_table { &mut state.of_table } else { &mut state.of_indexes } -= 1;
        if state.finished && state.of_table == 0 {
            state.entries = None;
        }
        self.round.changed.notify_all();
    }
}

impl Group {
    /// A table with its indexes, and how many blocks each has.
    pub(super) fn new(
        (table, table_blocks): (Option<Arc<Relation>>, BlockNumber),
        indexes: impl Iterator<Item = (Arc<Relation>, BlockNumber)>,
    ) -> Group {
        let member = |(relation, blocks)| Member {
            relation,
            blocks,
            complete: OnceLock::new(),
            keys: OnceLock::new(),
            live: Mutex::default(),
        };
        Group { table, table_blocks, members: indexes.map(member).collect() }
    }

    /// How many blocks of the table are compared at once, so that the entries fit some memory.
    pub(super) fn blocks_of_round(&self, memory: u64) -> BlockNumber {
        let rows = u64::from(self.table_blocks) * MAX_HEAP_TUPLES as u64;
        let most = |member: &Member| {
            let room = u64::from(member.blocks) * MAX_TIDS_PER_PAGE as u64;
            // The count may be old, so a page is taken to have 340 entries at least.
            rows.min(room).min(member.btree().entries.unwrap_or(room).max(room / 4))
        };
        let bytes: u64 = self.members.iter().map(|member| most(member) * ENTRY).sum();
        let rounds = bytes.div_ceil(memory.max(1)).max(1);
        let blocks = u64::from(self.table_blocks).div_ceil(rounds).max(1);
        u32::try_from(blocks).unwrap_or(u32::MAX)
    }
}

impl Member {
    fn btree(&self) -> &Btree {
        self.relation.btree.as_ref().expect("an index of a group is a B-tree")
    }

    fn say(&self, findings: &mut Findings, finding: Finding) {
        findings.push((Arc::clone(&self.relation), finding));
    }
}

impl Round {
    pub(super) fn new(
        group: &Arc<Group>,
        first: Option<&Arc<Round>>,
        blocks: Range<BlockNumber>,
    ) -> Round {
        // Only the first round looks at the tree itself.
        let blocks_of = |member: &Member| if first.is_some() { 0 } else { member.blocks };
        let tallies =
            group.members.iter().map(|member| Mutex::new(BtreeTally::new(blocks_of(member))));
        Round {
            group: Arc::clone(group),
            first: first.map(Arc::clone),
            blocks,
            tallies: tallies.collect(),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn is_first(&self) -> bool {
        self.first.is_none()
    }

    /// Checks a page of an index.
    pub(super) fn index_page(
        &self,
        number: usize,
        checksums: bool,
        page: (BlockNumber, &PageBytes),
        sink: &mut dyn FnMut(Finding),
    ) {
        let (Some(member), Some(tally)) =
            (self.group.members.get(number), self.tallies.get(number))
        else {
            unreachable!("an index of the group")
        };
        let (btree, mut again) = (member.btree(), |_| {});
        let sink = if self.is_first() { sink } else { &mut again };
        let has_rows = self.group.table.is_some() && btree.indexed.is_some();
        let rows = has_rows.then_some(&self.blocks);
        let told = PageTally::new(&btree.shape, checksums, page, rows, sink);
        tally.lock().add(told);
    }

    /// Compares the rows of a page of the table with the indexes.
    pub(super) fn table_page(
        &self,
        block: BlockNumber,
        roots: &[Root<'_>],
        findings: &mut Findings,
    ) {
        let entries = self.entries(findings);
        let Some(table) = &self.group.table else { unreachable!("a page of the table") };
        let Some(columns) = &table.table.columns else { return };
        for (member, entries) in self.group.members.iter().zip(entries.iter()) {
            let Btree { shape, indexed: Some(indexed), .. } = member.btree() else { continue };
            let (mut of_table, mut of_index, mut live) = (Vec::new(), Vec::new(), Vec::new());
            let keys = member.keys.get();
            entries.compare(
                (shape, indexed),
                columns,
                (block, roots),
                &mut |finding| of_table.push(finding),
                &mut |finding| of_index.push(finding),
                &mut |tid| live.extend(keys.filter(|keys| keys.may_repeat(tid)).map(|_| tid)),
            );
            findings.extend(of_table.into_iter().map(|finding| (Arc::clone(table), finding)));
            of_index.into_iter().for_each(|finding| member.say(findings, finding));
            member.live.lock().extend(live);
        }
    }

    /// The entries of the indexes. The caller has a ticket of the table, so they are still there.
    fn entries(&self, findings: &mut Findings) -> Arc<Vec<IndexEntries>> {
        let entries = self.finish(findings).entries.clone();
        entries.expect("a page of the table comes before the entries are dropped")
    }

    /// Waits until all pages of the indexes have been read, and checks them, unless another thread
    /// has done so.
    fn finish(&self, findings: &mut Findings) -> MutexGuard<'_, State> {
        if let Some(first) = &self.first {
            drop(first.finish(findings));
        }
        let mut state = self.state.lock();
        while state.of_indexes > 0 {
            self.changed.wait(&mut state);
        }
        if std::mem::replace(&mut state.finished, true) {
            return state;
        }
        let members = self.group.members.iter().zip(&self.tallies);
        let finish = |(member, tally): (&Member, &Mutex<BtreeTally>)| {
            let tally = std::mem::take(&mut *tally.lock());
            let entries = if self.is_first() {
                let mut sink = |finding| member.say(findings, finding);
                let (entries, keys) = tally.finish(&member.btree().shape, &mut sink);
                let _ = member.complete.set(entries.is_complete());
                let _ = member.keys.set(keys);
                entries
            } else {
                tally.rows(member.complete.get().copied().unwrap_or(false))
            };
            if self.blocks.end == u32::MAX {
                let blocks = self.group.table_blocks;
                entries.beyond(blocks, &mut |finding| member.say(findings, finding));
            }
            entries
        };
        state.entries = Some(Arc::new(members.map(finish).collect()));
        state
    }

    /// Ends a round whose pages have all been read: what only the last one of them shows.
    pub(super) fn end(&self, findings: &mut Findings) {
        self.finish(findings).entries = None;
        if self.blocks.end != u32::MAX {
            return;
        }
        for member in &self.group.members {
            let Some(keys) = member.keys.get() else { continue };
            let (name, live) = (&member.relation.told.name, member.live.lock());
            keys.violations(name, &live, &mut |finding| member.say(findings, finding));
        }
    }
}

/// A table, if it is checked, and its B-trees.
pub(super) type TableAndIndexes = (Option<Arc<Relation>>, Vec<Arc<Relation>>);

/// Puts relations into groups: a table with its indexes, in the order of the first of them.
pub(super) fn grouped(relations: &[Arc<Relation>]) -> Vec<TableAndIndexes> {
    let mut places = HashMap::new();
    let mut groups: Vec<TableAndIndexes> = Vec::new();
    for relation in relations {
        let table = relation.btree.as_ref().map_or(relation.told.oid, |btree| btree.table);
        let place = *places.entry((relation.told.database.as_str(), table)).or_insert_with(|| {
            groups.push((None, Vec::new()));
            groups.len() - 1
        });
        let Some(group) = groups.get_mut(place) else { continue };
        if relation.btree.is_some() {
            group.1.push(Arc::clone(relation));
        } else {
            group.0 = Some(Arc::clone(relation));
        }
    }
    groups
}
