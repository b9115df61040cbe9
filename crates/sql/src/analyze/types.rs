//! Type names as the parser gives them, with their modifiers.

use super::ident::ident_name;
use super::lookups::Names;
use super::type_names::type_name;
use super::typmods::{interval_typmod, typmod};
use crate::error::{Result, SqlError, state};
use forebay_engine::syscache::TypeRow;
use forebay_types::{Oid, oids};
use sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, ObjectName, ObjectNamePart,
    TimezoneInfo,
};
use std::sync::Arc;

/// A type with a modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedType {
    /// Its OID.
    pub oid: Oid,
    /// Its modifier, or -1.
    pub typmod: i32,
}

/// A type's name as PostgreSQL's grammar has it, and the numbers behind it.
struct Written {
    schema: Option<String>,
    name: String,
    modifiers: Vec<i64>,
}

impl Written {
    fn new(name: &str, modifiers: impl IntoIterator<Item = i64>) -> Written {
        let (schema, name) = (Some("pg_catalog".to_owned()), name.to_owned());
        Written { schema, name, modifiers: modifiers.into_iter().collect() }
    }
}

/// The type that a cast, a literal or a column definition names.
pub fn type_of_ast(names: &mut dyn Names, ty: &DataType, position: u32) -> Result<NamedType> {
    if let DataType::Array(element) = ty {
        let element = match element {
            ArrayElemTypeDef::SquareBracket(element, _) => element,
            _ => return Err(SqlError::unsupported("this form of array type").at(position)),
        };
        let NamedType { oid, typmod } = type_of_ast(names, element, position)?;
        if matches!(**element, DataType::Array(_)) {
            return Ok(NamedType { oid, typmod });
        }
        return match names.array_of(oid)? {
            Some(array) => Ok(NamedType { oid: array, typmod }),
            None => {
                let name = type_name(names, oid)?;
                let message = format!("could not find array type for data type {name}");
                Err(SqlError::new(state::UNDEFINED_OBJECT, message).at(position))
            }
        };
    }
    if let DataType::Interval { fields, precision } = ty {
        let typmod = interval_typmod(*fields, *precision).map_err(|e| e.at(position))?;
        return Ok(NamedType { oid: oids::INTERVAL, typmod });
    }
    let written = written(ty, position)?;
    let row = find(names, &written, position)?;
    let typmod = typmod(names, &row, &written.modifiers).map_err(|e| e.at(position))?;
    Ok(NamedType { oid: row.oid, typmod })
}

fn find(names: &mut dyn Names, written: &Written, position: u32) -> Result<Arc<TypeRow>> {
    let path = names.namespaces(written.schema.as_deref()).map_err(|e| e.at(position))?;
    for namespace in path {
        let Some(row) = names.type_named(namespace, &written.name)? else { continue };
        if !row.defined {
            let message = format!("type \"{}\" is only a shell", written.name);
            return Err(SqlError::new(state::UNDEFINED_OBJECT, message).at(position));
        }
        return Ok(row);
    }
    let shown = match &written.schema {
        Some(schema) if schema != "pg_catalog" => format!("{schema}.{}", written.name),
        _ => written.name.clone(),
    };
    let message = format!("type \"{shown}\" does not exist");
    Err(SqlError::new(state::UNDEFINED_OBJECT, message).at(position))
}

