//! Names as the parser gives them.

use crate::error::{Result, SqlError, state};
use crate::parse::cursor::{fold, is_reserved};
use crate::parse::{QualifiedName, Source};
use sqlparser::ast::{self, Spanned};

/// An identifier as a name.
pub fn ident_name(ident: &ast::Ident) -> String {
    match ident.quote_style {
        None => fold(&ident.value),
        Some(_) => ident.value.clone(),
    }
}

/// The error of a reserved word where a name should be.
pub(super) fn reserved_word(word: &str, position: u32) -> SqlError {
    let message = format!("syntax error at or near \"{word}\"");
    SqlError::new(state::SYNTAX_ERROR, message).at(position)
}

/// Turns a parser's name into one with at most a schema.
pub fn qualified_name(name: &ast::ObjectName, source: &Source) -> Result<QualifiedName> {
    let position = source.position(name.span().start);
    let mut parts = Vec::new();
    for part in &name.0 {
        match part {
            ast::ObjectNamePart::Identifier(i)
                if i.quote_style.is_none() && is_reserved(&i.value) =>
            {
                return Err(reserved_word(&i.value, source.position(i.span.start)));
            }
            ast::ObjectNamePart::Identifier(i) => parts.push(ident_name(i)),
            ast::ObjectNamePart::Function(_) => {
                return Err(SqlError::unsupported("this name").at(position));
            }
        }
    }
    let mut parts = parts.into_iter();
    match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => Ok(QualifiedName { schema: None, name, position }),
        (Some(schema), Some(name), None) => {
            Ok(QualifiedName { schema: Some(schema), name, position })
        }
        _ => {
            let message = "cross-database references are not implemented";
            Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message).at(position))
        }
    }
}
