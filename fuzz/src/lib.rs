//! What the fuzz targets run. The functions are in a file of their own, because the tests of
//! `forebay-format` run them too. Those of SQL are in [`statements`]; the tests of `forebay-sql`
//! run them.
//!
//! `cargo +nightly fuzz run wal_record` fuzzes one target. Good first inputs are the samples in
//! `crates/format/tests/data`; for `wal_record`, records without their first four bytes.

pub mod entry;
pub mod statements;
