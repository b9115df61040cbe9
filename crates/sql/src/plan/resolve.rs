//! Choosing an operator or function by name and argument types: PostgreSQL's rules of candidate
//! selection.

use super::expr::{AdvisoryLock, Arithmetic, Comparison, Function};
use super::rowsets::RowFunction;
use crate::error::{Result, SqlError};
use SqlType::*;
use forebay_aio::sync::LazyLock;
use forebay_types::SqlType;

/// A type's category and whether it is the preferred one there.
pub fn category(ty: SqlType) -> (u8, bool) {
    let info = ty.info();
    (info.category, info.preferred)
}

/// Refuses an operation on values of a type that are only carried: they come out of tables, and
/// nothing is computed with them. Arrays of computed views are texts; a stored one is refused when
/// the plan runs.
pub fn check_computed(what: impl std::fmt::Display, ty: SqlType, position: u32) -> Result<()> {
    if matches!(ty, Other(_)) {
        return Err(SqlError::unsupported(format!("{what} of type {ty}")).at(position));
    }
    Ok(())
}

/// Whether there is an implicit cast.
pub fn implicit_cast(from: SqlType, to: SqlType) -> bool {
    from == to
        || from == Unknown
        || match to {
            Int4 => from == Int2,
            Int8 => matches!(from, Int2 | Int4),
            Numeric => matches!(from, Int2 | Int4 | Int8),
            Float4 => matches!(from, Int2 | Int4 | Int8 | Numeric),
            Float8 => matches!(from, Int2 | Int4 | Int8 | Numeric | Float4),
            Oid => matches!(from, Int2 | Int4 | Int8 | Regclass | Regproc | Regtype),
            Regclass => matches!(from, Int2 | Int4 | Int8 | Oid | Text | Varchar),
            Regproc | Regtype => matches!(from, Int2 | Int4 | Int8 | Oid),
            Text => matches!(from, Varchar | Bpchar | Name | Char | PgNodeTree),
            Varchar => matches!(from, Text | Bpchar),
            Bpchar => matches!(from, Text | Varchar),
            Name => matches!(from, Text | Varchar | Bpchar),
            _ => false,
        }
}

/// The result of choosing among candidates.
pub enum Choice<T> {
    /// One candidate is best.
    One(T),
    /// None fits.
    None,
    /// Several fit, and none is best.
    Ambiguous,
}

/// Chooses among candidates (by their argument types) for the actual types. Exact matches have been
/// looked for.
fn choose<'c, T>(candidates: &[(&'c T, &[SqlType])], actual: &[SqlType]) -> Choice<&'c T> {
    let fits =
        |args: &[SqlType]| args.iter().zip(actual).all(|(to, from)| implicit_cast(*from, *to));
    let mut left: Vec<_> = candidates.iter().filter(|(_, args)| fits(args)).copied().collect();
    if left.is_empty() {
        return Choice::None;
    }
    let score = |left: &mut Vec<(&'c T, &[SqlType])>, points: &dyn Fn(SqlType, SqlType) -> bool| {
        let count = |args: &[SqlType]| {
            args.iter().zip(actual).filter(|(to, from)| points(**from, **to)).count()
        };
        let best = left.iter().map(|(_, args)| count(args)).max().unwrap_or(0);
        left.retain(|(_, args)| count(args) == best);
    };
    score(&mut left, &|from, to| from != Unknown && from == to);
    if left.len() > 1 {
        score(&mut left, &|from, to| {
            from != Unknown && (from == to || category(to).1 && category(to).0 == category(from).0)
        });
    }
    if left.len() > 1 {
        resolve_unknown(&mut left, actual);
    }
    if left.len() > 1 {
        let known: Vec<SqlType> = actual.iter().copied().filter(|t| *t != Unknown).collect();
        if let Some(first) = known.first()
            && known.len() < actual.len()
            && known.iter().all(|t| t == first)
        {
            let same: Vec<_> = left
                .iter()
                .filter(|(_, args)| args.iter().all(|a| implicit_cast(*first, *a)))
                .copied()
                .collect();
            if same.len() == 1 {
                left = same;
            }
        }
    }
    match left.as_slice() {
        [(one, _)] => Choice::One(one),
        _ => Choice::Ambiguous,
    }
}

