//! Where an expression begins and ends in the query string.
//!
//! sqlparser's `Spanned` visits the whole tree for this. Binding asks for the beginning of every
//! expression, so here it is a walk down one side of the tree.

use sqlparser::ast::{self, Spanned};
use sqlparser::tokenizer::{Location, Span};

/// Where its first token begins.
pub fn start(e: &ast::Expr) -> Location {
    side(e, true).start
}

/// Where its last token ends, parentheses around it not counted.
pub fn end(e: &ast::Expr) -> Location {
    side(e, false).end
}

fn side(mut e: &ast::Expr, first: bool) -> Span {
    while let Some(operand) = outermost(e, first) {
        e = operand;
    }
    match e {
        ast::Expr::Identifier(_)
        | ast::Expr::CompoundIdentifier(_)
        | ast::Expr::Value(_)
        | ast::Expr::TypedString(_) => e.span(),
        ast::Expr::Function(f) => f.name.span(),
        ast::Expr::Case { case_token, .. } if first => case_token.0.span,
        ast::Expr::Case { end_token, .. } => end_token.0.span,
        ast::Expr::Collate { collation, .. } => collation.span(),
        _ => Span::empty(),
    }
}

/// The first or last operand, if the expression begins or ends with one.
fn outermost(e: &ast::Expr, first: bool) -> Option<&ast::Expr> {
    use ast::Expr as E;
    fn pick<'e>(first: bool, a: &'e ast::Expr, b: &'e ast::Expr) -> &'e ast::Expr {
        if first { a } else { b }
    }
    Some(match e {
        E::Nested(x) | E::IsNull(x) | E::IsNotNull(x) | E::IsTrue(x) | E::IsNotTrue(x) => x,
        E::IsFalse(x) | E::IsNotFalse(x) | E::IsUnknown(x) | E::IsNotUnknown(x) => x,
        E::UnaryOp { expr, .. } | E::Cast { expr, .. } | E::Ceil { expr, .. } => expr,
        E::Floor { expr, .. } | E::Trim { expr, .. } | E::Extract { expr, .. } => expr,
        E::InSubquery { expr, .. } | E::Overlay { expr, .. } => expr,
        E::AtTimeZone { timestamp, .. } => timestamp,
        E::CompoundFieldAccess { root, .. } => root,
        E::JsonAccess { value, .. } => value,
        E::Interval(interval) => &interval.value,
        E::Collate { expr, .. } if first => expr,
        E::BinaryOp { left, right, .. }
        | E::AnyOp { left, right, .. }
        | E::AllOp { left, right, .. } => pick(first, left, right),
        E::IsDistinctFrom(a, b) | E::IsNotDistinctFrom(a, b) => pick(first, a, b),
        E::Between { expr, high, .. } => pick(first, expr, high),
        E::Like { expr, pattern, .. }
        | E::ILike { expr, pattern, .. }
        | E::SimilarTo { expr, pattern, .. } => pick(first, expr, pattern),
        E::Position { expr, r#in } => pick(first, expr, r#in),
        E::InList { expr, list, .. } => pick(first, expr, list.last().unwrap_or(expr)),
        E::Substring { expr, substring_from, substring_for, .. } => {
            let last = substring_for.as_deref().or(substring_from.as_deref());
            pick(first, expr, last.unwrap_or(expr))
        }
        E::Tuple(list) => if first { list.first() } else { list.last() }?,
        E::Array(array) => if first { array.elem.first() } else { array.elem.last() }?,
        E::Function(f) if !first => last_argument(f)?,
        _ => return None,
    })
}

fn last_argument(f: &ast::Function) -> Option<&ast::Expr> {
    let ast::FunctionArguments::List(list) = &f.args else { return None };
    match list.args.last()? {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) => Some(e),
        _ => None,
    }
}
