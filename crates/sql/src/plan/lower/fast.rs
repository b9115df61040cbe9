//! Which functions have forms of their own among expressions, by their OIDs in pg_proc.

use super::super::expr::{Arithmetic, Comparison};
use forebay_aio::sync::LazyLock;
use forebay_types::{Oid, oids};
use std::collections::HashMap;

/// A function's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fast {
    /// A comparison of two values that were cast to a type.
    Compare(Comparison, Oid),
    /// Arithmetic with two values that were cast to a type.
    Arith(Arithmetic, Oid),
    Negate,
    /// Its argument, as it is.
    Same,
    /// A cast from the argument's type to the result's.
    Cast,
    Concat,
    Like {
        negated: bool,
        ignore_case: bool,
    },
}

/// The form of a function.
pub(super) fn form(function: Oid) -> Option<Fast> {
    FORMS.get(&function).copied()
}

static FORMS: LazyLock<HashMap<Oid, Fast>> = LazyLock::new(|| {
    use Comparison::{Eq, Ge, Gt, Le, Lt, Ne};
    let mut forms = HashMap::new();
    for (common, functions) in COMPARED {
        let all = functions.iter().zip([Eq, Ne, Lt, Le, Gt, Ge]);
        forms.extend(all.map(|(oid, comparison)| (*oid, Fast::Compare(comparison, *common))));
    }
    for (common, functions) in COMPUTED {
        use Arithmetic::{Add, Div, Mul, Rem, Sub};
        let all = functions.iter().zip([Add, Sub, Mul, Div, Rem]);
        forms.extend(all.map(|(oid, arithmetic)| (*oid, Fast::Arith(arithmetic, *common))));
    }
    // int2, int4, int8, float4, float8, numeric
    forms.extend([213, 212, 462, 206, 220, 1771].map(|oid| (oid, Fast::Negate)));
    forms.extend([1911, 1912, 1910, 1913, 1914, 1915].map(|oid| (oid, Fast::Same)));
    forms.extend(CASTS.iter().map(|oid| (*oid, Fast::Cast)));
    forms.insert(TEXTCAT, Fast::Concat);
    for (functions, negated, ignore_case) in LIKE {
        forms.extend(functions.map(|oid| (oid, Fast::Like { negated, ignore_case })));
    }
    // Cells of operators that a type does not have.
    forms.remove(&0);
    forms
});

/// textcat
const TEXTCAT: Oid = 1258;

/// LIKE of text, name and bpchar; whether it is negated, and whether it ignores case.
const LIKE: [([Oid; 3], bool, bool); 4] = [
    ([850, 858, 1631], false, false),
    ([851, 859, 1632], true, false),
    ([1633, 1635, 1660], false, true),
    ([1634, 1636, 1661], true, true),
];

