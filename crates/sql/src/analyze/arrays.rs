//! ARRAY[...] and subscripts.

use super::bind::Binder;
use super::common::{common_type, to_common};
use super::context::Context;
use super::type_names::type_name;
use super::typed::Typed;
use super::types::NamedType;
use crate::error::{Result, SqlError, state};
use forebay_engine::nodes::{ArrayExpr, Expr, Location, SubscriptingRef, collation_of, typmod_of};
use forebay_types::{Oid, oids};
use sqlparser::ast;

impl Binder<'_> {
    /// ARRAY[...]
    #[inline(never)]
    pub(super) fn array(&mut self, array: &ast::Array, position: u32) -> Result<Typed> {
        let mut items = Vec::with_capacity(array.elem.len());
        for item in &array.elem {
            items.push(self.bind(item)?);
        }
        if items.is_empty() {
            let hint = "Explicitly cast to the desired type, for example ARRAY[]::integer[].";
            let message = "cannot determine type of empty array";
            let error = SqlError::new(state::INDETERMINATE_DATATYPE, message);
            return Err(error.hint(hint).at(position));
        }
        let ty = common_type(self.names, &items, "ARRAY")?;
        let mut elements = Vec::with_capacity(items.len());
        for item in items {
            elements.push(to_common(self.names, self.params, item, ty, "ARRAY")?);
        }
        Ok(Typed::new(self.nested_array(elements, ty, position)?, position))
    }

    /// ARRAY[...]::type[]: its elements get the type at once.
    #[inline(never)]
    pub(super) fn array_of_type(
        &mut self,
        array: &ast::Array,
        ty: Oid,
        position: u32,
    ) -> Result<Typed> {
        let Some(element) = self.names.element_of(ty)? else {
            return self.array(array, position);
        };
        let mut elements = Vec::with_capacity(array.elem.len());
        let mut multidims = false;
        for item in &array.elem {
            let (item, to) = match item {
                ast::Expr::Array(inner) => {
                    multidims = true;
                    (self.array_of_type(inner, ty, position)?, ty)
                }
                item => (self.bind(item)?, element),
            };
            let typmod = -1;
            elements.push(self.explicit(item, NamedType { oid: to, typmod }, position)?.expr);
        }
        let node = ArrayExpr { multidims, ..self.array_of(elements, ty, element) };
        Ok(Typed::new(node, position))
    }

    /// An array of values of a type.
    pub(super) fn array_node(&mut self, elements: Vec<Expr>, element: Oid) -> Result<Expr> {
        match self.names.array_of(element)? {
            Some(array) => Ok(self.array_of(elements, array, element).into()),
            None => {
                let ty = type_name(self.names, element)?;
                let message = format!("could not find array type for data type {ty}");
                Err(SqlError::new(state::UNDEFINED_OBJECT, message))
            }
        }
    }

    /// The same; of arrays it is one array of more dimensions.
    fn nested_array(&mut self, elements: Vec<Expr>, ty: Oid, position: u32) -> Result<Expr> {
        if let Some(element) = self.names.element_of(ty)? {
            let node = self.array_of(elements, ty, element);
            return Ok(ArrayExpr { multidims: true, ..node }.into());
        }
        self.array_node(elements, ty).map_err(|e| e.at(position))
    }

    fn array_of(&self, elements: Vec<Expr>, array: Oid, element: Oid) -> ArrayExpr {
        ArrayExpr {
            array_typeid: array,
            array_collid: 0,
            element_typeid: element,
            elements,
            multidims: false,
            list_start: Location::UNKNOWN,
            list_end: Location::UNKNOWN,
            location: Location::UNKNOWN,
        }
    }

    /// value[1], value[1:2]
    #[inline(never)]
    pub(super) fn subscripts(
        &mut self,
        root: &ast::Expr,
        chain: &[ast::AccessExpr],
        position: u32,
    ) -> Result<Typed> {
        let value = self.bind(root)?;
        let ty = self.names.base_type(value.ty())?;
        let row = self.names.ty(ty)?;
        if !row.is_array() {
            let ty = type_name(self.names, value.ty())?;
            if row.subscript != 0 {
                let what = format!("a subscript of type {ty}");
                return Err(SqlError::unsupported(what).at(position));
            }
            let message = format!(
                "cannot subscript type {ty} because it does not support \
                                   subscripting"
            );
            return Err(SqlError::new(state::DATATYPE_MISMATCH, message).at(position));
        }
        let slices = chain.iter().any(|access| {
            matches!(access, ast::AccessExpr::Subscript(ast::Subscript::Slice { .. }))
        });
        let (mut upper, mut lower) = (Vec::new(), Vec::new());
        for access in chain {
            match access {
                ast::AccessExpr::Subscript(ast::Subscript::Index { index }) => {
                    upper.push(Some(self.subscript(index)?));
                    if slices {
                        lower.push(Some(Box::new(super::typed::int4(1))));
                    }
                }
                ast::AccessExpr::Subscript(ast::Subscript::Slice {
                    lower_bound,
                    upper_bound,
                    stride: None,
                }) => {
                    upper.push(self.bound(upper_bound.as_ref())?);
                    lower.push(self.bound(lower_bound.as_ref())?);
                }
                _ => {
                    let what = "a subscript or field selection";
                    return Err(SqlError::unsupported(what).at(position));
                }
            }
        }
        let node = SubscriptingRef {
            refcontainertype: ty,
            refelemtype: row.elem,
            refrestype: if slices { ty } else { row.elem },
            reftypmod: typmod_of(&value.expr),
            refcollid: collation_of(&value.expr),
            refupperindexpr: upper,
            reflowerindexpr: lower,
            refexpr: Box::new(value.expr),
            refassgnexpr: None,
        };
        Ok(Typed::new(node, position))
    }

    fn bound(&mut self, e: Option<&ast::Expr>) -> Result<Option<Box<Expr>>> {
        e.map(|e| self.subscript(e)).transpose()
    }

    /// A subscript, which is an integer.
    fn subscript(&mut self, e: &ast::Expr) -> Result<Box<Expr>> {
        let value = self.bind(e)?;
        let position = value.position;
        let cast = super::coerce(self.names, self.params, value, oids::INT4, Context::Assignment)?;
        match cast {
            Some(cast) => Ok(Box::new(cast.expr)),
            None => {
                let message = "array subscript must have type integer";
                Err(SqlError::new(state::DATATYPE_MISMATCH, message).at(position))
            }
        }
    }
}
