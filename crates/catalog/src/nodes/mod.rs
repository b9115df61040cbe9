//! Node trees: the analyzed expressions that the catalogs hold as text (pg_node_tree).
//!
//! A column's default, a check, the expressions and the predicate of an index are such trees.
//! [`Expr`] is PostgreSQL 18's analyzed expression over one row. Reading a text gives one, and
//! writing one gives the text that PostgreSQL writes for the same tree, byte for byte.
//!
//! | Module | Holds |
//! |---|---|
//! | `kinds` | the enumerations, with PostgreSQL's numbers |
//! | `value` | the small values of fields |
//! | `error` | `NodeError` |
//! | `tokens` | the text in tokens |
//! | `field` | how fields are read, written and compared |
//! | `constant` | `Const` |
//! | `expr` | `Expr` and the other nodes |
//! | `facts` | an expression's type, modifier, collation and position |
//! | `references` | the objects that a tree refers to, for pg_depend |
//! | `names` | `Names`: what printing asks of the catalogs |
//! | `deparse` | trees to SQL |

mod constant;
mod deparse;
mod error;
mod expr;
mod facts;
mod field;
mod kinds;
mod names;
mod references;
mod tokens;
mod value;

pub use constant::Const;
pub use deparse::{
    CheckText, IndexKeyText, IndexText, KeySource, Style, deparse, deparse_list,
    looks_like_function,
};
pub use error::NodeError;
pub use expr::*;
pub use facts::{collation_of, length_coercion, location_of, type_of, typmod_of};
pub use kinds::*;
pub use names::{Call, Names, QualifiedName};
pub use references::Reference;
pub use tokens::{MAX_DEPTH, MAX_TEXT};
pub use value::{Bitmap, Location, StringNode};

use error::Result;
use field::Field;
use forebay_types::Encoding;
use tokens::Tokens;

/// Reads the tree of one expression: pg_attrdef.adbin, pg_constraint.conbin,
/// pg_index.indpred.
pub fn read(text: &str) -> Result<Expr> {
    read_as(text)
}

/// Reads a list of expressions: pg_index.indexprs.
pub fn read_list(text: &str) -> Result<Vec<Expr>> {
    read_as(text)
}

fn read_as<F: Field>(text: &str) -> Result<F> {
    read_in(text, Encoding::Utf8)
}

fn read_in<F: Field>(text: &str, encoding: Encoding) -> Result<F> {
    let mut tokens = Tokens::new(text, encoding)?;
    let tree = F::read(&mut tokens)?;
    tokens.finish()?;
    Ok(tree)
}

/// The text of one expression's tree.
///
/// # Panics
/// If a constant's value is none of its type.
pub fn write(expr: &Expr) -> String {
    written(expr)
}

/// The text of a list of expressions, as of pg_index.indexprs.
pub fn write_list(exprs: &Vec<Expr>) -> String {
    written(exprs)
}

/// The text of an expression or a list of some, whose constants' bytes are in an encoding, with
/// bytes in another one. In memory trees have the bytes of UTF-8, whatever the database.
///
/// # Errors
/// If the tree is not understood, or a constant is none of the other encoding.
pub fn recoded(text: &str, from: Encoding, to: Encoding) -> Result<String> {
    if text.starts_with('(') {
        let mut exprs: Vec<Expr> = read_in(text, from)?;
        exprs.iter_mut().try_for_each(|expr| encode(expr, to))?;
        return Ok(written(&exprs));
    }
    let mut expr = read_in(text, from)?;
    encode(&mut expr, to)?;
    Ok(written(&expr))
}

fn encode(expr: &mut Expr, to: Encoding) -> Result<()> {
    if let Expr::Const(constant) = expr {
        constant.encode(to)?;
    }
    let mut done = Ok(());
    expr.visit_children_mut(&mut |child| {
        if done.is_ok() {
            done = encode(child, to);
        }
    });
    done
}

fn written(tree: &impl Field) -> String {
    let mut text = String::new();
    tree.write(&mut text);
    text
}
