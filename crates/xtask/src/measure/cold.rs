//! Cold reads through the servers: count(*) and pg_prewarm. Drops the kernel's cache.

use std::fs;
use std::process::Command;

use super::servers::{Running, Subject, WITHOUT_AUTOVACUUM};
use super::table::{Better, Mark, Table};
use super::work::word;
use crate::run::output;

/// The kernel's cache, and whether it can be dropped.
pub struct Caches {
    refused: Option<String>,
}

impl Caches {
    /// Tries once, and prints why it is not allowed.
    pub fn find() -> Caches {
        let refused = drop_caches().err();
        if let Some(reason) = &refused {
            println!(
                "NOT COLD: the kernel's cache can't be dropped here ({reason}): \
                 buffered reads may come from memory"
            );
        }
        Caches { refused }
    }

    /// Why nothing here is cold, if so.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Writes back and drops the kernel's cache, where that is allowed.
    ///
    /// # Errors
    /// When it was allowed before, and failed now.
    pub fn drop(&self) -> Result<(), String> {
        if self.refused.is_none() { drop_caches() } else { Ok(()) }
    }

    /// Runs SQL with an empty pool and cold caches. Returns its output and its seconds.
    ///
    /// # Errors
    /// The server's error, as [`Running::timed`]; and as [`Caches::drop`].
    pub fn cold(&self, server: &Running<'_>, sql: &str) -> Result<(String, f64), String> {
        server.query("SELECT count(*) FROM pg_buffercache_evict_all()")?;
        self.drop()?;
        server.timed(sql)
    }
}

/// Writes back and drops the kernel's cache.
///
/// # Errors
/// When that is not allowed.
pub fn drop_caches() -> Result<(), String> {
    let output = output(&mut Command::new("sync"))?;
    if !output.status.success() {
        return Err(format!("sync: {}", output.status));
    }
    fs::write("/proc/sys/vm/drop_caches", "3").map_err(|e| format!("/proc/sys/vm/drop_caches: {e}"))
}

/// The tables of cold reads.
pub struct Cold {
    count: Table,
    prewarm_read: Table,
    prewarm_buffer: Table,
    kernel: Table,
}

impl Cold {
    /// Empty tables.
    pub fn new() -> Cold {
        let table = |title| Table::against_best(title, ["Forebay", "PostgreSQL 18"], Better::Less);
        Cold {
            count: table("Cold count(*), seconds"),
            prewarm_read: table("Cold pg_prewarm read, seconds"),
            prewarm_buffer: table("Cold pg_prewarm buffer, seconds"),
            kernel: Table::marked("Forebay's table in the kernel's cache after all three", &["MB"]),
        }
    }

    /// The tables.
    pub fn into_tables(self) -> [Table; 4] {
        [self.count, self.prewarm_read, self.prewarm_buffer, self.kernel]
    }

    /// Reads the loaded table in three ways, each with cold caches and an empty pool.
    ///
    /// # Errors
    /// When a query fails, or the count is wrong.
    pub fn read(
        &mut self,
        subject: &Subject,
        (method, direct): (&str, bool),
        rows: u64,
        caches: &Caches,
    ) -> Result<(), String> {
        let method_setting = format!("io_method={method}");
        let direct_setting = subject.direct_setting(direct);
        let alone = "max_parallel_workers_per_gather=0";
        let settings = [&method_setting, &direct_setting, alone, WITHOUT_AUTOVACUUM];
        let forebay = subject.column() == 0;
        let server = subject.start(&settings)?;
        server.create_extensions()?;
        let row = format!("{method}, {}", word(direct));
        let cold = |sql| caches.cold(&server, sql);
        let (count, seconds) = cold("SELECT count(*) FROM t")?;
        if count != rows.to_string() {
            return Err(format!("count(*) gave {count}, not {rows}"));
        }
        self.count.add(&row, subject.column(), seconds);
        self.prewarm_read.add(&row, subject.column(), cold("SELECT pg_prewarm('t', 'read')")?.1);
        self.prewarm_buffer.add(
            &row,
            subject.column(),
            cold("SELECT pg_prewarm('t', 'buffer')")?.1,
        );
        if forebay && direct {
            let pages =
                server.number("SELECT sum(os_pages_cached) FROM pg_relation_kernel_cache('t')")?;
            self.kernel.add(&row, 0, pages * 4096.0 / 1e6);
            self.kernel.mark(&row, &[Mark::at_most(0, 0.0)]);
        }
        Ok(())
    }
}
