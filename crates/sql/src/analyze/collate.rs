//! Collations: which one a name means, and which one each function of an expression compares by.

use super::bind::Binder;
use super::ident::ident_name;
use super::lookups::Names;
use crate::error::{Result, SqlError, state};
use forebay_engine::nodes::{
    CaseExpr, Expr, Location, RowCompareExpr, SubscriptingRef, collation_of, type_of,
};
use forebay_engine::syscache::CollationRow;
use forebay_types::{Encoding, Oid};
use sqlparser::ast;
use std::sync::Arc;

/// The database's collation.
const DEFAULT: Oid = 100;

impl Binder<'_> {
    /// The collation of a name.
    pub(super) fn find_collation(
        &mut self,
        name: &ast::ObjectName,
        position: u32,
    ) -> Result<Arc<CollationRow>> {
        let parts: Option<Vec<String>> =
            name.0.iter().map(|part| part.as_ident().map(ident_name)).collect();
        let parts = parts.unwrap_or_default();
        match parts.as_slice() {
            [name] => collation_named(self.names, (None, name), position),
            [schema, name] => collation_named(self.names, (Some(schema), name), position),
            _ => Err(SqlError::unsupported("this name").at(position)),
        }
    }
}

/// The collation of a name, for the database's encoding or any.
pub fn collation_named(
    names: &mut dyn Names,
    (schema, name): (Option<&str>, &str),
    position: u32,
) -> Result<Arc<CollationRow>> {
    let (encoding, all) = (names.encoding(), names.collations_named(name)?);
    // ICU knows no texts of SQL_ASCII.
    let known = |row: &&Arc<CollationRow>| encoding == Encoding::Utf8 || row.provider != b'i';
    for namespace in names.namespaces(schema).map_err(|e| e.at(position))? {
        let within = || all.iter().filter(known).filter(|row| row.namespace == namespace);
        let exact = within().find(|row| row.encoding == encoding.number());
        if let Some(row) = exact.or_else(|| within().find(|row| row.encoding == -1)) {
            return Ok(Arc::clone(row));
        }
    }
    let shown = match schema {
        Some(schema) => format!("{schema}.{name}"),
        None => name.to_owned(),
    };
    let encoding = encoding.name();
    let message = format!("collation \"{shown}\" for encoding \"{encoding}\" does not exist");
    Err(SqlError::new(state::UNDEFINED_OBJECT, message).at(position))
}

/// The collation of a column or a key by its COLLATE clause, for values of a type.
pub fn collation_for(
    names: &mut dyn Names,
    collation: (Option<&str>, &str),
    ty: Oid,
    position: u32,
) -> Result<Oid> {
    let row = collation_named(names, collation, position)?;
    if names.ty(ty)?.collation == 0 {
        let ty = super::type_names::type_name(names, ty)?;
        let message = format!("collations are not supported by type {ty}");
        return Err(SqlError::new(state::DATATYPE_MISMATCH, message).at(position));
    }
    Ok(row.oid)
}

/// The collation that expressions of one type have in common; 0: they have none, or disagree.
pub fn common_collation(names: &mut dyn Names, exprs: &mut [Expr], ty: Oid) -> Result<Oid> {
    let of_type = names.ty(ty)?.collation;
    if of_type == 0 {
        return Ok(0);
    }
    let mut inputs = State::NONE;
    for expr in exprs {
        let part = walk(names, expr)?;
        inputs.merge(names, part)?;
    }
    Ok(if inputs.strength == Strength::None { of_type } else { inputs.settled() })
}

/// How firmly an expression has its collation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    /// It has none.
    None,
    /// From its type or a column.
    Implicit,
    /// From columns that do not agree.
    Conflict,
    /// From COLLATE.
    Explicit,
}

/// The collation of an expression's inputs, or of itself.
#[derive(Clone, Copy, Debug)]
struct State {
    collation: Oid,
    strength: Strength,
    /// The other collation of a conflict.
    other: Oid,
    /// Where the collation is named.
    location: Location,
}

impl State {
    const NONE: State =
        State { collation: 0, strength: Strength::None, other: 0, location: Location::UNKNOWN };

    /// Of a column or a type.
    fn implicit(collation: Oid) -> State {
        State { collation, strength: Strength::Implicit, ..State::NONE }
    }

    /// Adds what a part of the expression has.
    fn merge(&mut self, names: &mut dyn Names, part: State) -> Result<()> {
        if part.strength > self.strength {
            *self = part;
            return Ok(());
        }
        if part.strength < self.strength || part.collation == self.collation {
            return Ok(());
        }
        match part.strength {
            Strength::Implicit if self.collation == DEFAULT => *self = part,
            Strength::Implicit if part.collation != DEFAULT => {
                (self.strength, self.other) = (Strength::Conflict, part.collation);
            }
            Strength::Explicit => {
                let error = mismatch(names, "explicit", self.collation, part.collation)?;
                let position = u32::try_from(part.location.0).unwrap_or(0);
                return Err(error.at(position));
            }
            _ => {}
        }
        Ok(())
    }

    /// The collation, none if the parts do not agree.
    fn settled(self) -> Oid {
        if self.strength == Strength::Conflict { 0 } else { self.collation }
    }
}

/// Gives all parts of an expression their collations, as PostgreSQL's trees have them.
pub fn assign_collations(names: &mut dyn Names, expr: &mut Expr) -> Result<()> {
    walk(names, expr).map(|_| ())
}

