//! How far recovery goes: the record at which PostgreSQL's recovery_target settings are reached.
//!
//! | target | stops before | stops after |
//! |---|---|---|
//! | consistency (`immediate`) | the first record after it | - |
//! | time, inclusive | the first end of a transaction that is later | - |
//! | time, exclusive | the first end of a transaction at that time or later | - |
//! | LSN, inclusive | - | the first record that begins there or later |
//! | LSN, exclusive | the first record that begins there or later | - |
//! | transaction, inclusive | - | its end |
//! | transaction, exclusive | its end | - |
//! | name | - | the restore point of that name |

use forebay_format::wal::{Rmgr, xact, xlog};
use forebay_format::{Lsn, Xid};
use forebay_txn::redo::{RedoError, RedoRecord};

use crate::clock::show;
use crate::config::RecoveryTarget;

/// Where recovery has stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stop {
    /// For the log: "recovery stopping before commit of transaction 7, time ...".
    pub(super) message: String,
    /// For the history file of the timeline that begins there.
    pub(super) reason: String,
}

/// Compares each record with the target.
pub(super) struct Stopper<'a> {
    target: Option<&'a RecoveryTarget>,
    inclusive: bool,
}

/// The end of a transaction.
struct End {
    xid: Xid,
    time: i64,
    committed: bool,
}

impl End {
    fn of(record: &RedoRecord<'_>) -> Result<Option<End>, RedoError> {
        let header = &record.record.header;
        if header.rmgr != Rmgr::XACT {
            return Ok(None);
        }
        let kind = header.info & xact::OPMASK;
        let committed = matches!(kind, xact::COMMIT | xact::COMMIT_PREPARED);
        if !committed && !matches!(kind, xact::ABORT | xact::ABORT_PREPARED) {
            return Ok(None);
        }
        let end = xact::XactEnd::decode(header.info, record.record.main)
            .map_err(|error| record.damaged(error.to_string()))?;
        Ok(Some(End { xid: end.prepared_xid.unwrap_or(header.xid), time: end.time, committed }))
    }

    fn stop(&self, side: &str, reason: String) -> Stop {
        let what = if self.committed { "commit" } else { "abort" };
        let message = format!(
            "recovery stopping {side} {what} of transaction {}, time {}",
            self.xid,
            show(self.time)
        );
        Stop { message, reason }
    }
}

