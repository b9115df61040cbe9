//! A table of half the memory with an index on its key. Look-ups prefer some keys, and these are on
//! pages all over the table.

use std::fs;
use std::path::{Path, PathBuf};

use super::servers::{Running, Subject};
use super::work;

/// Size of a page.
pub const BLOCK: u64 = 8192;
/// Rows of [`rows`] on a page.
pub const ROWS_A_PAGE: u64 = 8;
/// The same in a table that has room for new versions of its rows.
const ROWS_WITH_ROOM: u64 = 6;
/// Zipf's exponent, the smallest that pgbench takes. With a million keys, four fifths of the
/// look-ups are of the 55,000 most preferred.
const SKEW: &str = "1.001";

/// Selects rows of about 950 bytes, with keys from 1.
pub fn rows(rows: u64) -> String {
    format!(
        "SELECT g::int8, (g % 1000)::int8, repeat('x', 900) FROM generate_series(1::int8, {rows}) g"
    )
}

/// Only an index scan will do.
const BY_INDEX: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off";

/// The columns of [`rows`].
pub const COLUMNS: &str = "(id int8, n int8, pad text)";

/// The table.
pub struct Keyed {
    rows: u64,
    room: bool,
    input: PathBuf,
}

impl Keyed {
    /// Writes the rows for half of a memory into a file. With room, updates find space on the
    /// pages of their rows.
    ///
    /// # Errors
    /// When PostgreSQL can't write them.
    pub fn prepare(
        postgres: &Subject,
        folder: &Path,
        memory: u64,
        room: bool,
    ) -> Result<Keyed, String> {
        let a_page = if room { ROWS_WITH_ROOM } else { ROWS_A_PAGE };
        let table = Keyed { rows: memory / 2 / BLOCK * a_page, room, input: folder.join("keyed") };
        work::write_input(postgres, &rows(table.rows), "binary", &table.input)?;
        Ok(table)
    }

    /// Makes the table.
    ///
    /// # Errors
    /// The server's error.
    pub fn load(&self, server: &Running<'_>) -> Result<(), String> {
        let room = if self.room { " WITH (fillfactor = 80)" } else { "" };
        server.query("DROP TABLE IF EXISTS keyed")?;
        server.query(&format!("CREATE TABLE keyed {COLUMNS}{room}"))?;
        work::load(server, "keyed", "binary", &self.input)?;
        server.query("CREATE INDEX keyed_id ON keyed (id)")?;
        server.query("VACUUM keyed")?;
        server.query("CHECKPOINT").map(drop)
    }

    /// Reads the table and its index into the pool, as far as they fit.
    ///
    /// # Errors
    /// The server's error.
    pub fn read_all(&self, server: &Running<'_>) -> Result<(), String> {
        server.create_extensions()?;
        server.query("SELECT pg_prewarm('keyed')")?;
        server.query(&format!("{BY_INDEX}; SELECT count(id) FROM keyed WHERE id > 0")).map(drop)
    }

    /// Removes the file.
    ///
    /// # Errors
    /// When it can't be removed.
    pub fn remove_input(&self) -> Result<(), String> {
        fs::remove_file(&self.input).map_err(|e| format!("{}: {e}", self.input.display()))
    }

    /// pgbench's script of a look-up.
    pub fn look_up(&self) -> String {
        format!("{}SELECT n FROM keyed WHERE id = :a;\n", self.choice("a"))
    }

    /// pgbench's script of two look-ups and an update.
    pub fn look_ups_and_update(&self) -> String {
        format!(
            "{}{}{}SELECT n FROM keyed WHERE id = :a;\nSELECT n FROM keyed WHERE id = :b;\n\
             UPDATE keyed SET n = n + 1 WHERE id = :c;\n",
            self.choice("a"),
            self.choice("b"),
            self.choice("c")
        )
    }

    /// Sets a variable to a key. `permute` scatters those that are preferred.
    fn choice(&self, variable: &str) -> String {
        let rows = self.rows;
        format!("\\set {variable} 1 + permute(random_zipfian(1, {rows}, {SKEW}), {rows})\n")
    }
}

#[cfg(test)]
mod tests {
    use super::{Keyed, PathBuf};

    #[test]
    fn scripts_choose_keys_of_the_table() {
        let table = Keyed { rows: 100, room: false, input: PathBuf::new() };
        let choice = "1 + permute(random_zipfian(1, 100, 1.001), 100)\n";
        assert!(table.look_up().starts_with(&format!("\\set a {choice}SELECT ")));
        let both = table.look_ups_and_update();
        assert_eq!((both.matches(choice).count(), both.matches(";\n").count()), (3, 3));
    }
}
