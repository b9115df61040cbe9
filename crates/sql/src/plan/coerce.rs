//! Casts in the plan: which are allowed in which context, and how unknown literals and parameters
//! get their types.

use super::expr::{Expr, Typed};
use super::resolve::{category, implicit_cast};
use crate::error::{Result, SqlError, state};
use crate::parse::too_complex;
use SqlType::*;
use forebay_types::{SqlType, text_in};

/// Types of a statement's parameters, inferred during planning, and how much of it was copied.
#[derive(Clone, Debug, Default)]
pub struct ParamTypes {
    types: Vec<Option<SqlType>>,
    /// May new ones appear (the extended protocol)?
    pub allowed: bool,
    /// Parts of expressions that were copied.
    copied: usize,
}

/// Nodes of expressions that may be copied in one statement, about 100 MB. `BETWEEN` needs its
/// operand twice, so nested ones double the tree with each level.
const MOST_COPIED: usize = 1 << 20;

impl ParamTypes {
    /// With the types the client gave; 0 is to be found.
    pub fn new(oids: &[u32]) -> Result<ParamTypes> {
        let one = |oid: &u32| match (*oid, SqlType::from_oid(*oid)) {
            (0, _) | (_, Some(Unknown)) => Ok(None),
            (_, Some(ty)) => Ok(Some(ty)),
            (oid, None) => {
                Err(SqlError::unsupported(format!("a parameter of the type with OID {oid}")))
            }
        };
        Ok(ParamTypes {
            types: oids.iter().map(one).collect::<Result<_>>()?,
            allowed: true,
            copied: 0,
        })
    }

    /// Copies an expression that is needed more than once.
    pub fn copy(&mut self, expr: &Expr) -> Result<Expr> {
        self.copied = self.copied.saturating_add(expr.size());
        if self.copied > MOST_COPIED {
            return Err(too_complex());
        }
        Ok(expr.clone())
    }

    /// The type of a parameter (from 0); it is one of the statement's from now on.
    pub fn get(&mut self, index: usize) -> SqlType {
        if self.types.len() <= index {
            self.types.resize(index + 1, None);
        }
        self.types.get(index).copied().flatten().unwrap_or(Unknown)
    }

    fn set(&mut self, index: usize, ty: SqlType) {
        if let Some(slot) = self.types.get_mut(index) {
            *slot = Some(ty);
        }
    }

    /// All types, or the error for one whose context did not tell.
    pub fn finish(&self) -> Result<Vec<SqlType>> {
        let one = |(i, ty): (usize, &Option<SqlType>)| {
            ty.ok_or_else(|| {
                let message = format!("could not determine data type of parameter ${}", i + 1);
                SqlError::new(state::INDETERMINATE_DATATYPE, message)
            })
        };
        self.types.iter().enumerate().map(one).collect()
    }
}

/// What asks for a cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// An expression's operand.
    Implicit,
    /// A value on its way into a column.
    Assignment,
    /// CAST or ::.
    Explicit,
}

/// Is there a cast in this context?
pub fn can_cast(from: SqlType, to: SqlType, context: Context) -> bool {
    if implicit_cast(from, to) {
        return true;
    }
    let number = |t| matches!(t, Int2 | Int4 | Int8 | Numeric | Float4 | Float8);
    let string = |t| matches!(t, Text | Varchar | Bpchar | Name);
    let assignable = number(from) && number(to)
        || matches!((from, to), (Oid | Regclass | Regproc | Regtype, Int4 | Int8) | (Text, Char))
        || string(to) && from != Void;
    let explicit = matches!((from, to), (Bool, Int4) | (Int4, Bool) | (Char, Int4) | (Int4, Char))
        || string(from) && has_input(to);
    match context {
        Context::Implicit => false,
        Context::Assignment => assignable,
        Context::Explicit => assignable || explicit,
    }
}

fn has_input(ty: SqlType) -> bool {
    matches!(
        ty,
        Bool | Int2
            | Int4
            | Int8
            | Float4
            | Float8
            | Numeric
            | Oid
            | Tid
            | Xid
            | Cid
            | Char
            | Bytea
            | Regclass
            | Regproc
    ) || ty.element().is_some()
        || category(ty).0 == b'S'
}

