//! A round of autovacuum.

use forebay_engine::{AutovacuumSettings, Engine, SessionSettings, VacuumSettings};

/// Lets a worker of autovacuum vacuum and analyze all tables in which anything has changed,
/// catalogs too. It cuts off the ends of tables only if told to: with a lock that others must not
/// have.
///
/// # Errors
/// What has failed, or a table that was left out.
pub(crate) fn autovacuum(engine: &Engine, truncate: bool) -> Result<(), String> {
    let all = AutovacuumSettings {
        vacuum_threshold: 0,
        vacuum_scale_factor: 0.0,
        insert_threshold: Some(0),
        insert_scale_factor: 0.0,
        analyze_threshold: 0,
        analyze_scale_factor: 0.0,
        cost_delay: None,
        ..AutovacuumSettings::default()
    };
    let vacuum = VacuumSettings { truncate, ..VacuumSettings::default() };
    engine.change_autovacuum(&all, &SessionSettings { vacuum, ..SessionSettings::default() });
    let before = engine.relation_stats();
    let round = engine.run_autovacuum().map_err(|error| error.to_string())?;
    if let Some(failure) = round.failures.first() {
        return Err(failure.clone());
    }
    let after = engine.relation_stats();
    for (of, before) in before {
        let after = after.get(&of).copied().unwrap_or_default();
        let is_due = before.dead > 0 || before.inserted_since_vacuum > 0;
        if is_due && after.autovacuums.count == before.autovacuums.count {
            return Err(format!("autovacuum has left out relation {}: {before:?}", of.rel));
        }
    }
    Ok(())
}
