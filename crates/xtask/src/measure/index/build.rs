//! CREATE INDEX on numbers in random order, on numbers in order, and on texts.

use std::path::Path;

use super::setup::{SERVERS, start};
use crate::measure::servers::Subject;
use crate::measure::table::Table;
use crate::measure::work::{self, word};

/// Selects the rows.
pub fn source(rows: u64) -> String {
    format!(
        "SELECT (g * 7919 % 20000003)::int8, g::int8, 'row number ' || g * 7919 % 20000003 \
         FROM generate_series(1::int8, {rows}) g"
    )
}

/// The empty table of figures.
pub fn table() -> Table {
    Table::new("CREATE INDEX, cold, seconds", &SERVERS)
}

/// Loads the rows, and makes an index on each column with an empty pool.
///
/// # Errors
/// When the server does not start, or something fails.
pub fn measure(
    subject: &Subject,
    direct: bool,
    input: &Path,
    figures: &mut Table,
) -> Result<(), String> {
    let server = start(subject, direct, &[])?;
    server.query("DROP TABLE IF EXISTS n")?;
    server.query("CREATE TABLE n (shuffled int8, ordered int8, texts text)")?;
    work::load(&server, "n", "binary", input)?;
    server.query("VACUUM n")?;
    for (column, name) in [("shuffled", "int8"), ("ordered", "int8"), ("texts", "text")] {
        server.query("CHECKPOINT")?;
        server.query("SELECT count(*) FROM pg_buffercache_evict_all()")?;
        let (_, seconds) = server.timed(&format!("CREATE INDEX ON n ({column})"))?;
        figures.add(&format!("{name}, {column}, {}", word(direct)), subject.column(), seconds);
    }
    server.query("DROP TABLE n").map(drop)
}