/// For unknown arguments: prefer strings, or else the one category all candidates agree on.
fn resolve_unknown<T>(left: &mut Vec<(&T, &[SqlType])>, actual: &[SqlType]) {
    let mut wanted: Vec<Option<(u8, bool)>> = Vec::new();
    for (i, ty) in actual.iter().enumerate() {
        if *ty != Unknown {
            wanted.push(None);
            continue;
        }
        let categories: Vec<(u8, bool)> =
            left.iter().filter_map(|(_, args)| args.get(i)).map(|a| category(*a)).collect();
        let string = categories.iter().any(|c| c.0 == b'S');
        let Some(first) = categories.first() else { return };
        let chosen = if string { b'S' } else { first.0 };
        if !string && categories.iter().any(|c| c.0 != chosen) {
            return;
        }
        let preferred = categories.iter().any(|c| c.0 == chosen && c.1);
        wanted.push(Some((chosen, preferred)));
    }
    let keep: Vec<bool> = left
        .iter()
        .map(|(_, args)| {
            args.iter().zip(&wanted).all(|(a, w)| {
                w.is_none_or(|(wanted, preferred)| {
                    let (category, is_preferred) = category(*a);
                    category == wanted && (!preferred || is_preferred)
                })
            })
        })
        .collect();
    if keep.contains(&true) {
        let mut keep = keep.into_iter();
        left.retain(|_| keep.next().unwrap_or(true));
    }
}

/// What an operator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum OperatorKind {
    Compare(Comparison),
    Arith(Arithmetic),
    Like,
}

/// A binary operator of pg_operator.
#[derive(Clone, Debug)]
pub struct Operator {
    /// What it does.
    pub kind: OperatorKind,
    args: [SqlType; 2],
    /// The type both operands are cast to.
    pub common: SqlType,
    /// The type of the result.
    pub result: SqlType,
}

fn ladder(a: SqlType, b: SqlType) -> SqlType {
    const ORDER: [SqlType; 6] = [Int2, Int4, Int8, Numeric, Float4, Float8];
    let rank = |t| ORDER.iter().position(|o| *o == t).unwrap_or(0);
    if rank(a) >= rank(b) { a } else { b }
}

static OPERATORS: LazyLock<Vec<Operator>> = LazyLock::new(|| {
    use OperatorKind::{Arith, Compare, Like};
    let mut all = Vec::new();
    let integers = [Int2, Int4, Int8];
    let mut pairs: Vec<(SqlType, SqlType)> = vec![(Numeric, Numeric)];
    for group in [&integers[..], &[Float4, Float8]] {
        pairs.extend(group.iter().flat_map(|a| group.iter().map(move |b| (*a, *b))));
    }
    let mut arith = |op, a, b| {
        let common = ladder(a, b);
        all.push(Operator { kind: Arith(op), args: [a, b], common, result: common });
    };
    for (a, b) in &pairs {
        for op in [Arithmetic::Add, Arithmetic::Sub, Arithmetic::Mul, Arithmetic::Div] {
            arith(op, *a, *b);
        }
    }
    for t in [Int2, Int4, Int8, Numeric] {
        arith(Arithmetic::Rem, t, t);
    }
    let compared = [Bool, Oid, Tid, Text, Name, Bpchar, Char, Bytea, Timestamptz, PgLsn, Xid8];
    let mut compared_pairs: Vec<(SqlType, SqlType, SqlType)> =
        compared.iter().map(|t| (*t, *t, *t)).collect();
    compared_pairs.extend(pairs.iter().map(|(a, b)| (*a, *b, ladder(*a, *b))));
    compared_pairs.extend([(Name, Text, Text), (Text, Name, Text)]);
    for op in [
        Comparison::Eq,
        Comparison::Ne,
        Comparison::Lt,
        Comparison::Le,
        Comparison::Gt,
        Comparison::Ge,
    ] {
        for (a, b, common) in &compared_pairs {
            all.push(Operator { kind: Compare(op), args: [*a, *b], common: *common, result: Bool });
        }
        if matches!(op, Comparison::Eq | Comparison::Ne) {
            for (a, b, common) in [(Xid, Xid, Xid), (Xid, Int4, Xid)] {
                all.push(Operator { kind: Compare(op), args: [a, b], common, result: Bool });
            }
        }
    }
    let equal = Compare(Comparison::Eq);
    all.push(Operator { kind: equal, args: [Cid, Cid], common: Cid, result: Bool });
    for t in [Text, Name, Bpchar] {
        all.push(Operator { kind: Like, args: [t, Text], common: Text, result: Bool });
    }
    all
});

