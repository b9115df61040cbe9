//! Values of sequences: nextval and its relatives.
//!
//! A session takes as many values at a time as CACHE says, and hands them out itself. They are lost
//! when the sequence gets another file, as ALTER SEQUENCE gives it, and when the session ends. No
//! rollback takes back a value.

use std::sync::Arc;

use forebay_access::sequence::{Fetch, FetchedValues, Sequence};
use forebay_catalog::{Reader, SequenceInfo};
use forebay_format::Lsn;
use forebay_format::sequence::SequenceTuple;
use forebay_txn::locks::{LockMode, LockTag};
use forebay_types::Oid;

use super::known_sequences::Used;
use super::state::{Session, no_transaction};
use crate::core::InDatabase;
use crate::error::EngineError;

/// What a sequence's page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceData {
    /// The value that was handed out last, or will be first.
    pub last_value: i64,
    /// Whether it was handed out.
    pub is_called: bool,
    /// The page's LSN.
    pub page_lsn: Lsn,
}

/// Whether a transaction may change permanent sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceAccess {
    /// It may.
    ReadWrite,
    /// It is READ ONLY: it may change only temporary ones.
    ReadOnly,
}

impl SequenceAccess {
    fn check(self, function: &str, sequence: &SequenceInfo) -> Result<(), EngineError> {
        if self == SequenceAccess::ReadWrite || sequence.is_temporary() {
            return Ok(());
        }
        let message = format!("cannot execute {function}() in a read-only transaction");
        Err(EngineError::statement("25006", message))
    }
}

impl Session {
    /// The next value of a sequence, by its OID.
    ///
    /// # Errors
    /// 2200H behind the last value; 42809, XX000 if it is no sequence.
    pub fn nextval(&mut self, oid: Oid, access: SequenceAccess) -> Result<i64, EngineError> {
        self.call(|session, core| {
            let info = session.open_sequence(core, oid)?;
            access.check("nextval", &info)?;
            let taken = session.sequences.by_oid.get_mut(&oid).and_then(Used::take);
            let (value, lsn) = match taken {
                Some(taken) => taken,
                None => {
                    let FetchedValues { first, last, lsn } = session.fetch(core, &info)?;
                    if let Some(used) = session.sequences.by_oid.get_mut(&oid) {
                        (used.last, used.cached, used.lsn) = (Some(first), last, lsn);
                    }
                    (first, lsn)
                }
            };
            session.sequences.last = Some(oid);
            session.running()?.tx.needs_log_to(lsn);
            Ok(value)
        })
    }

    /// Takes values from the page.
    fn fetch(
        &mut self,
        core: &InDatabase,
        info: &SequenceInfo,
    ) -> Result<FetchedValues, EngineError> {
        let sequence = self.sequence(core, info)?;
        let Session { open: Some(open), backend, .. } = self else { return Err(no_transaction()) };
        loop {
            let xid = open.tx.current_xid().or(open.tx.xid()).unwrap_or(0);
            match sequence.fetch(backend, &info.def.rules, xid)? {
                Fetch::Values(values) => return Ok(values),
                Fetch::NeedsId => {
                    core.xacts.assign_top(&mut backend.io, &mut open.tx)?;
                }
                Fetch::Exhausted => {
                    let rules = info.def.rules;
                    let (what, value) = match rules.increment > 0 {
                        true => ("maximum", rules.max),
                        false => ("minimum", rules.min),
                    };
                    let name = &info.name;
                    let message =
                        format!("nextval: reached {what} value of sequence \"{name}\" ({value})");
                    return Err(EngineError::statement("2200H", message));
                }
            }
        }
    }

    /// The value that the session got last of a sequence. 55000 if it got none.
    pub fn currval(&mut self, oid: Oid) -> Result<i64, EngineError> {
        self.call(|session, core| {
            let info = session.open_sequence(core, oid)?;
            let last = session.sequences.by_oid.get(&oid).and_then(|used| used.last);
            last.ok_or_else(|| {
                let name = &info.name;
                let message =
                    format!("currval of sequence \"{name}\" is not yet defined in this session");
                EngineError::statement("55000", message)
            })
        })
    }

