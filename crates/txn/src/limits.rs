//! How far new ids may go: the oldest id that a row still has must not be confused with them.
//! Transaction ids and MultiXacts have the same thresholds.
//!
//! ```text
//!   oldest ─────────── wrap - 40 million ─────── wrap - 3 million ─────── wrap = oldest + 2^31 - 1
//!                      each new id: a warning    no new ids
//! ```

use crate::error::TxnError;
use crate::shortage::{DatabaseName, IdKind, IdWarning, vacuum_hint};

/// Ids before the wrap from which on each new one comes with a warning.
const WARN_MARGIN: u32 = 40_000_000;
/// Ids before the wrap that are not assigned.
const STOP_MARGIN: u32 = 3_000_000;

/// The limits of new ids.
#[derive(Debug)]
pub(crate) struct Limits {
    kind: IdKind,
    oldest: u32,
    /// A database that has the oldest id.
    database: DatabaseName,
    warn: u32,
    stop: u32,
    wrap: u32,
}

impl Limits {
    /// The limits while a row of a database may have the id `oldest`.
    pub(crate) fn new(kind: IdKind, oldest: u32, database: DatabaseName) -> Limits {
        let first = kind.first();
        // As PostgreSQL: past the ids that are never assigned, in the direction of the step.
        let wrap = match oldest.wrapping_add(u32::MAX >> 1) {
            special if special < first => special + first,
            wrap => wrap,
        };
        let before = |margin| match wrap.wrapping_sub(margin) {
            special if special < first => special.wrapping_sub(first),
            limit => limit,
        };
        let (warn, stop) = (before(WARN_MARGIN), before(STOP_MARGIN));
        tracing::debug!(
            "{} wrap limit is {wrap}, limited by database with OID {}",
            match kind {
                IdKind::Xid => "transaction ID",
                IdKind::Multi => "MultiXactId",
            },
            database.oid
        );
        Limits { kind, oldest, database, warn, stop, wrap }
    }

    /// The oldest id that a row may have.
    pub(crate) fn oldest(&self) -> u32 {
        self.oldest
    }

    /// A database that has it.
    pub(crate) fn database(&self) -> &DatabaseName {
        &self.database
    }

    /// Fails if `next` must not be assigned. Some: it may, with a warning.
    #[inline]
    pub(crate) fn check(&self, next: u32) -> Result<Option<IdWarning>, TxnError> {
        if is_before(next, self.warn) { Ok(None) } else { self.check_late(next) }
    }

    #[cold]
    fn check_late(&self, next: u32) -> Result<Option<IdWarning>, TxnError> {
        if !is_before(next, self.stop) {
            return Err(TxnError::OutOfIds { kind: self.kind, database: self.database.clone() });
        }
        let avoid = match (self.kind, &self.database.name) {
            (IdKind::Xid, Some(_)) => Some("transaction ID"),
            (IdKind::Xid, None) => Some("XID"),
            (IdKind::Multi, _) => None,
        };
        Ok(Some(self.warning(next, avoid)))
    }

    /// The warning of limits that were just set, if `next` comes with one.
    pub(crate) fn warning_when_set(&self, next: u32) -> Option<IdWarning> {
        let avoid = match self.kind {
            IdKind::Xid => "XID",
            IdKind::Multi => "MultiXactId",
        };
        (!is_before(next, self.warn)).then(|| self.warning(next, Some(avoid)))
    }

    fn warning(&self, next: u32, avoid: Option<&str>) -> IdWarning {
        let (database, left) = (&self.database, self.wrap.wrapping_sub(next));
        let message = match self.kind {
            IdKind::Xid => format!("{database} must be vacuumed within {left} transactions"),
            IdKind::Multi => {
                let ids = if left == 1 { "MultiXactId is" } else { "MultiXactIds are" };
                format!("{database} must be vacuumed before {left} more {ids} used")
            }
        };
        IdWarning { sqlstate: "01000", message, hint: vacuum_hint(avoid) }
    }
}