/// The same for an expression by which rows are sorted or grouped: its own must be known.
pub fn assign_key_collations(names: &mut dyn Names, expr: &mut Expr) -> Result<()> {
    let state = walk(names, expr)?;
    if state.strength != Strength::Conflict {
        return Ok(());
    }
    let hint = "You can choose the collation by applying the COLLATE clause to one or both \
                expressions.";
    Err(mismatch(names, "implicit", state.collation, state.other)?.hint(hint))
}

/// The error of two collations.
fn mismatch(names: &mut dyn Names, kind: &str, a: Oid, b: Oid) -> Result<SqlError> {
    let mut name = |oid| -> Result<String> {
        Ok(names.collation_by_oid(oid)?.map_or_else(String::new, |c| c.name.to_string()))
    };
    let (a, b) = (name(a)?, name(b)?);
    let message = format!("collation mismatch between {kind} collations \"{a}\" and \"{b}\"");
    Ok(SqlError::new("42P21", message))
}

/// Assigns the collations of an expression: its own.
fn walk(names: &mut dyn Names, expr: &mut Expr) -> Result<State> {
    let inputs = match expr {
        Expr::Collate(node) => {
            walk(names, &mut node.arg)?;
            let (collation, location) = (node.coll_oid, node.location);
            return Ok(State { collation, strength: Strength::Explicit, other: 0, location });
        }
        Expr::Row(node) => {
            node.args.iter_mut().try_for_each(|arg| walk(names, arg).map(|_| ()))?;
            return Ok(State::NONE);
        }
        Expr::RowCompare(node) => {
            compare_rows(names, node)?;
            return Ok(State::NONE);
        }
        Expr::Var(_)
        | Expr::Const(_)
        | Expr::Param(_)
        | Expr::CaseTest(_)
        | Expr::SqlValue(_)
        | Expr::CoerceToDomainValue(_)
        | Expr::SetToDefault(_)
        | Expr::NextValue(_) => {
            let collation = collation_of(expr);
            return Ok(if collation == 0 { State::NONE } else { State::implicit(collation) });
        }
        Expr::Case(node) => case(names, node)?,
        Expr::SubscriptingRef(node) => subscript(names, node)?,
        _ => children(names, expr)?,
    };
    let of_type = names.ty(type_of(expr))?.collation;
    let own = match (of_type, inputs.strength) {
        (0, _) => State::NONE,
        (of_type, Strength::None) => State::implicit(of_type),
        _ => inputs,
    };
    set_collation(expr, own.settled());
    set_input_collation(expr, inputs.settled());
    Ok(own)
}

fn children(names: &mut dyn Names, expr: &mut Expr) -> Result<State> {
    let mut inputs = State::NONE;
    let mut result = Ok(());
    expr.visit_children_mut(&mut |child| {
        if result.is_ok() {
            result = walk(names, child).and_then(|part| inputs.merge(names, part));
        }
    });
    result?;
    Ok(inputs)
}

fn case(names: &mut dyn Names, node: &mut CaseExpr) -> Result<State> {
    let mut inputs = State::NONE;
    if let Some(arg) = &mut node.arg {
        walk(names, arg)?;
    }
    for when in &mut node.args {
        walk(names, &mut when.expr)?;
        let part = walk(names, &mut when.result)?;
        inputs.merge(names, part)?;
    }
    if let Some(otherwise) = &mut node.defresult {
        let part = walk(names, otherwise)?;
        inputs.merge(names, part)?;
    }
    Ok(inputs)
}

fn subscript(names: &mut dyn Names, node: &mut SubscriptingRef) -> Result<State> {
    let subscripts = node.refupperindexpr.iter_mut().chain(&mut node.reflowerindexpr).flatten();
    subscripts.map(|e| walk(names, e)).collect::<Result<Vec<State>>>()?;
    walk(names, &mut node.refexpr)
}

fn compare_rows(names: &mut dyn Names, node: &mut RowCompareExpr) -> Result<()> {
    node.inputcollids.clear();
    for (a, b) in node.largs.iter_mut().zip(&mut node.rargs) {
        let mut inputs = walk(names, a)?;
        let part = walk(names, b)?;
        inputs.merge(names, part)?;
        node.inputcollids.push(inputs.settled());
    }
    Ok(())
}

fn set_collation(expr: &mut Expr, collation: Oid) {
    match expr {
        Expr::Func(node) => node.funccollid = collation,
        Expr::Op(node) => node.opcollid = collation,
        Expr::Distinct(node) => node.opcollid = collation,
        Expr::NullIf(node) => node.opcollid = collation,
        Expr::SubscriptingRef(node) => node.refcollid = collation,
        Expr::FieldSelect(node) => node.resultcollid = collation,
        Expr::RelabelType(node) => node.resultcollid = collation,
        Expr::CoerceViaIo(node) => node.resultcollid = collation,
        Expr::ArrayCoerce(node) => node.resultcollid = collation,
        Expr::Case(node) => node.casecollid = collation,
        Expr::Array(node) => node.array_collid = collation,
        Expr::Coalesce(node) => node.coalescecollid = collation,
        Expr::MinMax(node) => node.minmaxcollid = collation,
        Expr::CoerceToDomain(node) => node.resultcollid = collation,
        _ => {}
    }
}

fn set_input_collation(expr: &mut Expr, collation: Oid) {
    match expr {
        Expr::Func(node) => node.inputcollid = collation,
        Expr::Op(node) => node.inputcollid = collation,
        Expr::Distinct(node) => node.inputcollid = collation,
        Expr::NullIf(node) => node.inputcollid = collation,
        Expr::ScalarArrayOp(node) => node.inputcollid = collation,
        Expr::MinMax(node) => node.inputcollid = collation,
        _ => {}
    }
}
