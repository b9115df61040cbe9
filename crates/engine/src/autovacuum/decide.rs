//! Whether a table needs to be vacuumed or analyzed.

use forebay_catalog::schema::PG_STATISTIC;
use forebay_catalog::{AutovacuumOptions, MaintainedTable, NextIds, OldestIds};
use forebay_format::ids::{FIRST_NORMAL_XID, xid_is_normal, xid_precedes};
use forebay_format::multixact::{FIRST_MULTI, INVALID_MULTI, multi_precedes};

use crate::config::AutovacuumSettings;
use crate::relation_stats::RelationStats;

/// What a table needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) vacuum: bool,
    pub(super) analyze: bool,
    /// Its ids are so old that it must be vacuumed, whoever is in the way.
    pub(super) wraparound: bool,
}

/// The next ids, and the ages that ids of tables may reach.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ages {
    pub(super) next: NextIds,
    pub(super) freeze_max_age: u32,
    pub(super) multixact_freeze_max_age: u32,
}

impl Needs {
    pub(super) fn any(self) -> bool {
        self.vacuum || self.analyze
    }
}

impl Ages {
    /// Whether these ids are older than that.
    pub(super) fn exceeded_by(&self, oldest: OldestIds) -> bool {
        let mut limit = self.next.xid.wrapping_sub(self.freeze_max_age);
        if limit < FIRST_NORMAL_XID {
            limit = limit.wrapping_sub(FIRST_NORMAL_XID);
        }
        let mut multi_limit = self.next.multi.wrapping_sub(self.multixact_freeze_max_age);
        if multi_limit < FIRST_MULTI {
            multi_limit = multi_limit.wrapping_sub(FIRST_MULTI);
        }
        let OldestIds { xid, multi } = oldest;
        xid_is_normal(xid) && xid_precedes(xid, limit)
            || multi != INVALID_MULTI && multi_precedes(multi, multi_limit)
    }
}

/// Whether ids of a table are older than its settings, or the cluster's, allow.
fn is_too_old(table: &MaintainedTable, own: &AutovacuumOptions, ages: &Ages) -> bool {
    let least = |own: Option<u32>, general: u32| own.map_or(general, |own| own.min(general));
    let ages = Ages {
        freeze_max_age: least(own.freeze_max_age, ages.freeze_max_age),
        multixact_freeze_max_age: least(
            own.multixact_freeze_max_age,
            ages.multixact_freeze_max_age,
        ),
        ..*ages
    };
    let (xid, multi) = (table.figures.frozen_xid, table.figures.min_multi);
    ages.exceeded_by(OldestIds { xid, multi })
}

/// Decides for a table by its statistics, if there are any.
pub(super) fn decide(
    table: &MaintainedTable,
    stats: Option<&RelationStats>,
    settings: &AutovacuumSettings,
    ages: &Ages,
) -> Needs {
    let own = table.settings();
    let wraparound = is_too_old(table, &own, ages);
    let forced = Needs { vacuum: wraparound, analyze: false, wraparound };
    let Some(stats) = stats.filter(|_| settings.enabled && own.enabled.unwrap_or(true)) else {
        return forced;
    };
    let rows = f64::from(table.figures.tuples.max(0.0));
    let threshold = own.vacuum_threshold.unwrap_or(settings.vacuum_threshold);
    let factor = own.vacuum_scale_factor.unwrap_or(settings.vacuum_scale_factor);
    let most = own.vacuum_max_threshold.unwrap_or(settings.vacuum_max_threshold);
    let dead = (f64::from(threshold) + factor * rows).min(most.map_or(f64::INFINITY, f64::from));
    let threshold = own.insert_threshold.unwrap_or(settings.insert_threshold);
    let factor = own.insert_scale_factor.unwrap_or(settings.insert_scale_factor);
    let inserted = threshold.map(|least| f64::from(least) + factor * rows * not_frozen(table));
    let threshold = own.analyze_threshold.unwrap_or(settings.analyze_threshold);
    let factor = own.analyze_scale_factor.unwrap_or(settings.analyze_scale_factor);
    let changed = f64::from(threshold) + factor * rows;
    let exceeds = |count: u64, limit: f64| count as f64 > limit;
    Needs {
        vacuum: wraparound
            || exceeds(stats.dead, dead)
            || inserted.is_some_and(|limit| exceeds(stats.inserted_since_vacuum, limit)),
        analyze: exceeds(stats.changed_since_analyze, changed)
            && !table.is_toast
            && table.oid != PG_STATISTIC.oid,
        wraparound,
    }
}