impl<'a> Stopper<'a> {
    pub(super) fn new(target: Option<&'a RecoveryTarget>, inclusive: bool) -> Stopper<'a> {
        Stopper { target, inclusive }
    }

    /// Whether to stop before a record is redone. `consistent`: the files are consistent.
    pub(super) fn before(
        &self,
        record: &RedoRecord<'_>,
        consistent: bool,
    ) -> Result<Option<Stop>, RedoError> {
        let Some(target) = self.target else { return Ok(None) };
        match target {
            RecoveryTarget::Immediate if consistent => {
                let message = "recovery stopping after reaching consistency".to_owned();
                return Ok(Some(Stop { message, reason: "reached consistency".to_owned() }));
            }
            RecoveryTarget::Lsn(lsn) if !self.inclusive && record.start >= *lsn => {
                return Ok(Some(lsn_stop("before", record.start, *lsn)));
            }
            RecoveryTarget::Time(_) | RecoveryTarget::Xid(_) => {}
            _ => return Ok(None),
        }
        let Some(end) = End::of(record)? else { return Ok(None) };
        Ok(match *target {
            RecoveryTarget::Xid(xid) if !self.inclusive && end.xid == xid => {
                Some(end.stop("before", format!("before transaction {xid}")))
            }
            RecoveryTarget::Time(time)
                if end.time > time || !self.inclusive && end.time == time =>
            {
                Some(end.stop("before", format!("before {}", show(end.time))))
            }
            _ => None,
        })
    }

    /// Whether to stop after a record that was redone.
    pub(super) fn after(&self, record: &RedoRecord<'_>) -> Result<Option<Stop>, RedoError> {
        let Some(target) = self.target else { return Ok(None) };
        match target {
            RecoveryTarget::Name(name) => {
                let header = &record.record.header;
                if header.rmgr != Rmgr::XLOG || record.kind() != xlog::RESTORE_POINT {
                    return Ok(None);
                }
                let point = xlog::RestorePoint::decode(record.record.main)
                    .map_err(|error| record.damaged(error.to_string()))?;
                let stop = || Stop {
                    message: format!(
                        "recovery stopping at restore point \"{name}\", time {}",
                        show(point.time)
                    ),
                    reason: format!("at restore point \"{name}\""),
                };
                Ok((point.name == name.as_bytes()).then(stop))
            }
            RecoveryTarget::Lsn(lsn) if self.inclusive && record.start >= *lsn => {
                Ok(Some(lsn_stop("after", record.start, *lsn)))
            }
            RecoveryTarget::Xid(xid) if self.inclusive => {
                let end = End::of(record)?.filter(|end| end.xid == *xid);
                Ok(end.map(|end| end.stop("after", format!("after transaction {xid}"))))
            }
            _ => Ok(None),
        }
    }
}

fn lsn_stop(side: &str, at: Lsn, target: Lsn) -> Stop {
    Stop {
        message: format!("recovery stopping {side} WAL location (LSN) \"{at}\""),
        reason: format!("{side} LSN {target}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RestoreSettings;
    use forebay_format::wal::{RecordBuilder, decode_record};

    /// Which of before and after stops, with the reason.
    fn stops(
        target: &RecoveryTarget,
        inclusive: bool,
        bytes: &[u8],
        at: u64,
    ) -> (Option<String>, Option<String>) {
        let decoded = decode_record(bytes).expect("decodable");
        let record = RedoRecord { start: Lsn(at), end: Lsn(at + 100), record: &decoded };
        let stopper = Stopper::new(Some(target), inclusive);
        let reason =
            |stop: Result<Option<Stop>, RedoError>| stop.expect("a good record").map(|s| s.reason);
        (reason(stopper.before(&record, false)), reason(stopper.after(&record)))
    }

    fn commit(xid: Xid, time: i64) -> Vec<u8> {
        let mut main = Vec::new();
        let info = xact::XactEnd::at(time).encode(&mut main);
        RecordBuilder::new(Rmgr::XACT, xact::COMMIT | info, xid)
            .main(&main)
            .finish()
            .expect("a record")
            .to_vec()
    }

    fn point(name: &str) -> Vec<u8> {
        let main = xlog::RestorePoint { time: 5, name: name.into() }.encode();
        RecordBuilder::new(Rmgr::XLOG, xlog::RESTORE_POINT, 0)
            .main(&main)
            .finish()
            .expect("a record")
            .to_vec()
    }

    #[test]
    fn time_stops_before_the_first_transaction_behind_it() {
        let target = RecoveryTarget::Time(1000);
        for (time, inclusive, stopped) in [
            (999, true, false),
            (1000, true, false),
            (1001, true, true),
            (999, false, false),
            (1000, false, true),
        ] {
            let (before, after) = stops(&target, inclusive, &commit(7, time), 500);
            assert_eq!((before.is_some(), after), (stopped, None), "{time}, {inclusive}");
        }
        // Other records have no time.
        assert_eq!(stops(&RecoveryTarget::Time(1), true, &point("x"), 500), (None, None));
    }

    #[test]
    fn an_lsn_is_where_a_record_begins() {
        let target = RecoveryTarget::Lsn(Lsn(500));
        let record = point("x");
        assert_eq!(stops(&target, true, &record, 492), (None, None));
        assert_eq!(stops(&target, true, &record, 500), (None, Some("after LSN 0/1F4".to_owned())));
        assert_eq!(stops(&target, true, &record, 508), (None, Some("after LSN 0/1F4".to_owned())));
        assert_eq!(stops(&target, false, &record, 492), (None, None));
        assert_eq!(stops(&target, false, &record, 500).0, Some("before LSN 0/1F4".to_owned()));
    }

    #[test]
    fn a_transaction_is_stopped_at_its_end() {
        let target = RecoveryTarget::Xid(7);
        assert_eq!(stops(&target, true, &commit(6, 1), 500), (None, None));
        assert_eq!(
            stops(&target, true, &commit(7, 1), 500),
            (None, Some("after transaction 7".to_owned()))
        );
        assert_eq!(
            stops(&target, false, &commit(7, 1), 500),
            (Some("before transaction 7".to_owned()), None)
        );
    }

    #[test]
    fn a_name_is_that_of_a_restore_point() {
        let target = RecoveryTarget::Name("here".to_owned());
        assert_eq!(stops(&target, true, &point("there"), 500), (None, None));
        assert_eq!(stops(&target, true, &commit(7, 1), 500), (None, None));
        let reason = Some("at restore point \"here\"".to_owned());
        assert_eq!(stops(&target, false, &point("here"), 500), (None, reason));
    }

    #[test]
    fn consistency_is_enough_for_immediate() {
        let bytes = point("x");
        let decoded = decode_record(&bytes).expect("decodable");
        let record = RedoRecord { start: Lsn(1), end: Lsn(2), record: &decoded };
        let stopper = Stopper::new(Some(&RecoveryTarget::Immediate), true);
        assert!(stopper.before(&record, false).expect("good").is_none());
        assert!(stopper.before(&record, true).expect("good").is_some());
    }

    #[test]
    fn there_is_one_target_at_most() {
        let mut settings = RestoreSettings::default();
        assert_eq!(settings.target().expect("none"), None);
        settings.targets = vec![RecoveryTarget::Xid(7)];
        assert_eq!(settings.target().expect("one"), Some(&RecoveryTarget::Xid(7)));
        settings.targets.push(RecoveryTarget::Immediate);
        let error = settings.target().expect_err("two");
        assert!(
            error
                .detail()
                .expect("a detail")
                .ends_with("\"recovery_target_xid\" and \"recovery_target\" are.")
        );
    }
}
