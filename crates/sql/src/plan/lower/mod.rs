//! Analyzed expressions to those that are evaluated.
//!
//! - `call.rs`: functions: forms of their own, or calls of the functions' table
//! - `fast.rs`: which functions have forms of their own, by OID
//! - `collated.rs`: which collation texts are compared by
//! - `lists.rs`: ANY and ALL of arrays, comparisons of rows
//! - `aggregates.rs`: which aggregates there are, by OID

mod aggregates;
mod call;
mod collated;
mod fast;
mod lists;

pub use collated::value_order;

use super::catalog::Catalog;
use super::expr::Expr;
use super::reading::stored_expr;
use crate::analyze::{AGGREGATES, Scope, type_name};
use crate::error::{Result, SqlError, state};
use forebay_engine::Table;
use forebay_engine::nodes::{
    self, BoolExprType, BoolTestType, CaseExpr, CoerceViaIo, MinMaxOp, NullTest, NullTestType, Var,
    VarReturningType, type_of,
};
use forebay_types::{Oid, Repr, SqlType, oids};
use std::sync::Arc;

/// Where the columns of an expression are in the row at hand.
pub trait Columns {
    /// The index of a column. None: there is none.
    fn index_of(&self, var: &Var) -> Option<usize>;

    /// What a column is generated of that is not stored (None: that is stored out of line). None:
    /// it is no such column.
    fn generated(&self, _: &Var) -> Option<Option<Arc<str>>> {
        None
    }
}

/// What a column of a table is generated of when it is read.
pub(super) fn virtual_tree(table: &Table, var: &Var) -> Option<Option<Arc<str>>> {
    let number = i16::try_from(var.varattno).ok()?;
    let mut columns = table.columns.iter();
    let column = columns.find(|c| c.attnum == number && c.generated == b'v' && !c.dropped)?;
    (var.varno == 1).then(|| column.default.clone())
}

impl Columns for Scope {
    fn index_of(&self, var: &Var) -> Option<usize> {
        Scope::index_of(self, var)
    }

    fn generated(&self, var: &Var) -> Option<Option<Arc<str>>> {
        let mut generated = self.generated.iter();
        let found = generated.find(|(number, _)| i32::from(*number) == var.varattno)?;
        matches!(var.varno, 1 | 2).then(|| found.1.clone())
    }
}

/// The columns of a query, each at its own place.
pub struct Flat;

impl Columns for Flat {
    fn index_of(&self, var: &Var) -> Option<usize> {
        usize::try_from(var.varattno).ok()?.checked_sub(1)
    }
}

/// The rows of a table: those of an expression that belongs to it.
impl Columns for Table {
    fn index_of(&self, var: &Var) -> Option<usize> {
        let index = usize::try_from(var.varattno).ok()?.checked_sub(1)?;
        (var.varno == 1 && self.columns.get(index).is_some_and(|c| !c.dropped)).then_some(index)
    }

    fn generated(&self, var: &Var) -> Option<Option<Arc<str>>> {
        virtual_tree(self, var)
    }
}

/// Nodes that a copied operand of CASE may have in all.
const MOST_COPIED: usize = 1 << 20;

/// Makes an analyzed expression one that is evaluated over rows with these columns.
pub fn lower(expr: &nodes::Expr, columns: &dyn Columns, catalog: &mut dyn Catalog) -> Result<Expr> {
    let tested = Vec::new();
    Lowering { columns, catalog, tested, copied: 0 }.lower(expr)
}

/// What a client sees of a value: of types that are OIDs of rows, the text.
pub fn shown(value: Expr, ty: Oid, catalog: &mut dyn Catalog) -> Result<Expr> {
    if !is_reg(ty) {
        return Ok(value);
    }
    let output = catalog.names().ty(ty)?.output;
    let Some(builtin) = catalog.builtin(output) else {
        let ty = type_name(catalog.names(), ty)?;
        return Err(SqlError::unsupported(format!("output of type {ty}")));
    };
    let mut lowering = Lowering { columns: &Flat, catalog, tested: Vec::new(), copied: 0 };
    lowering.call_of(builtin, output, vec![value], &[ty])
}

/// Whether a type's values are OIDs of rows, which it shows by their names.
pub fn is_reg(ty: Oid) -> bool {
    use oids::{
        REGCLASS, REGCOLLATION, REGNAMESPACE, REGOPER, REGOPERATOR, REGPROC, REGPROCEDURE, REGROLE,
        REGTYPE,
    };
    [REGPROC, REGPROCEDURE, REGOPER, REGOPERATOR, REGCLASS, REGTYPE, REGROLE, REGNAMESPACE]
        .contains(&ty)
        || ty == REGCOLLATION
}

