//! One-row inserts by pgbench's clients, each its own transaction, on both servers by turns.

use crate::measure::servers::{Subject, order};
use crate::measure::table::Table;
use crate::measure::work;
use crate::peers::Peer;

/// Numbers of committers: clients of a server, or threads of the bench.
pub const COMMITTERS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Runs both servers at once, one idle while the other works, so that drift falls on both.
///
/// # Errors
/// When a server does not start, or pgbench fails.
pub fn measure(
    subjects: [&Subject; 2],
    peer: &Peer,
    round: usize,
    seconds: u64,
    table: &mut Table,
) -> Result<(), String> {
    for sync in ["fdatasync", "open_datasync"] {
        let method = format!("wal_sync_method={sync}");
        let settings = ["io_method=io_uring", "max_connections=100", &method];
        let [forebay, postgres] = subjects;
        let servers = [forebay.start(&settings)?, postgres.start(&settings)?];
        servers.iter().try_for_each(work::make_one)?;
        for (n, clients) in COMMITTERS.into_iter().enumerate() {
            for server in order(&servers[0], &servers[1], round + n) {
                let rate = work::one_row_inserts(server, peer, clients, seconds)?;
                table.add(&format!("{clients} clients, {sync}"), server.column(), rate);
            }
        }
    }
    Ok(())
}
