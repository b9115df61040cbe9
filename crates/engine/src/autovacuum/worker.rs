//! A worker: a round over the tables of a database, in a session of its own.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use forebay_aio::sync::{Duration, Instant};
use forebay_catalog::{AutovacuumOptions, DatabaseIds, MaintainedTable, Table};
use forebay_types::Oid;

use super::decide::{Ages, Needs, decide};
use super::state::Settings;
use crate::config::SessionSettings;
use crate::core::Core;
use crate::error::EngineError;
use crate::id_limits::next_ids;
use crate::session::{AnalyzeOptions, Session, VacuumOptions};

/// What was done in a round over all tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutovacuumRound {
    /// Tables that it vacuumed.
    pub vacuumed: usize,
    /// Tables that it analyzed.
    pub analyzed: usize,
    /// What failed for a table, as it was logged: the message, and in the last line the table.
    pub failures: Vec<String>,
}

/// A table that is looked after.
struct Task {
    table: Arc<Table>,
    needs: Needs,
    /// Database, schema and name.
    name: String,
    /// Runs that took at least this long are logged.
    log_min_duration: Option<Duration>,
}

/// The databases: those with old ids, the oldest first; and the others in which something was
/// counted, without which there is nothing to decide by.
fn databases(core: &Arc<Core>) -> Result<(Vec<Oid>, Vec<Oid>), EngineError> {
    let mut databases = Session::of_no_database(core)?.databases()?;
    let next = next_ids(core);
    databases.sort_by_key(|database| Reverse(next.xid.wrapping_sub(database.oldest.xid)));
    let (stats, ages) = (core.statistics.get(), ages(core));
    let counted: HashSet<Oid> = stats.keys().map(|relation| relation.db).collect();
    let (urgent, others): (Vec<_>, Vec<_>) =
        databases.into_iter().partition(|database| ages.exceeded_by(database.oldest));
    let oids = |list: Vec<DatabaseIds>| list.into_iter().map(|database| database.oid);
    Ok((oids(urgent).collect(), oids(others).filter(|oid| counted.contains(oid)).collect()))
}

/// Visits the database whose turn it is, if there is one. Unless `active`, only those with old ids
/// have a turn.
pub(super) fn visit_next(core: &Arc<Core>, active: bool) -> Result<(), EngineError> {
    let (urgent, mut others) = databases(core)?;
    if !active {
        others.clear();
    }
    let pause = core.autovacuum.settings().autovacuum.naptime / 2;
    if let Some(database) = core.autovacuum.choose(&urgent, &others, pause) {
        work(core, database, active, &mut AutovacuumRound::default())?;
    }
    Ok(())
}

/// Visits all databases, one after another. A failure of one is noted, unless the engine stops.
pub(super) fn visit_all(core: &Arc<Core>) -> Result<AutovacuumRound, EngineError> {
    let mut round = AutovacuumRound::default();
    let (urgent, others) = databases(core)?;
    for database in urgent.into_iter().chain(others) {
        if let Err(error) = work(core, database, true, &mut round) {
            core.check_running()?;
            round.failed(format!("{error}\nCONTEXT:  automatic vacuum of database {database}"));
        }
    }
    Ok(round)
}

/// Vacuums and analyzes all tables of a database that need it; unless `active`, only those with old
/// ids. Fails if the engine stops, or the catalogs can't be read.
fn work(
    core: &Arc<Core>,
    database: Oid,
    active: bool,
    round: &mut AutovacuumRound,
) -> Result<(), EngineError> {
    let mut settings = core.autovacuum.settings();
    settings.autovacuum.enabled = active;
    let mut session = Session::of_autovacuum(core, database, settings.session.clone())?;
    let tables = session.maintained_tables()?;
    let (toast, main): (Vec<_>, Vec<_>) = tables.into_iter().partition(|table| table.is_toast);
    let stats = core.statistics.get();
    let before = round.vacuumed;
    for table in main.iter().chain(&toast) {
        let known = stats.get(&table.counted());
        if decide(table, known, &settings.autovacuum, &ages(core)).any() {
            settings = core.autovacuum.settings();
            settings.autovacuum.enabled = active;
            maintain(core, &mut session, table, &settings, round)?;
        }
    }
    if round.vacuumed > before {
        session.advance_oldest_ids()?;
    }
    Ok(())
}

fn ages(core: &Core) -> Ages {
    let vacuum = &core.config.session.vacuum;
    Ages {
        next: next_ids(core),
        freeze_max_age: vacuum.freeze_max_age,
        multixact_freeze_max_age: core.multis.freeze_max_age(vacuum.multixact_freeze_max_age),
    }
}

