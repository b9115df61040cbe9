//! Types whose values are OIDs of rows: the rows that texts mean.
//!
//! A text is a name, perhaps with a schema and quotes, with the types of arguments where the type
//! wants them; or the OID itself.

use super::named::{operators, procedures};
use crate::analyze::{NamedType, Names, collation_named, type_of_name};
use crate::error::{Result, SqlError, state};
use crate::exec::host::{Host, split_name};
use crate::parse::type_of_text;
use crate::plan::Catalog;
use forebay_engine::Named;
use forebay_types::{Datum, Oid, SqlType, oids, text_in};

/// Most arguments of a function.
const MOST_ARGUMENTS: usize = 100;

/// The OID that a text means as a value of that type.
pub fn oid_of(text: &str, ty: Oid, host: &mut Host) -> Result<Oid> {
    // "-" is an operator.
    if text == "-" && ![oids::REGOPER, oids::REGOPERATOR].contains(&ty) {
        return Ok(0);
    }
    if !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_digit())
        && let Datum::Oid(oid) = text_in(text, SqlType::Oid)?
    {
        return Ok(oid);
    }
    match ty {
        oids::REGCLASS => host.relation_of_text(text),
        oids::REGTYPE => Ok(type_of(text, host)?.oid),
        oids::REGPROC => procedure(text, host),
        oids::REGPROCEDURE => procedure_with_arguments(text, host),
        oids::REGOPER => operator(text, host),
        oids::REGOPERATOR => operator_with_operands(text, host),
        oids::REGROLE => role(text, host),
        oids::REGNAMESPACE => namespace(text, host),
        oids::REGCOLLATION => collation(text, host),
        other => Err(SqlError::new(
            state::INTERNAL_ERROR,
            format!("a type with OID {other} where that of a name is wanted"),
        )),
    }
}

/// The same for the functions that give NULL if there is no such row.
pub(super) fn oid_or_null<'a>(text: &str, ty: Oid, host: &mut Host) -> Result<Datum<'a>> {
    null_if_none(oid_of(text, ty, host).map(Datum::Oid))
}

/// to_regtypemod(type)
pub(super) fn typmod_or_null<'a>(text: &str, host: &mut Host) -> Result<Datum<'a>> {
    null_if_none(type_of(text, host).map(|ty| Datum::Int4(ty.typmod)))
}

/// NULL in place of the errors of a text that means nothing.
fn null_if_none<'a>(found: Result<Datum<'a>>) -> Result<Datum<'a>> {
    const MEANS_NOTHING: [&str; 9] =
        ["22P02", "22003", "3F000", "42602", "42704", "42725", "42883", "42P01", "42P02"];
    match found {
        Err(error) if MEANS_NOTHING.contains(&error.sqlstate) => Ok(Datum::Null),
        other => other,
    }
}

fn type_of(text: &str, host: &mut Host) -> Result<NamedType> {
    // What is wrong is at a place of this text, not of the statement's.
    let name = type_of_text(text).map_err(SqlError::unplaced)?;
    type_of_name(host.names(), &name).map_err(SqlError::unplaced)
}

/// A schema and a name.
fn name_of(text: &str, host: &Host) -> Result<(Option<String>, String)> {
    let mut parts = split_name(text, host.encoding())?;
    if parts.len() == 3 && parts.first() == Some(&host.identity.database) {
        parts.remove(0);
    }
    let mut parts = parts.into_iter();
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(name), None, ..) => Ok((None, name)),
        (Some(schema), Some(name), None, _) => Ok((Some(schema), name)),
        (Some(_), Some(_), Some(_), None) => {
            let message = format!("cross-database references are not implemented: {text}");
            Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message))
        }
        _ => {
            let message = format!("improper qualified name (too many dotted names): {text}");
            Err(SqlError::new(state::SYNTAX_ERROR, message))
        }
    }
}

/// The one row that a name means.
fn only(found: &[Oid], none: impl FnOnce() -> SqlError, several: String) -> Result<Oid> {
    match found {
        [] => Err(none()),
        [oid] => Ok(*oid),
        _ => Err(SqlError::new(state::AMBIGUOUS_FUNCTION, several)),
    }
}

fn procedure(text: &str, host: &mut Host) -> Result<Oid> {
    let (schema, name) = name_of(text, host)?;
    let found = procedures(&name, schema.as_deref(), host)?;
    let found: Vec<Oid> = found.iter().map(|row| row.oid).collect();
    only(&found, || no_function(text), format!("more than one function named \"{text}\""))
}

fn no_function(text: &str) -> SqlError {
    SqlError::new(state::UNDEFINED_FUNCTION, format!("function \"{text}\" does not exist"))
}

