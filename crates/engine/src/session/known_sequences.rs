//! What a session knows of sequences: the values that it has taken, and that it got last.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_catalog::SequenceInfo;
use forebay_format::Lsn;
use forebay_types::Oid;

/// What a session knows of the sequences that it has used.
#[derive(Debug, Default)]
pub(super) struct SessionSequences {
    pub(super) by_oid: HashMap<Oid, Used>,
    /// The one of which it got a value last.
    pub(super) last: Option<Oid>,
}

/// A sequence that a session has used.
#[derive(Debug)]
pub(super) struct Used {
    pub(super) info: Arc<SequenceInfo>,
    /// The version of the shared cache when that was found. None: a transaction found it that had
    /// changed the catalogs.
    pub(super) found_at: Option<u64>,
    /// The value that it got last.
    pub(super) last: Option<i64>,
    /// The last of the values that it has taken: `last`, if no other is left.
    pub(super) cached: i64,
    /// How far the log must be durable for those.
    pub(super) lsn: Lsn,
}

impl SessionSequences {
    /// Forgets everything: DISCARD SEQUENCES.
    pub(super) fn clear(&mut self) {
        *self = SessionSequences::default();
    }

    /// Gives up values that were taken, since the sequence was changed. What it got stays.
    pub(super) fn give_up(&mut self, oid: Oid) {
        if let Some(used) = self.by_oid.get_mut(&oid) {
            used.cached = used.last.unwrap_or_default();
        }
    }

    /// Notes what was found of a sequence. Values from another file count no more.
    pub(super) fn note(&mut self, info: Arc<SequenceInfo>, found_at: Option<u64>) {
        match self.by_oid.get_mut(&info.oid) {
            Some(used) => {
                if used.info.locator != info.locator {
                    used.cached = used.last.unwrap_or_default();
                }
                (used.info, used.found_at) = (info, found_at);
            }
            None => {
                let (last, cached, lsn) = (None, 0, Lsn(0));
                self.by_oid.insert(info.oid, Used { info, found_at, last, cached, lsn });
            }
        }
    }
}

impl Used {
    /// The next value that was taken already.
    pub(super) fn take(&mut self) -> Option<(i64, Lsn)> {
        let last = self.last.filter(|last| *last != self.cached)?;
        let next = last.checked_add(self.info.def.rules.increment)?;
        self.last = Some(next);
        Some((next, self.lsn))
    }
}
