//! The check of a cluster at rest.

use std::path::Path;

use forebay_aio::AioConfig;
use forebay_engine::Fork;
use forebay_engine::check::{
    CheckCounts, CheckObserver, CheckOptions, CheckedRelation, Finding, NotChecked, check_on,
};

use crate::disk::SimDisk;
use crate::rows::long::Orphans;
use crate::workload::data_dir;

/// Notes what a check says.
struct Noted {
    findings: Vec<String>,
    orphans: Orphans,
}

impl CheckObserver for Noted {
    fn found(&mut self, relation: &CheckedRelation, finding: &Finding) {
        // Free-space maps have no log: their pages may be torn, and then count as empty.
        if finding.fork != Fork::Fsm {
            self.findings.push(format!("{}: {finding}", relation.name));
        }
    }

    fn file(&mut self, path: &Path, message: &str) {
        self.findings.push(format!("{}: {message}", path.display()));
    }

    fn orphans(&mut self, toast: &CheckedRelation, values: u64, _bytes: u64) {
        if self.orphans == Orphans::None {
            self.findings.push(format!("{}: no row has {values} of its values", toast.name));
        }
    }
}

/// The catalogs whose rows change with the statistics and the files of a table.
const CATALOGS: [&str; 4] = ["pg_class", "pg_database", "pg_index", "pg_statistic"];

/// Checks a table, these catalogs, and all their TOAST tables and indexes, as `forebay check` does.
/// The cluster was stopped cleanly.
///
/// # Errors
/// Everything that is wrong.
pub(super) fn check_at_rest(disk: &SimDisk, table: &str, orphans: Orphans) -> Result<(), String> {
    let relations = CATALOGS.into_iter().chain([table]).map(str::to_owned).collect();
    let counts = check(disk, relations, orphans)?;
    let relations = counts.relations as usize;
    assert!(relations > 2 * CATALOGS.len(), "all have indexes: {relations} were checked");
    Ok(())
}

/// Checks all relations, and that there are no files of others. Values that transactions have left
/// in TOAST tables may be there.
///
/// # Errors
/// Everything that is wrong.
pub(super) fn check_all_at_rest(disk: &SimDisk) -> Result<(), String> {
    let counts = check(disk, Vec::new(), Orphans::Some)?;
    let strays = [NotChecked::StrayFiles, NotChecked::StrayDirectories];
    let strays: Vec<_> =
        counts.not_checked.iter().filter(|(what, _)| strays.contains(what)).collect();
    if strays.is_empty() { Ok(()) } else { Err(format!("left over: {strays:?}")) }
}

fn check(disk: &SimDisk, relations: Vec<String>, orphans: Orphans) -> Result<CheckCounts, String> {
    let config = AioConfig { max_backends: 8, combine_limit: 0, ..AioConfig::default() };
    let aio = disk.open(config, 1).map_err(|error| error.to_string())?;
    let options = CheckOptions {
        relations,
        direct: Some(false),
        io_combine_limit: 1,
        memory: 1 << 20,
        ..CheckOptions::default()
    };
    let mut noted = Noted { findings: Vec::new(), orphans };
    let checked = check_on(&data_dir(disk), &options, &mut noted, &aio);
    drop(aio);
    disk.close();
    let counts = checked.map_err(|error| format!("check: {error}"))?;
    match noted.findings.is_empty() {
        true => Ok(counts),
        false => Err(format!("check: {}", noted.findings.join("\n"))),
    }
}
