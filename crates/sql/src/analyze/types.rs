//! Type names with their modifiers, as the parser gives them.

use super::ident::ident_name;
use super::lookups::Names;
use super::type_names::type_name;
use crate::error::{Result, SqlError, state};
use crate::parse::{TypeName, interval_fields};
use forebay_engine::syscache::TypeRow;
use forebay_types::{Oid, SqlType, oids, typmod_in};
use sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType, DateTimeField, ExactNumberInfo, ObjectName,
    ObjectNamePart, TimezoneInfo,
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

/// The type that a cast or a literal names.
#[inline(never)]
pub fn type_of_ast(names: &mut dyn Names, ty: &DataType, position: u32) -> Result<NamedType> {
    let written = written(ty, position)?;
    type_of_name(names, &TypeName { position, ..written })
}

/// The type of a name.
pub fn type_of_name(names: &mut dyn Names, name: &TypeName) -> Result<NamedType> {
    let row = find(names, name)?;
    let typmod = typmod(names, &row, name).map_err(|e| e.at(name.position))?;
    if !name.array {
        return Ok(NamedType { oid: row.oid, typmod });
    }
    match names.array_of(row.oid)? {
        Some(array) => Ok(NamedType { oid: array, typmod }),
        None => {
            let of = type_name(names, row.oid)?;
            let message = format!("could not find array type for data type {of}");
            Err(SqlError::new(state::UNDEFINED_OBJECT, message).at(name.position))
        }
    }
}

fn find(names: &mut dyn Names, name: &TypeName) -> Result<Arc<TypeRow>> {
    let position = name.position;
    let path = names.namespaces(name.schema.as_deref()).map_err(|e| e.at(position))?;
    for namespace in path {
        let Some(row) = names.type_named(namespace, &name.name)? else { continue };
        if !row.defined {
            let message = format!("type \"{}\" is only a shell", name.name);
            return Err(SqlError::new(state::UNDEFINED_OBJECT, message).at(position));
        }
        return Ok(row);
    }
    let message = format!("type \"{}\" does not exist", name.display());
    Err(SqlError::new(state::UNDEFINED_OBJECT, message).at(position))
}

/// The modifier of a type, from the numbers behind it.
fn typmod(names: &mut dyn Names, ty: &TypeRow, name: &TypeName) -> Result<i32> {
    let mut numbers = Vec::with_capacity(name.modifiers.len() + 1);
    if ty.oid == oids::INTERVAL && (name.fields.is_some() || !name.modifiers.is_empty()) {
        /// All fields of an interval.
        const ALL_FIELDS: i32 = 0x7fff;
        numbers.push(name.fields.unwrap_or(ALL_FIELDS));
    }
    for number in &name.modifiers {
        let fits = i32::try_from(*number).map_err(|_| {
            let message = format!("value \"{number}\" is out of range for type integer");
            SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, message)
        });
        numbers.push(fits?);
    }
    if numbers.is_empty() {
        return Ok(-1);
    }
    if ty.modin == 0 {
        let name = type_name(names, ty.oid)?;
        let message = format!("type modifier is not allowed for type \"{name}\"");
        return Err(SqlError::new(state::SYNTAX_ERROR, message));
    }
    match SqlType::from_oid(ty.oid) {
        Some(known) => Ok(typmod_in(known, &numbers)?),
        None => {
            let name = type_name(names, ty.oid)?;
            Err(SqlError::unsupported(format!("a type modifier of type {name}")))
        }
    }
}

