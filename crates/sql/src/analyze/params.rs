//! Types of a statement's parameters, found during analysis, and how much of it was copied.

use crate::error::{Result, SqlError, state};
use crate::parse::too_complex;
use forebay_engine::nodes::{Expr, Location, Param, ParamKind};
use forebay_types::{Oid, SqlType, oids, type_info};

/// Types of a statement's parameters, and how much of it was copied.
#[derive(Clone, Debug, Default)]
pub struct ParamTypes {
    types: Vec<Option<Oid>>,
    /// May new ones appear (the extended protocol)?
    pub allowed: bool,
    /// Parts of expressions that were copied.
    copied: usize,
}

/// Nodes of expressions that may be copied in one statement, about 100 MB. `BETWEEN` needs its
/// operand twice, so nested ones double the tree with each level.
const MOST_COPIED: usize = 1 << 18;

impl ParamTypes {
    /// With the types the client gave; 0 is to be found.
    pub fn new(oids: &[u32]) -> ParamTypes {
        let one = |oid: &u32| (!matches!(*oid, 0 | oids::UNKNOWN)).then_some(*oid);
        ParamTypes { types: oids.iter().map(one).collect(), allowed: true, copied: 0 }
    }

    /// Copies an expression that is needed more than once.
    pub fn copy(&mut self, expr: &Expr) -> Result<Expr> {
        self.copied = self.copied.saturating_add(size(expr));
        if self.copied > MOST_COPIED {
            return Err(too_complex());
        }
        Ok(expr.clone())
    }

    /// A parameter (from 0); it is one of the statement's from now on.
    pub fn get(&mut self, index: usize) -> Param {
        if self.types.len() <= index {
            self.types.resize(index + 1, None);
        }
        let ty = self.types.get(index).copied().flatten().unwrap_or(oids::UNKNOWN);
        Param {
            paramkind: ParamKind::Extern,
            paramid: i32::try_from(index + 1).unwrap_or(i32::MAX),
            paramtype: ty,
            paramtypmod: -1,
            paramcollid: 0,
            location: Location::UNKNOWN,
        }
    }

    /// The type that a parameter has by now.
    pub(super) fn found(&self, param: &Param) -> Option<Oid> {
        self.types.get(number(param)).copied().flatten()
    }

    pub(super) fn set(&mut self, param: &Param, ty: Oid) {
        if let Some(slot) = self.types.get_mut(number(param)) {
            *slot = Some(ty);
        }
    }

    /// Gives parameters of unknown type in a copied expression those that they have by now.
    pub(super) fn settle(&self, expr: &mut Expr) {
        match expr {
            Expr::Param(param) if param.paramtype == oids::UNKNOWN => {
                if let Some(ty) = self.found(param) {
                    param.paramtype = ty;
                    param.paramcollid = type_info(ty).map_or(0, |info| info.collation);
                }
            }
            _ => expr.visit_children_mut(&mut |child| self.settle(child)),
        }
    }

    /// All types, or the error for one whose context did not tell.
    pub fn finish(&self) -> Result<Vec<SqlType>> {
        let one = |(i, ty): (usize, &Option<Oid>)| match ty {
            Some(ty) => Ok(SqlType::of(*ty)),
            None => {
                let message = format!("could not determine data type of parameter ${}", i + 1);
                Err(SqlError::new(state::INDETERMINATE_DATATYPE, message))
            }
        };
        self.types.iter().enumerate().map(one).collect()
    }
}

/// A parameter's number from 0.
fn number(param: &Param) -> usize {
    usize::try_from(param.paramid - 1).unwrap_or(usize::MAX)
}

/// How many nodes an expression is made of.
fn size(expr: &Expr) -> usize {
    let mut nodes = 1;
    expr.visit_children(&mut |child| nodes += size(child));
    nodes
}