/// `= <> < <= > >=` of two types, and the type that both operands are cast to.
const COMPARED: &[(Oid, [Oid; 6])] = &[
    (oids::BOOL, [60, 84, 56, 1691, 57, 1692]),
    (oids::OID, [184, 185, 716, 717, 1638, 1639]),
    (oids::TID, [1292, 1265, 2791, 2793, 2790, 2792]),
    (oids::TEXT, [67, 157, 740, 741, 742, 743]),
    (oids::NAME, [62, 659, 655, 656, 657, 658]),
    (oids::BPCHAR, [1048, 1053, 1049, 1050, 1051, 1052]),
    (oids::CHAR, [61, 70, 1246, 72, 73, 74]),
    (oids::BYTEA, [1948, 1953, 1949, 1950, 1951, 1952]),
    (oids::TIMESTAMPTZ, [1152, 1153, 1154, 1155, 1157, 1156]),
    (oids::PG_LSN, [3233, 3236, 3231, 3232, 3235, 3234]),
    (oids::XID8, [5084, 5085, 5034, 5036, 5035, 5037]),
    (oids::XID, [68, 3308, 0, 0, 0, 0]),
    (oids::CID, [69, 0, 0, 0, 0, 0]),
    (oids::DATE, [1086, 1091, 1087, 1088, 1089, 1090]),
    (oids::TIME, [1145, 1106, 1102, 1103, 1104, 1105]),
    (oids::TIMETZ, [1352, 1353, 1354, 1355, 1357, 1356]),
    (oids::TIMESTAMP, [2052, 2053, 2054, 2055, 2057, 2056]),
    (oids::INTERVAL, [1162, 1163, 1164, 1165, 1167, 1166]),
    (oids::UUID, [2956, 2959, 2954, 2955, 2958, 2957]),
    (oids::BIT, [1581, 1582, 1595, 1594, 1593, 1592]),
    (oids::VARBIT, [1666, 1667, 1671, 1670, 1669, 1668]),
    (oids::INET, [920, 925, 921, 922, 923, 924]),
    (oids::MACADDR, [830, 835, 831, 832, 833, 834]),
    (oids::MACADDR8, [4113, 4118, 4114, 4115, 4116, 4117]),
    (oids::JSONB, [4043, 4038, 4039, 4041, 4040, 4042]),
    (oids::ANYARRAY, [744, 390, 391, 393, 392, 396]),
    (oids::NUMERIC, [1718, 1719, 1722, 1723, 1720, 1721]),
    (oids::OIDVECTOR, [679, 619, 677, 678, 681, 680]),
    (oids::INT2, [63, 145, 64, 148, 146, 151]),
    (oids::INT4, [158, 164, 160, 166, 162, 168]),
    (oids::INT8, [1850, 1851, 1852, 1854, 1853, 1855]),
    (oids::INT4, [159, 165, 161, 167, 163, 169]),
    (oids::INT4, [65, 144, 66, 149, 147, 150]),
    (oids::INT8, [852, 853, 854, 856, 855, 857]),
    (oids::INT8, [1856, 1857, 1858, 1860, 1859, 1861]),
    (oids::INT8, [474, 475, 476, 478, 477, 479]),
    (oids::INT8, [467, 468, 469, 471, 470, 472]),
    (oids::FLOAT4, [287, 288, 289, 290, 291, 292]),
    (oids::FLOAT8, [299, 300, 301, 302, 303, 304]),
    (oids::FLOAT8, [305, 306, 307, 308, 309, 310]),
    (oids::FLOAT8, [293, 294, 295, 296, 297, 298]),
    (oids::TEXT, [240, 245, 241, 242, 244, 243]),
    (oids::TEXT, [247, 252, 248, 249, 251, 250]),
    (oids::XID, [1319, 3309, 0, 0, 0, 0]),
];

/// `+ - * / %` of two types, and the type that both operands are cast to.
const COMPUTED: &[(Oid, [Oid; 5])] = &[
    (oids::INT2, [176, 180, 152, 153, 155]),
    (oids::INT4, [178, 182, 170, 172, 0]),
    (oids::INT8, [841, 942, 943, 948, 0]),
    (oids::INT4, [179, 183, 171, 173, 0]),
    (oids::INT4, [177, 181, 141, 154, 156]),
    (oids::INT8, [1278, 1279, 1280, 1281, 0]),
    (oids::INT8, [837, 838, 839, 840, 0]),
    (oids::INT8, [1274, 1275, 1276, 1277, 0]),
    (oids::INT8, [463, 464, 465, 466, 945]),
    (oids::FLOAT4, [204, 205, 202, 203, 0]),
    (oids::FLOAT8, [281, 282, 279, 280, 0]),
    (oids::FLOAT8, [285, 286, 283, 284, 0]),
    (oids::FLOAT8, [218, 219, 216, 217, 0]),
    (oids::NUMERIC, [1724, 1725, 1726, 1727, 1729]),
];

/// Casts between numbers, strings, booleans and OIDs.
const CASTS: &[Oid] = &[
    714, 480, 652, 482, 1781, 754, 313, 236, 235, 1782, 481, 314, 318, 316, 1740, 653, 238, 319,
    311, 1742, 483, 237, 317, 312, 1743, 1779, 1783, 1744, 1745, 1746, 2557, 2558, 1287, 1288, 401,
    946, 860, 406, 408, 1401, 944, 407, 409, 1400, 77, 78, 2971,
];
