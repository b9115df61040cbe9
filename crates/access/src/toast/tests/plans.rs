//! Plans, compared with what PostgreSQL 18 did with the same rows.

use forebay_format::tuple::{Deform, form_tuple};
use forebay_format::varlena::{COMPRESSED_HEADER_SIZE, MAX_SHORT_PAYLOAD, Method, Varlena};
use forebay_format::{AttrLayout, HeapTuple, TupleError};

use super::super::*;

/// toast_tuple_target; the columns: letters of storage and compression, then how the value is made
/// (r: a text repeated, n: one that does not compress) and its length, 0 for NULL; what
/// PostgreSQL's pg_column_size told of each, with p for a compressed value and o for one out of
/// line, or l for one compressed by LZ4.
const ROWS: [(usize, &str, &str); 26] = [
    (2032, "xp r3000", "53p"),
    (2032, "xp n1500, xp n1500", "1500o 1504"),
    (2032, "xp n3000", "3000o"),
    (2032, "ep r3000", "3000o"),
    (2032, "ep r1200, ep r1201, xp r900", "1204 1201o 31p"),
    (2032, "mp n3000", "3004"),
    (2032, "mp n9000", "9000o"),
    (2032, "mp r20000", "250p"),
    (2032, "mp n5000, mp n5000", "5000o 5004"),
    (2032, "mp n5000, xp n1000, mp n3000", "5004 1000o 3004"),
    (2032, "pp n1000, xp n1100", "1004 1100o"),
    (2032, "pp n3000, xp n20, xp n21", "3004 21 22"),
    (2032, "xl r3000", "l"),
    (2032, "xl r30000, xp r30000, xp r30000", "l 362p 362p"),
    (2032, "ml r9000, xp n1900, ep n130", "l 1900o 130o"),
    (2032, "xp n2004", "2008"),
    (2032, "xp n2005", "2005o"),
    (2032, "xp n1000, xp 0, xp n999", "1004 - 1003"),
    (2032, "xp n500, xp n500, xp n500, xp n500, xp n400", "500o 504 504 504 404"),
    (2032, "xp n120, mp r1900, ep n100, xp r126", "120o 1904 100o 22p"),
    (2032, "xp r1000000", "11461po"),
    (128, "xp n1100, xp n60, xp r950", "1100o 60o 31p"),
    (128, "xp n100, xp n60", "101 61"),
    (8160, "xp n3000, xp n3000, xp r3000", "3004 3004 53p"),
    (4080, "mp n3000, ep n3000, xp n2500", "3004 3000o 2500o"),
    (2032, "xp n25, xp n24, xp n21, xp n20, xp n300, xp n1800", "26 25 22 21 304 1800o"),
];

/// A value of a test's row.
fn value(how: &str) -> Option<Vec<u8>> {
    let (kind, len) = how.split_at(1);
    let len: u64 = len.parse().unwrap_or(0);
    let byte = |n: u64| match kind {
        "r" => b"abcdefgh "[(n - 1) as usize % 9],
        _ => 33 + ((n * n * n * 31 + n * 17) % 9973 % 89) as u8,
    };
    (how != "0").then(|| (1..=len).map(byte).collect())
}

