//! What is known of a relation.

use forebay_txn::RelationCounts;

/// The runs of VACUUM or ANALYZE over a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaintenanceRuns {
    /// How many there were.
    pub count: u64,
    /// When the last one ended, in microseconds since 2000.
    pub last: Option<i64>,
    /// How long they took, in microseconds.
    pub micros: u64,
}

/// PostgreSQL's cumulative statistics of a table or an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelationStats {
    /// Scans of a table from its beginning, or scans of an index.
    pub scans: u64,
    /// When a transaction with such a scan ended last, in microseconds since 2000.
    pub last_scan: Option<i64>,
    /// Rows that scans of a table read, or entries that scans of an index returned.
    pub returned: u64,
    /// Rows that were fetched by a bitmap, or through the index.
    pub fetched: u64,
    /// Rows inserted.
    pub inserted: u64,
    /// Rows updated.
    pub updated: u64,
    /// Rows deleted.
    pub deleted: u64,
    /// Updates that needed no index entries.
    pub hot_updated: u64,
    /// Updates whose new version went to another page.
    pub newpage_updated: u64,
    /// Live rows, estimated.
    pub live: u64,
    /// Dead rows, estimated.
    pub dead: u64,
    /// Rows changed since the table was last analyzed.
    pub changed_since_analyze: u64,
    /// Rows inserted since the table was last vacuumed.
    pub inserted_since_vacuum: u64,
    /// VACUUM by hand.
    pub vacuums: MaintenanceRuns,
    /// VACUUM by autovacuum.
    pub autovacuums: MaintenanceRuns,
    /// ANALYZE by hand.
    pub analyzes: MaintenanceRuns,
    /// ANALYZE by autovacuum.
    pub autoanalyzes: MaintenanceRuns,
}

/// A count that changes by a number, but not below zero.
fn moved(count: u64, by: i64) -> u64 {
    count.saturating_add_signed(by)
}

impl MaintenanceRuns {
    pub(super) fn ended(&mut self, at: i64, micros: u64) {
        self.count += 1;
        self.last = Some(at);
        self.micros = self.micros.saturating_add(micros);
    }
}

impl RelationStats {
    /// Adds what transactions that have ended counted; the last one with a scan ended then.
    pub(super) fn add(&mut self, counts: &RelationCounts, last_scan: Option<i64>) {
        self.scans += counts.scans;
        self.last_scan = self.last_scan.max(last_scan);
        self.returned += counts.returned;
        self.fetched += counts.fetched;
        self.inserted += counts.inserted;
        self.updated += counts.updated;
        self.deleted += counts.deleted;
        self.hot_updated += counts.hot_updated;
        self.newpage_updated += counts.newpage_updated;
        if counts.truncated {
            (self.live, self.dead, self.inserted_since_vacuum) = (0, 0, 0);
        }
        self.live = moved(self.live, counts.live);
        self.dead = moved(self.dead, counts.dead);
        self.changed_since_analyze += counts.changed;
        self.inserted_since_vacuum += counts.inserted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_never_fall_below_zero_and_a_truncation_resets_some() {
        let mut stats = RelationStats { live: 5, dead: 7, inserted: 9, ..RelationStats::default() };
        let counts = RelationCounts { live: -8, dead: 1, ..RelationCounts::default() };
        stats.add(&counts, None);
        assert_eq!((stats.live, stats.dead), (0, 8));
        stats.inserted_since_vacuum = 4;
        let counts = RelationCounts { truncated: true, live: 2, inserted: 2, ..counts };
        stats.add(&counts, Some(17));
        assert_eq!((stats.live, stats.dead, stats.inserted_since_vacuum), (2, 1, 2));
        assert_eq!((stats.inserted, stats.last_scan), (11, Some(17)));
        stats.add(&counts, None);
        assert_eq!(stats.last_scan, Some(17));
    }
}