/// Whether an id comes before a limit, around the circle.
fn is_before(id: u32, limit: u32) -> bool {
    (id.wrapping_sub(limit) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(kind: IdKind, oldest: u32) -> (u32, u32, u32) {
        let limits = Limits::new(kind, oldest, DatabaseName::default());
        (limits.warn, limits.stop, limits.wrap)
    }

    #[test]
    fn limits_skip_ids_that_are_not_assigned() {
        let wrap = 3 + (u32::MAX >> 1);
        assert_eq!(limits(IdKind::Xid, 3), (wrap - 40_000_000, wrap - 3_000_000, wrap));
        // The wrap would be at 0, and at 2.
        let late = 1 << 31 | 1;
        assert_eq!(limits(IdKind::Xid, late).2, 3);
        assert_eq!(limits(IdKind::Xid, late + 2).2, 5);
        assert_eq!(limits(IdKind::Multi, late).2, 1);
        assert_eq!(limits(IdKind::Multi, late + 1).2, 1);
        // So would the stop.
        let stop_at_1 = late + 3_000_001;
        assert_eq!(limits(IdKind::Xid, stop_at_1).1, u32::MAX - 1);
        assert_eq!(limits(IdKind::Multi, stop_at_1).1, 1);
    }

    #[test]
    fn limits_are_reached_around_the_circle() {
        for oldest in [3, 1 << 30, 1 << 31, u32::MAX - 5, (1 << 31) + 30_000_000] {
            let limits = Limits::new(IdKind::Xid, oldest, DatabaseName::default());
            let left = |next: u32| match limits.check(next) {
                Ok(None) => "plenty",
                Ok(Some(_)) => "few",
                Err(_) => "none",
            };
            assert_eq!([oldest, limits.warn.wrapping_sub(1)].map(left), ["plenty"; 2]);
            assert_eq!([limits.warn, limits.stop.wrapping_sub(1)].map(left), ["few"; 2]);
            assert_eq!([limits.stop, limits.wrap].map(left), ["none"; 2]);
        }
    }

    #[test]
    fn messages_are_those_of_postgresql() {
        let also = "You might also need to commit or roll back old prepared transactions, or drop \
                    stale replication slots.";
        let vacuum = "execute a database-wide VACUUM in that database.";
        let named = DatabaseName { oid: 5, name: Some("app".into()) };
        let cases = [
            (
                IdKind::Xid,
                named.clone(),
                "transaction ID",
                "database \"app\" must be vacuumed \
              within 2 transactions",
            ),
            (
                IdKind::Xid,
                DatabaseName { oid: 5, name: None },
                "XID",
                "database with OID 5 must \
              be vacuumed within 2 transactions",
            ),
        ];
        for (kind, database, ids, message) in cases {
            let limits = Limits::new(kind, 100, database);
            let warning = limits.warning(limits.wrap - 2, Some(ids));
            assert_eq!(warning.message, message);
            assert_eq!(
                warning.hint,
                format!("To avoid {ids} assignment failures, {vacuum}\n{also}")
            );
            assert_eq!(limits.check(limits.warn).unwrap().unwrap().hint, warning.hint);
        }
        let limits = Limits::new(IdKind::Multi, 100, named);
        let warning = limits.check(limits.warn).unwrap().unwrap();
        let message =
            "database \"app\" must be vacuumed before 40000000 more MultiXactIds are used";
        assert_eq!(warning.message, message);
        assert_eq!(
            warning.hint,
            format!("Execute a database-wide VACUUM in that database.\n{also}")
        );
        let message = "database \"app\" must be vacuumed before 1 more MultiXactId is used";
        assert_eq!(limits.warning(limits.wrap - 1, None).message, message);
        let set = limits.warning_when_set(limits.stop).unwrap();
        assert_eq!(set.hint, format!("To avoid MultiXactId assignment failures, {vacuum}\n{also}"));
        assert_eq!(limits.warning_when_set(limits.warn - 1), None);
        let error = limits.check(limits.stop).unwrap_err();
        assert_eq!(error.sqlstate(), "54000");
        assert_eq!(
            error.to_string(),
            "database is not accepting commands that assign new MultiXactIds to avoid wraparound \
             data loss in database \"app\""
        );
        assert_eq!(error.hint().unwrap(), warning.hint);
    }
}
