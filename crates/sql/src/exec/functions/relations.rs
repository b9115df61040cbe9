//! Sizes and checks of tables and indexes.

use super::Area;
use super::arguments::oid;
use super::system::invalid;
use crate::error::Result;
use crate::exec::host::{Host, could_not_open};
use forebay_engine::{ALL_FORKS, BlockRange, Fork, IndexCheckOptions, PrewarmMode};
use forebay_types::Datum;

pub(super) const TABLE: Area = &[
    (2325, |_, args, host| relation_size(args, host)),
    (2332, |_, args, host| relation_size(args, host)),
    (2997, |_, args, host| table_size(args, false, host)),
    (2286, |_, args, host| table_size(args, true, host)),
];

/// A fork by its name.
fn fork(name: &str) -> Result<Fork> {
    Fork::from_name(name).ok_or_else(|| {
        invalid("invalid fork name")
            .hint("Valid fork names are \"main\", \"fsm\", \"vm\", and \"init\".")
    })
}

/// pg_prewarm(relation, mode, fork, first block, last block), all but the first with defaults, the
/// last two perhaps NULL.
pub(super) fn prewarm<'a>(args: &[Datum<'_>], host: &mut Host) -> Result<Datum<'a>> {
    let null = |i: usize| matches!(args.get(i), Some(Datum::Null));
    if null(0) {
        return Err(invalid("relation cannot be null"));
    }
    if null(1) {
        return Err(invalid("prewarm type cannot be null"));
    }
    let mode = match args.get(1).and_then(Datum::as_str).unwrap_or("buffer") {
        "prefetch" => PrewarmMode::Prefetch,
        "read" => PrewarmMode::Read,
        "buffer" => PrewarmMode::Buffer,
        _ => {
            return Err(invalid("invalid prewarm type")
                .hint("Valid prewarm types are \"prefetch\", \"read\", and \"buffer\"."));
        }
    };
    if null(2) {
        return Err(invalid("relation fork cannot be null"));
    }
    let fork = fork(args.get(2).and_then(Datum::as_str).unwrap_or("main"))?;
    let block = |i: usize| match args.get(i) {
        Some(Datum::Int8(block)) => Some(*block),
        _ => None,
    };
    let blocks = BlockRange { first: block(3), last: block(4) };
    let oid = oid(args, 0)?;
    let table = host.table_by_oid(oid)?;
    let blocks = host.call(|session| match table {
        Some(table) => session.prewarm_range(&table, mode, fork, blocks).map(Some),
        None => session.prewarm_index(oid, mode, fork, blocks),
    })?;
    let blocks = blocks.ok_or_else(|| could_not_open(oid))?;
    Ok(Datum::Int8(i64::try_from(blocks).unwrap_or(i64::MAX)))
}

/// bt_index_check(index, heapallindexed, checkunique), or bt_index_parent_check(index,
/// heapallindexed, rootdescend, checkunique), all but the first with defaults. Keys of a parent are
/// always compared with its children, which is what rootdescend adds.
pub(super) fn check_index<'a>(
    args: &[Datum<'_>],
    parents: bool,
    host: &mut Host,
) -> Result<Datum<'a>> {
    let flag = |i: usize| matches!(args.get(i), Some(Datum::Bool(true)));
    let distinct = flag(if parents { 3 } else { 2 });
    let options = IndexCheckOptions { parents, all_rows: flag(1), distinct };
    let index = oid(args, 0)?;
    host.call(|session| session.check_index(index, options))?;
    // A void has an empty text.
    Ok(Datum::text(""))
}

fn relation_size<'a>(args: &[Datum<'_>], host: &mut Host) -> Result<Datum<'a>> {
    let fork = fork(args.get(1).and_then(Datum::as_str).unwrap_or("main"))?;
    let oid = oid(args, 0)?;
    let Some(table) = host.table_by_oid(oid)? else { return index_size(oid, &[fork], host) };
    let blocks = host.call(|s| s.fork_blocks(&table, fork))?.unwrap_or(0);
    Ok(bytes_of(blocks.into()))
}

/// The size of a table with its TOAST table, and with its indexes, if they are wanted.
fn table_size<'a>(args: &[Datum<'_>], indexes: bool, host: &mut Host) -> Result<Datum<'a>> {
    let oid = oid(args, 0)?;
    let Some(table) = host.table_by_oid(oid)? else { return index_size(oid, &ALL_FORKS, host) };
    Ok(bytes_of(host.call(|s| s.total_blocks(&table, indexes))?))
}

/// The size of an index. NULL if the OID is not one's.
fn index_size<'a>(oid: u32, forks: &[Fork], host: &mut Host) -> Result<Datum<'a>> {
    let blocks = host.call_if_any(|session| session.blocks_of_index(oid, forks))?.flatten();
    Ok(blocks.map_or(Datum::Null, bytes_of))
}

fn bytes_of<'a>(blocks: u64) -> Datum<'a> {
    const BLOCK_SIZE: u64 = 8192;
    Datum::Int8(i64::try_from(blocks * BLOCK_SIZE).unwrap_or(i64::MAX))
}