/// The name that PostgreSQL's grammar gives a type.
fn written(ty: &DataType, position: u32) -> Result<Written> {
    use DataType as D;
    let number = |n: &Option<u64>| n.and_then(|n| i64::try_from(n).ok());
    let digits = |info: &ExactNumberInfo| match *info {
        ExactNumberInfo::None => Vec::new(),
        ExactNumberInfo::Precision(p) => vec![p as i64],
        ExactNumberInfo::PrecisionAndScale(p, s) => vec![p as i64, s],
    };
    let length = |n: &Option<CharacterLength>| match n {
        None => Ok(None),
        Some(CharacterLength::IntegerLength { length, unit: None }) => Ok(Some(*length as i64)),
        Some(_) => Err(SqlError::unsupported("this length of a type").at(position)),
    };
    Ok(match ty {
        D::Bool | D::Boolean => Written::new("bool", None),
        D::Int2(None) | D::SmallInt(None) => Written::new("int2", None),
        D::Int(None) | D::Int4(None) | D::Integer(None) => Written::new("int4", None),
        D::Int8(None) | D::BigInt(None) => Written::new("int8", None),
        D::Float4 | D::Real => Written::new("float4", None),
        D::Float8 | D::DoublePrecision | D::Float(ExactNumberInfo::None) => {
            Written::new("float8", None)
        }
        D::Float(ExactNumberInfo::Precision(precision)) => float(*precision, position)?,
        D::Text => Written::new("text", None),
        D::Character(n) | D::Char(n) => Written::new("bpchar", Some(length(n)?.unwrap_or(1))),
        D::CharacterVarying(n) | D::CharVarying(n) | D::Varchar(n) => {
            Written::new("varchar", length(n)?)
        }
        D::Numeric(info) | D::Decimal(info) | D::Dec(info) => Written::new("numeric", digits(info)),
        D::Bytea => Written::new("bytea", None),
        D::Bit(n) => Written::new("bit", Some(number(n).unwrap_or(1))),
        D::BitVarying(n) | D::VarBit(n) => Written::new("varbit", number(n)),
        D::Date => Written::new("date", None),
        D::Time(n, zone) => Written::new(zoned("time", "timetz", zone), number(n)),
        D::Timestamp(n, zone) => Written::new(zoned("timestamp", "timestamptz", zone), number(n)),
        D::Uuid => unqualified("uuid"),
        D::JSON => Written::new("json", None),
        D::JSONB => unqualified("jsonb"),
        D::Regclass => unqualified("regclass"),
        D::Custom(name, modifiers) => custom(name, modifiers, position)?,
        other => unqualified(&other.to_string().to_lowercase()),
    })
}

fn unqualified(name: &str) -> Written {
    Written { schema: None, name: name.to_owned(), modifiers: Vec::new() }
}

fn zoned(without: &'static str, with: &'static str, zone: &TimezoneInfo) -> &'static str {
    match zone {
        TimezoneInfo::None | TimezoneInfo::WithoutTimeZone => without,
        TimezoneInfo::WithTimeZone | TimezoneInfo::Tz => with,
    }
}

/// FLOAT(n)
fn float(precision: u64, position: u32) -> Result<Written> {
    let refuse = |bound: &str| {
        let message = format!("precision for type float must be {bound} bits");
        Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message).at(position))
    };
    match precision {
        0 => refuse("at least 1"),
        1..=24 => Ok(Written::new("float4", None)),
        25..=53 => Ok(Written::new("float8", None)),
        _ => refuse("less than 54"),
    }
}

/// A type that is no keyword.
fn custom(name: &ObjectName, modifiers: &[String], position: u32) -> Result<Written> {
    let mut parts: Vec<String> = name
        .0
        .iter()
        .map(|part| match part {
            ObjectNamePart::Identifier(i) => ident_name(i),
            ObjectNamePart::Function(f) => f.name.value.clone(),
        })
        .collect();
    let (Some(name), schema) = (parts.pop(), parts.pop()) else {
        return Err(SqlError::unsupported("this type").at(position));
    };
    if !parts.is_empty() {
        let message = "cross-database references are not implemented";
        return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message).at(position));
    }
    let mut numbers = Vec::with_capacity(modifiers.len());
    for modifier in modifiers {
        let Ok(number) = modifier.parse() else {
            let message = "type modifiers must be simple constants or identifiers";
            return Err(SqlError::new(state::SYNTAX_ERROR, message).at(position));
        };
        numbers.push(number);
    }
    Ok(Written { schema, name, modifiers: numbers })
}
