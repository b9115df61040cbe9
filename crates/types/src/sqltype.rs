//! The types that SQL understands: a name in Rust for each of their OIDs.

use crate::facts::{OTHER, TypeInfo, row, type_info, type_name};
use crate::oid::{Oid, oids};

macro_rules! types {
    ($($variant:ident $oid:ident;)*) => {
        /// A type that SQL understands. [`TypeInfo`] has its facts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the variants are the types")]
        pub enum SqlType {
            $($variant,)*
            /// Any other type, by its OID: columns may have it, and nothing is computed with it.
            Other(Oid),
        }

        impl SqlType {
            /// Every type that has a name here.
            pub const ALL: &'static [SqlType] = &[$(SqlType::$variant,)*];

            /// The type of an OID, if it is one of [`SqlType::ALL`].
            pub fn from_oid(oid: Oid) -> Option<SqlType> {
                match oid { $(oids::$oid => Some(SqlType::$variant),)* _ => None }
            }

            /// The type's row of the table, or one that stands for a type that is not in it.
            pub fn info(self) -> &'static TypeInfo {
                match self {
                    $(SqlType::$variant => const { row(oids::$oid) },)*
                    SqlType::Other(oid) => type_info(oid).unwrap_or(OTHER),
                }
            }
        }
    };
}

types! {
    Bool BOOL;
    Bytea BYTEA;
    Char CHAR;
    Name NAME;
    Int8 INT8;
    Int2 INT2;
    Int2Vector INT2VECTOR;
    Int4 INT4;
    Regproc REGPROC;
    Text TEXT;
    Oid OID;
    Tid TID;
    Xid XID;
    Cid CID;
    OidVector OIDVECTOR;
    PgNodeTree PG_NODE_TREE;
    Float4 FLOAT4;
    Float8 FLOAT8;
    Unknown UNKNOWN;
    AclItemArray ACLITEM_ARRAY;
    BoolArray BOOL_ARRAY;
    Int2Array INT2_ARRAY;
    Int4Array INT4_ARRAY;
    TextArray TEXT_ARRAY;
    VarcharArray VARCHAR_ARRAY;
    Int8Array INT8_ARRAY;
    Float4Array FLOAT4_ARRAY;
    Float8Array FLOAT8_ARRAY;
    OidArray OID_ARRAY;
    Bpchar BPCHAR;
    Varchar VARCHAR;
    Timestamptz TIMESTAMPTZ;
    Numeric NUMERIC;
    Regclass REGCLASS;
    Regtype REGTYPE;
    Record RECORD;
    Void VOID;
    NumericArray NUMERIC_ARRAY;
    AnyArray ANYARRAY;
    PgLsn PG_LSN;
    Xid8 XID8;
    Json JSON;
    JsonArray JSON_ARRAY;
    Xid8Array XID8_ARRAY;
    Cidr CIDR;
    CidrArray CIDR_ARRAY;
    Macaddr8 MACADDR8;
    Macaddr8Array MACADDR8_ARRAY;
    Macaddr MACADDR;
    Inet INET;
    ByteaArray BYTEA_ARRAY;
    CharArray CHAR_ARRAY;
    NameArray NAME_ARRAY;
    Int2VectorArray INT2VECTOR_ARRAY;
    RegprocArray REGPROC_ARRAY;
    TidArray TID_ARRAY;
    XidArray XID_ARRAY;
    CidArray CID_ARRAY;
    OidVectorArray OIDVECTOR_ARRAY;
    BpcharArray BPCHAR_ARRAY;
    MacaddrArray MACADDR_ARRAY;
    InetArray INET_ARRAY;
    Date DATE;
    Time TIME;
    Timestamp TIMESTAMP;
    TimestampArray TIMESTAMP_ARRAY;
    DateArray DATE_ARRAY;
    TimeArray TIME_ARRAY;
    TimestamptzArray TIMESTAMPTZ_ARRAY;
    Interval INTERVAL;
    IntervalArray INTERVAL_ARRAY;
    Timetz TIMETZ;
    TimetzArray TIMETZ_ARRAY;
    Bit BIT;
    BitArray BIT_ARRAY;
    Varbit VARBIT;
    VarbitArray VARBIT_ARRAY;
    Regprocedure REGPROCEDURE;
    Regoper REGOPER;
    Regoperator REGOPERATOR;
    RegclassArray REGCLASS_ARRAY;
    RegtypeArray REGTYPE_ARRAY;
    Uuid UUID;
    UuidArray UUID_ARRAY;
    PgLsnArray PG_LSN_ARRAY;
    Regconfig REGCONFIG;
    Regdictionary REGDICTIONARY;
    Jsonb JSONB;
    JsonbArray JSONB_ARRAY;
    Regnamespace REGNAMESPACE;
    Regrole REGROLE;
    Regcollation REGCOLLATION;
}

impl SqlType {
    /// The type of a column, by its OID.
    pub fn of(oid: Oid) -> SqlType {
        SqlType::from_oid(oid).unwrap_or(SqlType::Other(oid))
    }

    /// OID in pg_type.
    pub fn oid(self) -> Oid {
        match self {
            SqlType::Other(oid) => oid,
            known => known.info().oid,
        }
    }

    /// The type of the elements, if this is a type of arrays.
    pub fn element(self) -> Option<SqlType> {
        let info = self.info();
        (info.elem != 0 && info.category == b'A' && info.name.starts_with('_'))
            .then(|| SqlType::of(info.elem))
    }

    /// The type of arrays of this type, if SQL understands it.
    pub fn array(self) -> Option<SqlType> {
        SqlType::from_oid(self.info().array)
    }

    /// `typlen`: bytes, -1 for a value with a length word, -2 for a C string.
    pub fn typlen(self) -> i16 {
        self.info().len
    }

    /// `typname`.
    pub fn typname(self) -> &'static str {
        self.info().name
    }

    /// The name that messages use (`format_type`).
    pub fn sql_name(self) -> &'static str {
        self.info().sql_name
    }
}

impl std::fmt::Display for SqlType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&type_name(self.oid()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_know_their_arrays() {
        assert_eq!(SqlType::Int4.array(), Some(SqlType::Int4Array));
        assert_eq!(SqlType::Int4Array.element(), Some(SqlType::Int4));
        assert_eq!((SqlType::Name.element(), SqlType::Int2Vector.element()), (None, None));
        assert_eq!(SqlType::of(600).array(), None);
    }
}
