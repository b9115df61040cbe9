//! ANY and ALL of arrays, and comparisons of rows.

use super::super::expr::{Comparison, Expr};
use super::Lowering;
use super::call::{as_common, wrong_arguments};
use super::fast::{Fast, form};
use crate::error::Result;
use forebay_engine::nodes::{self, CompareType, RowCompareExpr, ScalarArrayOpExpr, type_of};
use forebay_types::{Datum, SqlType};

impl Lowering<'_> {
    /// A test of a value against the elements of an array.
    #[inline(never)]
    pub(super) fn array_test(&mut self, node: &ScalarArrayOpExpr) -> Result<Expr> {
        let [value, array] = node.args.as_slice() else { return Err(wrong_arguments()) };
        let element = self.element_of(type_of(array))?;
        let of = SqlType::of(element);
        let negated = match (form(node.opfuncid), node.use_or) {
            (Some(Fast::Compare(Comparison::Eq, common)), true) => Some((false, common)),
            (Some(Fast::Compare(Comparison::Ne, common)), false) => Some((true, common)),
            _ => None,
        };
        let Some((negated, common)) = negated else {
            return self.general_test(node, (value, array), element);
        };
        self.order_of(common, node.inputcollid)?;
        let expr = as_common(common, type_of(value), self.lower(value)?);
        let expr = Box::new(expr);
        // The elements may be taken for another type, such as text for varchar.
        let listed = match array {
            nodes::Expr::ArrayCoerce(node)
                if matches!(*node.elemexpr, nodes::Expr::RelabelType(_)) =>
            {
                &*node.arg
            }
            _ => array,
        };
        let from = self.element_of(type_of(listed))?;
        if let nodes::Expr::Array(list) = listed
            && !list.multidims
        {
            let mut items = Vec::with_capacity(list.elements.len());
            for item in &list.elements {
                items.push(as_common(common, from, self.lower(item)?));
            }
            return Ok(Expr::InList { expr, list: items, element: of, negated });
        }
        if let nodes::Expr::Const(constant) = listed
            && let Datum::Array(values) = &constant.constvalue
        {
            let item = |value: Datum<'_>| as_common(common, from, Expr::Const(value.into_owned()));
            let list = values.items()?.into_iter().map(item).collect();
            return Ok(Expr::InList { expr, list, element: of, negated });
        }
        let array = Box::new(self.lower(array)?);
        let common = if common == forebay_types::oids::ANYARRAY { of } else { SqlType::of(common) };
        Ok(Expr::InArray { expr, array, elements: (of, common), negated })
    }

    /// The test by any operator: an expression over the value and an element.
    #[inline(never)]
    fn general_test(
        &mut self,
        node: &ScalarArrayOpExpr,
        (value, array): (&nodes::Expr, &nodes::Expr),
        element: u32,
    ) -> Result<Expr> {
        let pair = |number, ty| {
            nodes::Expr::Var(nodes::Var { varno: PAIR, ..nodes::Var::column(number, ty, -1, 0) })
        };
        let op = nodes::OpExpr {
            opno: node.opno,
            opfuncid: node.opfuncid,
            opresulttype: forebay_types::oids::BOOL,
            opretset: false,
            opcollid: 0,
            inputcollid: node.inputcollid,
            args: vec![pair(1, type_of(value)), pair(2, element)],
            location: nodes::Location::UNKNOWN,
        };
        let (columns, tested) = (&Pair, Vec::new());
        let test =
            Lowering { columns, catalog: &mut *self.catalog, tested, copied: 0 }.operator(&op)?;
        Ok(Expr::AnyOf {
            value: Box::new(self.lower(value)?),
            array: Box::new(self.lower(array)?),
            element: SqlType::of(element),
            test: Box::new(test),
            any: node.use_or,
        })
    }

    /// A comparison of rows.
    #[inline(never)]
    pub(super) fn rows_compared(&mut self, node: &RowCompareExpr) -> Result<Expr> {
        let comparison = match node.cmptype {
            CompareType::Lt => Comparison::Lt,
            CompareType::Le => Comparison::Le,
            CompareType::Eq => Comparison::Eq,
            CompareType::Ge => Comparison::Ge,
            CompareType::Gt => Comparison::Gt,
            CompareType::Ne => Comparison::Ne,
        };
        let mut pairs = Vec::with_capacity(node.opnos.len());
        let mut collations = Vec::with_capacity(node.opnos.len());
        for ((operator, a), b) in node.opnos.iter().zip(&node.largs).zip(&node.rargs) {
            let row = self.catalog.names().operator(*operator)?;
            let types = [type_of(a), type_of(b)];
            let Some(Fast::Compare(_, common)) = form(row.code) else {
                return Err(self.no_operator(*operator, &types)?);
            };
            let a = as_common(common, types[0], self.lower(a)?);
            let b = as_common(common, types[1], self.lower(b)?);
            pairs.push((a, b));
            let collation = node.inputcollids.get(collations.len()).copied().unwrap_or(0);
            collations.push(self.order_of(common, collation)?);
        }
        Ok(Expr::CompareRows(comparison, pairs, collations))
    }
}

/// The relation number of a value and an element that are tested.
const PAIR: i32 = -5;

/// The row of a value and an element.
struct Pair;

impl super::Columns for Pair {
    fn index_of(&self, var: &nodes::Var) -> Option<usize> {
        usize::try_from(var.varattno - 1).ok().filter(|_| var.varno == PAIR)
    }
}
