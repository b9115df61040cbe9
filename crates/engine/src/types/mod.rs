//! Values, and the facts about the types they have.
//!
//! A [`Datum`] borrows from the row it was read from (or from whoever is about to store it); a
//! [`Value`] owns its bytes. [`TypeInfo`] is the part of pg_type that storing and comparing need.
//!
//! - `facts`: the table of types
//! - `codec`: values to and from their bytes in a row

pub(crate) mod codec;
mod facts;

use forebay_format::{Align, AttrLayout};

use crate::error::EngineError;

/// An object identifier.
pub type Oid = u32;

/// Object identifiers of the types the engine knows.
#[allow(missing_docs, reason = "the names are those of the types")]
pub mod oids {
    pub const BOOL: u32 = 16;
    pub const BYTEA: u32 = 17;
    pub const CHAR: u32 = 18;
    pub const NAME: u32 = 19;
    pub const INT8: u32 = 20;
    pub const INT2: u32 = 21;
    pub const INT2VECTOR: u32 = 22;
    pub const INT4: u32 = 23;
    pub const REGPROC: u32 = 24;
    pub const TEXT: u32 = 25;
    pub const OID: u32 = 26;
    pub const TID: u32 = 27;
    pub const XID: u32 = 28;
    pub const CID: u32 = 29;
    pub const OIDVECTOR: u32 = 30;
    pub const PG_NODE_TREE: u32 = 194;
    pub const FLOAT4: u32 = 700;
    pub const FLOAT8: u32 = 701;
    pub const UNKNOWN: u32 = 705;
    pub const CHAR_ARRAY: u32 = 1002;
    pub const TEXT_ARRAY: u32 = 1009;
    pub const OID_ARRAY: u32 = 1028;
    pub const ACLITEM: u32 = 1033;
    pub const ACLITEM_ARRAY: u32 = 1034;
    pub const BPCHAR: u32 = 1042;
    pub const VARCHAR: u32 = 1043;
    pub const NUMERIC: u32 = 1700;
    pub const ANYARRAY: u32 = 2277;
}

/// A value that borrows its bytes.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Datum<'a> {
    /// SQL NULL.
    Null,
    /// bool
    Bool(bool),
    /// int2
    Int2(i16),
    /// int4
    Int4(i32),
    /// int8
    Int8(i64),
    /// float4
    Float4(f32),
    /// float8
    Float8(f64),
    /// oid and its aliases (regproc)
    Oid(u32),
    /// xid, cid
    Xid(u32),
    /// "char": one byte
    Char(u8),
    /// name: at most 63 bytes
    Name(&'a str),
    /// text, varchar
    Text(&'a str),
    /// A type the engine only carries: the value's bytes (without a length word).
    Bytes(&'a [u8]),
}

/// A value that owns its bytes.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub enum Value {
    /// SQL NULL.
    Null,
    /// bool
    Bool(bool),
    /// int2
    Int2(i16),
    /// int4
    Int4(i32),
    /// int8
    Int8(i64),
    /// float4
    Float4(f32),
    /// float8
    Float8(f64),
    /// oid and its aliases (regproc)
    Oid(u32),
    /// xid, cid
    Xid(u32),
    /// "char": one byte
    Char(u8),
    /// name
    Name(Box<str>),
    /// text, varchar
    Text(Box<str>),
    /// A type the engine only carries.
    Bytes(Box<[u8]>),
}

impl Datum<'_> {
    /// A copy that owns its bytes.
    pub fn to_value(&self) -> Value {
        match *self {
            Datum::Null => Value::Null,
            Datum::Bool(v) => Value::Bool(v),
            Datum::Int2(v) => Value::Int2(v),
            Datum::Int4(v) => Value::Int4(v),
            Datum::Int8(v) => Value::Int8(v),
            Datum::Float4(v) => Value::Float4(v),
            Datum::Float8(v) => Value::Float8(v),
            Datum::Oid(v) => Value::Oid(v),
            Datum::Xid(v) => Value::Xid(v),
            Datum::Char(v) => Value::Char(v),
            Datum::Name(v) => Value::Name(v.into()),
            Datum::Text(v) => Value::Text(v.into()),
            Datum::Bytes(v) => Value::Bytes(v.into()),
        }
    }

    /// Whether this is SQL NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }
}

