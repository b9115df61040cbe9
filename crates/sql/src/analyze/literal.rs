//! Numbers as they are written.

use super::typed::{Typed, int4, int8, numeric};
use crate::error::{Result, SqlError, state};
use forebay_types::{Datum, Numeric, SqlType, int_in};
use sqlparser::ast::{self, UnaryOperator, Value};

/// A number with the signs before it; None for anything else.
pub(super) fn signed_number(e: &ast::Expr) -> Option<String> {
    match e {
        ast::Expr::Nested(inner) => signed_number(inner),
        ast::Expr::Value(v) => match &v.value {
            Value::Number(text, _) => Some(text.clone()),
            _ => None,
        },
        ast::Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            let text = signed_number(expr)?;
            Some(text.strip_prefix('-').map_or_else(|| format!("-{text}"), str::to_owned))
        }
        _ => None,
    }
}

/// A numeric literal, perhaps with a minus: int4 if it fits, then int8, then numeric.
pub(super) fn number(text: &str, position: u32) -> Result<Typed> {
    if text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
        && let Ok(v) = int_in(text, SqlType::Int8)
    {
        return Ok(match i32::try_from(v) {
            Ok(v) => Typed::new(int4(v), position),
            Err(_) => Typed::new(int8(v), position),
        });
    }
    match Numeric::parse(text).map_err(|e| SqlError::from(e).at(position))? {
        Some(v) => Ok(Typed::new(numeric(Datum::numeric(v)), position)),
        None => {
            let message = format!("trailing junk after numeric literal at or near \"{text}\"");
            Err(SqlError::new(state::SYNTAX_ERROR, message).at(position))
        }
    }
}
