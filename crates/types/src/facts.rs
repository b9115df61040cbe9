//! The facts about every type that Forebay knows: one table, which pg_type's rows are written from.

use std::borrow::Cow;

use crate::oid::Oid;

/// What the stored bytes of a type's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are the types")]
pub enum Repr {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    /// oid, and types that are OIDs: regclass, regproc
    Oid,
    /// xid, cid
    Xid,
    /// tid: block and number of a stored row
    Tid,
    Char,
    Name,
    /// Text in UTF-8.
    Text,
    Numeric,
    Date,
    Time,
    Timetz,
    Timestamp,
    Timestamptz,
    Interval,
    Uuid,
    /// pg_lsn
    Lsn,
    Xid8,
    /// bit, varbit
    Bits,
    Jsonb,
    /// inet, cidr
    Inet,
    Macaddr,
    Macaddr8,
    /// bytea
    Bytes,
    /// An array, or int2vector and oidvector, with elements of this type; of any type, if it is 0.
    Array(Oid),
    /// Values of this type are only carried.
    Carried(Oid),
}

/// A type: its row of pg_type, and how its values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeInfo {
    /// pg_type.oid
    pub oid: Oid,
    /// pg_type.typname
    pub name: &'static str,
    /// The name that messages use (`format_type`).
    pub sql_name: &'static str,
    /// What the stored bytes of a value are.
    pub repr: Repr,
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

/// Every type that Forebay knows, by ascending OID.
pub fn all_types() -> &'static [TypeInfo] {
    TYPES
}

/// The facts about a type, if Forebay knows it.
pub fn type_info(oid: Oid) -> Option<&'static TypeInfo> {
    TYPES.binary_search_by_key(&oid, |t| t.oid).ok().and_then(|i| TYPES.get(i))
}

/// The name of a type in messages.
pub fn type_name(oid: Oid) -> Cow<'static, str> {
    match type_info(oid) {
        Some(info) => info.sql_name.into(),
        None => format!("with OID {oid}").into(),
    }
}

/// The type with this name (PostgreSQL's internal name, such as `int4`).
pub fn type_by_name(name: &str) -> Option<&'static TypeInfo> {
    TYPES.iter().find(|t| t.name == name)
}

impl Repr {
    /// The representation of a type's values.
    pub fn of(type_oid: Oid) -> Repr {
        // Types that are not in the table are carried, as a table of PostgreSQL's may have them.
        type_info(type_oid).map_or(Repr::Carried(type_oid), |info| info.repr)
    }
}

/// What stands for a type that is not in the table.
pub(crate) const OTHER: &TypeInfo = &base(0, "???", -1, b"pXip", [0; 4]);

/// The row of a type that is known to be there, while constants are computed.
///
/// # Panics
/// If it is not there: then the crate does not compile.
pub(crate) const fn row(oid: Oid) -> &'static TypeInfo {
    let mut n = 0;
    while n < TYPES.len() {
        if TYPES[n].oid == oid {
            return &TYPES[n];
        }
        n += 1;
    }
    panic!("the table has no such type")
}

/// A type that is no array. `codes`: kind, category, alignment, storage.
const fn base(oid: Oid, name: &'static str, len: i16, codes: &[u8; 4], io: [Oid; 4]) -> TypeInfo {
    let [kind, category, align, storage] = *codes;
    TypeInfo {
        oid,
        name,
        sql_name: name,
        repr: Repr::Carried(oid),
        len,
        by_val: matches!(len, 1 | 2 | 4 | 8),
        kind,
        category,
        align,
        storage,
        preferred: false,
        relid: 0,
        elem: 0,
        array: 0,
        io,
        modin: 0,
        modout: 0,
        subscript: 0,
        collation: 0,
    }
}

/// The array type of a type.
const fn array(
    oid: Oid,
    elem: Oid,
    name: &'static str,
    sql_name: &'static str,
    codes: &[u8; 4],
) -> TypeInfo {
    let row = base(oid, name, -1, codes, [750, 751, 2400, 2401]);
    row.called(sql_name).elements(elem, 6179).stored_as(Repr::Array(elem))
}

