//! The timeline on which recovery is. Records say when it changes.

use forebay_format::timeline::TimelineHistory;
use forebay_format::wal::{Rmgr, xlog};
use forebay_txn::redo::{RedoError, RedoRecord};

/// Follows the timeline from record to record.
pub(super) struct Follower<'a> {
    history: &'a TimelineHistory,
    timeline: u32,
}

impl<'a> Follower<'a> {
    pub(super) fn new(history: &'a TimelineHistory, timeline: u32) -> Follower<'a> {
        Follower { history, timeline }
    }

    /// The timeline of the last record.
    pub(super) fn timeline(&self) -> u32 {
        self.timeline
    }

    /// Notes a record's timeline. Fails if it contradicts the history.
    pub(super) fn follow(&mut self, record: &RedoRecord<'_>) -> Result<(), RedoError> {
        if record.record.header.rmgr != Rmgr::XLOG {
            return Ok(());
        }
        let damaged = |error: forebay_format::wal::PayloadError| record.damaged(error.to_string());
        let (timeline, before) = match record.kind() {
            xlog::CHECKPOINT_SHUTDOWN => {
                let checkpoint = xlog::CheckPoint::decode(record.record.main).map_err(damaged)?;
                (checkpoint.timeline, checkpoint.prev_timeline)
            }
            xlog::END_OF_RECOVERY => {
                let end = xlog::EndOfRecovery::decode(record.record.main).map_err(damaged)?;
                (end.timeline, end.prev_timeline)
            }
            _ => return Ok(()),
        };
        if timeline == self.timeline {
            return Ok(());
        }
        if before != self.timeline {
            let have = self.timeline;
            return Err(record.damaged(format!(
                "it says that timeline {before} came before it, but it was {have}"
            )));
        }
        if timeline < self.timeline || !self.history.contains(timeline) {
            let from = self.timeline;
            return Err(record.damaged(format!(
                "it leads from timeline {from} to {timeline}, which is not of its history"
            )));
        }
        self.timeline = timeline;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_format::Lsn;
    use forebay_format::wal::{RecordBuilder, decode_record, xlog::EndOfRecovery};

    fn follow(
        follower: &mut Follower<'_>,
        timeline: u32,
        prev_timeline: u32,
    ) -> Result<(), RedoError> {
        let main = EndOfRecovery { time: 0, timeline, prev_timeline, wal_level: 1 }.encode();
        let record = RecordBuilder::new(Rmgr::XLOG, xlog::END_OF_RECOVERY, 0)
            .main(&main)
            .finish()
            .expect("a record");
        let bytes = record.to_vec();
        let decoded = decode_record(&bytes).expect("decodable");
        follower.follow(&RedoRecord { start: Lsn(100), end: Lsn(200), record: &decoded })
    }

    #[test]
    fn a_timeline_is_left_only_for_one_of_its_history() {
        let history = TimelineHistory::alone(1).branch(3, Lsn(100));
        let mut follower = Follower::new(&history, 1);
        follow(&mut follower, 1, 1).expect("stays");
        assert!(follow(&mut follower, 2, 1).is_err(), "not of the history");
        assert!(follow(&mut follower, 3, 2).is_err(), "another one before it");
        assert_eq!(follower.timeline(), 1);
        follow(&mut follower, 3, 1).expect("switches");
        assert_eq!(follower.timeline(), 3);
        assert!(follow(&mut follower, 1, 3).is_err(), "never back");
    }
}