/// Looks after a table, if it still needs that and no other worker does it. A failure is logged and
/// noted, and concerns this table alone, unless the worker is to end.
fn maintain(
    core: &Core,
    session: &mut Session,
    table: &MaintainedTable,
    settings: &Settings,
    round: &mut AutovacuumRound,
) -> Result<(), EngineError> {
    let Some(_taken) = core.autovacuum.take(table.counted()) else { return Ok(()) };
    let found = match session.maintained_table(table) {
        Ok(found) => found,
        Err(error) => {
            // Nothing goes on if the engine stops.
            session.check_cancel()?;
            round.failed(format!("{error}\nCONTEXT:  automatic vacuum of relation {}", table.oid));
            return Ok(());
        }
    };
    let Some((found, now)) = found else { return Ok(()) };
    let stats = core.statistics.get();
    let needs = decide(&now, stats.get(&now.counted()), &settings.autovacuum, &ages(core));
    if !needs.any() {
        return Ok(());
    }
    if let Err(error) = found.check_vacuumable() {
        if needs.wraparound {
            let name = session.full_name(&found);
            tracing::warn!("table \"{name}\" can't be vacuumed to prevent wraparound: {error}");
        }
        return Ok(());
    }
    let own = now.settings();
    let delay = own.cost_delay.map(|millis| Duration::from_secs_f64(millis / 1e3));
    let costs = core.autovacuum.balance.at_table(delay, own.cost_limit);
    let _sharer = costs.share();
    session.set_costs(costs);
    *session.settings_mut() = settings_for(settings, &own);
    session.give_way(!needs.wraparound);
    let task = Task {
        name: session.full_name(&found),
        table: found,
        needs,
        log_min_duration: match own.log_min_duration {
            Some(millis) => Some(Duration::from_millis(millis.into())),
            None => settings.autovacuum.log_min_duration,
        },
    };
    let vacuumed = needs.vacuum && task.run("vacuum", session, round, Task::vacuum)?;
    round.vacuumed += usize::from(vacuumed);
    // A cancel is meant for the table, not for what was being done to it.
    if needs.analyze && (vacuumed || !needs.vacuum) {
        let analyzed = task.run("analyze", session, round, Task::analyze)?;
        round.analyzed += usize::from(analyzed);
    }
    session.give_way(false);
    // One that came too late is not meant for the next table.
    session.interrupt().clear_cancel();
    Ok(())
}

/// The settings of a session that vacuums a table with these settings of its own, but for costs.
fn settings_for(settings: &Settings, own: &AutovacuumOptions) -> SessionSettings {
    let Settings { autovacuum, session } = settings;
    let mut vacuum = session.vacuum;
    for (of_session, of_table) in [
        (&mut vacuum.freeze_min_age, own.freeze_min_age),
        (&mut vacuum.freeze_table_age, own.freeze_table_age),
        (&mut vacuum.multixact_freeze_min_age, own.multixact_freeze_min_age),
        (&mut vacuum.multixact_freeze_table_age, own.multixact_freeze_table_age),
    ] {
        *of_session = of_table.unwrap_or(*of_session);
    }
    SessionSettings {
        vacuum,
        maintenance_work_mem: autovacuum.work_mem.unwrap_or(session.maintenance_work_mem),
        lock_timeout: Duration::ZERO,
        zero_damaged_pages: false,
        synchronous_commit: true,
        track_counts: true,
        ..session.clone()
    }
}

/// Logs what the session warned of, however short its runs are.
fn log_warnings(session: &mut Session) {
    session.take_warnings().iter().for_each(|warning| tracing::warn!("{}", warning.message));
}

impl AutovacuumRound {
    fn failed(&mut self, what: String) {
        tracing::error!("{what}");
        self.failures.push(what);
    }
}

impl Task {
    /// Does something to the table. False if that failed, which is logged and noted.
    fn run(
        &self,
        what: &str,
        session: &mut Session,
        round: &mut AutovacuumRound,
        body: fn(&Task, &mut Session) -> Result<(), EngineError>,
    ) -> Result<bool, EngineError> {
        let Err(error) = body(self, session) else { return Ok(true) };
        log_warnings(session);
        session.interrupt().clear_cancel();
        // Nothing goes on if the engine stops.
        session.check_cancel()?;
        let context = format!("CONTEXT:  automatic {what} of table \"{}\"", self.name);
        round.failed(match error.sqlstate() {
            "57014" => format!("canceling autovacuum task\n{context}"),
            _ => format!("{error}\n{context}"),
        });
        Ok(false)
    }

    fn vacuum(&self, session: &mut Session) -> Result<(), EngineError> {
        let options = VacuumOptions {
            skip_locked: !self.needs.wraparound,
            verbose: true,
            process_toast: false,
            ..VacuumOptions::default()
        };
        let (begun, mut told) = (Instant::now(), Vec::new());
        session.vacuum(&self.table, &options, &mut told)?;
        let aggressive = told.first().is_some_and(|text| text.starts_with("aggressively"));
        let aggressive = if aggressive { "aggressive " } else { "" };
        let prevent = if self.needs.wraparound { "to prevent wraparound " } else { "" };
        let what = format!("automatic {aggressive}vacuum {prevent}of table");
        self.log(session, begun.elapsed(), &what, &told);
        Ok(())
    }

    fn analyze(&self, session: &mut Session) -> Result<(), EngineError> {
        let options = AnalyzeOptions {
            skip_locked: true,
            verbose: true,
            vacuumed: self.needs.vacuum,
            buffer_usage_limit: None,
        };
        let (begun, mut told) = (Instant::now(), Vec::new());
        session.analyze_alone(&self.table, None, &options, &mut told)?;
        self.log(session, begun.elapsed(), "automatic analyze of table", &told);
        Ok(())
    }

    /// Logs what was done, which is what VERBOSE tells last.
    fn log(&self, session: &mut Session, took: Duration, what: &str, told: &[String]) {
        log_warnings(session);
        let Some(least) = self.log_min_duration else { return };
        let name = format!("\"{}\"", self.name);
        let report = told.iter().rev().find_map(|text| Some(text.split_once(&*name)?.1));
        if let Some(report) = report.filter(|_| took >= least) {
            tracing::info!("{what} {name}{report}");
        }
    }
}
