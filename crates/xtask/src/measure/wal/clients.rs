//! One-row inserts by pgbench's clients, each insert a transaction, on both servers by turns.

use super::COMMITTERS;
use crate::measure::servers::{Running, Subject};
use crate::measure::table::Table;
use crate::measure::work;
use crate::peers::Peer;

/// Both servers stand side by side, and one rests while the other works: so a drift of the device
/// falls on both.
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
        let servers: Vec<Running<'_>> = subjects
            .into_iter()
            .map(|subject| subject.start(&settings))
            .collect::<Result<_, _>>()?;
        servers.iter().try_for_each(work::make_one)?;
        for (n, clients) in COMMITTERS.into_iter().enumerate() {
            let mut order: Vec<usize> = (0..servers.len()).collect();
            order.rotate_left((round + n) % servers.len());
            for column in order {
                let rate = work::one_row_inserts(&servers[column], peer, clients, seconds)?;
                table.add(&format!("{clients} clients, {sync}"), column, rate);
            }
        }
    }
    Ok(())
}
