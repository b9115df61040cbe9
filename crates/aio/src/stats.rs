//! [`IoStats`]: the counters of pg_stat_io, by backend type, object and context.
//!
//! Each backend counts in its own matrix, so processors share nothing. When the backend ends, its
//! matrix is added to the totals of its type. A snapshot sums both.

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::{Arc, Mutex, SystemTime};

named_enum! {
    /// Who does the I/O, as PostgreSQL 18 names it, in its order.
    BackendType {
        /// A connection.
        Client = "client backend",
        /// Autovacuum launcher.
        AutovacuumLauncher = "autovacuum launcher",
        /// Autovacuum worker.
        AutovacuumWorker = "autovacuum worker",
        /// A background worker, such as a parallel scan's.
        BackgroundWorker = "background worker",
        /// WAL sender.
        WalSender = "walsender",
        /// Copies replication slots.
        SlotsyncWorker = "slotsync worker",
        /// An embedded or single-user session.
        Standalone = "standalone backend",
        /// Background writer.
        BackgroundWriter = "background writer",
        /// Checkpointer.
        Checkpointer = "checkpointer",
        /// Executes I/O for others.
        IoWorker = "io worker",
        /// Recovery.
        Startup = "startup",
        /// Receives WAL.
        WalReceiver = "walreceiver",
        /// Summarizes WAL.
        WalSummarizer = "walsummarizer",
        /// WAL writer.
        WalWriter = "walwriter",
    }
}

named_enum! {
    /// What the I/O is on.
    IoObject {
        /// A permanent relation.
        Relation = "relation",
        /// A temporary relation.
        TempRelation = "temp relation",
        /// WAL.
        Wal = "wal",
    }
}

named_enum! {
    /// In which context.
    IoContext {
        /// Large sequential reads.
        BulkRead = "bulkread",
        /// Large loads.
        BulkWrite = "bulkwrite",
        /// Creation of WAL segments.
        Init = "init",
        /// Everything else.
        Normal = "normal",
        /// Vacuum.
        Vacuum = "vacuum",
    }
}

named_enum! {
    /// What is counted.
    IoOp {
        /// Reads, with bytes and time.
        Read = "reads",
        /// Writes, with bytes and time.
        Write = "writes",
        /// Writes handed to the disk early, with time.
        Writeback = "writebacks",
        /// Extensions, with bytes and time.
        Extend = "extends",
        /// Pages found in the pool.
        Hit = "hits",
        /// Pages evicted from the pool.
        Evict = "evictions",
        /// Buffers that bulk work took from the pool's queue of new pages, which is a 16th of the
        /// pool; those that it took from elsewhere are evictions.
        Reuse = "reuses",
        /// Syncs, with time.
        Fsync = "fsyncs",
    }
}

/// The row and column of pg_stat_io under which an I/O is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Object.
    pub object: IoObject,
    /// Context.
    pub context: IoContext,
    /// Read, Write, Extend or Fsync.
    pub op: IoOp,
}

/// What is counted for one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Operations.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
    /// Nanoseconds waited; 0 unless timing is on.
    pub time_ns: u64,
}

#[derive(Default)]
struct Cell {
    count: AtomicU64,
    bytes: AtomicU64,
    time_ns: AtomicU64,
}

impl Cell {
    /// Calls `add` for each counter that grows.
    fn each(&self, by: Counts, add: impl Fn(&AtomicU64, u64)) {
        let counters =
            [(&self.count, by.count), (&self.bytes, by.bytes), (&self.time_ns, by.time_ns)];
        counters.into_iter().filter(|(_, n)| *n != 0).for_each(|(to, n)| add(to, n));
    }
}

const OBJECTS: usize = IoObject::ALL.len();
const CONTEXTS: usize = IoContext::ALL.len();
const OPS: usize = IoOp::ALL.len();
const TYPES: usize = BackendType::ALL.len();

/// One backend's counters.
#[derive(Default)]
pub struct Matrix([[[Cell; OPS]; CONTEXTS]; OBJECTS]);

impl Matrix {
    fn cell(&self, account: Account) -> &Cell {
        &self.0[account.object as usize][account.context as usize][account.op as usize]
    }

    /// Adds to a counter. Any thread may call this.
    fn add(&self, account: Account, by: Counts) {
        self.cell(account).each(by, |to, n| {
            to.fetch_add(n, Relaxed);
        });
    }

    /// Adds to a counter without a locked instruction. Only the owning thread may call this.
    pub(crate) fn add_owned(&self, account: Account, by: Counts) {
        let add = |to: &AtomicU64, n: u64| to.store(to.load(Relaxed).wrapping_add(n), Relaxed);
        self.cell(account).each(by, add);
    }