    /// The value that the session got last of any sequence that is still there. 55000 if there is
    /// none.
    pub fn lastval(&mut self) -> Result<i64, EngineError> {
        self.call(|session, core| {
            let undefined =
                || EngineError::statement("55000", "lastval is not yet defined in this session");
            let oid = session.sequences.last.ok_or_else(undefined)?;
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut session.backend, snapshot);
            reader.class(oid)?.ok_or_else(undefined)?;
            session.open_sequence(core, oid)?;
            let used = session.sequences.by_oid.get(&oid);
            used.and_then(|used| used.last).ok_or_else(undefined)
        })
    }

    /// Sets a sequence. `is_called`: the value counts as handed out. 22003 if it is out of bounds.
    pub fn setval(
        &mut self,
        oid: Oid,
        (value, is_called): (i64, bool),
        access: SequenceAccess,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            let info = session.open_sequence(core, oid)?;
            access.check("setval", &info)?;
            let (min, max) = (info.def.rules.min, info.def.rules.max);
            if !(min..=max).contains(&value) {
                let message = format!(
                    "setval: value {value} is out of bounds for sequence \"{}\" ({min}..{max})",
                    info.name
                );
                return Err(EngineError::statement("22003", message));
            }
            let sequence = session.sequence(core, &info)?;
            let Session { open: Some(open), backend, sequences, .. } = session else {
                return Err(no_transaction());
            };
            if sequence.logged {
                core.xacts.assign_top(&mut backend.io, &mut open.tx)?;
            }
            let xid = open.tx.current_xid().or(open.tx.xid()).unwrap_or(0);
            let tuple = SequenceTuple { last_value: value, log_count: 0, is_called };
            let lsn = sequence.set(backend, xid, tuple)?;
            open.tx.needs_log_to(lsn);
            if let Some(used) = sequences.by_oid.get_mut(&oid) {
                if is_called {
                    used.last = Some(value);
                }
                (used.cached, used.lsn) = (used.last.unwrap_or_default(), lsn);
            }
            Ok(())
        })
    }

    /// What a sequence's page says.
    pub fn sequence_data(&mut self, oid: Oid) -> Result<SequenceData, EngineError> {
        self.call(|session, core| {
            let info = session.open_sequence(core, oid)?;
            let (tuple, page_lsn) = session.sequence(core, &info)?.read(&mut session.backend)?;
            let SequenceTuple { last_value, is_called, .. } = tuple;
            Ok(SequenceData { last_value, is_called, page_lsn })
        })
    }

    /// What the catalogs say of a sequence.
    pub fn sequence_info(&mut self, oid: Oid) -> Result<Arc<SequenceInfo>, EngineError> {
        self.call(|session, core| session.open_sequence(core, oid))
    }

    /// All sequences, without those of other sessions.
    pub fn all_sequences(&mut self) -> Result<Vec<SequenceInfo>, EngineError> {
        self.call(|session, core| {
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut session.backend, snapshot);
            let mut all = reader.sequences()?;
            let own = session.temp.namespace();
            all.retain(|sequence| !sequence.is_temporary() || sequence.schema == own);
            Ok(all)
        })
    }

    /// Forgets which values it got, and those that it has taken: DISCARD SEQUENCES.
    pub fn discard_sequences(&mut self) {
        self.sequences.clear();
    }

    /// Locks a sequence for its values, and finds it. Nobody changes it until the transaction ends.
    fn open_sequence(
        &mut self,
        core: &InDatabase,
        oid: Oid,
    ) -> Result<Arc<SequenceInfo>, EngineError> {
        let tag = LockTag::Relation { database: core.database.oid, relation: oid };
        if !self.locks.holds_at_least(tag, LockMode::RowExclusive) {
            self.lock(core, tag, LockMode::RowExclusive)?;
        }
        self.find_sequence(core, oid)
    }

    /// A sequence as the transaction sees it.
    pub(super) fn find_sequence(
        &mut self,
        core: &InDatabase,
        oid: Oid,
    ) -> Result<Arc<SequenceInfo>, EngineError> {
        let cache = &core.database.cache;
        let open = self.running()?;
        if open.changed_catalogs {
            let moved = cache.moved();
            if open.found_at != moved {
                open.forget_tables();
                open.found_at = moved;
            }
            if let Some(info) = open.own_sequences.get(&oid) {
                return Ok(Arc::clone(info));
            }
        } else if let Some(used) = self.sequences.by_oid.get(&oid)
            && used.found_at == Some(cache.moved())
        {
            return Ok(Arc::clone(&used.info));
        }
        let version = cache.version();
        let open = self.running()?;
        let changed_catalogs = open.changed_catalogs;
        let known = cache.sequence(oid).filter(|_| !changed_catalogs);
        let info = match known {
            Some(known) => known,
            None => {
                let snapshot = core.xacts.snapshot(&open.tx);
                let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
                let info = Arc::new(reader.sequence(oid)?);
                match changed_catalogs {
                    true => drop(self.running()?.own_sequences.insert(oid, Arc::clone(&info))),
                    false => cache.put_sequence(version, &info),
                }
                info
            }
        };
        let found_at = version.filter(|_| !changed_catalogs);
        self.sequences.note(Arc::clone(&info), found_at);
        Ok(info)
    }

    /// A sequence with its pages. Another session's temporary sequence is refused.
    pub(super) fn sequence(
        &mut self,
        core: &InDatabase,
        info: &SequenceInfo,
    ) -> Result<Sequence, EngineError> {
        self.check_owned(info.owner, "use", || format!("sequence \"{}\"", info.name))?;
        let logged = info.persistence == b'p';
        let sequence = Sequence::new(&core.heaps, &info.name, info.locator, logged);
        if !info.is_temporary() {
            return Ok(sequence);
        }
        if info.schema != self.temp.namespace() {
            let message = "cannot access temporary tables of other sessions";
            return Err(EngineError::statement("0A000", message));
        }
        Ok(Sequence { pool: self.temp_pool(core)?, ..sequence })
    }
}