/// Lets an expression over one row read that of another column.
fn over(expr: &mut nodes::Expr, of: &Var) {
    if let nodes::Expr::Var(var) = expr {
        (var.varno, var.varnosyn) = (of.varno, of.varnosyn);
    }
    expr.visit_children_mut(&mut |child| over(child, of));
}

struct Lowering<'a> {
    columns: &'a dyn Columns,
    catalog: &'a mut dyn Catalog,
    /// What the cases around test.
    tested: Vec<Expr>,
    copied: usize,
}

impl Lowering<'_> {
    /// Chains of operators may be deep: what takes much of the stack is not done here.
    fn lower(&mut self, expr: &nodes::Expr) -> Result<Expr> {
        match expr {
            nodes::Expr::Func(node) => self.function(node),
            nodes::Expr::Op(node) => self.operator(node),
            other => self.lower_other(other),
        }
    }

    #[inline(never)]
    fn lower_other(&mut self, expr: &nodes::Expr) -> Result<Expr> {
        use nodes::Expr as N;
        Ok(match expr {
            N::Const(node) => Expr::Const(node.constvalue.clone()),
            N::Var(node) => self.column(node)?,
            N::Param(node) => {
                let number = usize::try_from(node.paramid - 1).unwrap_or(usize::MAX);
                Expr::Param(number)
            }
            N::Distinct(node) => Expr::IsDistinct {
                operands: Box::new(
                    self.equal_operands((node.opfuncid, node.inputcollid), &node.args)?,
                ),
                negated: false,
            },
            N::NullIf(node) => self.null_if(node)?,
            N::ScalarArrayOp(node) => self.array_test(node)?,
            N::Bool(node) => self.logic(node.boolop, &node.args)?,
            N::RelabelType(node) => {
                let (from, to) = (type_of(&node.arg), node.resulttype);
                cast_if_needed(self.lower(&node.arg)?, from, to)
            }
            N::CoerceViaIo(node) => self.via_text(node)?,
            N::Collate(node) => self.lower(&node.arg)?,
            N::Case(node) => self.case(node)?,
            N::CaseTest(_) => self.tested_value()?,
            N::RowCompare(node) => self.rows_compared(node)?,
            N::Coalesce(node) => Expr::Coalesce(self.all(&node.args)?),
            N::MinMax(node) => Expr::Extreme {
                list: self.all(&node.args)?,
                greatest: node.op == MinMaxOp::Greatest,
                order: self.value_order(node.minmaxtype, node.inputcollid)?,
            },
            N::SqlValue(node) => Expr::Value(node.op, node.typmod),
            N::NullTest(node) => self.null_test(node)?,
            N::BooleanTest(node) => boolean_test(node.booltesttype, self.lower(&node.arg)?),
            N::NamedArg(node) => self.lower(&node.arg)?,
            N::Array(node) => Expr::Array {
                elements: self.all(&node.elements)?,
                element: SqlType::of(node.element_typeid),
                nested: node.multidims,
            },
            N::ArrayCoerce(node) => {
                let array = Box::new(self.lower(&node.arg)?);
                self.tested.push(Expr::Column(0));
                let element = self.lower(&node.elemexpr);
                self.tested.pop();
                let to = self.element_of(node.resulttype)?;
                Expr::MapArray { array, element: Box::new(element?), to: SqlType::of(to) }
            }
            N::SubscriptingRef(node) => self.subscript(node)?,
            other => return Err(self.refused(other)?),
        })
    }

    /// A test for NULL. A row is NULL if all its fields are, and not NULL if none is.
    #[inline(never)]
    fn null_test(&mut self, node: &NullTest) -> Result<Expr> {
        let test = |arg: Expr| match node.nulltesttype {
            NullTestType::IsNull => Expr::IsNull(Box::new(arg)),
            NullTestType::IsNotNull => Expr::IsNotNull(Box::new(arg)),
        };
        match &*node.arg {
            nodes::Expr::Row(row) if node.argisrow => {
                let fields = self.all(&row.args)?;
                Ok(Expr::And(fields.into_iter().map(test).collect()))
            }
            // No function here returns a row of nothing but NULLs.
            nodes::Expr::Func(_) if node.nulltesttype == NullTestType::IsNull => {
                Ok(test(self.lower(&node.arg)?))
            }
            _ if node.argisrow => {
                Err(SqlError::unsupported("a test of a composite value for NULL"))
            }
            arg => Ok(test(self.lower(arg)?)),
        }
    }

    fn all(&mut self, list: &[nodes::Expr]) -> Result<Vec<Expr>> {
        let mut lowered = Vec::with_capacity(list.len());
        for e in list {
            lowered.push(self.lower(e)?);
        }
        Ok(lowered)
    }

    /// A column that is generated when it is read: what it is generated of, over the same row.
    fn generated(&mut self, var: &Var, tree: Option<&Arc<str>>) -> Result<Expr> {
        let mut expr = stored_expr(tree, "a virtual generated column")?;
        over(&mut expr, var);
        self.lower(&expr)
    }

    #[inline(never)]
    fn column(&mut self, var: &Var) -> Result<Expr> {
        let aggregate = (var.varno == AGGREGATES).then_some(var.varattno - 1);
        if let Some(number) = aggregate.and_then(|number| usize::try_from(number).ok()) {
            return Ok(Expr::Aggregate(number));
        }
        // The analyzer tells OLD and NEW apart by `varno`; only a stored tree could have this.
        if var.varreturningtype != VarReturningType::Default {
            return Err(SqlError::unsupported("OLD and NEW in this expression"));
        }
        if let Some(tree) = self.columns.generated(var) {
            return self.generated(var, tree.as_ref());
        }
        self.columns.index_of(var).map(Expr::Column).ok_or_else(|| match var.varattno {
            0 => SqlError::unsupported("a whole-row reference"),
            number if number < 0 => SqlError::unsupported("a system column in this expression"),
            number => {
                let message = format!("there is no column number {number}");
                SqlError::new(state::INTERNAL_ERROR, message)
            }
        })
    }

    #[inline(never)]
    fn logic(&mut self, op: BoolExprType, args: &[nodes::Expr]) -> Result<Expr> {
        let mut list = self.all(args)?;
        Ok(match op {
            BoolExprType::And => Expr::And(list),
            BoolExprType::Or => Expr::Or(list),
            BoolExprType::Not => match list.pop() {
                Some(Expr::IsDistinct { operands, negated }) => {
                    Expr::IsDistinct { operands, negated: !negated }
                }
                Some(arg) => Expr::Not(Box::new(arg)),
                None => return Err(SqlError::new(state::INTERNAL_ERROR, "NOT of nothing")),
            },
        })
    }

    /// A cast by the text form. Types that are OIDs of rows have functions for it.
    #[inline(never)]
    fn via_text(&mut self, node: &CoerceViaIo) -> Result<Expr> {
        let (from, to) = (type_of(&node.arg), node.resulttype);
        let arg = self.lower(&node.arg)?;
        let (source, target) = (self.catalog.names().ty(from)?, self.catalog.names().ty(to)?);
        if let Some(output) = self.catalog.builtin(source.output) {
            let text = self.call_of(output, source.output, vec![arg], &[from])?;
            return Ok(cast_if_needed(text, oids::TEXT, to));
        }
        if let Some(input) = self.catalog.builtin(target.input) {
            let text = cast_if_needed(arg, from, oids::TEXT);
            return self.call_of(input, target.input, vec![text], &[oids::TEXT]);
        }
        let known = |ty| SqlType::from_oid(ty).is_some() || ty == oids::UNKNOWN;
        if let Some(unknown) = [from, to].into_iter().find(|ty| !known(*ty)) {
            let ty = type_name(self.catalog.names(), unknown)?;
            return Err(SqlError::unsupported(format!("a cast of type {ty}")));
        }
        let (from, to) = (SqlType::of(from), SqlType::of(to));
        Ok(Expr::Cast { expr: Box::new(arg), from, to })
    }

    #[inline(never)]
    fn case(&mut self, node: &CaseExpr) -> Result<Expr> {
        if let Some(arg) = &node.arg {
            let arg = self.lower(arg)?;
            self.tested.push(arg);
        }
        let mut whens = Vec::with_capacity(node.args.len());
        let mut lowered = Ok(());
        for when in &node.args {
            let pair =
                self.lower(&when.expr).and_then(|test| Ok((test, self.lower(&when.result)?)));
            match pair {
                Ok(pair) => whens.push(pair),
                Err(error) => {
                    lowered = Err(error);
                    break;
                }
            }
        }
        if node.arg.is_some() {
            self.tested.pop();
        }
        lowered?;
        let is_null = |e: &nodes::Expr| match e {
            nodes::Expr::Const(value) => value.constvalue.is_null(),
            _ => false,
        };
        let otherwise = match &node.defresult {
            Some(e) if !is_null(e) => Some(Box::new(self.lower(e)?)),
            _ => None,
        };
        Ok(Expr::Case { whens, otherwise })
    }

    /// A copy of what the innermost case tests.
    #[inline(never)]
    fn tested_value(&mut self) -> Result<Expr> {
        let Some(tested) = self.tested.last() else {
            return Err(SqlError::new(state::INTERNAL_ERROR, "a tested value without its case"));
        };
        self.copied = self.copied.saturating_add(tested.size());
        if self.copied > MOST_COPIED {
            return Err(crate::parse::too_complex());
        }
        Ok(tested.clone())
    }

    #[inline(never)]
    fn subscript(&mut self, node: &nodes::SubscriptingRef) -> Result<Expr> {
        if node.refassgnexpr.is_some() {
            return Err(SqlError::unsupported("an assignment to an element"));
        }
        let element = self.element_of(node.refcontainertype)?;
        let array = Box::new(self.lower(&node.refexpr)?);
        let mut bounds = |list: &[Option<Box<nodes::Expr>>]| -> Result<Vec<Option<Expr>>> {
            list.iter().map(|e| e.as_ref().map(|e| self.lower(e)).transpose()).collect()
        };
        let (upper, lower) = (bounds(&node.refupperindexpr)?, bounds(&node.reflowerindexpr)?);
        let slice = !lower.is_empty();
        let element = SqlType::of(element);
        Ok(Expr::Subscript { array, upper, lower, slice, element })
    }

    fn element_of(&mut self, array: Oid) -> Result<Oid> {
        let element = self.catalog.names().element_of(array)?;
        element.ok_or_else(|| SqlError::new(state::INTERNAL_ERROR, "an array type is none"))
    }

    /// The error of an expression that is not supported, by its name.
    #[inline(never)]
    fn refused(&mut self, expr: &nodes::Expr) -> Result<SqlError> {
        use nodes::Expr as N;
        let ty = match expr {
            N::CoerceToDomain(node) => Some(node.resulttype),
            N::CoerceToDomainValue(node) => Some(node.type_id),
            _ => None,
        };
        if let Some(ty) = ty {
            let name = type_name(self.catalog.names(), ty)?;
            return Ok(SqlError::unsupported(format!("domain {name}")));
        }
        Ok(SqlError::unsupported(match expr {
            N::Row(_) => "a row constructor",
            N::FieldSelect(_) => "a field of a composite value",
            N::ConvertRowtype(_) => "a conversion of composite values",
            N::NextValue(_) => "the next value of an identity column",
            N::SetToDefault(_) => "DEFAULT in this expression",
            N::Returning(_) => "OLD and NEW in this expression",
            _ => "this expression",
        }))
    }
}