/// A row as a test describes it, with what the catalogs would say of its columns.
fn row(columns: &str) -> (Vec<AttrLayout>, Vec<ToastColumn>, Vec<u8>) {
    let (mut layouts, mut toast, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for column in columns.split(", ") {
        let (letters, how) = column.split_once(' ').unwrap();
        let letters = letters.as_bytes();
        let storage = Storage::from_code(letters[0]).unwrap();
        layouts.push(AttrLayout { plain: storage == Storage::Plain, ..AttrLayout::VARLENA });
        toast.push(ToastColumn { storage, method: Method::from_code(letters[1]) });
        values.push(value(how));
    }
    let values: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
    let tuple = form_tuple(&layouts, &values).unwrap();
    (layouts, toast, tuple)
}

/// What pg_column_size and its like would say of the values of a row.
fn described(tuple: &[u8], layouts: &[AttrLayout]) -> String {
    let mut walk = Deform::new(HeapTuple::new(tuple).unwrap()).unwrap();
    let letter = |method| if method == 0 { "p" } else { "l" };
    let each = layouts.iter().map(|layout| match walk.next(*layout).unwrap() {
        None => "-".to_owned(),
        Some(Varlena::Plain(value)) => {
            let short = !layout.plain && value.len() <= MAX_SHORT_PAYLOAD;
            (value.len() + if short { 1 } else { 4 }).to_string()
        }
        // There are many ways to compress by LZ4, all of them right.
        Some(Varlena::Compressed { method: 1, .. }) => "l".to_owned(),
        Some(Varlena::Compressed { method, data, .. }) => {
            format!("{}{}", data.len() + COMPRESSED_HEADER_SIZE, letter(method))
        }
        Some(Varlena::External(pointer)) => {
            let how = if pointer.is_compressed() { letter(pointer.method()) } else { "" };
            format!("{}{how}o", pointer.stored_size())
        }
    });
    each.collect::<Vec<_>>().join(" ")
}

/// Stands for a TOAST table.
fn stored(
    _column: usize,
    value: Varlena<'_>,
) -> Result<forebay_format::varlena::ToastPointer, TupleError> {
    let (raw, size, method) = match value {
        Varlena::Plain(value) => (value.len(), value.len(), 0),
        Varlena::Compressed { raw_size, method, data } => {
            (raw_size as usize, data.len() + 4, method)
        }
        Varlena::External(_) => panic!("stored twice"),
    };
    Ok(forebay_format::varlena::ToastPointer {
        raw_size: raw as u32 + 4,
        ext_info: size as u32 | u32::from(method) << 30,
        value_id: 1,
        toast_rel: 2,
    })
}

#[test]
fn rows_are_stored_as_postgresql_stores_them() {
    for (target, columns, expected) in ROWS {
        let (layouts, toast, tuple) = row(columns);
        let toasting = Toasting { columns: toast, target, relation: Some(2) };
        let mut out = tuple.clone();
        if tuple.len() > THRESHOLD {
            let view = HeapTuple::new(&tuple).unwrap();
            let plan = Plan::new(view, &layouts, &toasting, Method::Pglz).unwrap();
            assert_eq!(plan.stores(), expected.contains('o'), "{columns}");
            out = b"before".to_vec();
            plan.form(stored, &mut out).unwrap();
            out.drain(..6);
        }
        assert_eq!(described(&out, &layouts), expected, "{columns}");
    }
}

#[test]
fn without_a_toast_table_values_are_only_compressed() {
    let (layouts, columns, tuple) = row("xp r900000, xp n3000, ep n3000, ml r9000");
    let toasting = Toasting { columns, ..Toasting::default() };
    let view = HeapTuple::new(&tuple).unwrap();
    let plan = Plan::new(view, &layouts, &toasting, Method::Lz4).unwrap();
    assert!(!plan.stores());
    let mut out = Vec::new();
    plan.form(stored, &mut out).unwrap();
    assert_eq!(described(&out, &layouts), "10322p 3004 3004 l");
}

#[test]
fn pointers_stay_and_are_found() {
    let (layouts, columns, tuple) = row("ep n3000, xp 0, xp r100, xl r5000");
    let toasting = Toasting { columns, relation: Some(2), ..Toasting::default() };
    let plan = |tuple: &[u8]| {
        let mut out = Vec::new();
        let view = HeapTuple::new(tuple).unwrap();
        let plan = Plan::new(view, &layouts, &toasting, Method::Pglz).unwrap();
        plan.form(stored, &mut out).unwrap();
        (plan.stores(), out)
    };
    let (stores, once) = plan(&tuple);
    assert!(stores);
    assert_eq!(plan(&once), (false, once.clone()));
    let found = pointers(HeapTuple::new(&once).unwrap(), &layouts).unwrap();
    assert_eq!(found.iter().map(|(column, _)| *column).collect::<Vec<_>>(), [0]);
    assert_eq!(pointers(HeapTuple::new(&tuple).unwrap(), &layouts).unwrap(), []);

    let view = HeapTuple::new(&tuple).unwrap();
    let plan = Plan::new(view, &layouts, &toasting, Method::Pglz).unwrap();
    let mut out = b"before".to_vec();
    let failed = plan.form(|_, _| Err(TupleError::TooLarge { len: 1 }), &mut out);
    assert_eq!((failed.is_err(), out.as_slice()), (true, &b"before"[..]));
}
