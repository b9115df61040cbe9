//! The order in which the pieces of tables, their B-trees and their TOAST tables are read.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use forebay_access::check::ToastShare;
use forebay_aio::Namespace;
use forebay_format::Fork;

use super::catalogs::Relation;
use super::files::{Piece, Segments, cut};
use super::groups::{Group, Part, Round, TableAndIndexes, Ticket, grouped};
use super::toast::{self, Pair, Pass};

/// What is read.
#[derive(Default)]
pub(super) struct Work {
    /// In their order.
    pub pieces: Vec<Piece>,
    /// Of the tables with B-trees.
    pub rounds: Vec<Arc<Round>>,
    /// Of the tables with TOAST tables.
    pub passes: Vec<Arc<Pass>>,
}

/// The work on relations.
pub(super) fn arranged(
    found: &[Arc<Relation>],
    pairs: &[Pair],
    namespace: &dyn Namespace,
    memory: u64,
    say: &mut dyn FnMut(&Path, &str),
) -> Work {
    let (mut pieces, mut rounds, mut segments) = (Vec::new(), Vec::new(), Segments::default());
    for (table, indexes) in toast_last(grouped(found), pairs) {
        let mut cut = |relation: Arc<Relation>| {
            let mut own = Vec::new();
            cut(namespace, &relation, &mut segments, &mut own, say);
            (relation, own)
        };
        let table = table.map(&mut cut);
        if indexes.is_empty() {
            pieces.extend(table.into_iter().flat_map(|(_, own)| own));
        } else {
            let indexes = indexes.into_iter().map(cut).collect();
            rounds.extend(arrange(table, indexes, memory, &mut pieces));
        }
    }
    let passes = passes(pairs, &mut pieces, memory);
    Work { pieces, rounds, passes }
}

/// The same groups, with each TOAST table directly behind its table.
fn toast_last(groups: Vec<TableAndIndexes>, pairs: &[Pair]) -> Vec<TableAndIndexes> {
    let is_toast: HashSet<_> = pairs.iter().map(|pair| Arc::as_ptr(&pair.toast)).collect();
    let (toasts, tables): (Vec<_>, Vec<_>) = groups.into_iter().partition(|(table, _)| {
        table.as_ref().is_some_and(|table| is_toast.contains(&Arc::as_ptr(table)))
    });
    let group_of = |group: TableAndIndexes| Some((group.0.as_ref().map(Arc::as_ptr)?, group));
    let mut toasts: HashMap<_, _> = toasts.into_iter().filter_map(group_of).collect();
    let toast_of: HashMap<_, _> =
        pairs.iter().map(|pair| (Arc::as_ptr(&pair.table), Arc::as_ptr(&pair.toast))).collect();
    let with_toast = |group: TableAndIndexes| {
        let toast = group.0.as_ref().and_then(|table| toast_of.get(&Arc::as_ptr(table)));
        let toast = toast.and_then(|toast| toasts.remove(toast));
        [Some(group), toast].into_iter().flatten()
    };
    tables.into_iter().flat_map(with_toast).collect()
}

/// The first passes of pairs, with a ticket for each piece.
fn passes(pairs: &[Pair], pieces: &mut [Piece], memory: u64) -> Vec<Arc<Pass>> {
    let (mut passes, mut roles) = (Vec::new(), HashMap::new());
    for pair in pairs {
        let pass = Arc::new(Pass::new(pair, ToastShare::default(), memory));
        roles.insert(Arc::as_ptr(&pair.table), (Arc::clone(&pass), false));
        roles.insert(Arc::as_ptr(&pair.toast), (Arc::clone(&pass), true));
        passes.push(pass);
    }
    let is_of_relation =
        |piece: &&mut Piece| piece.fork == Fork::Main && !matches!(piece.part, Part::Index(..));
    for piece in pieces.iter_mut().filter(is_of_relation) {
        let role = roles.get(&Arc::as_ptr(&piece.relation));
        piece.toast = role.map(|(pass, of_toast)| toast::Ticket::new(pass, *of_toast));
    }
    passes
}

/// What another pass reads. What is wrong with the files was told by the first one.
pub(super) fn once_more(pass: &Arc<Pass>, namespace: &dyn Namespace) -> Vec<Piece> {
    let (mut pieces, mut segments) = (Vec::new(), Segments::default());
    for (relation, of_toast) in [(&pass.pair.table, false), (&pass.pair.toast, true)] {
        let mut own = Vec::new();
        cut(namespace, relation, &mut segments, &mut own, &mut |_, _| {});
        own.retain(|piece| piece.fork == Fork::Main);
        for piece in &mut own {
            piece.toast = Some(toast::Ticket::new(pass, of_toast));
            piece.repeated = true;
        }
        pieces.append(&mut own);
    }
    pieces
}

/// Appends the pieces of a table and its indexes, each of which was cut. Returns the rounds.
fn arrange(
    table: Option<(Arc<Relation>, Vec<Piece>)>,
    indexes: Vec<(Arc<Relation>, Vec<Piece>)>,
    memory: u64,
    pieces: &mut Vec<Piece>,
) -> Vec<Arc<Round>> {
    let blocks_of = |cut: &[Piece]| {
        cut.iter().filter(|piece| piece.fork == Fork::Main).map(|piece| piece.blocks).sum()
    };
    let (table, of_table) = table.unzip();
    let of_table = of_table.unwrap_or_default();
    let table_blocks = blocks_of(&of_table);
    let indexed = indexes.iter().map(|(relation, cut)| (Arc::clone(relation), blocks_of(cut)));
    let group = Arc::new(Group::new((table, table_blocks), indexed));
    let mut rounds: Vec<Arc<Round>> = Vec::new();
    let step = group.blocks_of_round(memory);
    let mut first = 0;
    while first == 0 || first < table_blocks {
        let end = first.checked_add(step).filter(|end| *end < table_blocks).unwrap_or(u32::MAX);
        let round = Arc::new(Round::new(&group, rounds.first(), first..end));
        for (number, (_, cut)) in indexes.iter().enumerate() {
            let main = cut.iter().filter(|piece| piece.fork == Fork::Main);
            pieces.extend(main.map(|piece| {
                piece.again(piece.first..u32::MAX, Part::Index(Ticket::new(&round, false), number))
            }));
        }
        let main = of_table.iter().filter(|piece| piece.fork == Fork::Main);
        let here = main
            .filter(|piece| piece.first < end && first < piece.first.saturating_add(piece.blocks));
        let part = || Part::Table(Ticket::new(&round, true));
        pieces.extend(here.map(|piece| piece.again(first..end, part())));
        rounds.push(round);
        first = end;
    }
    let cuts = [of_table].into_iter().chain(indexes.into_iter().map(|(_, cut)| cut));
    pieces.extend(cuts.flatten().filter(|piece| piece.fork != Fork::Main));
    rounds
}