/// The name that PostgreSQL's grammar gives a type.
fn written(ty: &DataType, position: u32) -> Result<TypeName> {
    use DataType as D;
    let built_in = TypeName::built_in;
    let number = |n: &Option<u64>| n.and_then(|n| i64::try_from(n).ok());
    let digits = |info: &ExactNumberInfo| match *info {
        ExactNumberInfo::None => Vec::new(),
        ExactNumberInfo::Precision(p) => vec![i64::try_from(p).unwrap_or(i64::MAX)],
        ExactNumberInfo::PrecisionAndScale(p, s) => {
            vec![i64::try_from(p).unwrap_or(i64::MAX), s]
        }
    };
    let length = |n: &Option<CharacterLength>| match n {
        None => Ok(None),
        Some(CharacterLength::IntegerLength { length, unit: None }) => {
            Ok(Some(i64::try_from(*length).unwrap_or(i64::MAX)))
        }
        Some(_) => Err(SqlError::unsupported("this length of a type").at(position)),
    };
    Ok(match ty {
        D::Array(ArrayElemTypeDef::SquareBracket(element, _)) => {
            TypeName { array: true, ..written(element, position)? }
        }
        D::Array(_) => return Err(SqlError::unsupported("this form of array type").at(position)),
        D::Bool | D::Boolean => built_in("bool", None),
        D::Int2(None) | D::SmallInt(None) => built_in("int2", None),
        D::Int(None) | D::Int4(None) | D::Integer(None) => built_in("int4", None),
        D::Int8(None) | D::BigInt(None) => built_in("int8", None),
        D::Float4 | D::Real => built_in("float4", None),
        D::Float8 | D::DoublePrecision | D::Float(ExactNumberInfo::None) => {
            built_in("float8", None)
        }
        D::Float(ExactNumberInfo::Precision(n)) => {
            TypeName::float(*n).map_err(|e| e.at(position))?
        }
        D::Text => built_in("text", None),
        D::Character(n) | D::Char(n) => built_in("bpchar", Some(length(n)?.unwrap_or(1))),
        D::CharacterVarying(n) | D::CharVarying(n) | D::Varchar(n) => {
            built_in("varchar", length(n)?)
        }
        D::Numeric(info) | D::Decimal(info) | D::Dec(info) => {
            TypeName::built_in("numeric", digits(info))
        }
        D::Bytea => built_in("bytea", None),
        D::Bit(n) => built_in("bit", Some(number(n).unwrap_or(1))),
        D::BitVarying(n) | D::VarBit(n) => built_in("varbit", number(n)),
        D::Date => built_in("date", None),
        D::Time(n, zone) => built_in(zoned("time", "timetz", zone), number(n)),
        D::Timestamp(n, zone) => built_in(zoned("timestamp", "timestamptz", zone), number(n)),
        D::Interval { fields, precision } => {
            let words = fields.as_ref().map(|fields| fields.to_string().to_lowercase());
            let bits = words.as_deref().and_then(|words| match words.split_once(" to ") {
                Some((first, last)) => interval_fields(first, last),
                None => interval_fields(words, words),
            });
            TypeName { fields: bits, ..built_in("interval", number(precision)) }
        }
        D::Uuid => TypeName::plain("uuid", None),
        D::JSON => built_in("json", None),
        D::JSONB => TypeName::plain("jsonb", None),
        D::Regclass => TypeName::plain("regclass", None),
        D::Custom(name, modifiers) => custom(name, modifiers, position)?,
        other => TypeName::plain(&other.to_string().to_lowercase(), None),
    })
}

fn zoned(without: &'static str, with: &'static str, zone: &TimezoneInfo) -> &'static str {
    match zone {
        TimezoneInfo::None | TimezoneInfo::WithoutTimeZone => without,
        TimezoneInfo::WithTimeZone | TimezoneInfo::Tz => with,
    }
}

/// A type that is no keyword.
fn custom(name: &ObjectName, modifiers: &[String], position: u32) -> Result<TypeName> {
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
    Ok(TypeName { schema, ..TypeName::plain(&name, numbers) })
}

/// The type of INTERVAL '...' with fields. None: there are no such fields.
pub(super) fn interval_name(
    first: Option<&DateTimeField>,
    last: Option<&DateTimeField>,
    precision: Option<u64>,
) -> Option<TypeName> {
    let word = |field: &DateTimeField| field.to_string().to_lowercase();
    let fields = match (first, last) {
        (None, _) => None,
        (Some(first), None) => Some(interval_fields(&word(first), &word(first))?),
        (Some(first), Some(last)) => Some(interval_fields(&word(first), &word(last))?),
    };
    let precision = precision.and_then(|n| i64::try_from(n).ok());
    Some(TypeName { fields, ..TypeName::built_in("interval", precision) })
}