/// Finds the operator for two operand types.
pub fn operator(kind: OperatorKind, left: SqlType, right: SqlType) -> Choice<&'static Operator> {
    let candidates: Vec<(&'static Operator, &[SqlType])> =
        OPERATORS.iter().filter(|o| o.kind == kind).map(|o| (o, &o.args[..])).collect();
    let exact =
        |l: SqlType, r: SqlType| candidates.iter().find(|(o, _)| o.args == [l, r]).map(|(o, _)| *o);
    let found = match (left, right) {
        // PostgreSQL has arithmetic for more types than these, so two literals could be anything.
        (Unknown, Unknown) if matches!(kind, OperatorKind::Arith(_)) => return Choice::Ambiguous,
        (Unknown, Unknown) => None,
        (Unknown, known) | (known, Unknown) => exact(known, known),
        _ => exact(left, right),
    };
    match found {
        Some(operator) => Choice::One(operator),
        None => choose(&candidates, &[left, right]),
    }
}

/// A function of pg_proc.
#[derive(Debug)]
pub struct FunctionDef {
    name: &'static str,
    /// Types of its arguments.
    pub args: &'static [SqlType],
    /// Type of its result.
    pub result: SqlType,
    /// What it does.
    pub function: Function,
    /// It always gives the same result for the same arguments.
    immutable: bool,
}

/// An immutable function.
const fn pure(
    name: &'static str,
    args: &'static [SqlType],
    result: SqlType,
    function: Function,
) -> FunctionDef {
    FunctionDef { name, args, result, function, immutable: true }
}

const fn def(
    name: &'static str,
    args: &'static [SqlType],
    result: SqlType,
    function: Function,
) -> FunctionDef {
    FunctionDef { immutable: false, ..pure(name, args, result, function) }
}

const fn rows(name: &'static str, args: &'static [SqlType], function: RowFunction) -> FunctionDef {
    def(name, args, Record, Function::Rows(function))
}

/// bt_index_check
const LEAVES: Function = Function::IndexCheck { parents: false };
/// bt_index_parent_check
const PARENTS: Function = Function::IndexCheck { parents: true };