impl TypeInfo {
    /// With another name in messages.
    const fn called(self, sql_name: &'static str) -> TypeInfo {
        TypeInfo { sql_name, ..self }
    }

    /// Whose values SQL computes with.
    const fn stored_as(self, repr: Repr) -> TypeInfo {
        TypeInfo { repr, ..self }
    }

    /// That PostgreSQL passes by reference, though it would fit in a register.
    const fn by_reference(self) -> TypeInfo {
        TypeInfo { by_val: false, ..self }
    }

    const fn with_array(self, array: Oid) -> TypeInfo {
        TypeInfo { array, ..self }
    }

    const fn elements(self, elem: Oid, subscript: Oid) -> TypeInfo {
        TypeInfo { elem, subscript, ..self }
    }

    const fn row_of(self, relid: Oid) -> TypeInfo {
        TypeInfo { relid, ..self }
    }

    const fn preferred(self) -> TypeInfo {
        TypeInfo { preferred: true, ..self }
    }

    const fn typmod(self, modin: Oid, modout: Oid) -> TypeInfo {
        TypeInfo { modin, modout, ..self }
    }

    const fn subscripted(self, subscript: Oid) -> TypeInfo {
        TypeInfo { subscript, ..self }
    }

    const fn collated(self, collation: Oid) -> TypeInfo {
        TypeInfo { collation, ..self }
    }
}

