//! count(*) again and again.

use std::fs;
use std::path::{Path, PathBuf};

use crate::measure::cgroup::Group;
use crate::measure::cold::Caches;
use crate::measure::contender::{CONTENDERS, Contender};
use crate::measure::counters::{Blocks, Counted, bytes_read};
use crate::measure::fio;
use crate::measure::keyed::{BLOCK, COLUMNS, ROWS_A_PAGE, rows};
use crate::measure::servers::{Running, Subject};
use crate::measure::table::{Better, Table};
use crate::measure::warming::warm;
use crate::measure::work;

/// Scans whose mean is a figure.
const SCANS: u32 = 3;
/// What fio reads before them, so that the device's rate at that minute is known.
const FIO_BYTES: u64 = 4 << 30;
const FIO: [&str; 5] = ["--rw=read", "--bs=128k", "--iodepth=32", "--runtime=2", "--time_based"];
/// The statement.
pub const COUNT: &str = "SELECT count(*) FROM scanned";

/// The table that is scanned: the same rows, loaded once for each quarter of the memory.
pub struct Scanned {
    input: PathBuf,
    rows: u64,
}

impl Scanned {
    /// Writes the rows of a quarter into a file.
    ///
    /// # Errors
    /// When PostgreSQL can't write them.
    pub fn prepare(postgres: &Subject, folder: &Path, quarter: u64) -> Result<Scanned, String> {
        let (input, count) = (folder.join("quarter"), quarter / BLOCK * ROWS_A_PAGE);
        work::write_input(postgres, &rows(count), "binary", &input)?;
        Ok(Scanned { input, rows: count })
    }

    /// Makes the table if it has no quarters, and loads more.
    ///
    /// # Errors
    /// The server's error.
    pub fn grow(&self, server: &Running<'_>, have: u64, quarters: u64) -> Result<(), String> {
        if have == 0 {
            server.query(&format!("CREATE TABLE scanned {COLUMNS}"))?;
        }
        (have..quarters).try_for_each(|_| self.load(server, "scanned"))?;
        server.query("VACUUM scanned")?;
        server.query("CHECKPOINT")?;
        let (found, wanted) = (server.number(COUNT)?, self.rows * quarters);
        if found == wanted as f64 { Ok(()) } else { Err(format!("{found} rows, not {wanted}")) }
    }

    /// Loads a quarter into a table.
    ///
    /// # Errors
    /// The server's error.
    pub fn load(&self, server: &Running<'_>, table: &str) -> Result<(), String> {
        work::load(server, table, "binary", &self.input)
    }

    /// Bytes of the file.
    ///
    /// # Errors
    /// When it is not there.
    pub fn input_bytes(&self) -> Result<u64, String> {
        let data = fs::metadata(&self.input);
        data.map(|data| data.len()).map_err(|e| format!("{}: {e}", self.input.display()))
    }

    /// Removes the file.
    ///
    /// # Errors
    /// When it can't be removed.
    pub fn remove_input(&self) -> Result<(), String> {
        fs::remove_file(&self.input).map_err(|e| format!("{}: {e}", self.input.display()))
    }
}

/// The tables.
pub struct Scans {
    seconds: Table,
    device: Table,
    hits: Table,
    rates: Table,
    fio_file: PathBuf,
}

impl Scans {
    /// Empty tables, and a file for fio.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn new(folder: &Path) -> Result<Scans, String> {
        let title = "count(*) again and again, seconds";
        let fio_file = folder.join("fio");
        fio::fill(&fio_file, FIO_BYTES)?;
        Ok(Scans {
            seconds: Table::against_others(title, &CONTENDERS, Better::Less),
            device: Table::new("Read from the device by a count(*), MB", &CONTENDERS),
            hits: Table::new("Blocks of a count(*) found in the pool, %", &CONTENDERS),
            rates: Table::new("Read by fio just before a server's turn, MB/s", &CONTENDERS),
            fio_file,
        })
    }

    /// The tables.
    ///
    /// # Errors
    /// When fio's file can't be removed.
    pub fn into_tables(self) -> Result<Vec<Table>, String> {
        let path = &self.fio_file;
        fs::remove_file(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(vec![self.seconds, self.device, self.hits, self.rates])
    }

    /// Measures a server: the memory, and the table's size in quarters of it.
    ///
    /// # Errors
    /// When the server does not start, or a statement fails.
    pub fn measure(
        &mut self,
        contender: &Contender<'_>,
        caches: &Caches,
        (memory, quarters): (u64, u64),
    ) -> Result<(), String> {
        caches.drop()?;
        let device = fio::run(&self.fio_file.display().to_string(), &FIO)?;
        let group = Group::make(memory)?;
        let server = contender.start(&group, &[])?;
        warm(|| server.query(COUNT).map(drop))?;
        let process = server.process()?;
        let (read, blocks) = (bytes_read(process)?, Blocks::count(&server, Counted::All)?);
        let mut seconds = 0.0;
        for _ in 0..SCANS {
            seconds += server.timed(COUNT)?.1;
        }
        let (row, column) = (format!("{} of the memory", part(quarters)), contender.column);
        self.seconds.add(&row, column, seconds / f64::from(SCANS));
        self.rates.add(&row, column, device.megabytes_per_second());
        self.device.add(&row, column, (bytes_read(process)? - read) / 1e6 / f64::from(SCANS));
        if let Some(hits) = Blocks::count(&server, Counted::All)?.hits_since(blocks) {
            self.hits.add(&row, column, hits);
        }
        Ok(())
    }
}

/// So many quarters, as a number.
pub fn part(quarters: u64) -> f64 {
    quarters as f64 / 4.0
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn quarters_are_named_by_their_number() {
        let names = [1, 3, 4, 16].map(|quarters| part(quarters).to_string());
        assert_eq!(names, ["0.25", "0.75", "1", "4"]);
    }
}
