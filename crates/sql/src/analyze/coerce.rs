//! Casts: which are allowed in which context, and how literals and parameters of unknown type get
//! their types.

use super::context::Context;
use super::lookups::Names;
use super::params::ParamTypes;
use super::pathway::{ANY, Pathway, pathway, typmod_pathway};
use super::polymorphic::is_polymorphic;
use super::type_names::type_name;
use super::typed::{Typed, boolean, call, int4};
use crate::error::{Result, SqlError, state};
use forebay_engine::nodes::{
    ArrayCoerceExpr, CaseTestExpr, CoerceViaIo, CoercionForm, CollateExpr, Const, Expr, Location,
    Param, RelabelType, collation_of, type_of, typmod_of,
};
use forebay_engine::syscache::TypeRow;
use forebay_types::{Datum, Oid, oids};

/// Refuses types whose values are only carried, where one would have to be made.
pub(super) fn check_made(names: &mut dyn Names, ty: &TypeRow) -> Result<()> {
    match ty.kind {
        b'd' => Err(SqlError::unsupported(format!("domain {}", type_name(names, ty.oid)?))),
        b'e' => Err(SqlError::unsupported(format!("enum {}", type_name(names, ty.oid)?))),
        _ => Ok(()),
    }
}

/// Casts a value to a type if the context allows it. None: it does not.
pub fn coerce(
    names: &mut dyn Names,
    params: &mut ParamTypes,
    value: Typed,
    to: Oid,
    context: Context,
) -> Result<Option<Typed>> {
    let position = value.position;
    let from = value.ty();
    if from != oids::UNKNOWN
        && from != to
        && to != ANY
        && !is_polymorphic(to)
        && pathway(names, from, to, context)? == Pathway::None
    {
        return Ok(None);
    }
    let form = context.form();
    let expr = coerced(names, params, value.expr, (to, -1), (context, form), position)?;
    Ok(Some(Typed { expr, position }))
}

/// Casts a value to a type and its modifier if the context allows it. None: it does not.
pub fn coerce_to_type(
    names: &mut dyn Names,
    params: &mut ParamTypes,
    value: Typed,
    (to, typmod): (Oid, i32),
    context: Context,
) -> Result<Option<Typed>> {
    let constant = matches!(value.expr, Expr::Const(_));
    let form = context.form();
    // COLLATE stays outside of the casts.
    if let Expr::Collate(CollateExpr { arg, coll_oid, location }) = value.expr {
        let inner = Typed::new(*arg, value.position);
        let cast = coerce_to_type(names, params, inner, (to, typmod), context)?;
        let collatable = names.ty(to)?.collation != 0;
        return Ok(cast.map(|cast| Typed {
            expr: match collatable {
                true => CollateExpr { arg: Box::new(cast.expr), coll_oid, location }.into(),
                false => cast.expr,
            },
            position: cast.position,
        }));
    }
    let from = value.ty();
    let position = value.position;
    if from != to && from != oids::UNKNOWN && pathway(names, from, to, context)? == Pathway::None {
        return Ok(None);
    }
    let made = from != to;
    let expr = coerced(names, params, value.expr, (to, typmod), (context, form), position)?;
    let hide = made && !matches!(expr, Expr::Const(_)) && !constant;
    let expr = to_typmod(names, expr, (to, typmod), (context, form), hide)?;
    Ok(Some(Typed { expr, position }))
}

/// The value as one of a type; there is a way.
pub(super) fn coerced(
    names: &mut dyn Names,
    params: &mut ParamTypes,
    expr: Expr,
    (to, typmod): (Oid, i32),
    (context, form): (Context, CoercionForm),
    position: u32,
) -> Result<Expr> {
    let from = type_of(&expr);
    if from == to || to == ANY || is_polymorphic(to) {
        return Ok(expr);
    }
    let target = names.ty(to)?;
    check_made(names, &target)?;
    if from == oids::UNKNOWN {
        match expr {
            Expr::Const(literal) => return literal_of(names, &literal, &target, typmod, position),
            Expr::Param(param) => return typed_param(names, params, param, &target, position),
            Expr::Collate(CollateExpr { arg, coll_oid, location }) => {
                let with = (context, form);
                let arg = coerced(names, params, *arg, (to, typmod), with, position)?;
                return Ok(CollateExpr { arg: Box::new(arg), coll_oid, location }.into());
            }
            _ => return Ok(via_text(expr, to, form)),
        }
    }
    match pathway(names, from, to, context)? {
        Pathway::None => {
            let (from, to) = (type_name(names, from)?, type_name(names, to)?);
            let message = format!("failed to find conversion function from {from} to {to}");
            Err(SqlError::new(state::INTERNAL_ERROR, message))
        }
        Pathway::Relabel => Ok(labelled(expr, to, (-1, 0), form)),
        way => conversion(names, params, expr, way, (to, typmod), (context, form)),
    }
}

/// The value of a literal as one of a type.
fn literal_of(
    names: &mut dyn Names,
    literal: &Const,
    target: &TypeRow,
    typmod: i32,
    position: u32,
) -> Result<Expr> {
    // Only the input of an interval asks for the modifier.
    let typmod = if target.oid == oids::INTERVAL { typmod } else { -1 };
    let constvalue = match literal.constvalue.as_str() {
        None => Datum::Null,
        Some(text) => names.input(text, target, typmod).map_err(|e| e.at(position))?,
    };
    Ok(Expr::Const(Const {
        consttype: target.oid,
        consttypmod: typmod,
        constcollid: target.collation,
        constlen: target.len,
        constbyval: target.by_val,
        constvalue,
        location: literal.location,
    }))
}

