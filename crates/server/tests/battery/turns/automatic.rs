//! What autovacuum has done, by a server's own counters.

use std::fmt;
use std::ops::AddAssign;
use std::sync::mpsc::Receiver;

use forebay_server::client::{Client, ClientError};

use super::model::Table;

/// Both servers look at the tables once a second, and need few changes to vacuum or analyze one.
pub const SETTINGS: [&str; 8] = [
    "autovacuum_naptime=1s",
    "autovacuum_vacuum_threshold=20",
    "autovacuum_vacuum_scale_factor=0.01",
    "autovacuum_vacuum_insert_threshold=20",
    "autovacuum_vacuum_insert_scale_factor=0.01",
    "autovacuum_analyze_threshold=20",
    "autovacuum_analyze_scale_factor=0.01",
    "autovacuum_vacuum_cost_delay=0",
];

/// Commits after which the counters are asked again.
const COMMITS: usize = 50;
/// Commits during which autovacuum must have run.
const MOST: usize = 100_000;
/// The first OID of a relation that no cluster begins with.
const FIRST_NORMAL_OID: u32 = 16_384;

/// Runs of autovacuum over the tables of the model.
#[derive(Clone, Copy, Debug, Default)]
pub struct Automatic {
    vacuums: u64,
    analyzes: u64,
    /// Vacuums of their TOAST tables.
    of_toast: u64,
}

impl Automatic {
    /// Whether there was one of each kind.
    pub fn is_complete(self) -> bool {
        self.vacuums > 0 && self.analyzes > 0 && self.of_toast > 0
    }
}

impl AddAssign for Automatic {
    fn add_assign(&mut self, other: Automatic) {
        self.vacuums += other.vacuums;
        self.analyzes += other.analyzes;
        self.of_toast += other.of_toast;
    }
}

impl fmt::Display for Automatic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Automatic { vacuums, analyzes, of_toast } = self;
        write!(f, "by autovacuum {vacuums} vacuums, {of_toast} of TOAST tables, ")?;
        write!(f, "{analyzes} analyzes")
    }
}

/// What autovacuum has done since the server's start; with `waits`, at least one run of each kind,
/// for which the clients go on.
///
/// # Errors
/// When the server does not tell, or autovacuum does not run.
pub fn wait(
    port: u16,
    tables: &[Table],
    commits: &Receiver<()>,
    waits: bool,
) -> Result<Automatic, String> {
    let told = |error: ClientError| format!("counters of autovacuum: {error}");
    let mut client = Client::tcp(port).map_err(told)?;
    for _ in 0..MOST / COMMITS {
        let done = count(&mut client, tables).map_err(told)?;
        // Without clients, they have failed, as they will tell.
        let ends = !waits || done.is_complete();
        if ends || commits.iter().take(COMMITS).count() < COMMITS {
            return Ok(done);
        }
    }
    Err(format!("autovacuum has not run during {MOST} commits"))
}

fn count(client: &mut Client, tables: &[Table]) -> Result<Automatic, ClientError> {
    let asked = "SELECT relname, autovacuum_count, autoanalyze_count FROM pg_stat_all_tables";
    let mut done = Automatic::default();
    for row in client.query(asked)?.rows {
        let number = |at: usize| row[at].as_ref().and_then(|n| n.parse().ok()).unwrap_or(0_u64);
        let name = row[0].as_deref().unwrap_or_default();
        let toast = name.strip_prefix("pg_toast_").and_then(|oid| oid.parse::<u32>().ok());
        if toast.is_some_and(|oid| oid >= FIRST_NORMAL_OID) {
            done.of_toast += number(1);
        } else if tables.iter().any(|table| table.name == name) {
            done.vacuums += number(1);
            done.analyzes += number(2);
        }
    }
    Ok(done)
}
