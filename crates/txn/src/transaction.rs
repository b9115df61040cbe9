//! What a session carries from begin to commit.

use std::sync::Arc;

use forebay_format::ids::{DEFAULT_TABLESPACE, INVALID_COMMAND_ID, INVALID_OID, xid_precedes};
use forebay_format::wal::invalidation::Invalidation;
use forebay_format::{CommandId, FullXid, Lsn, Oid, RelFileLocator, Xid};

use crate::combo::ComboCommands;
use crate::counts::{CountedRelation, Counts, ReadCounter};
use crate::error::TxnError;
use crate::notes::{Notes, NotesBefore};
use crate::shortage::IdWarning;
use crate::subxids::Subxids;

/// The transaction itself, or a subtransaction in it.
#[derive(Debug, Default)]
pub(crate) struct Level {
    pub(crate) xid: Option<FullXid>,
    /// Where its notes begin.
    notes: NotesBefore,
}

/// A running transaction. It has an id only once it has written.
///
/// It must be given to [`commit`](crate::XactManager::commit) or
/// [`abort`](crate::XactManager::abort). Dropped, its id would count as running forever.
#[derive(Debug)]
pub struct Transaction {
    database: Oid,
    /// The database's tablespace.
    tablespace: Oid,
    /// The role that owns what it creates.
    role: Oid,
    backend: u32,
    /// The transaction itself.
    pub(crate) top: Level,
    /// The subtransactions that are open in it, outermost first. Where one has an id, all around it
    /// have older ones.
    pub(crate) open: Vec<Level>,
    /// Its subtransactions that have an id and have not aborted: those that are open, and those
    /// released into them. Whatever began in a subtransaction has a later id, so that the ids of a
    /// subtransaction are a tail of this list when it ends.
    pub(crate) own: Subxids,
    /// Ids of subtransactions that no assignment record has named yet.
    pub(crate) unreported: Vec<Xid>,
    command: CommandId,
    command_used: bool,
    combos: ComboCommands,
    pub(crate) notes: Notes,
    /// For statistics.
    pub(crate) counts: Counts,
    /// What is to be said about ids that it was given, or the one before it.
    pub(crate) warnings: Vec<IdWarning>,
    /// How far the log must be durable before its commit is acknowledged, beside its own record.
    pub(crate) needs_log: Lsn,
}

/// The superuser with which a cluster is made.
const BOOTSTRAP_ROLE: Oid = 10;

impl Default for Transaction {
    fn default() -> Transaction {
        Transaction::in_database(INVALID_OID)
    }
}

impl Transaction {
    /// A transaction that has done nothing yet, and may read any database.
    pub fn new() -> Transaction {
        Transaction::default()
    }

    /// A transaction that has done nothing yet. It reads only `database` and what all databases
    /// share, so it does not hold back the horizons of others.
    pub fn in_database(database: Oid) -> Transaction {
        Transaction {
            database,
            tablespace: DEFAULT_TABLESPACE,
            role: BOOTSTRAP_ROLE,
            backend: 0,
            top: Level::default(),
            open: Vec::new(),
            own: Subxids::default(),
            unreported: Vec::new(),
            command: 0,
            command_used: false,
            combos: ComboCommands::default(),
            notes: Notes::default(),
            counts: Counts::default(),
            warnings: Vec::new(),
            needs_log: Lsn(0),
        }
    }

    /// The same; the database's own files are in this tablespace.
    #[must_use]
    pub fn with_tablespace(self, tablespace: Oid) -> Transaction {
        Transaction { tablespace, ..self }
    }

    /// The same; this role owns what it creates.
    #[must_use]
    pub fn with_role(self, role: Oid) -> Transaction {
        Transaction { role, ..self }
    }

    /// From now on this role owns what it creates.
    pub fn set_role(&mut self, role: Oid) {
        self.role = role;
    }

    /// The same, of a backend: others that wait for it wait for that backend.
    #[must_use]
    pub fn of_backend(self, backend: u32) -> Transaction {
        Transaction { backend, ..self }
    }

    /// A transaction that has done nothing yet, where this one is. It takes the warnings along.
    pub(crate) fn another(&mut self) -> Transaction {
        let warnings = self.take_warnings();
        let another = Transaction::in_database(self.database)
            .with_tablespace(self.tablespace)
            .with_role(self.role)
            .of_backend(self.backend);
        Transaction { warnings, ..another }
    }

    /// Takes the warnings about ids that it was given. They outlive its end.
    pub fn take_warnings(&mut self) -> Vec<IdWarning> {
        std::mem::take(&mut self.warnings)
    }

    /// It has seen something that others have logged up to here, and that must outlive a crash if
    /// its commit is acknowledged: the value of a sequence.
    pub fn needs_log_to(&mut self, lsn: Lsn) {
        self.needs_log = self.needs_log.max(lsn);
    }

    /// The backend that it is of; 0 if nobody ever waits for it.
    pub fn backend(&self) -> u32 {
        self.backend
    }

    /// The database in which it runs; 0 if it may be any.
    pub fn database(&self) -> Oid {
        self.database
    }

    /// The role that owns what it creates.
    pub fn role(&self) -> Oid {
        self.role
    }

    /// The database in which it runs, and the tablespace of that.
    pub(crate) fn place(&self) -> (Oid, Oid) {
        (self.database, self.tablespace)
    }

    /// Its id, if it has written.
    pub fn xid(&self) -> Option<Xid> {
        self.full_xid().map(FullXid::xid)
    }

    /// Its id with the epoch, if it has written.
    pub fn full_xid(&self) -> Option<FullXid> {
        self.top.xid
    }

    /// The id of the innermost open subtransaction, or of the transaction if none is open, if it
    /// has written.
    pub fn current_xid(&self) -> Option<Xid> {
        self.innermost().xid.map(FullXid::xid)
    }