fn procedure_with_arguments(text: &str, host: &mut Host) -> Result<Oid> {
    let (name, types) = split_arguments(text)?;
    let (schema, name) = name_of(name, host)?;
    let mut args = Vec::with_capacity(types.len());
    for ty in types {
        args.push(type_of(ty, host)?.oid);
    }
    let found = procedures(&name, schema.as_deref(), host)?;
    let found = found.iter().find(|row| *row.args == *args);
    found.map(|row| row.oid).ok_or_else(|| no_function(text))
}

fn operator(text: &str, host: &mut Host) -> Result<Oid> {
    let (schema, name) = name_of(text, host)?;
    let found = operators(&name, schema.as_deref(), host)?;
    let found: Vec<Oid> = found.iter().map(|row| row.oid).collect();
    only(&found, || no_operator(text), format!("more than one operator named {text}"))
}

fn no_operator(text: &str) -> SqlError {
    SqlError::new(state::UNDEFINED_FUNCTION, format!("operator does not exist: {text}"))
}

fn operator_with_operands(text: &str, host: &mut Host) -> Result<Oid> {
    let (name, types) = split_arguments(text)?;
    let (schema, name) = name_of(name, host)?;
    let mut operands = Vec::with_capacity(types.len());
    for ty in types {
        match ty.eq_ignore_ascii_case("none") {
            true => operands.push(0),
            false => operands.push(type_of(ty, host)?.oid),
        }
    }
    let [left, right] = operands[..] else {
        let error = match operands.len() {
            1 => SqlError::new("42P02", "missing argument".to_owned())
                .hint("Use NONE to denote the missing argument of a unary operator."),
            _ => SqlError::new("54023", "too many arguments".to_owned())
                .hint("Provide two argument types for operator."),
        };
        return Err(error);
    };
    let found = operators(&name, schema.as_deref(), host)?;
    let found = found.iter().find(|row| (row.left, row.right) == (left, right));
    found.map(|row| row.oid).ok_or_else(|| no_operator(text))
}

/// A name and the types in the parentheses behind it.
fn split_arguments(text: &str) -> Result<(&str, Vec<&str>)> {
    let invalid = |what: &str| Err(SqlError::new("22P02", what.to_owned()));
    let mut quoted = false;
    let open = text.find(|c| {
        quoted ^= c == '"';
        c == '(' && !quoted
    });
    let Some((name, rest)) = open.and_then(|at| text.split_at_checked(at)) else {
        return invalid("expected a left parenthesis");
    };
    let Some(inner) = rest.trim_end().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'))
    else {
        return invalid("expected a right parenthesis");
    };
    if inner.trim().is_empty() {
        return Ok((name, Vec::new()));
    }
    let (mut quoted, mut depth) = (false, 0i32);
    let types = inner.split(|c| {
        quoted ^= c == '"';
        if !quoted {
            depth += i32::from("([".contains(c)) - i32::from(")]".contains(c));
        }
        c == ',' && !quoted && depth == 0
    });
    let types: Vec<&str> = types.map(str::trim).take(MOST_ARGUMENTS + 1).collect();
    if types.len() > MOST_ARGUMENTS {
        return Err(SqlError::new("54023", "too many arguments".to_owned()));
    }
    match types.iter().any(|ty| ty.is_empty()) {
        true => invalid("expected a type name"),
        false => Ok((name, types)),
    }
}

/// The only part of a name.
fn single(text: &str, host: &Host) -> Result<String> {
    let mut parts = split_name(text, host.encoding())?;
    match (parts.pop(), parts.is_empty()) {
        (Some(name), true) => Ok(name),
        _ => Err(SqlError::new("42602", "invalid name syntax".to_owned())),
    }
}

fn role(text: &str, host: &mut Host) -> Result<Oid> {
    let name = single(text, host)?;
    let found = host.call(|session| session.find_role(Named::Name(&name)))?;
    found.map(|row| row.oid).ok_or_else(|| {
        SqlError::new(state::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
    })
}

fn namespace(text: &str, host: &mut Host) -> Result<Oid> {
    let name = single(text, host)?;
    host.namespace(&name)?.ok_or_else(|| {
        SqlError::new(state::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
    })
}

fn collation(text: &str, host: &mut Host) -> Result<Oid> {
    let (schema, name) = name_of(text, host)?;
    if let Some(schema) = &schema
        && host.namespace(schema)?.is_none()
    {
        let encoding = host.encoding().name();
        let message =
            format!("collation \"{schema}.{name}\" for encoding \"{encoding}\" does not exist");
        return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
    }
    let found = collation_named(host.names(), (schema.as_deref(), &name), 0);
    Ok(found.map_err(SqlError::unplaced)?.oid)
}