/// Casts `value` to `to` if the context allows it. None: it does not.
pub fn coerce(
    value: Typed,
    to: SqlType,
    context: Context,
    params: &mut ParamTypes,
) -> Result<Option<Typed>> {
    let Typed { expr, ty: from, position } = value;
    if from == to {
        return Ok(Some(Typed { expr, ty: to, position }));
    }
    if from == Unknown {
        return coerce_unknown(expr, to, position, params).map(Some);
    }
    if !can_cast(from, to, context) {
        return Ok(None);
    }
    let expr = if same_representation(from, to) {
        expr
    } else {
        Expr::Cast { expr: Box::new(expr), from, to }
    };
    Ok(Some(Typed { expr, ty: to, position }))
}

fn coerce_unknown(
    expr: Expr,
    to: SqlType,
    position: u32,
    params: &mut ParamTypes,
) -> Result<Typed> {
    let expr = match expr {
        Expr::Param(i) => {
            // Another place may have told the type in the meantime.
            match params.get(i) {
                Unknown => params.set(i, to),
                known if known != to => {
                    let message = format!("inconsistent types deduced for parameter ${}", i + 1);
                    let detail = format!("{} versus {}", known.sql_name(), to.sql_name());
                    return Err(SqlError::new("42P08", message).detail(detail).at(position));
                }
                _ => {}
            }
            Expr::Param(i)
        }
        Expr::Const(v) if to == Regclass && !v.is_null() => {
            Expr::TableOid { name: v.as_str().unwrap_or_default().to_owned(), position }
        }
        Expr::Const(v) => match v.as_str() {
            Some(text) => Expr::Const(
                text_in(text, to).map_err(|e| SqlError::from(e).at(position))?.into_owned(),
            ),
            None => Expr::Const(v),
        },
        other => Expr::Cast { expr: Box::new(other), from: Text, to },
    };
    Ok(Typed { expr, ty: to, position })
}

/// Do both types have the same values in the same variant?
fn same_representation(from: SqlType, to: SqlType) -> bool {
    let oid = |t| matches!(t, Oid | Regproc | Regclass | Regtype);
    let string = |t| matches!(t, Text | Varchar | Bpchar);
    // A stored regclass is only carried, until it is cast to an OID.
    oid(from) && oid(to) && from != Regclass || (string(from) || from == Name) && string(to)
}

/// The type for a list of alternatives (CASE, COALESCE, VALUES): PostgreSQL's select_common_type.
pub fn common_type(items: &[Typed], what: &str) -> Result<SqlType> {
    let mut chosen = Unknown;
    for item in items.iter().filter(|i| i.ty != Unknown) {
        if chosen == Unknown {
            chosen = item.ty;
        } else if item.ty != chosen {
            let (have, preferred) = category(chosen);
            if category(item.ty).0 != have {
                let message = format!(
                    "{what} types {} and {} cannot be matched",
                    chosen.sql_name(),
                    item.ty.sql_name()
                );
                return Err(SqlError::new(state::DATATYPE_MISMATCH, message).at(item.position));
            }
            if !preferred && implicit_cast(chosen, item.ty) && !implicit_cast(item.ty, chosen) {
                chosen = item.ty;
            }
        }
    }
    Ok(if chosen == Unknown { Text } else { chosen })
}

/// Casts alternatives to one type.
pub fn coerce_all(
    items: Vec<Typed>,
    what: &str,
    params: &mut ParamTypes,
) -> Result<(Vec<Expr>, SqlType)> {
    let ty = common_type(&items, what)?;
    let mut exprs = Vec::with_capacity(items.len());
    for item in items {
        let (from, position) = (item.ty, item.position);
        let cast = coerce(item, ty, Context::Implicit, params)?.ok_or_else(|| {
            let message =
                format!("{what} could not convert type {} to {}", from.sql_name(), ty.sql_name());
            SqlError::new(state::CANNOT_COERCE, message).at(position)
        })?;
        exprs.push(cast.expr);
    }
    Ok((exprs, ty))
}