static FUNCTIONS: &[FunctionDef] = &[
    pure("abs", &[Int2], Int2, Function::Abs),
    pure("abs", &[Int4], Int4, Function::Abs),
    pure("abs", &[Int8], Int8, Function::Abs),
    pure("abs", &[Float4], Float4, Function::Abs),
    pure("abs", &[Float8], Float8, Function::Abs),
    pure("abs", &[Numeric], Numeric, Function::Abs),
    pure("btrim", &[Text], Text, Function::Trim),
    pure("ceil", &[Float8], Float8, Function::Ceil),
    pure("ceil", &[Numeric], Numeric, Function::Ceil),
    pure("ceiling", &[Float8], Float8, Function::Ceil),
    pure("ceiling", &[Numeric], Numeric, Function::Ceil),
    pure("char_length", &[Text], Int4, Function::CharLength),
    pure("character_length", &[Text], Int4, Function::CharLength),
    def("currval", &[Regclass], Int8, Function::Currval),
    def("lastval", &[], Int8, Function::Lastval),
    def("nextval", &[Regclass], Int8, Function::Nextval),
    def("setval", &[Regclass, Int8], Int8, Function::Setval),
    def("setval", &[Regclass, Int8, Bool], Int8, Function::Setval),
    def("pg_get_serial_sequence", &[Text, Text], Text, Function::SerialSequence),
    rows("pg_get_sequence_data", &[Regclass], RowFunction::SequenceData),
    def("pg_sequence_last_value", &[Regclass], Int8, Function::SequenceLastValue),
    rows("pg_sequence_parameters", &[Oid], RowFunction::SequenceParameters),
    def("current_database", &[], Name, Function::CurrentDatabase),
    def("current_catalog", &[], Name, Function::CurrentDatabase),
    def("current_role", &[], Name, Function::CurrentUser),
    def("current_schema", &[], Name, Function::CurrentSchema),
    def("current_setting", &[Text], Text, Function::CurrentSetting),
    def("current_setting", &[Text, Bool], Text, Function::CurrentSetting),
    def("current_user", &[], Name, Function::CurrentUser),
    pure("floor", &[Float8], Float8, Function::Floor),
    pure("floor", &[Numeric], Numeric, Function::Floor),
    def("format_type", &[Oid, Int4], Text, Function::FormatType),
    pure("left", &[Text, Int4], Text, Function::Left),
    pure("length", &[Text], Int4, Function::CharLength),
    pure("lower", &[Text], Text, Function::Lower),
    pure("octet_length", &[Text], Int4, Function::OctetLength),
    def("pg_backend_pid", &[], Int4, Function::PgBackendPid),
    def("pg_backup_start", &[Text], PgLsn, Function::PgBackupStart),
    def("pg_backup_start", &[Text, Bool], PgLsn, Function::PgBackupStart),
    rows("pg_backup_stop", &[], RowFunction::BackupStop),
    rows("pg_backup_stop", &[Bool], RowFunction::BackupStop),
    rows("pg_buffercache_checksums", &[], RowFunction::Checksums),
    rows("pg_buffercache_evict", &[Int4], RowFunction::Evict),
    rows("pg_buffercache_evict_all", &[], RowFunction::EvictAll),
    rows("pg_buffercache_evict_relation", &[Regclass], RowFunction::EvictRelation),
    rows("pg_buffercache_mark_dirty", &[Int4], RowFunction::MarkDirty),
    rows("pg_buffercache_mark_dirty_all", &[], RowFunction::MarkDirtyAll),
    rows("pg_buffercache_mark_dirty_relation", &[Regclass], RowFunction::MarkDirtyRelation),
    rows("pg_buffercache_summary", &[], RowFunction::Summary),
    rows("pg_buffercache_usage_counts", &[], RowFunction::UsageCounts),
    rows("pg_control_system", &[], RowFunction::ControlSystem),
    def("pg_current_wal_flush_lsn", &[], PgLsn, Function::PgCurrentWalFlushLsn),
    def("pg_current_wal_insert_lsn", &[], PgLsn, Function::PgCurrentWalInsertLsn),
    def("pg_current_wal_lsn", &[], PgLsn, Function::PgCurrentWalLsn),
    def("pg_is_in_recovery", &[], Bool, Function::PgIsInRecovery),
    def("bt_index_check", &[Regclass], Void, LEAVES),
    def("bt_index_check", &[Regclass, Bool], Void, LEAVES),
    def("bt_index_check", &[Regclass, Bool, Bool], Void, LEAVES),
    def("bt_index_parent_check", &[Regclass], Void, PARENTS),
    def("bt_index_parent_check", &[Regclass, Bool], Void, PARENTS),
    def("bt_index_parent_check", &[Regclass, Bool, Bool], Void, PARENTS),
    def("bt_index_parent_check", &[Regclass, Bool, Bool, Bool], Void, PARENTS),
    def("pg_prewarm", &[Regclass], Int8, Function::PgPrewarm),
    def("pg_prewarm", &[Regclass, Text], Int8, Function::PgPrewarm),
    def("pg_prewarm", &[Regclass, Text, Text], Int8, Function::PgPrewarm),
    def("pg_prewarm", &[Regclass, Text, Text, Int8], Int8, Function::PgPrewarm),
    def("pg_prewarm", &[Regclass, Text, Text, Int8, Int8], Int8, Function::PgPrewarm),
    rows("pg_relation_kernel_cache", &[Regclass], RowFunction::KernelCache),
    def("pg_relation_size", &[Regclass], Int8, Function::PgRelationSize),
    def("pg_relation_size", &[Regclass, Text], Int8, Function::PgRelationSize),
    pure("pg_size_pretty", &[Int8], Text, Function::PgSizePretty),
    def("pg_sleep", &[Float8], Void, Function::PgSleep),
    def("pg_reload_conf", &[], Bool, Function::PgReloadConf),
    def("pg_create_restore_point", &[Text], PgLsn, Function::PgCreateRestorePoint),
    def("pg_stat_reset_shared", &[], Void, Function::PgStatResetShared),
    def("pg_stat_reset_shared", &[Text], Void, Function::PgStatResetShared),
    def("pg_switch_wal", &[], PgLsn, Function::PgSwitchWal),
    def("pg_table_size", &[Regclass], Int8, Function::PgTableSize),
    def("pg_total_relation_size", &[Regclass], Int8, Function::PgTotalRelationSize),
    def("pg_wal_lsn_diff", &[PgLsn, PgLsn], Numeric, Function::PgWalLsnDiff),
    def("pg_walfile_name", &[PgLsn], Text, Function::PgWalfileName),
    def("random", &[], Float8, Function::Random),
    pure("repeat", &[Text, Int4], Text, Function::Repeat),
    pure("replace", &[Text, Text, Text], Text, Function::Replace),
    pure("right", &[Text, Int4], Text, Function::Right),
    pure("round", &[Float8], Float8, Function::Round),
    pure("round", &[Numeric], Numeric, Function::Round),
    pure("round", &[Numeric, Int4], Numeric, Function::RoundTo),
    def("session_user", &[], Name, Function::CurrentUser),
    def("set_config", &[Text, Text, Bool], Text, Function::SetConfig),
    pure("sqrt", &[Float8], Float8, Function::Sqrt),
    pure("starts_with", &[Text, Text], Bool, Function::StartsWith),
    pure("strpos", &[Text, Text], Int4, Function::Strpos),
    pure("substr", &[Text, Int4], Text, Function::Substr),
    pure("substr", &[Text, Int4, Int4], Text, Function::Substr),
    pure("substring", &[Text, Int4], Text, Function::Substr),
    pure("substring", &[Text, Int4, Int4], Text, Function::Substr),
    def("pg_advisory_unlock_all", &[], Void, Function::AdvisoryUnlockAll),
    def("pg_blocking_pids", &[Int4], Int4Array, Function::PgBlockingPids),
    def("pg_cancel_backend", &[Int4], Bool, Function::PgCancelBackend),
    def("pg_current_xact_id", &[], Xid8, Function::CurrentXid),
    def("pg_current_xact_id_if_assigned", &[], Xid8, Function::XidIfAssigned),
    def(
        "pg_isolation_test_session_is_blocked",
        &[Int4, Int4Array],
        Bool,
        Function::PgSessionIsBlocked,
    ),
    def("txid_current", &[], Int8, Function::CurrentXid),
    def("txid_current_if_assigned", &[], Int8, Function::XidIfAssigned),
    pure("upper", &[Text], Text, Function::Upper),
    def("user", &[], Name, Function::CurrentUser),
    def("version", &[], Text, Function::Version),
];

