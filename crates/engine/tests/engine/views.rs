//! Rows of the statistics views.

use crate::common::*;
use forebay_engine::views::{IoOp, IoStatRow};
use forebay_engine::{IoMethod, ShutdownMode};

/// A row in the form of the golden file.
fn line(r: &IoStatRow) -> String {
    // The columns of each operation.
    let columns = [
        (IoOp::Read, 3),
        (IoOp::Write, 3),
        (IoOp::Writeback, 2),
        (IoOp::Extend, 3),
        (IoOp::Hit, 1),
        (IoOp::Evict, 1),
        (IoOp::Reuse, 1),
        (IoOp::Fsync, 2),
    ];
    let null = |(op, n)| if r.shown(op).is_none() { ",1" } else { ",0" }.repeat(n);
    let nulls = columns.map(null).concat();
    format!("{},{},{}{nulls}", r.backend_type.name(), r.object.name(), r.context.name())
}

#[test]
fn pg_stat_io_has_postgresqls_rows_and_nulls() {
    let (_scratch, dir) = new_dir();
    let engine = open(&dir, &config(IoMethod::Sync, false));
    let golden = include_str!("../golden/pg_stat_io.csv");
    let golden: Vec<&str> = golden.lines().filter(|l| !l.starts_with('#')).collect();
    let ours: Vec<String> = engine.io_stats().iter().map(line).collect();
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    assert_eq!((ours.len(), golden.len()), (79, 79));
    for (ours, golden) in ours.iter().zip(golden) {
        assert_eq!(ours, golden);
    }
}
