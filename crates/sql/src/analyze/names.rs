//! The name of an output column that was not given one: PostgreSQL's FigureColname.

use super::ident::ident_name;
use super::lookups::Names;
use super::types::type_of_ast;
use sqlparser::ast;

/// The column's name.
pub fn column_name(names: &mut dyn Names, e: &ast::Expr) -> String {
    figure(names, e).map_or_else(|| "?column?".to_owned(), |(name, _)| name)
}

/// The same of an index's column. None: the expression suggests none.
pub fn figured_name(names: &mut dyn Names, e: &ast::Expr) -> Option<String> {
    figure(names, e).map(|(name, _)| name)
}

/// A name, and whether it is better than a type's or CASE's.
fn figure(names: &mut dyn Names, e: &ast::Expr) -> Option<(String, bool)> {
    let strong = |name: &str| Some((name.to_owned(), true));
    match e {
        ast::Expr::Identifier(i) => Some((ident_name(i), true)),
        ast::Expr::CompoundIdentifier(parts) => parts.last().map(|i| (ident_name(i), true)),
        ast::Expr::Nested(inner) => figure(names, inner),
        ast::Expr::Function(f) => {
            f.name.0.last().and_then(|p| p.as_ident()).map(|i| (ident_name(i), true))
        }
        ast::Expr::Ceil { .. } => strong("ceil"),
        ast::Expr::Floor { .. } => strong("floor"),
        ast::Expr::Substring { shorthand: true, .. } => strong("substr"),
        ast::Expr::Substring { .. } => strong("substring"),
        ast::Expr::Trim { trim_where, .. } => strong(match trim_where {
            None | Some(ast::TrimWhereField::Both) => "btrim",
            Some(ast::TrimWhereField::Leading) => "ltrim",
            Some(ast::TrimWhereField::Trailing) => "rtrim",
        }),
        ast::Expr::Overlay { .. } => strong("overlay"),
        ast::Expr::Extract { .. } => strong("extract"),
        ast::Expr::AtTimeZone { .. } => strong("timezone"),
        ast::Expr::Array(_) => strong("array"),
        ast::Expr::Tuple(_) => strong("row"),
        ast::Expr::Interval(_) => Some(("interval".to_owned(), false)),
        ast::Expr::Collate { expr, .. } => figure(names, expr),
        ast::Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                ast::AccessExpr::Dot(ast::Expr::Identifier(i)) => Some(ident_name(i)),
                _ => None,
            });
            match field {
                Some(field) => Some((field, true)),
                None => figure(names, root),
            }
        }
        ast::Expr::Position { .. } => strong("position"),
        ast::Expr::Cast { expr, data_type, .. } => match figure(names, expr) {
            Some((name, true)) => Some((name, true)),
            _ => type_name(names, data_type),
        },
        ast::Expr::TypedString(t) => type_name(names, &t.data_type),
        ast::Expr::Case { else_result, .. } => {
            match else_result.as_deref().and_then(|e| figure(names, e)) {
                Some((name, true)) => Some((name, true)),
                _ => Some(("case".to_owned(), false)),
            }
        }
        _ => None,
    }
}

/// The name of a type; of an array that of its elements.
fn type_name(names: &mut dyn Names, ty: &ast::DataType) -> Option<(String, bool)> {
    let ty = match ty {
        ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(element, _)) => element,
        ty => ty,
    };
    let ty = type_of_ast(names, ty, 0).ok()?;
    Some((names.type_by_oid(ty.oid).ok()??.name.to_string(), false))
}
