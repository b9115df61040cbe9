//! An analyzed expression, and the making of nodes.

use forebay_engine::nodes::{
    BoolExpr, BoolExprType, CoercionForm, Const, Expr, FuncExpr, Location, Var, VarReturningType,
    type_of,
};
use forebay_types::{Datum, Oid, oids};

/// An expression with where it starts.
#[derive(Clone, Debug)]
pub struct Typed {
    /// The expression. Its type is `unknown` if it is a literal or parameter that has not met its
    /// context.
    pub expr: Expr,
    /// Where it starts.
    pub position: u32,
}

impl Typed {
    /// An expression at a position.
    pub fn new(expr: impl Into<Expr>, position: u32) -> Typed {
        Typed { expr: expr.into(), position }
    }

    /// Its type.
    pub fn ty(&self) -> Oid {
        type_of(&self.expr)
    }

    /// Whether it is still unknown what it is.
    pub fn is_unknown(&self) -> bool {
        self.ty() == oids::UNKNOWN
    }
}

/// A constant of a type of fixed length that is passed by value.
fn by_value(ty: Oid, len: i16, value: Datum<'static>) -> Expr {
    Expr::Const(Const {
        consttype: ty,
        consttypmod: -1,
        constcollid: 0,
        constlen: len,
        constbyval: true,
        constvalue: value,
        location: Location::UNKNOWN,
    })
}

/// A constant of type integer.
pub(super) fn int4(value: i32) -> Expr {
    by_value(oids::INT4, 4, Datum::Int4(value))
}

/// A constant of type bigint.
pub(super) fn int8(value: i64) -> Expr {
    by_value(oids::INT8, 8, Datum::Int8(value))
}

/// A constant of type boolean.
pub(super) fn boolean(value: Option<bool>) -> Expr {
    by_value(oids::BOOL, 1, value.map_or(Datum::Null, Datum::Bool))
}

/// A constant of type numeric.
pub(super) fn numeric(value: Datum<'static>) -> Expr {
    Expr::Const(Const { constlen: -1, constbyval: false, ..constant(oids::NUMERIC, value) })
}

/// A constant of type text.
pub(super) fn text(value: &str) -> Expr {
    let value = Datum::string(value.to_owned());
    Expr::Const(Const { constcollid: 100, ..constant(oids::TEXT, value) })
}

/// A literal whose type is not known yet.
pub(super) fn unknown(value: Datum<'static>) -> Expr {
    Expr::Const(Const { constlen: -2, ..constant(oids::UNKNOWN, value) })
}

fn constant(ty: Oid, value: Datum<'static>) -> Const {
    Const {
        consttype: ty,
        consttypmod: -1,
        constcollid: 0,
        constlen: -1,
        constbyval: false,
        constvalue: value,
        location: Location::UNKNOWN,
    }
}

/// AND, OR or NOT.
pub(super) fn logic(op: BoolExprType, args: Vec<Expr>) -> Expr {
    Expr::Bool(BoolExpr { boolop: op, args, location: Location::UNKNOWN })
}

/// NOT.
pub(super) fn not(arg: Expr) -> Expr {
    logic(BoolExprType::Not, vec![arg])
}

/// A call of a function.
pub(super) fn call(function: Oid, result: Oid, format: CoercionForm, args: Vec<Expr>) -> FuncExpr {
    FuncExpr {
        funcid: function,
        funcresulttype: result,
        funcretset: false,
        funcvariadic: false,
        funcformat: format,
        funccollid: 0,
        inputcollid: 0,
        args,
        location: Location::UNKNOWN,
    }
}

/// The relation number of aggregates' results: what varattno counts, from 1, are the aggregates of
/// the query.
pub const AGGREGATES: i32 = -4;

/// The result of an aggregate.
pub(super) fn aggregate(number: usize, ty: Oid, collation: Oid) -> Expr {
    let number = i32::try_from(number + 1).unwrap_or(i32::MAX);
    Expr::Var(Var {
        varno: AGGREGATES,
        varattno: number,
        vartype: ty,
        vartypmod: -1,
        varcollid: collation,
        varnullingrels: Default::default(),
        varlevelsup: 0,
        varreturningtype: VarReturningType::Default,
        varnosyn: 0,
        varattnosyn: number,
        location: Location::UNKNOWN,
    })
}