/// The part of a table's pages that are not all-frozen.
fn not_frozen(table: &MaintainedTable) -> f64 {
    let (pages, frozen) = (table.figures.pages, table.figures.all_frozen);
    match (pages, frozen) {
        (0, _) | (_, 0) => 1.0,
        _ => 1.0 - f64::from(frozen.min(pages)) / f64::from(pages),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_catalog::ClassFigures;

    const AGES: Ages = Ages {
        next: NextIds { xid: 1_000_000_000, multi: 1_000_000_000 },
        freeze_max_age: 200_000_000,
        multixact_freeze_max_age: 400_000_000,
    };

    fn table(tuples: f32) -> MaintainedTable {
        let figures = ClassFigures {
            pages: 100,
            tuples,
            all_visible: 0,
            all_frozen: 0,
            frozen_xid: 999_000_000,
            min_multi: 999_000_000,
            toast: 0,
            indexed: false,
        };
        MaintainedTable {
            database: 5,
            oid: 16_384,
            is_toast: false,
            shared: false,
            figures,
            options: None,
            of_main: None,
        }
    }

    fn needs(table: &MaintainedTable, dead: u64, inserted: u64, changed: u64) -> (bool, bool) {
        let stats = RelationStats {
            dead,
            inserted_since_vacuum: inserted,
            changed_since_analyze: changed,
            ..RelationStats::default()
        };
        let needs = decide(table, Some(&stats), &AutovacuumSettings::default(), &AGES);
        assert!(!needs.wraparound);
        (needs.vacuum, needs.analyze)
    }

    #[test]
    fn the_thresholds_are_postgresqls() {
        let small = table(1000.0);
        assert_eq!(needs(&small, 250, 1200, 150), (false, false));
        assert_eq!(needs(&small, 251, 0, 0), (true, false));
        assert_eq!(needs(&small, 0, 1201, 0), (true, false));
        assert_eq!(needs(&small, 0, 0, 151), (false, true));
        // Never counted: as if it were empty.
        assert_eq!(needs(&table(-1.0), 50, 1000, 50), (false, false));
        assert_eq!(needs(&table(-1.0), 51, 0, 51), (true, true));
        // The limit of the largest tables.
        let large = table(1e9);
        assert_eq!(needs(&large, 100_000_000, 0, 0), (false, false));
        assert_eq!(needs(&large, 100_000_001, 0, 0), (true, false));
    }

    #[test]
    fn rows_on_frozen_pages_do_not_count_for_inserts() {
        let mut half = table(10_000.0);
        half.figures.all_frozen = 50;
        assert_eq!(needs(&half, 0, 2000, 0), (false, false));
        assert_eq!(needs(&half, 0, 2001, 0), (true, false));
        half.figures.all_frozen = 1000;
        assert_eq!(needs(&half, 0, 1001, 0), (true, false));
    }

    #[test]
    fn a_tables_own_settings_come_first() {
        let mut own = table(1000.0);
        own.options = Some(AutovacuumOptions {
            vacuum_threshold: Some(10),
            vacuum_scale_factor: Some(0.0),
            insert_threshold: Some(None),
            analyze_threshold: Some(5),
            analyze_scale_factor: Some(0.0),
            ..AutovacuumOptions::default()
        });
        assert_eq!(needs(&own, 10, u64::MAX / 2, 5), (false, false));
        assert_eq!(needs(&own, 11, 0, 6), (true, true));
        let unlimited =
            AutovacuumOptions { vacuum_max_threshold: Some(None), ..AutovacuumOptions::default() };
        let large = MaintainedTable { options: Some(unlimited), ..table(1e9) };
        assert_eq!(needs(&large, 200_000_000, 0, 0), (false, false));
        own.options =
            Some(AutovacuumOptions { enabled: Some(false), ..own.options.expect("some") });
        assert_eq!(needs(&own, 1000, 0, 1000), (false, false));
    }

    #[test]
    fn toast_tables_and_pg_statistic_are_not_analyzed() {
        let toast = MaintainedTable { is_toast: true, ..table(0.0) };
        assert_eq!(needs(&toast, 51, 0, 51), (true, false));
        let statistic = MaintainedTable { oid: PG_STATISTIC.oid, ..table(0.0) };
        assert_eq!(needs(&statistic, 51, 0, 51), (true, false));
    }

    #[test]
    fn old_ids_are_frozen_whatever_the_settings() {
        let forced = Needs { vacuum: true, analyze: false, wraparound: true };
        let off = AutovacuumSettings { enabled: false, ..AutovacuumSettings::default() };
        let mut old = table(1000.0);
        old.options =
            Some(AutovacuumOptions { enabled: Some(false), ..AutovacuumOptions::default() });
        assert_eq!(decide(&old, None, &off, &AGES), Needs::default());
        old.figures.frozen_xid = 800_000_000;
        assert_eq!(decide(&old, None, &off, &AGES), Needs::default());
        old.figures.frozen_xid = 799_999_999;
        assert_eq!(decide(&old, None, &off, &AGES), forced);
        old.figures.frozen_xid = 999_000_000;
        old.figures.min_multi = 599_999_999;
        assert_eq!(decide(&old, None, &off, &AGES), forced);
        // A table may have a shorter age of its own, but no longer one.
        let own = |age| AutovacuumOptions { freeze_max_age: Some(age), ..Default::default() };
        let mut young = table(1000.0);
        young.options = Some(own(500_000));
        assert!(decide(&young, None, &off, &AGES).wraparound);
        old.options = Some(own(2_000_000_000));
        old.figures = ClassFigures { frozen_xid: 799_999_999, ..young.figures };
        assert!(decide(&old, None, &off, &AGES).wraparound);
    }
}