/// A parameter gets its type, or has got it in another place in the meantime.
fn typed_param(
    names: &mut dyn Names,
    params: &mut ParamTypes,
    param: Param,
    target: &TypeRow,
    position: u32,
) -> Result<Expr> {
    match params.found(&param) {
        None => params.set(&param, target.oid),
        Some(known) if known != target.oid => {
            let message = format!("inconsistent types deduced for parameter ${}", param.paramid);
            let (known, other) = (type_name(names, known)?, type_name(names, target.oid)?);
            let detail = format!("{known} versus {other}");
            return Err(SqlError::new("42P08", message).detail(detail).at(position));
        }
        Some(_) => {}
    }
    let (paramtype, paramcollid) = (target.oid, target.collation);
    Ok(Expr::Param(Param { paramtype, paramcollid, ..param }))
}

fn via_text(expr: Expr, to: Oid, form: CoercionForm) -> Expr {
    Expr::CoerceViaIo(CoerceViaIo {
        arg: Box::new(expr),
        resulttype: to,
        resultcollid: 0,
        coerceformat: form,
        location: Location::UNKNOWN,
    })
}

/// The same value under another type or modifier.
pub(super) fn relabel(
    mut expr: Expr,
    ty: Oid,
    typmod: i32,
    collation: Oid,
    form: CoercionForm,
) -> Expr {
    while let Expr::RelabelType(inner) = expr {
        expr = *inner.arg;
    }
    if type_of(&expr) == ty && typmod_of(&expr) == typmod && collation_of(&expr) == collation {
        return expr;
    }
    labelled(expr, ty, (typmod, collation), form)
}

fn labelled(expr: Expr, ty: Oid, (typmod, collation): (i32, Oid), form: CoercionForm) -> Expr {
    Expr::RelabelType(RelabelType {
        arg: Box::new(expr),
        resulttype: ty,
        resulttypmod: typmod,
        resultcollid: collation,
        relabelformat: form,
        location: Location::UNKNOWN,
    })
}

/// The conversion of a value in one of the ways that compute.
fn conversion(
    names: &mut dyn Names,
    params: &mut ParamTypes,
    expr: Expr,
    way: Pathway,
    (to, typmod): (Oid, i32),
    (context, form): (Context, CoercionForm),
) -> Result<Expr> {
    match way {
        Pathway::Function(function) => {
            let row = names.proc(function)?;
            let mut args = vec![expr];
            if row.args.len() >= 2 {
                args.push(int4(typmod));
            }
            if row.args.len() == 3 {
                args.push(boolean(Some(context == Context::Explicit)));
            }
            Ok(Expr::Func(call(function, to, form, args)))
        }
        Pathway::Elements => {
            let base = names.base_type(type_of(&expr))?;
            let (from, target) = (names.ty(base)?, names.ty(to)?);
            let element = names.ty(from.elem)?;
            let of_type = (from.elem == target.elem).then(|| typmod_of(&expr));
            let test = Expr::CaseTest(CaseTestExpr {
                type_id: from.elem,
                type_mod: of_type.unwrap_or(typmod_of(&expr)),
                collation: element.collation,
            });
            let (elem, with) = (target.elem, (target.elem, typmod));
            let item = coerce_to_type(names, params, Typed::new(test, 0), with, context)?;
            let Some(item) = item else {
                let message = format!("failed to coerce array element type to {elem}");
                return Err(SqlError::new(state::INTERNAL_ERROR, message));
            };
            Ok(Expr::ArrayCoerce(ArrayCoerceExpr {
                arg: Box::new(expr),
                resulttypmod: typmod_of(&item.expr),
                elemexpr: Box::new(item.expr),
                resulttype: to,
                resultcollid: 0,
                coerceformat: form,
                location: Location::UNKNOWN,
            }))
        }
        _ => Ok(via_text(expr, to, form)),
    }
}

/// Casts a value of a type to a type modifier. `hide`: the cast before is not shown.
fn to_typmod(
    names: &mut dyn Names,
    mut expr: Expr,
    (ty, typmod): (Oid, i32),
    (context, form): (Context, CoercionForm),
    hide: bool,
) -> Result<Expr> {
    if typmod == typmod_of(&expr) {
        return Ok(expr);
    }
    if hide {
        hide_cast(&mut expr);
    }
    let way = if typmod < 0 { Pathway::None } else { typmod_pathway(names, ty)? };
    match way {
        Pathway::None => {
            let collation = collation_of(&expr);
            Ok(relabel(expr, ty, typmod, collation, form))
        }
        way => {
            let with = (context, form);
            conversion(names, &mut ParamTypes::default(), expr, way, (ty, typmod), with)
        }
    }
}

/// A cast that another one around it stands for.
fn hide_cast(expr: &mut Expr) {
    let hidden = CoercionForm::ImplicitCast;
    match expr {
        Expr::Func(node) => node.funcformat = hidden,
        Expr::RelabelType(node) => node.relabelformat = hidden,
        Expr::CoerceViaIo(node) => node.coerceformat = hidden,
        Expr::ArrayCoerce(node) => node.coerceformat = hidden,
        Expr::ConvertRowtype(node) => node.convertformat = hidden,
        Expr::Row(node) => node.row_format = hidden,
        Expr::CoerceToDomain(node) => node.coercionformat = hidden,
        _ => {}
    }
}