    /// Whether `xid` is this transaction, or one of its subtransactions that has not aborted.
    #[inline]
    pub fn is_own(&self, xid: Xid) -> bool {
        self.xid() == Some(xid) || self.own.contains(xid)
    }

    /// Number of open subtransactions.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// The ids of the innermost open subtransaction and of those released into it, oldest first.
    pub fn innermost_xids(&self) -> Vec<Xid> {
        let xid = self.open.last().and_then(|level| level.xid);
        xid.map_or_else(Vec::new, |xid| self.own.since(xid.xid()))
    }

    fn innermost(&self) -> &Level {
        self.open.last().unwrap_or(&self.top)
    }

    /// Opens a subtransaction (SAVEPOINT).
    pub fn begin_sub(&mut self) {
        self.open.push(Level { notes: self.notes.before(), ..Level::default() });
    }

    /// Commits the innermost subtransaction into the one around it (RELEASE SAVEPOINT). Its outcome
    /// is that of the whole transaction.
    ///
    /// # Panics
    /// If no subtransaction is open.
    pub fn release_sub(&mut self) {
        self.counts.release(self.open.len());
        let level = self.pop();
        debug_assert!(level.xid.is_none() || self.innermost().xid.is_some());
    }

    fn pop(&mut self) -> Level {
        self.open.pop().expect("a subtransaction is open")
    }

    /// Removes the innermost subtransaction, which aborts. Returns its id with its notes. Its ids
    /// stay in the list until others know of its end.
    pub(crate) fn pop_aborted(&mut self) -> (Option<FullXid>, Notes) {
        let depth = self.open.len();
        let level = self.pop();
        let notes = self.notes.split_off(level.notes);
        self.counts.abort(depth, &notes.forgotten_stats(false));
        if let Some(xid) = level.xid {
            self.unreported.retain(|x| xid_precedes(*x, xid.xid()));
        }
        (level.xid, notes)
    }

    /// All subtransactions with an id that have not aborted, oldest first.
    pub fn subxacts(&self) -> Vec<Xid> {
        self.own.all()
    }

    /// The running command, for reading.
    pub fn command(&self) -> CommandId {
        self.command
    }

    /// The running command, to be written into tuples. The next statement gets another one.
    pub fn use_command(&mut self) -> CommandId {
        self.command_used = true;
        self.command
    }

    /// Makes visible to the transaction what it has written so far: begins a new command, if this
    /// one wrote.
    pub fn next_command(&mut self) -> Result<(), TxnError> {
        if self.command_used {
            let next = self.command.wrapping_add(1);
            if next == INVALID_COMMAND_ID {
                return Err(TxnError::OutOfCommands);
            }
            self.command = next;
            self.command_used = false;
        }
        Ok(())
    }

    /// Its combined command ids.
    pub fn combos(&self) -> &ComboCommands {
        &self.combos
    }

    /// The relation was dropped: its files are removed if the transaction commits.
    pub fn drop_at_commit(&mut self, rel: RelFileLocator) {
        self.notes.drop_file(rel, true);
    }

    /// The relation was created: its files are removed if the transaction aborts.
    pub fn drop_at_abort(&mut self, rel: RelFileLocator) {
        self.notes.drop_file(rel, false);
    }

    /// Whether the innermost open subtransaction, or the transaction itself if none is open, has
    /// made the relation's files.
    pub fn has_made(&self, rel: RelFileLocator) -> bool {
        self.notes.has_made(rel, self.innermost().notes)
    }

    /// A relation was created, or dropped: its statistics go with it. The record of the end says
    /// so, for standbys.
    pub fn note_relation(&mut self, oid: Oid, created: bool) {
        self.notes.drop_stats(oid, !created);
    }

    /// What caches know is out of date once the transaction has committed. Its record says so, for
    /// standbys.
    pub fn invalidate(&mut self, message: Invalidation) {
        self.notes.invalidate(message);
    }

    /// What caches know that will be out of date once it has committed.
    pub fn invalidations(&self) -> &[Invalidation] {
        self.notes.invalidations()
    }

    /// It has locked a relation exclusively, and that was logged for standbys.
    pub fn note_exclusive_lock(&mut self) {
        self.notes.exclusive_locks = true;
    }
    /// What it has counted for statistics.
    pub fn counts(&mut self) -> &mut Counts {
        &mut self.counts
    }

    /// Counts rows that it has inserted.
    pub fn count_inserted(&mut self, into: CountedRelation, rows: u64) {
        self.counts.inserted(into, self.open.len(), rows);
    }

    /// Counts a row that it has updated: whether no index needs an entry, and whether the new
    /// version is on another page.
    pub fn count_updated(&mut self, of: CountedRelation, hot: bool, newpage: bool) {
        self.counts.updated(of, self.open.len());
        self.counts.count(of, |counts| {
            counts.hot_updated += u64::from(hot);
            counts.newpage_updated += u64::from(newpage);
        });
    }

    /// Counts rows that it has deleted.
    pub fn count_deleted(&mut self, from: CountedRelation, rows: u64) {
        self.counts.deleted(from, self.open.len(), rows);
    }

    /// Counts that it has truncated a table.
    pub fn count_truncated(&mut self, table: CountedRelation) {
        self.counts.truncated(table, self.open.len());
    }

    /// Counts a scan of a relation. What it reads is to be counted there.
    pub fn count_scan(&mut self, of: CountedRelation) -> Arc<ReadCounter> {
        self.counts.scan(of)
    }

    /// Where reads of a relation are counted.
    pub fn count_reads(&mut self, of: CountedRelation) -> Arc<ReadCounter> {
        self.counts.reads(of)
    }
}