/// IS TRUE and its like.
fn boolean_test(test: BoolTestType, arg: Expr) -> Expr {
    let expr = Box::new(arg);
    let (value, negated) = match test {
        BoolTestType::IsTrue => (true, false),
        BoolTestType::IsNotTrue => (true, true),
        BoolTestType::IsFalse => (false, false),
        BoolTestType::IsNotFalse => (false, true),
        BoolTestType::IsUnknown => return Expr::IsNull(expr),
        BoolTestType::IsNotUnknown => return Expr::IsNotNull(expr),
    };
    Expr::IsBool { expr, value, negated }
}

/// What the values of a type are in expressions.
fn representation(ty: Oid) -> Repr {
    match ty {
        oids::UNKNOWN | oids::NAME => Repr::Text,
        _ => Repr::of(ty),
    }
}

/// The value as one of another type, which may have it in another representation.
pub(super) fn cast_if_needed(expr: Expr, from: Oid, to: Oid) -> Expr {
    let same = match (representation(from), representation(to)) {
        // A stored regclass is an OID; names are shorter than texts.
        (a, b) if a == b => !(to == oids::NAME && from != oids::NAME),
        (Repr::Array(_), Repr::Array(_)) => true,
        _ => false,
    };
    if same {
        return expr;
    }
    Expr::Cast { expr: Box::new(expr), from: SqlType::of(from), to: SqlType::of(to) }
}