/// A function of advisory locks: their key is a bigint, or two integers.
const fn advisory(name: &'static str, result: SqlType, function: Function) -> [FunctionDef; 2] {
    [def(name, &[Int8], result, function), def(name, &[Int4, Int4], result, function)]
}

/// One that takes a lock, and waits for it or not, to the end of the transaction or the session.
const fn locks(
    name: &'static str,
    wait: bool,
    transaction: bool,
    shared: bool,
) -> [FunctionDef; 2] {
    let lock = AdvisoryLock { wait, transaction, shared };
    advisory(name, if wait { Void } else { Bool }, Function::AdvisoryLock(lock))
}

static ADVISORY: &[[FunctionDef; 2]] = &[
    locks("pg_advisory_lock", true, false, false),
    locks("pg_advisory_lock_shared", true, false, true),
    locks("pg_advisory_xact_lock", true, true, false),
    locks("pg_advisory_xact_lock_shared", true, true, true),
    locks("pg_try_advisory_lock", false, false, false),
    locks("pg_try_advisory_lock_shared", false, false, true),
    locks("pg_try_advisory_xact_lock", false, true, false),
    locks("pg_try_advisory_xact_lock_shared", false, true, true),
    advisory("pg_advisory_unlock", Bool, Function::AdvisoryUnlock { shared: false }),
    advisory("pg_advisory_unlock_shared", Bool, Function::AdvisoryUnlock { shared: true }),
];

/// Does a function always give the same result for the same arguments?
pub fn is_immutable(function: Function) -> bool {
    // concat() is called by a name of its own, for arguments of any type.
    function == Function::Concat || FUNCTIONS.iter().any(|f| f.immutable && f.function == function)
}

/// May a worker of a parallel scan call it? Not if it needs the session. (Of these, PostgreSQL
/// marks some safe that look into the catalogs, and some restricted or unsafe.)
pub fn is_parallel_safe(function: Function) -> bool {
    matches!(
        function,
        Function::CurrentDatabase
            | Function::CurrentSchema
            | Function::CurrentSetting
            | Function::CurrentUser
            | Function::FormatType
            | Function::PgIsInRecovery
            | Function::Version
    ) || is_immutable(function)
}

/// The functions of that name that are built in.
pub fn built_in(name: &str) -> Vec<&'static FunctionDef> {
    FUNCTIONS.iter().chain(ADVISORY.as_flattened()).filter(|f| f.name == name).collect()
}

/// The name of a function.
pub fn function_name(function: Function) -> &'static str {
    let mut all = FUNCTIONS.iter().chain(ADVISORY.as_flattened());
    // concat() is called by a name of its own.
    all.find(|def| def.function == function).map_or("concat", |def| def.name)
}

/// Chooses among functions of one name by the types of the arguments.
pub fn function(
    named: &[&'static FunctionDef],
    actual: &[SqlType],
) -> Choice<&'static FunctionDef> {
    let candidates: Vec<(&'static FunctionDef, &[SqlType])> =
        named.iter().filter(|f| f.args.len() == actual.len()).map(|f| (*f, f.args)).collect();
    match candidates.iter().find(|(_, args)| *args == actual) {
        Some((exact, _)) => Choice::One(exact),
        None => choose(&candidates, actual),
    }
}
