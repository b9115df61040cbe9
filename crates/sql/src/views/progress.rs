//! pg_stat_progress_analyze, _cluster, _create_index and _vacuum: the long commands that run.

use forebay_engine::views::{
    Command, Counter, ProgressRow, analyze, cluster, create_index as ci, vacuum,
};
use forebay_types::Datum;
use forebay_types::SqlType::{Float8, Int4, Int8, Name, Oid, Text};

use super::basics::{Columns, count, millis, opt, text};

/// A long command of a session, with the name of its database.
pub type Progress = (ProgressRow, String);

/// A counter of a command.
fn counted((row, _): &Progress, counter: Counter) -> Datum<'static> {
    count(row.running.get(counter))
}

/// A counter that is an OID.
fn counted_oid((row, _): &Progress, counter: Counter) -> Datum<'static> {
    Datum::Oid(u32::try_from(row.running.get(counter)).unwrap_or(0))
}

/// A counter that numbers some texts from 1 on; NULL for another number.
fn named((row, _): &Progress, counter: Counter, names: &[&'static str]) -> Datum<'static> {
    let place = usize::try_from(row.running.get(counter)).ok().and_then(|n| n.checked_sub(1));
    opt(place.and_then(|place| names.get(place).copied()), text)
}

/// The same from 0 on: "initializing".
fn phase(row: &Progress, counter: Counter, names: &[&'static str]) -> Datum<'static> {
    if row.0.running.get(counter) == 0 { text("initializing") } else { named(row, counter, names) }
}

const INDEX_STATEMENTS: &[&str] =
    &["CREATE INDEX", "CREATE INDEX CONCURRENTLY", "REINDEX", "REINDEX CONCURRENTLY"];

const INDEX_PHASES: &[&str] = &[
    "waiting for writers before build",
    "building index",
    "waiting for writers before validation",
    "index validation: scanning index",
    "index validation: sorting tuples",
    "index validation: scanning table",
    "waiting for old snapshots",
    "waiting for readers before marking dead",
    "waiting for readers before dropping",
];

const BTREE_PHASES: &[&str] = &[
    "initializing",
    "scanning table",
    "sorting live tuples",
    "sorting dead tuples",
    "loading tuples in tree",
];

/// The phase of a command that builds an index.
fn index_phase(row: &Progress) -> Datum<'static> {
    if row.0.running.get(ci::PHASE) == 0 {
        return text("initializing");
    }
    let phase = named(row, ci::PHASE, INDEX_PHASES);
    match (&phase, named(row, ci::BUILD_PHASE, BTREE_PHASES)) {
        (Datum::Text(phase), Datum::Text(part))
            if row.0.running.get(ci::PHASE) == ci::Phase::Build as u64 =>
        {
            Datum::string(format!("{phase}: {part}"))
        }
        _ => phase,
    }
}

/// pg_stat_progress_create_index. No index has partitions.
const CREATE_INDEX: Columns<Progress> = &[
    ("pid", Int4, |r| Datum::Int4(r.0.session)),
    ("datid", Oid, |r| Datum::Oid(r.0.database)),
    ("datname", Name, |r| text(&r.1)),
    ("relid", Oid, |r| Datum::Oid(r.0.running.relation)),
    ("index_relid", Oid, |r| counted_oid(r, ci::INDEX)),
    ("command", Text, |r| named(r, ci::STATEMENT, INDEX_STATEMENTS)),
    ("phase", Text, index_phase),
    ("lockers_total", Int8, |r| counted(r, ci::LOCKERS_TOTAL)),
    ("lockers_done", Int8, |r| counted(r, ci::LOCKERS_DONE)),
    ("current_locker_pid", Int8, |r| counted(r, ci::CURRENT_LOCKER)),
    ("blocks_total", Int8, |r| counted(r, ci::BLOCKS_TOTAL)),
    ("blocks_done", Int8, |r| counted(r, ci::BLOCKS_DONE)),
    ("tuples_total", Int8, |r| counted(r, ci::TUPLES_TOTAL)),
    ("tuples_done", Int8, |r| counted(r, ci::TUPLES_DONE)),
    ("partitions_total", Int8, |_| count(0)),
    ("partitions_done", Int8, |_| count(0)),
];

const VACUUM_PHASES: &[&str] = &[
    "scanning heap",
    "vacuuming indexes",
    "vacuuming heap",
    "cleaning up indexes",
    "truncating heap",
    "performing final cleanup",
];

/// pg_stat_progress_vacuum.
const VACUUM: Columns<Progress> = &[
    ("pid", Int4, |r| Datum::Int4(r.0.session)),
    ("datid", Oid, |r| Datum::Oid(r.0.database)),
    ("datname", Name, |r| text(&r.1)),
    ("relid", Oid, |r| Datum::Oid(r.0.running.relation)),
    ("phase", Text, |r| phase(r, vacuum::PHASE, VACUUM_PHASES)),
    ("heap_blks_total", Int8, |r| counted(r, vacuum::BLOCKS_TOTAL)),
    ("heap_blks_scanned", Int8, |r| counted(r, vacuum::BLOCKS_SCANNED)),
    ("heap_blks_vacuumed", Int8, |r| counted(r, vacuum::BLOCKS_VACUUMED)),
    ("index_vacuum_count", Int8, |r| counted(r, vacuum::INDEX_VACUUMS)),
    ("max_dead_tuple_bytes", Int8, |r| counted(r, vacuum::MAX_DEAD_BYTES)),
    ("dead_tuple_bytes", Int8, |r| counted(r, vacuum::DEAD_BYTES)),
    ("num_dead_item_ids", Int8, |r| counted(r, vacuum::DEAD_ITEMS)),
    ("indexes_total", Int8, |r| counted(r, vacuum::INDEXES_TOTAL)),
    ("indexes_processed", Int8, |r| counted(r, vacuum::INDEXES_DONE)),
    ("delay_time", Float8, |r| millis(r.0.running.get(vacuum::DELAY))),
];

/// Its texts for inherited and extended statistics, which are not made, have their places.
const ANALYZE_PHASES: &[&str] = &[
    "acquiring sample rows",
    "acquiring inherited sample rows",
    "computing statistics",
    "computing extended statistics",
    "finalizing analyze",
];

/// pg_stat_progress_analyze. There are no extended statistics, and no table has children.
const ANALYZE: Columns<Progress> = &[
    ("pid", Int4, |r| Datum::Int4(r.0.session)),
    ("datid", Oid, |r| Datum::Oid(r.0.database)),
    ("datname", Name, |r| text(&r.1)),
    ("relid", Oid, |r| Datum::Oid(r.0.running.relation)),
    ("phase", Text, |r| phase(r, analyze::PHASE, ANALYZE_PHASES)),
    ("sample_blks_total", Int8, |r| counted(r, analyze::BLOCKS_TOTAL)),
    ("sample_blks_scanned", Int8, |r| counted(r, analyze::BLOCKS_DONE)),
    ("ext_stats_total", Int8, |_| count(0)),
    ("ext_stats_computed", Int8, |_| count(0)),
    ("child_tables_total", Int8, |_| count(0)),
    ("child_tables_done", Int8, |_| count(0)),
    ("current_child_table_relid", Oid, |_| Datum::Oid(0)),
    ("delay_time", Float8, |r| millis(r.0.running.get(analyze::DELAY))),
];

const CLUSTER_COMMANDS: &[&str] = &["CLUSTER", "VACUUM FULL"];

const CLUSTER_PHASES: &[&str] = &[
    "seq scanning heap",
    "index scanning heap",
    "sorting tuples",
    "writing new heap",
    "swapping relation files",
    "rebuilding index",
    "performing final cleanup",
];

/// pg_stat_progress_cluster, which shows VACUUM FULL. No index gives the order.
const CLUSTER: Columns<Progress> = &[
    ("pid", Int4, |r| Datum::Int4(r.0.session)),
    ("datid", Oid, |r| Datum::Oid(r.0.database)),
    ("datname", Name, |r| text(&r.1)),
    ("relid", Oid, |r| Datum::Oid(r.0.running.relation)),
    ("command", Text, |r| named(r, cluster::STATEMENT, CLUSTER_COMMANDS)),
    ("phase", Text, |r| phase(r, cluster::PHASE, CLUSTER_PHASES)),
    ("cluster_index_relid", Oid, |_| Datum::Oid(0)),
    ("heap_tuples_scanned", Int8, |r| counted(r, cluster::ROWS_SCANNED)),
    ("heap_tuples_written", Int8, |r| counted(r, cluster::ROWS_WRITTEN)),
    ("heap_blks_total", Int8, |r| counted(r, cluster::BLOCKS_TOTAL)),
    ("heap_blks_scanned", Int8, |r| counted(r, cluster::BLOCKS_SCANNED)),
    ("index_rebuild_count", Int8, |r| counted(r, cluster::INDEXES_REBUILT)),
];

/// The columns of the view of a kind of command.
pub fn columns(command: Command) -> Columns<Progress> {
    match command {
        Command::Analyze => ANALYZE,
        Command::Cluster => CLUSTER,
        Command::CreateIndex => CREATE_INDEX,
        Command::Vacuum => VACUUM,
    }
}
