//! The types this server knows, with PostgreSQL's OIDs, names and lengths.

macro_rules! types {
    ($($variant:ident $oid:literal $len:literal $name:literal $sql:literal;)*) => {
        /// A type, by PostgreSQL's OID.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the variants are the types")]
        pub enum SqlType { $($variant,)* }

        impl SqlType {
            /// Every type.
            pub const ALL: &'static [SqlType] = &[$(SqlType::$variant,)*];

            /// OID in pg_type.
            pub fn oid(self) -> u32 {
                match self { $(SqlType::$variant => $oid,)* }
            }

            /// The type of an OID, if it is one of these.
            pub fn from_oid(oid: u32) -> Option<SqlType> {
                match oid { $($oid => Some(SqlType::$variant),)* _ => None }
            }

            /// `typlen`: bytes, -1 for varlena, -2 for a C string.
            pub fn typlen(self) -> i16 {
                match self { $(SqlType::$variant => $len,)* }
            }

            /// `typname`.
            pub fn typname(self) -> &'static str {
                match self { $(SqlType::$variant => $name,)* }
            }

            /// The name messages use (`format_type`).
            pub fn sql_name(self) -> &'static str {
                match self { $(SqlType::$variant => $sql,)* }
            }
        }
    };
}

types! {
    Bool 16 1 "bool" "boolean";
    Bytea 17 -1 "bytea" "bytea";
    Char 18 1 "char" "\"char\"";
    Name 19 64 "name" "name";
    Int8 20 8 "int8" "bigint";
    Int2 21 2 "int2" "smallint";
    Int2Vector 22 -1 "int2vector" "int2vector";
    Int4 23 4 "int4" "integer";
    Regproc 24 4 "regproc" "regproc";
    Text 25 -1 "text" "text";
    Oid 26 4 "oid" "oid";
    Tid 27 6 "tid" "tid";
    Xid 28 4 "xid" "xid";
    Cid 29 4 "cid" "cid";
    OidVector 30 -1 "oidvector" "oidvector";
    PgNodeTree 194 -1 "pg_node_tree" "pg_node_tree";
    Float4 700 4 "float4" "real";
    Float8 701 8 "float8" "double precision";
    Unknown 705 -2 "unknown" "unknown";
    AclItemArray 1034 -1 "_aclitem" "aclitem[]";
    TextArray 1009 -1 "_text" "text[]";
    Int8Array 1016 -1 "_int8" "bigint[]";
    Bpchar 1042 -1 "bpchar" "character";
    Varchar 1043 -1 "varchar" "character varying";
    Timestamptz 1184 8 "timestamptz" "timestamp with time zone";
    Numeric 1700 -1 "numeric" "numeric";
    Regclass 2205 4 "regclass" "regclass";
    Regtype 2206 4 "regtype" "regtype";
    Record 2249 -1 "record" "record";
    Void 2278 4 "void" "void";
    AnyArray 2277 -1 "anyarray" "anyarray";
    PgLsn 3220 8 "pg_lsn" "pg_lsn";
}
