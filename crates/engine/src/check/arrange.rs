//! The order in which the pieces of tables and their B-trees are read.

use std::path::Path;
use std::sync::Arc;

use forebay_aio::Namespace;
use forebay_format::Fork;

use super::catalogs::Relation;
use super::files::{Piece, Segments, cut};
use super::groups::{Group, Part, Round, Ticket, grouped};

/// The pieces of relations, in the order in which they are read, and the rounds of those with
/// B-trees.
pub(super) fn arranged(
    found: &[Arc<Relation>],
    namespace: &dyn Namespace,
    memory: u64,
    say: &mut dyn FnMut(&Path, &str),
) -> (Vec<Piece>, Vec<Arc<Round>>) {
    let (mut pieces, mut rounds, mut segments) = (Vec::new(), Vec::new(), Segments::default());
    for (table, indexes) in grouped(found) {
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
    (pieces, rounds)
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