impl Value {
    /// The value, borrowed.
    pub fn as_datum(&self) -> Datum<'_> {
        match self {
            Value::Null => Datum::Null,
            Value::Bool(v) => Datum::Bool(*v),
            Value::Int2(v) => Datum::Int2(*v),
            Value::Int4(v) => Datum::Int4(*v),
            Value::Int8(v) => Datum::Int8(*v),
            Value::Float4(v) => Datum::Float4(*v),
            Value::Float8(v) => Datum::Float8(*v),
            Value::Oid(v) => Datum::Oid(*v),
            Value::Xid(v) => Datum::Xid(*v),
            Value::Char(v) => Datum::Char(*v),
            Value::Name(v) => Datum::Name(v),
            Value::Text(v) => Datum::Text(v),
            Value::Bytes(v) => Datum::Bytes(v),
        }
    }

    /// Whether this is SQL NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }
}

/// A type's pg_type row, where it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeInfo {
    /// pg_type.oid
    pub oid: Oid,
    /// pg_type.typname
    pub name: &'static str,
    /// Bytes of a value; -1 for a value with a length word, -2 for a C string.
    pub len: i16,
    /// Whether PostgreSQL passes it by value.
    pub by_val: bool,
    /// typtype: b base, c composite, p pseudo
    pub kind: u8,
    /// typcategory
    pub category: u8,
    /// typalign: c, s, i, d
    pub align: u8,
    /// typstorage: p, x, m, e
    pub storage: u8,
    /// typispreferred
    pub preferred: bool,
    /// typrelid
    pub relid: Oid,
    /// typelem
    pub elem: Oid,
    /// typarray
    pub array: Oid,
    /// typinput, typoutput, typreceive, typsend
    pub io: [Oid; 4],
    /// typmodin
    pub modin: Oid,
    /// typmodout
    pub modout: Oid,
    /// typsubscript
    pub subscript: Oid,
    /// typcollation
    pub collation: Oid,
}

/// The facts about a type, if the engine knows it.
pub fn type_info(oid: Oid) -> Option<&'static TypeInfo> {
    facts::TYPES.binary_search_by_key(&oid, |t| t.oid).ok().and_then(|i| facts::TYPES.get(i))
}

/// The type with this name (PostgreSQL's internal name, such as `int4`).
pub fn type_by_name(name: &str) -> Option<&'static TypeInfo> {
    facts::TYPES.iter().find(|t| t.name == name)
}

/// How a type's values lie in a row.
pub(crate) fn layout_of(oid: Oid) -> Result<AttrLayout, EngineError> {
    let unknown = || EngineError::statement("42704", format!("type with OID {oid} does not exist"));
    let info = type_info(oid).ok_or_else(unknown)?;
    let align = Align::from_code(info.align).ok_or_else(unknown)?;
    Ok(AttrLayout { len: info.len, align, by_val: info.by_val, plain: info.storage == b'p' })
}

/// Every type the engine knows, by ascending OID.
pub fn all_types() -> &'static [TypeInfo] {
    facts::TYPES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_sorted_and_their_links_hold() {
        assert!(facts::TYPES.windows(2).all(|w| w[0].oid < w[1].oid));
        for t in facts::TYPES.iter().filter(|t| t.name.starts_with('_')) {
            let element = type_info(t.elem).expect("element type");
            assert_eq!(element.array, t.oid, "{}", t.name);
            assert_eq!(format!("_{}", element.name), t.name);
        }
        assert_eq!(
            type_by_name("int8").map(|t| (t.oid, t.len, t.align)),
            Some((oids::INT8, 8, b'd'))
        );
        assert!(type_info(1).is_none());
    }
}
