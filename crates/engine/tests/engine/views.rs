//! Rows of the statistics views.

use crate::common::*;
use forebay_engine::views::IoStatRow;
use forebay_engine::{IoMethod, ShutdownMode};

/// A row in the form of the golden file.
fn line(r: &IoStatRow) -> String {
    let null = |is: bool| if is { ",1" } else { ",0" };
    let nulls = [
        r.reads.is_none(),
        r.read_bytes.is_none(),
        r.read_time.is_none(),
        r.writes.is_none(),
        r.write_bytes.is_none(),
        r.write_time.is_none(),
        r.writebacks.is_none(),
        r.writeback_time.is_none(),
        r.extends.is_none(),
        r.extend_bytes.is_none(),
        r.extend_time.is_none(),
        r.hits.is_none(),
        r.evictions.is_none(),
        r.reuses.is_none(),
        r.fsyncs.is_none(),
        r.fsync_time.is_none(),
    ];
    let nulls: String = nulls.map(null).concat();
    format!("{},{},{}{nulls}", r.backend_type, r.object, r.context)
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
