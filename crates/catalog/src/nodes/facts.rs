//! What follows from an expression: its type, type modifier, collation and position.

use forebay_types::{Datum, Oid, oids};

use super::expr::{CaseExpr, Expr, FuncExpr};
use super::kinds::CoercionForm;
use super::value::Location;

/// The collation "C".
const C_COLLATION: Oid = 950;

/// The type of an expression's value.
pub fn type_of(expr: &Expr) -> Oid {
    match expr {
        Expr::Var(node) => node.vartype,
        Expr::Const(node) => node.consttype,
        Expr::Param(node) => node.paramtype,
        Expr::Func(node) => node.funcresulttype,
        Expr::NamedArg(node) => type_of(&node.arg),
        Expr::Op(node) => node.opresulttype,
        Expr::Distinct(node) => node.opresulttype,
        Expr::NullIf(node) => node.opresulttype,
        Expr::SubscriptingRef(node) => node.refrestype,
        Expr::FieldSelect(node) => node.resulttype,
        Expr::RelabelType(node) => node.resulttype,
        Expr::CoerceViaIo(node) => node.resulttype,
        Expr::ArrayCoerce(node) => node.resulttype,
        Expr::ConvertRowtype(node) => node.resulttype,
        Expr::Collate(node) => type_of(&node.arg),
        Expr::Case(node) => node.casetype,
        Expr::CaseTest(node) => node.type_id,
        Expr::Array(node) => node.array_typeid,
        Expr::Row(node) => node.row_typeid,
        Expr::Coalesce(node) => node.coalescetype,
        Expr::MinMax(node) => node.minmaxtype,
        Expr::SqlValue(node) => node.type_oid,
        Expr::CoerceToDomain(node) => node.resulttype,
        Expr::CoerceToDomainValue(node) => node.type_id,
        Expr::SetToDefault(node) => node.type_id,
        Expr::NextValue(node) => node.type_id,
        Expr::Returning(node) => type_of(&node.retexpr),
        Expr::ScalarArrayOp(_)
        | Expr::Bool(_)
        | Expr::RowCompare(_)
        | Expr::NullTest(_)
        | Expr::BooleanTest(_) => oids::BOOL,
    }
}

/// The type modifier of an expression's value, -1 if it has none.
pub fn typmod_of(expr: &Expr) -> i32 {
    match expr {
        Expr::Var(node) => node.vartypmod,
        Expr::Const(node) => node.consttypmod,
        Expr::Param(node) => node.paramtypmod,
        Expr::SubscriptingRef(node) => node.reftypmod,
        Expr::Func(node) => length_coercion(node).unwrap_or(-1),
        Expr::NamedArg(node) => typmod_of(&node.arg),
        Expr::NullIf(node) => node.args.first().map_or(-1, typmod_of),
        Expr::FieldSelect(node) => node.resulttypmod,
        Expr::RelabelType(node) => node.resulttypmod,
        Expr::ArrayCoerce(node) => node.resulttypmod,
        Expr::Collate(node) => typmod_of(&node.arg),
        Expr::Case(node) => case_typmod(node),
        Expr::CaseTest(node) => node.type_mod,
        Expr::Array(node) => {
            let common = if node.multidims { node.array_typeid } else { node.element_typeid };
            common_typmod(common, node.elements.iter())
        }
        Expr::Coalesce(node) => common_typmod(node.coalescetype, node.args.iter()),
        Expr::MinMax(node) => common_typmod(node.minmaxtype, node.args.iter()),
        Expr::SqlValue(node) => node.typmod,
        Expr::CoerceToDomain(node) => node.resulttypmod,
        Expr::CoerceToDomainValue(node) => node.type_mod,
        Expr::SetToDefault(node) => node.type_mod,
        Expr::Returning(node) => typmod_of(&node.retexpr),
        Expr::Op(_)
        | Expr::Distinct(_)
        | Expr::ScalarArrayOp(_)
        | Expr::Bool(_)
        | Expr::CoerceViaIo(_)
        | Expr::ConvertRowtype(_)
        | Expr::Row(_)
        | Expr::RowCompare(_)
        | Expr::NullTest(_)
        | Expr::BooleanTest(_)
        | Expr::NextValue(_) => -1,
    }
}

/// The modifier that a call applies, if it is a cast to the length of a type: f(value, modifier).
pub fn length_coercion(call: &FuncExpr) -> Option<i32> {
    let cast = matches!(call.funcformat, CoercionForm::ExplicitCast | CoercionForm::ImplicitCast);
    match call.args.as_slice() {
        [_, Expr::Const(typmod)] | [_, Expr::Const(typmod), _] if cast => {
            let is_typmod = typmod.consttype == oids::INT4;
            match typmod.constvalue {
                Datum::Int4(typmod) if is_typmod => Some(typmod),
                _ => None,
            }
        }
        _ => None,
    }
}

fn case_typmod(case: &CaseExpr) -> i32 {
    let Some(defresult) = &case.defresult else { return -1 };
    let results = case.args.iter().map(|when| &*when.result);
    common_typmod(case.casetype, std::iter::once(&**defresult).chain(results))
}

