//! The common type of alternatives (CASE, COALESCE, VALUES): PostgreSQL's select_common_type.

use super::coerce::coerced;
use super::context::Context;
use super::lookups::Names;
use super::params::ParamTypes;
use super::pathway::{Pathway, pathway};
use super::type_names::type_name;
use super::typed::Typed;
use crate::error::{Result, SqlError, state};
use forebay_engine::nodes::{CoercionForm, Expr};
use forebay_types::{Oid, oids};

/// The types that cannot be matched: both, and where the second one stands.
type Mismatch = (Oid, Oid, u32);

/// The common type, or the types that cannot be matched.
pub(super) fn select(
    names: &mut dyn Names,
    items: &[Typed],
) -> Result<std::result::Result<Oid, Mismatch>> {
    let first = items.first().map_or(oids::UNKNOWN, Typed::ty);
    if first != oids::UNKNOWN && items.iter().all(|item| item.ty() == first) {
        return Ok(Ok(first));
    }
    let mut chosen = names.base_type(first)?;
    for item in items.iter().skip(1) {
        let ty = names.base_type(item.ty())?;
        if ty == oids::UNKNOWN || ty == chosen {
            continue;
        }
        if chosen == oids::UNKNOWN {
            chosen = ty;
            continue;
        }
        let (category, preferred) = names.category(chosen)?;
        if names.category(ty)?.0 != category {
            return Ok(Err((chosen, ty, item.position)));
        }
        let implicit = Context::Implicit;
        if !preferred
            && pathway(names, chosen, ty, implicit)? != Pathway::None
            && pathway(names, ty, chosen, implicit)? == Pathway::None
        {
            chosen = ty;
        }
    }
    Ok(Ok(if chosen == oids::UNKNOWN { oids::TEXT } else { chosen }))
}

/// The common type of alternatives, or PostgreSQL's error.
pub(super) fn common_type(names: &mut dyn Names, items: &[Typed], what: &str) -> Result<Oid> {
    match select(names, items)? {
        Ok(ty) => Ok(ty),
        Err((a, b, position)) => {
            let (a, b) = (type_name(names, a)?, type_name(names, b)?);
            let message = format!("{what} types {a} and {b} cannot be matched");
            Err(SqlError::new(state::DATATYPE_MISMATCH, message).at(position))
        }
    }
}

/// Whether all alternatives can be cast to a type.
pub(super) fn all_fit(names: &mut dyn Names, items: &[Typed], ty: Oid) -> Result<bool> {
    for item in items {
        let from = item.ty();
        if from != oids::UNKNOWN
            && from != ty
            && pathway(names, from, ty, Context::Implicit)? == Pathway::None
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Casts one alternative to the common type.
pub(super) fn to_common(
    names: &mut dyn Names,
    params: &mut ParamTypes,
    item: Typed,
    ty: Oid,
    what: &str,
) -> Result<Expr> {
    let (from, position) = (item.ty(), item.position);
    if from != oids::UNKNOWN
        && from != ty
        && pathway(names, from, ty, Context::Implicit)? == Pathway::None
    {
        let (from, to) = (type_name(names, from)?, type_name(names, ty)?);
        let message = format!("{what} could not convert type {from} to {to}");
        return Err(SqlError::new(state::CANNOT_COERCE, message).at(position));
    }
    let with = (Context::Implicit, CoercionForm::ImplicitCast);
    coerced(names, params, item.expr, (ty, -1), with, position)
}

/// Casts alternatives to one type.
pub fn coerce_all(
    names: &mut dyn Names,
    params: &mut ParamTypes,
    items: Vec<Typed>,
    what: &str,
) -> Result<(Vec<Expr>, Oid)> {
    let ty = common_type(names, &items, what)?;
    let mut exprs = Vec::with_capacity(items.len());
    for item in items {
        exprs.push(to_common(names, params, item, ty, what)?);
    }
    Ok((exprs, ty))
}
