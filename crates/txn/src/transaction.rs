//! What a session carries from begin to commit.

use forebay_aio::sync::{Arc, RwLock};
use forebay_format::ids::{INVALID_COMMAND_ID, INVALID_OID};
use forebay_format::wal::invalidation::Invalidation;
use forebay_format::{CommandId, FullXid, Oid, RelFileLocator, Xid};

use crate::combo::ComboCommands;
use crate::error::TxnError;
use crate::notes::{Notes, NotesBefore};
use crate::shortage::IdWarning;

/// The transaction itself, or a subtransaction in it.
#[derive(Debug, Default)]
pub(crate) struct Level {
    pub(crate) xid: Option<FullXid>,
    /// Subtransactions that were released into this one, oldest first.
    pub(crate) children: Vec<FullXid>,
    /// Where its notes begin.
    notes: NotesBefore,
}

/// The subtransactions of the own transaction that have not aborted, oldest first. Clones share
/// them: a snapshot sees no row of a subtransaction that was rolled back after it was taken. None
/// if there was none yet: later ones lie beyond the snapshot anyway.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnSubxacts(Option<Arc<RwLock<Vec<Xid>>>>);

impl OwnSubxacts {
    #[inline]
    pub(crate) fn contains(&self, xid: Xid) -> bool {
        self.0.as_ref().is_some_and(|xids| search(&xids.read(), xid))
    }

    pub(crate) fn add(&mut self, xid: Xid) {
        self.0.get_or_insert_default().write().push(xid);
    }

    /// A subtransaction aborted. All later ids are those of its own subtransactions.
    fn remove_from(&self, xid: Xid) {
        let mut xids = self.0.as_ref().expect("a subtransaction with an id is noted").write();
        let at =
            xids.iter().rposition(|x| *x == xid).expect("a subtransaction with an id is noted");
        xids.truncate(at);
    }
}

fn search(xids: &[Xid], xid: Xid) -> bool {
    let Some(&first) = xids.first() else { return false };
    // They lie within 2^31 of each other, so the distance from the oldest orders them.
    let distance = |x: Xid| x.wrapping_sub(first);
    xids.binary_search_by_key(&distance(xid), |&x| distance(x)).is_ok()
}

/// A running transaction. It has an id only once it has written.
///
/// It must be given to [`commit`](crate::XactManager::commit) or
/// [`abort`](crate::XactManager::abort). Dropped, its id would count as running forever.
#[derive(Debug)]
pub struct Transaction {
    database: Oid,
    backend: u32,
    /// The transaction itself.
    top: Level,
    /// The subtransactions that are open in it, outermost first. Where one has an id, all around it
    /// have older ones.
    open: Vec<Level>,
    pub(crate) own: OwnSubxacts,
    /// Ids of subtransactions that no assignment record has named yet.
    pub(crate) unreported: Vec<Xid>,
    command: CommandId,
    command_used: bool,
    combos: ComboCommands,
    pub(crate) notes: Notes,
    /// What is to be said about ids that it was given, or the one before it.
    pub(crate) warnings: Vec<IdWarning>,
}

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
            backend: 0,
            top: Level::default(),
            open: Vec::new(),
            own: OwnSubxacts::default(),
            unreported: Vec::new(),
            command: 0,
            command_used: false,
            combos: ComboCommands::default(),
            notes: Notes::default(),
            warnings: Vec::new(),
        }
    }

    /// The same, of a backend: others that wait for it wait for that backend.
    #[must_use]
    pub fn of_backend(self, backend: u32) -> Transaction {
        Transaction { backend, ..self }
    }

    /// A transaction that has done nothing yet, where this one is. It takes the warnings along.
    pub(crate) fn another(&mut self) -> Transaction {
        let warnings = self.take_warnings();
        let another = Transaction::in_database(self.database).of_backend(self.backend);
        Transaction { warnings, ..another }
    }

    /// Takes the warnings about ids that it was given. They outlive its end.
    pub fn take_warnings(&mut self) -> Vec<IdWarning> {
        std::mem::take(&mut self.warnings)
    }

    /// The backend that it is of; 0 if nobody ever waits for it.
    pub fn backend(&self) -> u32 {
        self.backend
    }

    /// The database in which it runs; 0 if it may be any.
    pub fn database(&self) -> Oid {
        self.database
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

    /// The ids of the innermost open subtransaction and of those released into it.
    pub fn innermost_xids(&self) -> Vec<Xid> {
        let Some(level) = self.open.last() else { return Vec::new() };
        level.xid.iter().chain(&level.children).map(|xid| xid.xid()).collect()
    }

    fn innermost(&self) -> &Level {
        self.open.last().unwrap_or(&self.top)
    }

    /// All levels, the transaction itself first.
    pub(crate) fn levels_mut(&mut self) -> impl Iterator<Item = &mut Level> {
        std::iter::once(&mut self.top).chain(&mut self.open)
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
        let level = self.pop();
        let parent = self.open.last_mut().unwrap_or(&mut self.top);
        debug_assert!(level.xid.is_none() || parent.xid.is_some());
        parent.children.extend(level.xid);
        parent.children.extend(level.children);
    }

    fn pop(&mut self) -> Level {
        self.open.pop().expect("a subtransaction is open")
    }

    /// Removes the innermost subtransaction, which has aborted. Returns it with its notes.
    pub(crate) fn pop_aborted(&mut self) -> (Level, Notes) {
        let level = self.pop();
        let notes = self.notes.split_off(level.notes);
        if let Some(xid) = level.xid {
            self.own.remove_from(xid.xid());
            self.unreported.retain(|x| *x != xid.xid() && !has_xid(&level.children, *x));
        }
        (level, notes)
    }

    /// All subtransactions with an id that have not aborted, oldest first.
    pub fn subxacts(&self) -> Vec<Xid> {
        let mut all = self.top.children.clone();
        for level in &self.open {
            all.extend(level.xid);
            all.extend(&level.children);
        }
        all.sort_unstable();
        all.into_iter().map(FullXid::xid).collect()
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

    /// It has locked a relation exclusively, and that was logged for standbys.
    pub fn note_exclusive_lock(&mut self) {
        self.notes.exclusive_locks = true;
    }
}

fn has_xid(xids: &[FullXid], xid: Xid) -> bool {
    xids.iter().any(|x| x.xid() == xid)
}
