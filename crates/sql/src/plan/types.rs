//! Type names in casts.

use super::catalog::Catalog;
use super::ident::ident_name;
use crate::error::{Result, SqlError, state};
use forebay_types::SqlType;
use sqlparser::ast::{ArrayElemTypeDef, DataType, ExactNumberInfo, ObjectNamePart};

/// The type a cast names.
pub fn type_of_ast(catalog: &dyn Catalog, ty: &DataType, position: u32) -> Result<SqlType> {
    Ok(match ty {
        DataType::Bool | DataType::Boolean => SqlType::Bool,
        DataType::Int2(None) | DataType::SmallInt(None) => SqlType::Int2,
        DataType::Int(None) | DataType::Int4(None) | DataType::Integer(None) => SqlType::Int4,
        DataType::Int8(None) | DataType::BigInt(None) => SqlType::Int8,
        DataType::Float4 | DataType::Real => SqlType::Float4,
        DataType::Float8 | DataType::DoublePrecision | DataType::Float(ExactNumberInfo::None) => {
            SqlType::Float8
        }
        DataType::Text => SqlType::Text,
        DataType::Varchar(None) | DataType::CharacterVarying(None) => SqlType::Varchar,
        DataType::Numeric(ExactNumberInfo::None)
        | DataType::Decimal(ExactNumberInfo::None)
        | DataType::Dec(ExactNumberInfo::None) => SqlType::Numeric,
        DataType::Bytea => SqlType::Bytea,
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, None)) => {
            let element = type_of_ast(catalog, element, position)?;
            match element.array() {
                Some(array) => array,
                None => return Err(undefined_array(element, position)),
            }
        }
        DataType::Regclass => SqlType::Regclass,
        DataType::Custom(name, modifiers) if modifiers.is_empty() => {
            let parts: Vec<String> = name
                .0
                .iter()
                .map(|p| match p {
                    ObjectNamePart::Identifier(i) => ident_name(i),
                    ObjectNamePart::Function(f) => f.name.value.clone(),
                })
                .collect();
            let last = match parts.as_slice() {
                [one] => one,
                [schema, one] if schema == "pg_catalog" => one,
                _ => return Err(undefined(&parts.join("."), position)),
            };
            match catalog.type_named(last) {
                Some(SqlType::Unknown | SqlType::Void | SqlType::AnyArray | SqlType::Record)
                | None => {
                    return Err(undefined(last, position));
                }
                Some(ty) => ty,
            }
        }
        other => {
            return Err(SqlError::unsupported(format!(
                "type {}",
                other.to_string().to_lowercase()
            ))
            .at(position));
        }
    })
}

/// Arrays of arrays have the type of arrays, but no values here.
fn undefined_array(element: SqlType, position: u32) -> SqlError {
    SqlError::unsupported(format!("an array of type {element}")).at(position)
}

fn undefined(name: &str, position: u32) -> SqlError {
    SqlError::new(state::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist")).at(position)
}