    fn get(&self, account: Account) -> Counts {
        let Cell { count, bytes, time_ns } = self.cell(account);
        let [count, bytes, time_ns] = [count, bytes, time_ns].map(|n| n.load(Relaxed));
        Counts { count, bytes, time_ns }
    }
}

/// What a backend has done to pages of one kind of object, in any context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Pages found in memory.
    pub hits: u64,
    /// Bytes read, and nanoseconds waited for that; these are 0 unless timing is on.
    pub read: [u64; 2],
    /// The same of bytes written, extensions included.
    pub written: [u64; 2],
}

impl Usage {
    /// What came on top of an earlier usage.
    #[must_use]
    pub fn since(&self, earlier: &Usage) -> Usage {
        let less = |now: [u64; 2], then: [u64; 2]| {
            [now[0].saturating_sub(then[0]), now[1].saturating_sub(then[1])]
        };
        Usage {
            hits: self.hits.saturating_sub(earlier.hits),
            read: less(self.read, earlier.read),
            written: less(self.written, earlier.written),
        }
    }

    /// Adds another usage.
    pub fn add(&mut self, other: &Usage) {
        let sum = |to: &mut [u64; 2], by: [u64; 2]| (to[0], to[1]) = (to[0] + by[0], to[1] + by[1]);
        self.hits += other.hits;
        sum(&mut self.read, other.read);
        sum(&mut self.written, other.written);
    }
}

impl Matrix {
    /// What was done to an object so far.
    pub(crate) fn usage(&self, object: IoObject) -> Usage {
        let mut usage = Usage::default();
        for &context in IoContext::ALL {
            let get = |op| self.get(Account { object, context, op });
            let grown = |of: &mut [u64; 2], by: Counts| {
                (of[0], of[1]) = (of[0] + by.bytes, of[1] + by.time_ns);
            };
            usage.hits += get(IoOp::Hit).count;
            grown(&mut usage.read, get(IoOp::Read));
            grown(&mut usage.written, get(IoOp::Write));
            grown(&mut usage.written, get(IoOp::Extend));
        }
        usage
    }
}

/// One row of pg_stat_io.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoStatsRow {
    /// The type of backend.
    pub backend_type: BackendType,
    /// The kind of object.
    pub object: IoObject,
    /// In which context.
    pub context: IoContext,
    counts: [Counts; OPS],
}

impl IoStatsRow {
    /// The counters of one operation.
    pub fn get(&self, op: IoOp) -> Counts {
        self.counts[op as usize]
    }

    /// The counters of one operation; None if PostgreSQL shows NULL, since the operation does not
    /// happen in such a row.
    pub fn shown(&self, op: IoOp) -> Option<Counts> {
        counts(self.backend_type, self.object, self.context, op).then(|| self.get(op))
    }

    fn add(&mut self, m: &Matrix) {
        for &op in IoOp::ALL {
            let by = m.get(Account { object: self.object, context: self.context, op });
            let to = &mut self.counts[op as usize];
            to.count += by.count;
            to.bytes += by.bytes;
            to.time_ns += by.time_ns;
        }
    }
}

struct Shared {
    live: Vec<(BackendType, Arc<Matrix>)>,
    baseline: Option<Vec<IoStatsRow>>,
    reset_at: SystemTime,
}

/// Counters of all backends.
pub struct IoStats {
    totals: Box<[Matrix]>,
    shared: Mutex<Shared>,
}

impl Default for IoStats {
    fn default() -> IoStats {
        let shared = Shared { live: Vec::new(), baseline: None, reset_at: SystemTime::now() };
        IoStats {
            totals: (0..TYPES).map(|_| Matrix::default()).collect(),
            shared: Mutex::new(shared),
        }
    }
}

impl IoStats {
    /// Counts for a backend type, from any thread. [`IoBackend::count`](crate::Backend::count) is
    /// cheaper.
    pub fn count(
        &self,
        who: BackendType,
        object: IoObject,
        context: IoContext,
        op: IoOp,
        n: u64,
        bytes: u64,
    ) {
        let account = Account { object, context, op };
        self.totals[who as usize].add(account, Counts { count: n, bytes, time_ns: 0 });
    }

