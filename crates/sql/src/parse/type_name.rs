//! Names of types with their modifiers, as PostgreSQL's grammar has them.

use super::cursor::Cursor;
use crate::error::{Result, SqlError, state};
use sqlparser::tokenizer::Token;

/// A type as it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeName {
    /// Its schema, if one is given; types that are words of the grammar are in pg_catalog.
    pub schema: Option<String>,
    /// Its name in pg_type.
    pub name: String,
    /// The numbers behind it.
    pub modifiers: Vec<i64>,
    /// The fields of an interval, as bits of its modifier.
    pub fields: Option<i32>,
    /// Whether it is an array of these.
    pub array: bool,
    /// Where it stands.
    pub position: u32,
}

/// A modifier that a client could make long.
const MOST_MODIFIERS: usize = 64;

/// Bits of the fields of intervals, by their names, from the longest to the shortest.
const FIELDS: [(&str, i32); 6] = [
    ("year", 1 << 2),
    ("month", 1 << 1),
    ("day", 1 << 3),
    ("hour", 1 << 10),
    ("minute", 1 << 11),
    ("second", 1 << 12),
];

impl TypeName {
    /// A type of pg_catalog.
    pub fn built_in(name: &str, modifiers: impl IntoIterator<Item = i64>) -> TypeName {
        TypeName { schema: Some("pg_catalog".to_owned()), ..TypeName::plain(name, modifiers) }
    }

    /// A type without a schema.
    pub fn plain(name: &str, modifiers: impl IntoIterator<Item = i64>) -> TypeName {
        let modifiers = modifiers.into_iter().collect();
        let name = name.to_owned();
        TypeName { schema: None, name, modifiers, fields: None, array: false, position: 0 }
    }

    /// The name in messages.
    pub fn display(&self) -> String {
        match &self.schema {
            Some(schema) if schema != "pg_catalog" => format!("{schema}.{}", self.name),
            _ => self.name.clone(),
        }
    }

    /// FLOAT(n).
    pub fn float(precision: u64) -> Result<TypeName> {
        let refuse = |bound: &str| {
            let message = format!("precision for type float must be {bound} bits");
            Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message))
        };
        match precision {
            0 => refuse("at least 1"),
            1..=24 => Ok(TypeName::built_in("float4", None)),
            25..=53 => Ok(TypeName::built_in("float8", None)),
            _ => refuse("less than 54"),
        }
    }
}

/// The bits of the fields from one to another. None: there are no such fields.
pub fn interval_fields(first: &str, last: &str) -> Option<i32> {
    let place = |name: &str| FIELDS.iter().position(|(known, _)| *known == name);
    let (first, last) = (place(first)?, place(last)?);
    // YEAR TO MONTH is apart from the others.
    let apart = first != last && (first == 1 || first == 0 && last != 1 || first > last);
    let bits = FIELDS.get(first..=last)?.iter().fold(0, |all, (_, bit)| all | bit);
    (!apart).then_some(bits)
}

/// Parses a type's name.
pub(super) fn type_name(c: &mut Cursor<'_>) -> Result<TypeName> {
    let position = c.position();
    let mut ty = simple(c)?;
    ty.position = position;
    if c.accept("array") {
        ty.array = true;
        if c.accept_token(&Token::LBracket) {
            c.advance();
            c.expect_token(&Token::RBracket)?;
        }
        return Ok(ty);
    }
    while c.accept_token(&Token::LBracket) {
        ty.array = true;
        if !c.accept_token(&Token::RBracket) {
            c.advance();
            c.expect_token(&Token::RBracket)?;
        }
    }
    Ok(ty)
}

