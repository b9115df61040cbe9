//! Trees to SQL, as PostgreSQL's pg_get_expr, pg_get_constraintdef and pg_get_indexdef print them.
//!
//! | Module | Holds |
//! |---|---|
//! | `printer` | `Printer`: the text so far, parentheses and lines |
//! | `simple` | which expressions need no parentheses |
//! | `constants` | constants, casts |
//! | `calls` | functions, operators, CASE, rows |
//! | `sql_syntax` | functions with a syntax of their own, such as EXTRACT |
//! | `expression` | each kind of node |
//! | `definitions` | checks and indexes |

mod calls;
mod constants;
mod definitions;
mod expression;
mod printer;
mod simple;
mod sql_syntax;

pub use definitions::{CheckText, IndexKeyText, IndexText, KeySource, looks_like_function};
pub use printer::Style;

use super::error::Result;
use super::expr::Expr;
use super::names::Names;
use printer::Printer;

/// The SQL text of an expression.
pub fn deparse(expr: &Expr, style: Style, names: &mut dyn Names) -> Result<String> {
    let mut printer = Printer::new(style, names);
    printer.expr(expr, false)?;
    Ok(printer.text)
}

/// The SQL text of a list of expressions, as of pg_index.indexprs.
pub fn deparse_list(exprs: &[Expr], style: Style, names: &mut dyn Names) -> Result<String> {
    let mut printer = Printer::new(style, names);
    printer.list(exprs, false)?;
    Ok(printer.text)
}
