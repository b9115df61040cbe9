//! Chunk borders must not matter, garbage must not harm, and what is written must read back.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use super::{CopyColumn, CopyOptions, CopyParser, CopyShape, CopyWriter};
use crate::column::ColumnDesc;
use crate::error::SqlError;
use crate::parse::{CopyOption, OptionValue};
use forebay_types::{Datum, MAX_ALLOC, SqlType};
use proptest::prelude::*;
use std::sync::Arc;

const TYPES: [SqlType; 4] = [SqlType::Int4, SqlType::Text, SqlType::Float8, SqlType::Bool];

fn options(list: &[(&str, &str)]) -> CopyOptions {
    let option = |(name, value): &(&str, &str)| CopyOption {
        name: (*name).to_owned(),
        value: OptionValue::Text((*value).to_owned()),
        position: 0,
    };
    CopyOptions::new(&list.iter().map(option).collect::<Vec<_>>(), true).unwrap()
}

fn all_options() -> Vec<CopyOptions> {
    vec![
        options(&[]),
        options(&[("delimiter", ";"), ("null", "<nil>"), ("header", "true")]),
        options(&[("format", "csv")]),
        options(&[("format", "csv"), ("escape", "\\"), ("quote", "'"), ("header", "on")]),
        options(&[("format", "binary")]),
    ]
}

fn shape() -> CopyShape {
    let column = |(i, ty): (usize, &SqlType)| CopyColumn {
        name: format!("c{i}"),
        ty: *ty,
        typmod: -1,
        slot: i,
    };
    CopyShape {
        table: "t".into(),
        columns: TYPES.iter().enumerate().map(column).collect(),
        width: TYPES.len(),
        longest: MAX_ALLOC,
        style: Arc::default(),
    }
}

fn columns() -> Vec<ColumnDesc> {
    let column = |(i, ty): (usize, &SqlType)| ColumnDesc {
        name: format!("c{i}"),
        table_oid: 0,
        attnum: 0,
        ty: *ty,
        typmod: -1,
        collation: 0,
    };
    TYPES.iter().enumerate().map(column).collect()
}

/// Parses data cut at the given places.
fn parse(
    options: &CopyOptions,
    data: &[u8],
    cuts: &[usize],
) -> (Vec<Vec<Datum<'static>>>, Option<SqlError>) {
    let mut rows = Vec::new();
    let mut parser = CopyParser::new(options.clone(), shape());
    let mut take = |row: &[Datum<'_>], _| {
        rows.push(row.iter().map(|value| value.clone().into_owned()).collect());
        Ok(())
    };
    let mut from = 0;
    let mut cuts: Vec<usize> = cuts.iter().map(|c| c % (data.len() + 1)).collect();
    cuts.sort_unstable();
    cuts.push(data.len());
    let mut result = Ok(());
    for cut in cuts {
        result = parser.push(&data[from..cut], &mut take);
        from = cut;
        if result.is_err() {
            break;
        }
    }
    let result = result.and_then(|()| parser.finish(&mut take));
    (rows, result.err())
}

fn write(options: &CopyOptions, rows: &[Vec<Datum<'static>>]) -> Vec<u8> {
    let mut writer = CopyWriter::new(options.clone(), Arc::default());
    let mut out = Vec::new();
    writer.header(&columns(), &mut out);
    for row in rows {
        writer.row(row, &columns(), &mut out, &mut Vec::new()).unwrap();
    }
    writer.finish(&mut out);
    out
}

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\\".to_owned()),
        Just("\\.".to_owned()),
        Just("\\N".to_owned()),
        Just("\n".to_owned()),
        Just("\r".to_owned()),
        Just("\r\n".to_owned()),
        Just("\t".to_owned()),
        Just("\"".to_owned()),
        Just("'".to_owned()),
        Just(",".to_owned()),
        Just(";".to_owned()),
        Just("nil".to_owned()),
        Just("ü€😀".to_owned()),
        "[a-z ]{0,6}",
        "[\\x01-\\x1f]",
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn row() -> impl Strategy<Value = Vec<Datum<'static>>> {
    let float = prop_oneof![
        any::<f64>().prop_filter("NaN is not equal to itself", |f| !f.is_nan()),
        Just(f64::INFINITY),
        Just(-0.0)
    ];
    (
        prop::option::of(any::<i32>()),
        prop::option::of(text()),
        prop::option::of(float),
        prop::option::of(any::<bool>()),
    )
        .prop_map(|(a, b, c, d)| {
            vec![
                a.map_or(Datum::Null, Datum::Int4),
                b.map_or(Datum::Null, Datum::string),
                c.map_or(Datum::Null, Datum::Float8),
                d.map_or(Datum::Null, Datum::Bool),
            ]
        })
}