    /// The rows that PostgreSQL would show, in its order: type, object, context.
    pub fn snapshot(&self) -> Vec<IoStatsRow> {
        let shared = self.shared.lock();
        let mut rows = self.sums(&shared);
        if let Some(base) = &shared.baseline {
            for (row, base) in rows.iter_mut().zip(base) {
                for (now, then) in row.counts.iter_mut().zip(&base.counts) {
                    now.count -= then.count;
                    now.bytes -= then.bytes;
                    now.time_ns -= then.time_ns;
                }
            }
        }
        rows.retain(|r| tracks(r.backend_type, r.object, r.context));
        rows
    }

    /// Counts since the start, without regard to resets: every combination, in the order of
    /// [`Self::snapshot`].
    pub fn totals(&self) -> Vec<IoStatsRow> {
        self.sums(&self.shared.lock())
    }

    /// Resets the counters.
    pub fn reset(&self) {
        let mut shared = self.shared.lock();
        shared.baseline = Some(self.sums(&shared));
        shared.reset_at = SystemTime::now();
    }

    /// When counting began.
    pub fn reset_at(&self) -> SystemTime {
        self.shared.lock().reset_at
    }

    fn sums(&self, shared: &Shared) -> Vec<IoStatsRow> {
        let mut rows = Vec::with_capacity(TYPES * OBJECTS * CONTEXTS);
        for &backend_type in BackendType::ALL {
            for &object in IoObject::ALL {
                for &context in IoContext::ALL {
                    let mut row = IoStatsRow {
                        backend_type,
                        object,
                        context,
                        counts: [Counts::default(); OPS],
                    };
                    row.add(&self.totals[backend_type as usize]);
                    for (t, m) in &shared.live {
                        if *t == backend_type {
                            row.add(m);
                        }
                    }
                    rows.push(row);
                }
            }
        }
        rows
    }

    /// A backend begins; returns its counters.
    pub(crate) fn enter(&self, who: BackendType) -> Arc<Matrix> {
        let m = Arc::new(Matrix::default());
        self.shared.lock().live.push((who, Arc::clone(&m)));
        m
    }

    /// A backend ends: its counters join its type's totals.
    pub(crate) fn leave(&self, who: BackendType, m: &Arc<Matrix>) {
        let mut shared = self.shared.lock();
        shared.live.retain(|(_, other)| !Arc::ptr_eq(other, m));
        for &object in IoObject::ALL {
            for &context in IoContext::ALL {
                for &op in IoOp::ALL {
                    let account = Account { object, context, op };
                    self.totals[who as usize].add(account, m.get(account));
                }
            }
        }
    }
}

/// Whether PostgreSQL shows a row for this combination.
pub fn tracks(who: BackendType, object: IoObject, context: IoContext) -> bool {
    use BackendType as B;
    use IoContext as C;
    use IoObject as O;
    match object {
        O::Wal => matches!(context, C::Normal | C::Init),
        O::TempRelation => {
            let with_tables =
                [B::Client, B::BackgroundWorker, B::WalSender, B::SlotsyncWorker, B::IoWorker];
            context == C::Normal && with_tables.contains(&who)
        }
        O::Relation => match who {
            B::WalReceiver | B::WalSummarizer | B::WalWriter => false,
            B::Checkpointer | B::BackgroundWriter => matches!(context, C::Normal | C::Init),
            B::AutovacuumLauncher => !matches!(context, C::Vacuum | C::BulkWrite),
            B::AutovacuumWorker => context != C::BulkWrite,
            _ => true,
        },
    }
}

/// Which operations PostgreSQL counts for a row that it shows.
fn counts(who: BackendType, object: IoObject, context: IoContext, op: IoOp) -> bool {
    let ring = matches!(context, IoContext::BulkRead | IoContext::BulkWrite | IoContext::Vacuum);
    let temp = object == IoObject::TempRelation;
    let writer = matches!(who, BackendType::Checkpointer | BackendType::BackgroundWriter);
    if object == IoObject::Wal {
        return match op {
            IoOp::Write | IoOp::Fsync => true,
            IoOp::Read => context == IoContext::Normal && reads_wal(who),
            _ => false,
        };
    }
    match op {
        IoOp::Read | IoOp::Hit | IoOp::Evict => !writer,
        IoOp::Extend => {
            !writer && who != BackendType::AutovacuumLauncher && context != IoContext::BulkRead
        }
        IoOp::Reuse => ring,
        IoOp::Fsync => !ring && !temp,
        IoOp::Writeback => !temp,
        IoOp::Write => true,
    }
}

/// Backend types that may read WAL.
fn reads_wal(who: BackendType) -> bool {
    use BackendType as B;
    !matches!(
        who,
        B::AutovacuumLauncher
            | B::AutovacuumWorker
            | B::BackgroundWriter
            | B::WalReceiver
            | B::WalWriter
    )
}
