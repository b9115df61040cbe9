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
            _ => type_of_ast(catalog, data_type, 0).ok().map(|t| (t.typname().to_owned(), false)),
        },
        ast::Expr::TypedString(t) => {
            type_of_ast(catalog, &t.data_type, 0).ok().map(|t| (t.typname().to_owned(), false))
        }
        ast::Expr::Case { else_result, .. } => {
            match else_result.as_deref().and_then(|e| figure(catalog, e)) {
                Some((name, true)) => Some((name, true)),
                _ => Some(("case".to_owned(), false)),
            }
        }
        _ => None,
    }
}