proptest! {
    #[test]
    fn what_is_written_reads_back_whatever_the_chunks(
        rows in prop::collection::vec(row(), 0..8),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        for options in all_options() {
            let data = write(&options, &rows);
            let (read, error) = parse(&options, &data, &cuts);
            prop_assert!(error.is_none(), "{:?}: {:?}", options.format, error);
            prop_assert_eq!(&read, &rows, "{:?} {:?}", options, String::from_utf8_lossy(&data));
        }
    }

    #[test]
    fn damaged_data_gives_the_same_whatever_the_chunks(
        rows in prop::collection::vec(row(), 0..6),
        damage in prop::collection::vec((any::<usize>(), any::<u8>(), any::<bool>()), 1..4),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        for options in all_options() {
            let mut data = write(&options, &rows);
            for (at, byte, replace) in &damage {
                let at = at % (data.len() + 1);
                if *replace && at < data.len() {
                    data[at] = *byte;
                } else {
                    data.insert(at, *byte);
                }
            }
            let whole = parse(&options, &data, &[]);
            let cut = parse(&options, &data, &cuts);
            // By their looks, for the sake of NaN.
            prop_assert_eq!(format!("{whole:?}"), format!("{cut:?}"));
        }
    }

    #[test]
    fn lines_of_special_bytes_give_the_same_whatever_the_chunks(
        data in prop::collection::vec(
            prop::sample::select(b"\\.\n\r\t\",ax1\\\0\xc3\xbc".to_vec()),
            0..40,
        ),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        for options in all_options() {
            let whole = parse(&options, &data, &[]);
            let cut = parse(&options, &data, &cuts);
            prop_assert_eq!(&whole, &cut);
            // Byte by byte, only lines of one byte go the short way.
            let single: Vec<usize> = (0..data.len()).collect();
            prop_assert_eq!(whole, parse(&options, &data, &single));
        }
    }

    #[test]
    fn garbage_never_panics(
        data in prop::collection::vec(any::<u8>(), 0..200),
        cuts in prop::collection::vec(any::<usize>(), 0..5),
    ) {
        for options in all_options() {
            let _ = parse(&options, &data, &cuts);
            let binary = [super::binary::SIGNATURE.as_slice(), &[0; 8], &data].concat();
            let _ = parse(&options, &binary, &cuts);
        }
    }
}

/// What comes of data in pieces of some bytes, if lines may have 100.
fn within_a_hundred(options: CopyOptions, data: &[u8], piece: usize) -> Result<usize, SqlError> {
    let mut rows = 0;
    let mut parser = CopyParser::new(options, CopyShape { longest: 100, ..shape() });
    let mut take = |_: &[Datum<'_>], _| {
        rows += 1;
        Ok(())
    };
    data.chunks(piece).try_for_each(|piece| parser.push(piece, &mut take))?;
    parser.finish(&mut take)?;
    Ok(rows)
}

#[test]
fn a_line_without_end_is_refused() {
    for (options, before) in [(options(&[]), "1\t"), (options(&[("format", "csv")]), "1,\"")] {
        for piece in [1, 7, 99] {
            let data = format!("{before}{}", "x".repeat(200));
            let e = within_a_hundred(options.clone(), data.as_bytes(), piece).unwrap_err();
            assert_eq!(e.sqlstate, "54000", "{piece}: {e}");
            assert_eq!(e.message, "string buffer exceeds maximum allowed length (100 bytes)");
            assert_eq!(e.context.as_deref(), Some("COPY t, line 1"));
        }
    }
    let lines = "1\tabc\t0\tt\n".repeat(100);
    assert_eq!(within_a_hundred(options(&[]), lines.as_bytes(), 99).unwrap(), 100);
}

#[test]
fn a_binary_field_that_claims_too_much_is_refused_at_once() {
    let mut data = b"PGCOPY\n\xff\r\n\0".to_vec();
    data.extend([0; 8]);
    data.extend(4i16.to_be_bytes());
    for claimed in [101i32, i32::MAX] {
        let data = [&data[..], &claimed.to_be_bytes()].concat();
        let e = within_a_hundred(options(&[("format", "binary")]), &data, 1).unwrap_err();
        assert_eq!(e.sqlstate, "54000", "{e}");
        assert_eq!(e.context.as_deref(), Some("COPY t, line 1, column c0"));
    }
}
