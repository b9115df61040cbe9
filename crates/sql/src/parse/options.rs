//! Storage parameters: `(name = value, toast.name)`, in the values' stored form.

use super::cursor::{Cursor, fold};
use crate::error::Result;
use forebay_engine::StorageParameter;
use forebay_types::SqlType;
use sqlparser::tokenizer::Token;

/// The parameters behind an opening parenthesis, up to the closing one, which is taken too.
pub(super) fn storage_parameters(c: &mut Cursor<'_>) -> Result<Vec<StorageParameter>> {
    let mut parameters = Vec::new();
    loop {
        let (mut namespace, mut name) = (None, label(c)?);
        if c.accept_token(&Token::Period) {
            namespace = Some(std::mem::replace(&mut name, label(c)?));
        }
        let value = if c.accept_token(&Token::Eq) { Some(value(c)?) } else { None };
        parameters.push(StorageParameter { namespace, name, value });
        if c.accept_token(&Token::RParen) {
            return Ok(parameters);
        }
        c.expect_token(&Token::Comma)?;
    }
}

/// A name that may be a reserved word.
fn label(c: &mut Cursor<'_>) -> Result<String> {
    let label = match c.peek() {
        Some(Token::Word(w)) if w.quote_style.is_none() => fold(&w.value),
        Some(Token::Word(w)) if !w.value.is_empty() => w.value.clone(),
        _ => return Err(c.error()),
    };
    c.advance();
    Ok(label)
}

/// A value: a text, a number, a word. Words that name types in the grammar become those types.
fn value(c: &mut Cursor<'_>) -> Result<String> {
    if let Some(text) = c.accept_string() {
        return Ok(text);
    }
    if let Some(number) = c.accept_number() {
        return Ok(normalized(number));
    }
    let word = label(c)?;
    let ty = match word.as_str() {
        "int" | "integer" => SqlType::Int4,
        "smallint" => SqlType::Int2,
        "bigint" => SqlType::Int8,
        "real" => SqlType::Float4,
        "boolean" => SqlType::Bool,
        "double" if c.accept("precision") => SqlType::Float8,
        _ => return Ok(word),
    };
    Ok(format!("pg_catalog.{}", ty.typname()))
}

/// An integer without leading zeros; another number as it was written.
fn normalized(number: String) -> String {
    number.parse::<i32>().map_or(number, |value| value.to_string())
}