/// The modifier that all these values of a type have, -1 if they differ.
fn common_typmod<'a>(ty: Oid, mut values: impl Iterator<Item = &'a Expr>) -> i32 {
    let Some(first) = values.next() else { return -1 };
    let typmod = typmod_of(first);
    let agrees = |value: &Expr| type_of(value) == ty && typmod_of(value) == typmod;
    if typmod >= 0 && type_of(first) == ty && values.all(agrees) { typmod } else { -1 }
}

/// The collation of an expression's value, 0 if it has none.
pub fn collation_of(expr: &Expr) -> Oid {
    match expr {
        Expr::Var(node) => node.varcollid,
        Expr::Const(node) => node.constcollid,
        Expr::Param(node) => node.paramcollid,
        Expr::Func(node) => node.funccollid,
        Expr::NamedArg(node) => collation_of(&node.arg),
        Expr::Op(node) => node.opcollid,
        Expr::Distinct(node) => node.opcollid,
        Expr::NullIf(node) => node.opcollid,
        Expr::SubscriptingRef(node) => node.refcollid,
        Expr::FieldSelect(node) => node.resultcollid,
        Expr::RelabelType(node) => node.resultcollid,
        Expr::CoerceViaIo(node) => node.resultcollid,
        Expr::ArrayCoerce(node) => node.resultcollid,
        Expr::Collate(node) => node.coll_oid,
        Expr::Case(node) => node.casecollid,
        Expr::CaseTest(node) => node.collation,
        Expr::Array(node) => node.array_collid,
        Expr::Coalesce(node) => node.coalescecollid,
        Expr::MinMax(node) => node.minmaxcollid,
        Expr::SqlValue(node) => {
            if node.type_oid == oids::NAME {
                C_COLLATION
            } else {
                0
            }
        }
        Expr::CoerceToDomain(node) => node.resultcollid,
        Expr::CoerceToDomainValue(node) => node.collation,
        Expr::SetToDefault(node) => node.collation,
        Expr::Returning(node) => collation_of(&node.retexpr),
        Expr::ScalarArrayOp(_)
        | Expr::Bool(_)
        | Expr::ConvertRowtype(_)
        | Expr::Row(_)
        | Expr::RowCompare(_)
        | Expr::NullTest(_)
        | Expr::BooleanTest(_)
        | Expr::NextValue(_) => 0,
    }
}

/// Where the expression begins in the statement's text, as far as its nodes say.
pub fn location_of(expr: &Expr) -> Location {
    let own = own_location(expr);
    let leftmost = match expr {
        // Their own position is that of the operator or the cast, after the first argument; or
        // they have none.
        Expr::Func(_)
        | Expr::NamedArg(_)
        | Expr::Op(_)
        | Expr::Distinct(_)
        | Expr::NullIf(_)
        | Expr::ScalarArrayOp(_)
        | Expr::Bool(_)
        | Expr::SubscriptingRef(_)
        | Expr::FieldSelect(_)
        | Expr::RelabelType(_)
        | Expr::CoerceViaIo(_)
        | Expr::ArrayCoerce(_)
        | Expr::ConvertRowtype(_)
        | Expr::Collate(_)
        | Expr::RowCompare(_)
        | Expr::NullTest(_)
        | Expr::BooleanTest(_)
        | Expr::CoerceToDomain(_)
        | Expr::Returning(_) => {
            let mut first = None;
            expr.visit_children(&mut |child| {
                first = first.or_else(|| Some(location_of(child)).filter(|at| at.0 >= 0));
            });
            first
        }
        _ => None,
    };
    match (own.0 >= 0, leftmost) {
        (true, Some(first)) => Location(own.0.min(first.0)),
        (false, Some(first)) => first,
        (_, None) => own,
    }
}

fn own_location(expr: &Expr) -> Location {
    match expr {
        Expr::Var(node) => node.location,
        Expr::Const(node) => node.location,
        Expr::Param(node) => node.location,
        Expr::Func(node) => node.location,
        Expr::NamedArg(node) => node.location,
        Expr::Op(node) => node.location,
        Expr::Distinct(node) => node.location,
        Expr::NullIf(node) => node.location,
        Expr::ScalarArrayOp(node) => node.location,
        Expr::Bool(node) => node.location,
        Expr::RelabelType(node) => node.location,
        Expr::CoerceViaIo(node) => node.location,
        Expr::ArrayCoerce(node) => node.location,
        Expr::ConvertRowtype(node) => node.location,
        Expr::Collate(node) => node.location,
        Expr::Case(node) => node.location,
        Expr::Array(node) => node.location,
        Expr::Row(node) => node.location,
        Expr::Coalesce(node) => node.location,
        Expr::MinMax(node) => node.location,
        Expr::SqlValue(node) => node.location,
        Expr::NullTest(node) => node.location,
        Expr::BooleanTest(node) => node.location,
        Expr::CoerceToDomain(node) => node.location,
        Expr::CoerceToDomainValue(node) => node.location,
        Expr::SetToDefault(node) => node.location,
        Expr::SubscriptingRef(_)
        | Expr::FieldSelect(_)
        | Expr::CaseTest(_)
        | Expr::RowCompare(_)
        | Expr::NextValue(_)
        | Expr::Returning(_) => Location::UNKNOWN,
    }
}
