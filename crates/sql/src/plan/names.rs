//! The name of an output column that was not given one: PostgreSQL's FigureColname.

use super::catalog::Catalog;
use super::ident::ident_name;
use super::types::type_of_ast;
use sqlparser::ast;

/// The column's name.
pub fn column_name(catalog: &dyn Catalog, e: &ast::Expr) -> String {
    figure(catalog, e).map_or_else(|| "?column?".to_owned(), |(name, _)| name)
}

/// A name, and whether it is better than a type's or CASE's.
fn figure(catalog: &dyn Catalog, e: &ast::Expr) -> Option<(String, bool)> {
    let strong = |name: &str| Some((name.to_owned(), true));
    match e {
        ast::Expr::Identifier(i) => Some((ident_name(i), true)),
        ast::Expr::CompoundIdentifier(parts) => parts.last().map(|i| (ident_name(i), true)),
        ast::Expr::Nested(inner) => figure(catalog, inner),
        ast::Expr::Function(f) => {
            f.name.0.last().and_then(|p| p.as_ident()).map(|i| (ident_name(i), true))
        }
        ast::Expr::Ceil { .. } => strong("ceil"),
        ast::Expr::Floor { .. } => strong("floor"),
        ast::Expr::Substring { shorthand: true, .. } => strong("substr"),
        ast::Expr::Substring { .. } => strong("substring"),
        ast::Expr::Trim { .. } => strong("btrim"),
        ast::Expr::Position { .. } => strong("position"),
        ast::Expr::Cast { expr, data_type, .. } => match figure(catalog, expr) {
            Some((name, true)) => Some((name, true)),
            _ => type_name(catalog, data_type),
        },
        ast::Expr::TypedString(t) => type_name(catalog, &t.data_type),
        ast::Expr::Case { else_result, .. } => {
            match else_result.as_deref().and_then(|e| figure(catalog, e)) {
                Some((name, true)) => Some((name, true)),
                _ => Some(("case".to_owned(), false)),
            }
        }
        _ => None,
    }
}

/// The name of a type; of an array that of its elements.
fn type_name(catalog: &dyn Catalog, ty: &ast::DataType) -> Option<(String, bool)> {
    let ty = match ty {
        ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(element, _)) => element,
        ty => ty,
    };
    type_of_ast(catalog, ty, 0).ok().map(|ty| (ty.typname().to_owned(), false))
}