#[rustfmt::skip]
const TYPES: &[TypeInfo] = &[
    base(16, "bool", 1, b"bBcp", [1242, 1243, 2436, 2437]).called("boolean").stored_as(Repr::Bool)
        .with_array(1000).preferred(),
    base(17, "bytea", -1, b"bUix", [1244, 31, 2412, 2413]).stored_as(Repr::Bytes).with_array(1001),
    base(18, "char", 1, b"bZcp", [1245, 33, 2434, 2435]).called("\"char\"").stored_as(Repr::Char)
        .with_array(1002),
    base(19, "name", 64, b"bScp", [34, 35, 2422, 2423]).stored_as(Repr::Name).with_array(1003)
        .elements(18, 6180).collated(950),
    base(20, "int8", 8, b"bNdp", [460, 461, 2408, 2409]).called("bigint").stored_as(Repr::Int8)
        .with_array(1016),
    base(21, "int2", 2, b"bNsp", [38, 39, 2404, 2405]).called("smallint").stored_as(Repr::Int2)
        .with_array(1005),
    base(22, "int2vector", -1, b"bAip", [40, 41, 2410, 2411]).stored_as(Repr::Array(21))
        .with_array(1006).elements(21, 6179),
    base(23, "int4", 4, b"bNip", [42, 43, 2406, 2407]).called("integer").stored_as(Repr::Int4)
        .with_array(1007),
    base(24, "regproc", 4, b"bNip", [44, 45, 2444, 2445]).stored_as(Repr::Oid).with_array(1008),
    base(25, "text", -1, b"bSix", [46, 47, 2414, 2415]).stored_as(Repr::Text).with_array(1009)
        .preferred().collated(100),
    base(26, "oid", 4, b"bNip", [1798, 1799, 2418, 2419]).stored_as(Repr::Oid).with_array(1028)
        .preferred(),
    base(27, "tid", 6, b"bUsp", [48, 49, 2438, 2439]).stored_as(Repr::Tid).with_array(1010),
    base(28, "xid", 4, b"bUip", [50, 51, 2440, 2441]).stored_as(Repr::Xid).with_array(1011),
    base(29, "cid", 4, b"bUip", [52, 53, 2442, 2443]).stored_as(Repr::Xid).with_array(1012),
    base(30, "oidvector", -1, b"bAip", [54, 55, 2420, 2421]).stored_as(Repr::Array(26))
        .with_array(1013).elements(26, 6179),
    base(71, "pg_type", -1, b"cCdx", [2290, 2291, 2402, 2403]).with_array(210).row_of(1247),
    base(75, "pg_attribute", -1, b"cCdx", [2290, 2291, 2402, 2403]).with_array(270).row_of(1249),
    base(83, "pg_class", -1, b"cCdx", [2290, 2291, 2402, 2403]).with_array(273).row_of(1259),
    base(114, "json", -1, b"bUix", [321, 322, 323, 324]).stored_as(Repr::Text).with_array(199),
    base(194, "pg_node_tree", -1, b"bZix", [195, 196, 197, 198]).stored_as(Repr::Text)
        .collated(100),
    array(199, 114, "_json", "json[]", b"bAix"),
    array(210, 71, "_pg_type", "pg_type[]", b"bAdx"),
    array(270, 75, "_pg_attribute", "pg_attribute[]", b"bAdx"),
    array(271, 5069, "_xid8", "xid8[]", b"bAdx"),
    array(273, 83, "_pg_class", "pg_class[]", b"bAdx"),
    base(650, "cidr", -1, b"bIim", [1267, 1427, 2498, 2499]).stored_as(Repr::Inet).with_array(651),
    array(651, 650, "_cidr", "cidr[]", b"bAix"),
    base(700, "float4", 4, b"bNip", [200, 201, 2424, 2425]).called("real").stored_as(Repr::Float4)
        .with_array(1021),
    base(701, "float8", 8, b"bNdp", [214, 215, 2426, 2427]).called("double precision")
        .stored_as(Repr::Float8).with_array(1022).preferred(),
    base(705, "unknown", -2, b"pXcp", [109, 110, 2416, 2417]),
    base(774, "macaddr8", 8, b"bUip", [4110, 4111, 3446, 3447]).stored_as(Repr::Macaddr8)
        .with_array(775).by_reference(),
    array(775, 774, "_macaddr8", "macaddr8[]", b"bAix"),
    base(829, "macaddr", 6, b"bUip", [436, 437, 2494, 2495]).stored_as(Repr::Macaddr)
        .with_array(1040),
    base(869, "inet", -1, b"bIim", [910, 911, 2496, 2497]).stored_as(Repr::Inet).with_array(1041)
        .preferred(),
    array(1000, 16, "_bool", "boolean[]", b"bAix"),
    array(1001, 17, "_bytea", "bytea[]", b"bAix"),
    array(1002, 18, "_char", "\"char\"[]", b"bAix"),
    array(1003, 19, "_name", "name[]", b"bAix").collated(950),
    array(1005, 21, "_int2", "smallint[]", b"bAix"),
    array(1006, 22, "_int2vector", "int2vector[]", b"bAix"),
    array(1007, 23, "_int4", "integer[]", b"bAix"),
    array(1008, 24, "_regproc", "regproc[]", b"bAix"),
    array(1009, 25, "_text", "text[]", b"bAix").collated(100),
    array(1010, 27, "_tid", "tid[]", b"bAix"),
    array(1011, 28, "_xid", "xid[]", b"bAix"),
    array(1012, 29, "_cid", "cid[]", b"bAix"),
    array(1013, 30, "_oidvector", "oidvector[]", b"bAix"),
    array(1014, 1042, "_bpchar", "character[]", b"bAix").typmod(2913, 2914).collated(100),
    array(1015, 1043, "_varchar", "character varying[]", b"bAix").typmod(2915, 2916).collated(100),
    array(1016, 20, "_int8", "bigint[]", b"bAdx"),
    array(1021, 700, "_float4", "real[]", b"bAix"),
    array(1022, 701, "_float8", "double precision[]", b"bAdx"),
    array(1028, 26, "_oid", "oid[]", b"bAix"),
    base(1033, "aclitem", 16, b"bUdp", [1031, 1032, 0, 0]).with_array(1034),
    array(1034, 1033, "_aclitem", "aclitem[]", b"bAdx"),
    array(1040, 829, "_macaddr", "macaddr[]", b"bAix"),
    array(1041, 869, "_inet", "inet[]", b"bAix"),
    base(1042, "bpchar", -1, b"bSix", [1044, 1045, 2430, 2431]).called("character")
        .stored_as(Repr::Text).with_array(1014).typmod(2913, 2914).collated(100),
    base(1043, "varchar", -1, b"bSix", [1046, 1047, 2432, 2433]).called("character varying")
        .stored_as(Repr::Text).with_array(1015).typmod(2915, 2916).collated(100),
    base(1082, "date", 4, b"bDip", [1084, 1085, 2468, 2469]).stored_as(Repr::Date).with_array(1182),
    base(1083, "time", 8, b"bDdp", [1143, 1144, 2470, 2471]).stored_as(Repr::Time)
        .called("time without time zone").with_array(1183).typmod(2909, 2910),
    base(1114, "timestamp", 8, b"bDdp", [1312, 1313, 2474, 2475]).stored_as(Repr::Timestamp)
        .called("timestamp without time zone").with_array(1115).typmod(2905, 2906),
    array(1115, 1114, "_timestamp", "timestamp without time zone[]", b"bAdx").typmod(2905, 2906),
    array(1182, 1082, "_date", "date[]", b"bAix"),
    array(1183, 1083, "_time", "time without time zone[]", b"bAdx").typmod(2909, 2910),
    base(1184, "timestamptz", 8, b"bDdp", [1150, 1151, 2476, 2477])
        .called("timestamp with time zone").stored_as(Repr::Timestamptz).with_array(1185)
        .preferred().typmod(2907, 2908),
    array(1185, 1184, "_timestamptz", "timestamp with time zone[]", b"bAdx").typmod(2907, 2908),
    base(1186, "interval", 16, b"bTdp", [1160, 1161, 2478, 2479]).stored_as(Repr::Interval)
        .with_array(1187).preferred().typmod(2903, 2904),
    array(1187, 1186, "_interval", "interval[]", b"bAdx").typmod(2903, 2904),
    array(1231, 1700, "_numeric", "numeric[]", b"bAix").typmod(2917, 2918),
    base(1248, "pg_database", -1, b"cCdx", [2290, 2291, 2402, 2403]).with_array(10052).row_of(1262),
    base(1266, "timetz", 12, b"bDdp", [1350, 1351, 2472, 2473]).called("time with time zone")
        .stored_as(Repr::Timetz).with_array(1270).typmod(2911, 2912),
    array(1270, 1266, "_timetz", "time with time zone[]", b"bAdx").typmod(2911, 2912),
    base(1560, "bit", -1, b"bVix", [1564, 1565, 2456, 2457]).stored_as(Repr::Bits).with_array(1561)
        .typmod(2919, 2920),
    array(1561, 1560, "_bit", "bit[]", b"bAix").typmod(2919, 2920),
    base(1562, "varbit", -1, b"bVix", [1579, 1580, 2458, 2459]).called("bit varying")
        .stored_as(Repr::Bits).with_array(1563).preferred().typmod(2902, 2921),
    array(1563, 1562, "_varbit", "bit varying[]", b"bAix").typmod(2902, 2921),
    base(1700, "numeric", -1, b"bNim", [1701, 1702, 2460, 2461]).stored_as(Repr::Numeric)
        .with_array(1231).typmod(2917, 2918),
    base(2202, "regprocedure", 4, b"bNip", [2212, 2213, 2446, 2447]).stored_as(Repr::Oid)
        .with_array(2207),
    base(2203, "regoper", 4, b"bNip", [2214, 2215, 2448, 2449]).stored_as(Repr::Oid)
        .with_array(2208),
    base(2204, "regoperator", 4, b"bNip", [2216, 2217, 2450, 2451]).stored_as(Repr::Oid)
        .with_array(2209),
    base(2205, "regclass", 4, b"bNip", [2218, 2219, 2452, 2453]).stored_as(Repr::Oid)
        .with_array(2210),
    base(2206, "regtype", 4, b"bNip", [2220, 2221, 2454, 2455]).stored_as(Repr::Oid)
        .with_array(2211),
    array(2207, 2202, "_regprocedure", "regprocedure[]", b"bAix"),
    array(2208, 2203, "_regoper", "regoper[]", b"bAix"),
    array(2209, 2204, "_regoperator", "regoperator[]", b"bAix"),
    array(2210, 2205, "_regclass", "regclass[]", b"bAix"),
    array(2211, 2206, "_regtype", "regtype[]", b"bAix"),
    base(2249, "record", -1, b"pPdx", [2290, 2291, 2402, 2403]).with_array(2287),
    base(2277, "anyarray", -1, b"pPdx", [2296, 2297, 2502, 2503]).stored_as(Repr::Array(0)),
    base(2278, "void", 4, b"pPip", [2298, 2299, 3120, 3121]),
    array(2287, 2249, "_record", "record[]", b"pPdx"),
    base(2950, "uuid", 16, b"bUcp", [2952, 2953, 2961, 2962]).stored_as(Repr::Uuid)
        .with_array(2951),
    array(2951, 2950, "_uuid", "uuid[]", b"bAix"),
    base(3220, "pg_lsn", 8, b"bUdp", [3229, 3230, 3238, 3239]).stored_as(Repr::Lsn)
        .with_array(3221),
    array(3221, 3220, "_pg_lsn", "pg_lsn[]", b"bAdx"),
    base(3734, "regconfig", 4, b"bNip", [3736, 3737, 3738, 3739]).stored_as(Repr::Oid)
        .with_array(3735),
    array(3735, 3734, "_regconfig", "regconfig[]", b"bAix"),
    base(3769, "regdictionary", 4, b"bNip", [3771, 3772, 3773, 3774]).stored_as(Repr::Oid)
        .with_array(3770),
    array(3770, 3769, "_regdictionary", "regdictionary[]", b"bAix"),
    base(3802, "jsonb", -1, b"bUix", [3806, 3804, 3805, 3803]).stored_as(Repr::Jsonb)
        .with_array(3807).subscripted(6098),
    array(3807, 3802, "_jsonb", "jsonb[]", b"bAix"),
    base(4089, "regnamespace", 4, b"bNip", [4084, 4085, 4087, 4088]).stored_as(Repr::Oid)
        .with_array(4090),
    array(4090, 4089, "_regnamespace", "regnamespace[]", b"bAix"),
    base(4096, "regrole", 4, b"bNip", [4098, 4092, 4094, 4095]).stored_as(Repr::Oid)
        .with_array(4097),
    array(4097, 4096, "_regrole", "regrole[]", b"bAix"),
    base(4191, "regcollation", 4, b"bNip", [4193, 4194, 4196, 4197]).stored_as(Repr::Oid)
        .with_array(4192),
    array(4192, 4191, "_regcollation", "regcollation[]", b"bAix"),
    base(5069, "xid8", 8, b"bUdp", [5070, 5081, 5082, 5083]).stored_as(Repr::Xid8).with_array(271),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oid::oids;

    #[test]
    fn types_are_sorted_and_their_links_hold() {
        assert!(TYPES.windows(2).all(|w| w[0].oid < w[1].oid));
        for t in TYPES.iter().filter(|t| t.name.starts_with('_')) {
            let element = type_info(t.elem).expect("element type");
            assert_eq!(element.array, t.oid, "{}", t.name);
            assert_eq!(format!("_{}", element.name), t.name);
            assert_eq!(format!("{}[]", element.sql_name), t.sql_name);
            assert_eq!(element.collation, t.collation);
            assert_eq!((element.modin, element.modout), (t.modin, t.modout));
        }
        assert_eq!(
            type_by_name("int8").map(|t| (t.oid, t.len, t.align)),
            Some((oids::INT8, 8, b'd'))
        );
        assert!(type_info(1).is_none());
    }
}