fn simple(c: &mut Cursor<'_>) -> Result<TypeName> {
    let word = |c: &mut Cursor<'_>, words: &[&str]| c.accept_all(words);
    for (words, name) in [
        (&["boolean"][..], "bool"),
        (&["smallint"], "int2"),
        (&["integer"], "int4"),
        (&["int"], "int4"),
        (&["bigint"], "int8"),
        (&["real"], "float4"),
        (&["double", "precision"], "float8"),
    ] {
        if word(c, words) {
            let modifiers = modifiers(c)?;
            return Ok(TypeName::built_in(name, modifiers));
        }
    }
    if word(c, &["float"]) {
        let at = c.position();
        let precision = modifiers(c)?.first().map(|n| u64::try_from(*n).unwrap_or(0));
        return match precision {
            None => Ok(TypeName::built_in("float8", None)),
            Some(n) => TypeName::float(n).map_err(|e| e.at(at)),
        };
    }
    for name in ["decimal", "dec", "numeric"] {
        if word(c, &[name]) {
            let modifiers = modifiers(c)?;
            return Ok(TypeName::built_in("numeric", modifiers));
        }
    }
    if word(c, &["bit"]) {
        let varying = c.accept("varying");
        let mut modifiers = modifiers(c)?;
        if modifiers.is_empty() && !varying {
            modifiers.push(1);
        }
        return Ok(TypeName::built_in(if varying { "varbit" } else { "bit" }, modifiers));
    }
    let national = c.accept("national");
    for name in ["character", "char", "nchar", "varchar"] {
        if word(c, &[name]) {
            let varying = name == "varchar" || c.accept("varying");
            let mut modifiers = modifiers(c)?;
            if modifiers.is_empty() && !varying {
                modifiers.push(1);
            }
            return Ok(TypeName::built_in(if varying { "varchar" } else { "bpchar" }, modifiers));
        }
    }
    if national {
        return Err(c.error());
    }
    for (name, with_zone) in [("timestamp", "timestamptz"), ("time", "timetz")] {
        if word(c, &[name]) {
            let modifiers = modifiers(c)?;
            let zone = c.accept_all(&["with", "time", "zone"]);
            if !zone {
                c.accept_all(&["without", "time", "zone"]);
            }
            return Ok(TypeName::built_in(if zone { with_zone } else { name }, modifiers));
        }
    }
    if word(c, &["interval"]) {
        return interval(c);
    }
    let name = c.qualified_name()?;
    let modifiers = modifiers(c)?;
    Ok(TypeName { schema: name.schema, ..TypeName::plain(&name.name, modifiers) })
}

/// INTERVAL with its fields and the digits of its seconds.
fn interval(c: &mut Cursor<'_>) -> Result<TypeName> {
    let field = |c: &mut Cursor<'_>| FIELDS.iter().find(|(name, _)| c.accept(name));
    let mut fields = None;
    if let Some((first, _)) = field(c) {
        let mut last = *first;
        if c.accept("to") {
            last = field(c).ok_or_else(|| c.error())?.0;
        }
        fields = Some(interval_fields(first, last).ok_or_else(|| c.error())?);
    }
    let modifiers = modifiers(c)?;
    Ok(TypeName { fields, ..TypeName::built_in("interval", modifiers) })
}

/// Numbers in parentheses, if they are next.
fn modifiers(c: &mut Cursor<'_>) -> Result<Vec<i64>> {
    let mut numbers = Vec::new();
    if !c.accept_token(&Token::LParen) {
        return Ok(numbers);
    }
    loop {
        let negative = c.accept_token(&Token::Minus);
        let at = c.position();
        let digits = match c.advance() {
            Some(Token::Number(digits, _)) => digits.parse::<i64>().ok(),
            _ => None,
        };
        let Some(number) = digits else {
            let message = "type modifiers must be simple constants or identifiers";
            return Err(SqlError::new(state::SYNTAX_ERROR, message).at(at));
        };
        numbers.push(if negative { -number } else { number });
        if numbers.len() > MOST_MODIFIERS {
            return Err(super::too_complex());
        }
        if c.accept_token(&Token::RParen) {
            return Ok(numbers);
        }
        c.expect_token(&Token::Comma)?;
    }
}
