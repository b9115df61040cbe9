//! Typed expressions: the planner builds them and the executor evaluates them.
//!
//! Operands of comparisons and arithmetic have been cast to one type, so evaluation goes by the
//! values' variants.

use super::order::ValueOrder;
use super::rowsets::RowFunction;
use forebay_collation::Collation;
use forebay_engine::nodes::SqlValueFunctionOp;
use forebay_engine::syscache::ProcRow;
use forebay_types::{Datum, Oid, SqlType};
use smallvec::SmallVec;
use std::sync::Arc;

/// The code of a function: its place in the executor's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// Its place.
    pub entry: u16,
    /// Whether it needs the session.
    pub session: bool,
    /// The function of rows that it is.
    pub rows: Option<RowFunction>,
}

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

impl Comparison {
    /// The comparison with its operands exchanged.
    pub fn exchanged(self) -> Comparison {
        match self {
            Comparison::Lt => Comparison::Gt,
            Comparison::Le => Comparison::Ge,
            Comparison::Gt => Comparison::Lt,
            Comparison::Ge => Comparison::Le,
            same @ (Comparison::Eq | Comparison::Ne) => same,
        }
    }
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

/// A function that is called, with what it may ask of the call.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its row of pg_proc.
    pub row: Arc<ProcRow>,
    /// Its code.
    pub builtin: Builtin,
    /// The types of the arguments.
    pub args: SmallVec<[Oid; 4]>,
    /// The type of the result.
    pub result: Oid,
    /// Whether the last argument is an array of variadic ones.
    pub variadic: bool,
    /// The collation of its inputs, if it goes by one.
    pub collation: Option<Arc<Collation>>,
}

impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        (self.row.oid, &self.args, self.result, self.variadic, &self.collation)
            == (other.row.oid, &other.args, other.result, other.variadic, &other.collation)
    }
}

impl Function {
    /// Does it always give the same result for the same arguments?
    pub fn is_immutable(&self) -> bool {
        self.row.volatility == b'i'
    }

    /// May a worker of a parallel scan call it? Not if it needs the session. (Of these, PostgreSQL
    /// marks some safe that look into the catalogs, and some restricted or unsafe.)
    pub fn is_parallel_safe(&self) -> bool {
        self.is_immutable() && !self.builtin.session || SAFE.contains(&self.row.oid)
    }

    /// Does it read only a part of its first argument, or only its size?
    pub fn takes_part(&self) -> bool {
        PARTS.iter().any(|(oids, _)| oids.contains(&self.row.oid))
    }

    /// Which part of its first argument it reads.
    pub fn part(&self) -> Option<PartOf> {
        let found = PARTS.iter().find(|(oids, _)| oids.contains(&self.row.oid));
        found.map(|(_, part)| *part)
    }
}

/// The part of a text that a function reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the functions")]
pub enum PartOf {
    OctetLength,
    CharLength,
    Substr,
    Left,
    StartsWith,
}

/// Functions that read a part of their first argument.
const PARTS: [(&[Oid], PartOf); 5] = [
    (&[1374], PartOf::OctetLength),
    (&[1317, 1369, 1381], PartOf::CharLength),
    (&[877, 883, 936, 937], PartOf::Substr),
    (&[3060], PartOf::Left),
    (&[3696], PartOf::StartsWith),
];

/// Functions that are not immutable and need no session: current_database, current_schema,
/// current_setting, current_user, session_user, format_type, pg_is_in_recovery, version.
const SAFE: [Oid; 9] = [861, 1402, 2077, 3294, 745, 746, 1081, 3810, 89];

/// The collations of the columns of rows, as far as they order by more than bytes.
pub type RowCollations = [Option<Arc<Collation>>];

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
    /// `<`, `<=`, `>` or `>=` of texts, or values with texts in them, by a collation that orders
    /// them by more than their bytes.
    Collated(Comparison, Arc<Collation>, Box<(Expr, Expr)>),
    Arith(Arithmetic, Box<(Expr, Expr)>),
    Negate(Box<Expr>),
    Concat(Box<(Expr, Expr)>),
    Like {
        operands: Box<(Expr, Expr)>,
        escape: Option<char>,
        negated: bool,
        /// ILIKE: the collation that makes lower case.
        folded_by: Option<Arc<Collation>>,
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
    /// A comparison of rows of at least two columns by `<`, `<=`, `>` or `>=`. With the collations
    /// of the columns, as far as they order by more than bytes.
    CompareRows(Comparison, Vec<(Expr, Expr)>, Vec<Option<Arc<Collation>>>),
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
        order: ValueOrder,
    },
    Cast {
        expr: Box<Expr>,
        from: SqlType,
        to: SqlType,
    },
    Call(Arc<Function>, Vec<Expr>),
    /// The value that SQL names without parentheses, with digits of seconds or -1.
    Value(SqlValueFunctionOp, i32),
    /// `operator ANY (array)`, or ALL: a test over a row of the value and an element.
    AnyOf {
        value: Box<Expr>,
        array: Box<Expr>,
        element: SqlType,
        test: Box<Expr>,
        any: bool,
    },
    /// An array of values. `nested`: of arrays, which are its rows.
    Array {
        elements: Vec<Expr>,
        element: SqlType,
        nested: bool,
    },
    /// An array with each element converted: an expression over a row of the element.
    MapArray {
        array: Box<Expr>,
        element: Box<Expr>,
        to: SqlType,
    },
    /// An element or a slice of an array. Bounds that a slice leaves out are None.
    Subscript {
        array: Box<Expr>,
        upper: Vec<Option<Expr>>,
        lower: Vec<Option<Expr>>,
        slice: bool,
        element: SqlType,
    },
    /// Result of an aggregate, until the planner has given it a column.
    Aggregate(usize),
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
        Datum::Lsn(_) => SqlType::PgLsn,
        Datum::Xid8(_) => SqlType::Xid8,
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
            | Expr::Value(..)
            | Expr::Aggregate(_) => {}
            Expr::And(list)
            | Expr::Or(list)
            | Expr::Coalesce(list)
            | Expr::Call(_, list)
            | Expr::Array { elements: list, .. }
            | Expr::Extreme { list, .. } => list.$iter().for_each($f),
            Expr::Not(e) | Expr::IsNull(e) | Expr::IsNotNull(e) | Expr::Negate(e) => $f(e),
            Expr::IsBool { expr, .. } | Expr::Cast { expr, .. } => $f(expr),
            Expr::Compare(_, pair)
            | Expr::Collated(_, _, pair)
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
            Expr::InArray { expr, array, .. } | Expr::AnyOf { value: expr, array, .. } => {
                $f(expr);
                $f(array);
            }
            Expr::MapArray { array, .. } => $f(array),
            Expr::Subscript { array, upper, lower, .. } => {
                $f(array);
                upper.$iter().flatten().for_each(&mut *$f);
                lower.$iter().flatten().for_each($f);
            }
            Expr::CompareRows(_, pairs, _) => {
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

/// The parts of a condition that must all hold.
pub(super) fn conjuncts(condition: Option<&Expr>) -> Vec<&Expr> {
    fn add<'e>(e: &'e Expr, found: &mut Vec<&'e Expr>) {
        match e {
            Expr::And(list) => list.iter().for_each(|e| add(e, found)),
            other => found.push(other),
        }
    }
    let mut found = Vec::new();
    condition.into_iter().for_each(|e| add(e, &mut found));
    found
}
