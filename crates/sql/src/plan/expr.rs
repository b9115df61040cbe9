//! Typed expressions: the planner builds them and the executor evaluates them.
//!
//! Operands of comparisons and arithmetic have been cast to one type, so evaluation goes by the
//! values' variants.

use super::rowsets::RowFunction;
use forebay_types::{Datum, SqlType};

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the operators")]
pub enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Arithmetic with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the operators")]
pub enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

/// A function. If an argument is NULL, so is its result, except for functions that
/// [`Function::takes_null`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the functions")]
pub enum Function {
    Abs,
    Ceil,
    CharLength,
    /// concat() of texts, NULLs left out.
    Concat,
    CurrentDatabase,
    CurrentSchema,
    CurrentSetting,
    CurrentUser,
    Floor,
    FormatType,
    Left,
    Lower,
    OctetLength,
    PgBackendPid,
    PgCurrentWalFlushLsn,
    PgCurrentWalInsertLsn,
    PgCurrentWalLsn,
    PgIsInRecovery,
    /// bt_index_check, or bt_index_parent_check.
    IndexCheck {
        parents: bool,
    },
    PgPrewarm,
    PgRelationSize,
    PgSizePretty,
    PgSleep,
    PgCreateRestorePoint,
    PgReloadConf,
    PgStatResetShared,
    PgSwitchWal,
    PgBackupStart,
    PgTableSize,
    PgTotalRelationSize,
    PgWalfileName,
    PgWalLsnDiff,
    Random,
    Repeat,
    Replace,
    Right,
    Round,
    RoundTo,
    /// Its result is a row, or several.
    Rows(RowFunction),
    SetConfig,
    Sqrt,
    StartsWith,
    Strpos,
    Substr,
    Trim,
    /// A regclass in text: the table's name.
    RegclassName,
    Upper,
    Version,
    AdvisoryLock(AdvisoryLock),
    AdvisoryUnlock {
        shared: bool,
    },
    AdvisoryUnlockAll,
    PgBlockingPids,
    PgCancelBackend,
    /// pg_isolation_test_session_is_blocked
    PgSessionIsBlocked,
    /// txid_current and pg_current_xact_id
    CurrentXid,
    /// The same, NULL if the transaction has none.
    XidIfAssigned,
    Nextval,
    Currval,
    Lastval,
    Setval,
    /// pg_sequence_last_value
    SequenceLastValue,
    /// pg_get_serial_sequence
    SerialSequence,
}

/// How a function takes an advisory lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdvisoryLock {
    /// It waits for it; if not, it returns whether it got it.
    pub wait: bool,
    /// To the end of the transaction, not of the session.
    pub transaction: bool,
    /// Beside others that are shared.
    pub shared: bool,
}

impl Function {
    /// Is it called with NULL?
    pub fn takes_null(self) -> bool {
        matches!(self, Function::Concat | Function::PgPrewarm | Function::PgStatResetShared)
    }

    /// Does it read only a part of its first argument, or only its size?
    pub fn takes_part(self) -> bool {
        use Function::{CharLength, Left, OctetLength, StartsWith, Substr};
        matches!(self, CharLength | Left | OctetLength | StartsWith | Substr)
    }
}

