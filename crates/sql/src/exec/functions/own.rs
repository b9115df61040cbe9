//! Functions that pg_proc does not have: those of contrib modules that are built in, and Forebay's
//! own. Their OIDs here are no OIDs of rows.

use super::Call;
use super::relations::{check_index, prewarm};
use crate::plan::RowFunction;
use forebay_aio::sync::LazyLock;
use forebay_engine::nodes::{Const, Expr, Location, write_list};
use forebay_engine::syscache::ProcRow;
use forebay_types::{Datum, Oid, oids};
use std::sync::Arc;

/// The namespace pg_catalog, in which they are found.
const PG_CATALOG: Oid = 11;
/// The first of the OIDs.
const FIRST: Oid = 0xffff_0000;

/// What a function of its own is.
#[derive(Clone, Copy)]
enum Code {
    Call(Call),
    Rows(RowFunction),
}

/// An argument: its name, its type, and its default if it has one.
type Argument = (&'static str, Oid, Option<Default>);

#[derive(Clone, Copy)]
enum Default {
    Bool(bool),
    Text(&'static str),
    /// NULL of a type of fixed length.
    Null,
}

/// A function: its name, arguments, result and code; whether it is called with NULL.
type Own = (&'static str, &'static [Argument], Oid, Code, bool);

const REGCLASS: Argument = ("", oids::REGCLASS, None);
const NUMBER: Argument = ("", oids::INT4, None);
const NO: Option<Default> = Some(Default::Bool(false));

const LEAVES: Call = |_, args, host| check_index(args, false, host);
const PARENTS: Call = |_, args, host| check_index(args, true, host);

const VERIFY_HEAPAM: &[Argument] = &[
    ("relation", oids::REGCLASS, None),
    ("on_error_stop", oids::BOOL, NO),
    ("check_toast", oids::BOOL, NO),
    ("skip", oids::TEXT, Some(Default::Text("none"))),
    ("startblock", oids::INT8, Some(Default::Null)),
    ("endblock", oids::INT8, Some(Default::Null)),
];

const INDEX_CHECK: &[Argument] = &[
    ("index", oids::REGCLASS, None),
    ("heapallindexed", oids::BOOL, NO),
    ("checkunique", oids::BOOL, NO),
];

const PARENT_CHECK: &[Argument] = &[
    ("index", oids::REGCLASS, None),
    ("heapallindexed", oids::BOOL, NO),
    ("rootdescend", oids::BOOL, NO),
    ("checkunique", oids::BOOL, NO),
];

const PREWARM: &[Argument] = &[
    ("regclass", oids::REGCLASS, None),
    ("mode", oids::TEXT, Some(Default::Text("buffer"))),
    ("fork", oids::TEXT, Some(Default::Text("main"))),
    ("first_block", oids::INT8, Some(Default::Null)),
    ("last_block", oids::INT8, Some(Default::Null)),
];

/// All of them. Their places give them their OIDs.
const OWN: &[Own] = &[
    ("bt_index_check", INDEX_CHECK, oids::VOID, Code::Call(LEAVES), false),
    ("bt_index_parent_check", PARENT_CHECK, oids::VOID, Code::Call(PARENTS), false),
    ("pg_prewarm", PREWARM, oids::INT8, Code::Call(|_, args, host| prewarm(args, host)), true),
    rows("verify_heapam", VERIFY_HEAPAM, RowFunction::VerifyHeap),
    rows("pg_buffercache_checksums", &[], RowFunction::Checksums),
    rows("pg_buffercache_evict", &[NUMBER], RowFunction::Evict),
    rows("pg_buffercache_evict_all", &[], RowFunction::EvictAll),
    rows("pg_buffercache_evict_relation", &[REGCLASS], RowFunction::EvictRelation),
    rows("pg_buffercache_mark_dirty", &[NUMBER], RowFunction::MarkDirty),
    rows("pg_buffercache_mark_dirty_all", &[], RowFunction::MarkDirtyAll),
    rows("pg_buffercache_mark_dirty_relation", &[REGCLASS], RowFunction::MarkDirtyRelation),
    rows("pg_buffercache_summary", &[], RowFunction::Summary),
    rows("pg_buffercache_usage_counts", &[], RowFunction::UsageCounts),
    rows("pg_relation_kernel_cache", &[REGCLASS], RowFunction::KernelCache),
];

const fn rows(name: &'static str, args: &'static [Argument], function: RowFunction) -> Own {
    (name, args, oids::RECORD, Code::Rows(function), matches!(function, RowFunction::VerifyHeap))
}

fn oid_of(place: usize) -> Oid {
    FIRST + u32::try_from(place).unwrap_or(0)
}

/// Functions that return a value, with their OIDs.
pub(super) fn functions() -> impl Iterator<Item = (Oid, Call)> {
    OWN.iter().enumerate().filter_map(|(place, own)| match own.3 {
        Code::Call(call) => Some((oid_of(place), call)),
        Code::Rows(_) => None,
    })
}

/// Functions of rows, with their OIDs: those of pg_proc as well.
pub(super) fn row_functions() -> impl Iterator<Item = (Oid, RowFunction)> {
    let of_catalog = [
        (2739, RowFunction::BackupStop),
        (3441, RowFunction::ControlSystem),
        (6427, RowFunction::SequenceData),
        (3078, RowFunction::SequenceParameters),
    ];
    let own = OWN.iter().enumerate().filter_map(|(place, own)| match own.3 {
        Code::Call(_) => None,
        Code::Rows(function) => Some((oid_of(place), function)),
    });
    of_catalog.into_iter().chain(own)
}

/// Their rows, as pg_proc would have them.
static ROWS: LazyLock<Vec<Arc<ProcRow>>> =
    LazyLock::new(|| OWN.iter().enumerate().map(|(n, own)| Arc::new(row(n, own))).collect());

fn row(place: usize, (name, args, result, code, takes_null): &Own) -> ProcRow {
    let defaults: Vec<Expr> = args.iter().filter_map(default_of).collect();
    let set = matches!(code, Code::Rows(function) if function.is_set());
    ProcRow {
        oid: oid_of(place),
        name: (*name).into(),
        namespace: PG_CATALOG,
        language: 12,
        variadic: 0,
        kind: b'f',
        strict: !takes_null,
        returns_set: set,
        volatility: b'v',
        parallel: b'r',
        defaults: defaults.len(),
        result: *result,
        args: args.iter().map(|arg| arg.1).collect(),
        all_args: None,
        modes: None,
        names: Some(args.iter().map(|arg| arg.0.into()).collect()),
        default_trees: (!defaults.is_empty()).then(|| write_list(&defaults).into()),
    }
}

fn default_of((_, ty, default): &Argument) -> Option<Expr> {
    let (constlen, constbyval, constvalue) = match (*default)? {
        Default::Bool(value) => (1, true, Datum::Bool(value)),
        Default::Text(value) => (-1, false, Datum::text(value)),
        Default::Null => (8, true, Datum::Null),
    };
    Some(Expr::Const(Const {
        consttype: *ty,
        consttypmod: -1,
        constcollid: if *ty == oids::TEXT { 100 } else { 0 },
        constlen,
        constbyval,
        constvalue,
        location: Location::UNKNOWN,
    }))
}

/// Those of a name.
pub(in crate::exec) fn named(name: &str) -> impl Iterator<Item = &'static Arc<ProcRow>> {
    ROWS.iter().filter(move |row| &*row.name == name)
}

/// The one with an OID.
pub(in crate::exec) fn by_oid(oid: Oid) -> Option<&'static Arc<ProcRow>> {
    ROWS.get(usize::try_from(oid.checked_sub(FIRST)?).ok()?)
}
