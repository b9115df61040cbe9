//! Collations: which one a name means, and which one each function of an expression compares by.

use super::bind::Binder;
use super::ident::ident_name;
use super::lookups::Names;
use crate::error::{Result, SqlError, state};
use forebay_engine::nodes::{
    CaseExpr, Expr, Location, RowCompareExpr, SubscriptingRef, collation_of, type_of,
};
use forebay_engine::syscache::CollationRow;
use forebay_types::Oid;
use sqlparser::ast;
use std::sync::Arc;

/// The database's collation.
const DEFAULT: Oid = 100;
/// The encoding UTF8.
const UTF8: i32 = 6;

impl Binder<'_> {
    /// The collation of a name; one by which strings compare by their bytes.
    pub(super) fn find_collation(
        &mut self,
        name: &ast::ObjectName,
        position: u32,
    ) -> Result<Arc<CollationRow>> {
        let parts: Option<Vec<String>> =
            name.0.iter().map(|part| part.as_ident().map(ident_name)).collect();
        let parts = parts.unwrap_or_default();
        let (schema, name) = match parts.as_slice() {
            [name] => (None, name),
            [schema, name] => (Some(schema.as_str()), name),
            _ => return Err(SqlError::unsupported("this name").at(position)),
        };
        let all = self.names.collations_named(name)?;
        for namespace in self.names.namespaces(schema).map_err(|e| e.at(position))? {
            let fits = |row: &&Arc<CollationRow>| {
                row.namespace == namespace && matches!(row.encoding, -1 | UTF8)
            };
            let Some(row) = all.iter().find(fits) else { continue };
            if !is_by_bytes(row) {
                return Err(SqlError::unsupported(format!("collation \"{name}\"")).at(position));
            }
            return Ok(Arc::clone(row));
        }
        let message = format!("collation \"{name}\" for encoding \"UTF8\" does not exist");
        Err(SqlError::new(state::UNDEFINED_OBJECT, message).at(position))
    }
}

/// Whether strings compare by their bytes. The database's collation is checked when it is opened.
fn is_by_bytes(row: &CollationRow) -> bool {
    match row.provider {
        b'd' => true,
        b'b' => true,
        b'c' => matches!(row.collate.as_deref(), Some("C" | "POSIX")),
        _ => false,
    }
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
    /// Where the collation is named.
    location: Location,
}

impl State {
    const NONE: State =
        State { collation: 0, strength: Strength::None, location: Location::UNKNOWN };

    /// Of a column or a type.
    fn implicit(collation: Oid) -> State {
        State { collation, strength: Strength::Implicit, location: Location::UNKNOWN }
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
            Strength::Implicit if part.collation != DEFAULT => self.strength = Strength::Conflict,
            Strength::Explicit => {
                let mut name = |oid| -> Result<String> {
                    Ok(names
                        .collation_by_oid(oid)?
                        .map_or_else(String::new, |c| c.name.to_string()))
                };
                let (a, b) = (name(self.collation)?, name(part.collation)?);
                let message =
                    format!("collation mismatch between explicit collations \"{a}\" and \"{b}\"");
                let position = u32::try_from(part.location.0).unwrap_or(0);
                return Err(SqlError::new("42P21", message).at(position));
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

/// Assigns the collations of an expression: its own.
fn walk(names: &mut dyn Names, expr: &mut Expr) -> Result<State> {
    let inputs = match expr {
        Expr::Collate(node) => {
            walk(names, &mut node.arg)?;
            let (collation, location) = (node.coll_oid, node.location);
            return Ok(State { collation, strength: Strength::Explicit, location });
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