/// An expression. `Column` is an index into the row at hand.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are operands in order")]
pub enum Expr {
    Const(Datum<'static>),
    Column(usize),
    Param(usize),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull(Box<Expr>),
    IsNotNull(Box<Expr>),
    /// IS TRUE, IS FALSE
    IsBool {
        expr: Box<Expr>,
        value: bool,
        negated: bool,
    },
    IsDistinct {
        operands: Box<(Expr, Expr)>,
        negated: bool,
    },
    Compare(Comparison, Box<(Expr, Expr)>),
    Arith(Arithmetic, Box<(Expr, Expr)>),
    Negate(Box<Expr>),
    Concat(Box<(Expr, Expr)>),
    Like {
        operands: Box<(Expr, Expr)>,
        escape: Option<char>,
        negated: bool,
        ignore_case: bool,
    },
    InList {
        expr: Box<Expr>,
        list: Vec<Expr>,
        /// The type that the values were given in; they are cast to that of the operand.
        element: SqlType,
        negated: bool,
    },
    /// `= ANY (array)`, negated: `<> ALL (array)`. The elements are read as values of the first
    /// type, and compared as values of the second one.
    InArray {
        expr: Box<Expr>,
        array: Box<Expr>,
        elements: (SqlType, SqlType),
        negated: bool,
    },
    /// A comparison of rows of at least two columns by `<`, `<=`, `>` or `>=`.
    CompareRows(Comparison, Vec<(Expr, Expr)>),
    Case {
        whens: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    Coalesce(Vec<Expr>),
    NullIf(Box<(Expr, Expr)>),
    /// GREATEST, LEAST
    Extreme {
        list: Vec<Expr>,
        greatest: bool,
    },
    Cast {
        expr: Box<Expr>,
        from: SqlType,
        to: SqlType,
    },
    Call(Function, Vec<Expr>),
    /// A table's name where its OID is wanted; the planner replaces it.
    TableOid {
        name: String,
        position: u32,
    },
    /// Result of an aggregate, until the planner has given it a column.
    Aggregate(usize),
}

/// An expression with what the planner knows of it.
#[derive(Clone, Debug)]
pub struct Typed {
    /// The expression.
    pub expr: Expr,
    /// Its type. `Unknown`: a literal or parameter that has not met its context.
    pub ty: SqlType,
    /// Where it starts.
    pub position: u32,
}

impl Typed {
    /// A typed expression.
    pub fn new(expr: Expr, ty: SqlType, position: u32) -> Typed {
        Typed { expr, ty, position }
    }
}

/// The type of a constant.
pub(super) fn type_of(value: &Datum<'_>) -> SqlType {
    match value {
        Datum::Bool(_) => SqlType::Bool,
        Datum::Int2(_) => SqlType::Int2,
        Datum::Int4(_) => SqlType::Int4,
        Datum::Int8(_) => SqlType::Int8,
        Datum::Float4(_) => SqlType::Float4,
        Datum::Float8(_) => SqlType::Float8,
        Datum::Oid(_) => SqlType::Oid,
        Datum::Xid(_) => SqlType::Xid,
        Datum::Tid(..) => SqlType::Tid,
        Datum::Char(_) => SqlType::Char,
        Datum::Numeric(_) => SqlType::Numeric,
        Datum::Timestamptz(_) => SqlType::Timestamptz,
        _ => SqlType::Text,
    }
}

/// Calls a function on each direct operand of an expression, shared or to be changed.
macro_rules! each_operand {
    ($of:expr, $f:expr, $iter:ident $(, $change:tt)?) => {
        match $of {
            Expr::Const(_)
            | Expr::Column(_)
            | Expr::Param(_)
            | Expr::Aggregate(_)
            | Expr::TableOid { .. } => {}
            Expr::And(list)
            | Expr::Or(list)
            | Expr::Coalesce(list)
            | Expr::Call(_, list)
            | Expr::Extreme { list, .. } => list.$iter().for_each($f),
            Expr::Not(e) | Expr::IsNull(e) | Expr::IsNotNull(e) | Expr::Negate(e) => $f(e),
            Expr::IsBool { expr, .. } | Expr::Cast { expr, .. } => $f(expr),
            Expr::Compare(_, pair)
            | Expr::Arith(_, pair)
            | Expr::Concat(pair)
            | Expr::NullIf(pair)
            | Expr::IsDistinct { operands: pair, .. }
            | Expr::Like { operands: pair, .. } => {
                $f(& $($change)? pair.0);
                $f(& $($change)? pair.1);
            }
            Expr::InList { expr, list, .. } => {
                $f(expr);
                list.$iter().for_each($f);
            }
            Expr::InArray { expr, array, .. } => {
                $f(expr);
                $f(array);
            }
            Expr::CompareRows(_, pairs) => {
                for (a, b) in pairs {
                    $f(a);
                    $f(b);
                }
            }
            Expr::Case { whens, otherwise } => {
                for (when, then) in whens {
                    $f(when);
                    $f(then);
                }
                otherwise.$iter().for_each(|e| $f(e));
            }
        }
    };
}

impl Expr {
    /// Calls `f` on each direct operand.
    pub fn for_each_child<'e>(&'e self, f: &mut dyn FnMut(&'e Expr)) {
        each_operand!(self, f, iter);
    }

    /// The same, to change the operands.
    pub fn for_each_child_mut(&mut self, f: &mut dyn FnMut(&mut Expr)) {
        each_operand!(self, f, iter_mut, mut);
    }

    /// Marks the columns it reads.
    pub fn mark_columns(&self, read: &mut Vec<bool>) {
        if let Expr::Column(i) = self {
            read.resize(read.len().max(i + 1), false);
            read[*i] = true;
        }
        self.for_each_child(&mut |child| child.mark_columns(read));
    }

    /// Marks the columns whose values it reads, not those of which it takes a part or less.
    pub fn mark_whole(&self, read: &mut Vec<bool>) {
        match self {
            Expr::Column(_) => self.mark_columns(read),
            Expr::IsNull(x) | Expr::IsNotNull(x) if matches!(**x, Expr::Column(_)) => {}
            Expr::Call(function, args) if function.takes_part() => {
                let parts = matches!(args.first(), Some(Expr::Column(_))).into();
                args.iter().skip(parts).for_each(|arg| arg.mark_whole(read));
            }
            _ => self.for_each_child(&mut |child| child.mark_whole(read)),
        }
    }

    /// How many expressions it is made of.
    pub fn size(&self) -> usize {
        let mut size = 1;
        self.for_each_child(&mut |child| size += child.size());
        size
    }

    /// Does `test` hold for it or anything below it?
    pub fn any(&self, test: &dyn Fn(&Expr) -> bool) -> bool {
        let mut found = test(self);
        self.for_each_child(&mut |child| found = found || child.any(test));
        found
    }
}
