//! Lives of an engine on a simulated disk. A seed decides what is done, and the model records what
//! was acknowledged.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use forebay_aio::sync::{Arc, Mutex};
use forebay_aio::{Aio, AioConfig, AioError};
use forebay_engine::types::oids;
use forebay_engine::{
    Background, CheckpointStep, CheckpointWatch, CleanerOptions, ColumnDef, Datum, Engine,
    EngineConfig, EngineError, FatalAction, FirstIds, InitOptions, IoDirect, ItemPointer, LockMode,
    LockStrength, PoolSize, RowBatch, RowView, RowWait, Session, ShutdownMode, VacuumOptions,
    WalSyncMethod, WritingSettings,
};
use forebay_testkit::Dice;

use crate::disk::SimDisk;
use crate::model::{Fate, Model};
use crate::survival::Survival;

/// The engine's settings that a seed chooses.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The number of buffers: few, so that pages are written early.
    pub buffers: usize,
    /// Whether data and WAL bypass the page cache.
    pub direct: bool,
    /// Whether WAL is written with O_DSYNC.
    pub open_datasync: bool,
    /// Whether a page's first change after a checkpoint logs the whole page. Without that, only
    /// disks that write whole pages can be used.
    pub full_page_writes: bool,
    /// Whether a checkpoint reads back what was written.
    pub verify_writes: bool,
    /// The seed of the order of execution and completion.
    pub order: u64,
}

impl Setup {
    /// Random settings.
    pub fn random(dice: &mut Dice) -> Setup {
        let setup = Setup {
            buffers: [16, 24, 64, 256][dice.below(4) as usize],
            direct: dice.chance(500),
            open_datasync: dice.chance(300),
            full_page_writes: true,
            verify_writes: false,
            order: dice.any(),
        };
        Setup { verify_writes: setup.order.is_multiple_of(3), ..setup }
    }
}

/// The path of the data directory on a simulated disk.
pub(crate) fn data_dir(disk: &SimDisk) -> PathBuf {
    disk.root().join("data")
}

fn open_aio(disk: &SimDisk, order: u64) -> Result<Arc<Aio>, AioError> {
    disk.open(
        AioConfig { max_backends: 16, handles_per_backend: 16, ..AioConfig::default() },
        order,
    )
}

/// A disk with a new data directory on it, all of it durable.
///
/// # Errors
/// As init.
pub fn fresh_disk() -> Result<SimDisk, EngineError> {
    disk_at(FirstIds::default())
}

/// The same for a data directory whose ids begin at `ids`.
pub(crate) fn disk_at(ids: FirstIds) -> Result<SimDisk, EngineError> {
    disk_made(ids, false)
}

/// The same with the databases template0 and template1.
pub(crate) fn disk_with_templates() -> Result<SimDisk, EngineError> {
    disk_made(FirstIds::default(), true)
}

fn disk_made(ids: FirstIds, templates: bool) -> Result<SimDisk, EngineError> {
    let disk = SimDisk::new("/sim", 0);
    let options = InitOptions { wal_segment_size: 1 << 20, templates, ..InitOptions::default() };
    Engine::init_at(&data_dir(&disk), &options, ids, &open_aio(&disk, 1)?)?;
    Ok(disk)
}

/// A disk with a new data directory in which one transaction has done `work`, all of it durable.
pub(crate) fn disk_after(
    work: impl FnOnce(&mut Session) -> Result<(), EngineError>,
) -> Result<SimDisk, EngineError> {
    let disk = fresh_disk()?;
    let setup = Setup { buffers: 64, ..Setup::random(&mut Dice::new(0)) };
    let mut life = Life::begin(&disk, setup)?;
    let session = life.session();
    session.begin()?;
    session.start_command()?;
    work(session)?;
    session.commit()?;
    life.end()?;
    Ok(disk.restart(Survival::none(), 0))
}

/// The reasons for which an engine stopped itself.
type Reasons = Arc<Mutex<Vec<String>>>;

/// A transaction that stays open while the other session goes on.
struct Long {
    session: Session,
    table: String,
    ids: Range<i64>,
}

/// Called at each step of a checkpoint.
pub(crate) type Watch = Box<dyn FnMut(CheckpointStep) + Send>;

/// What another session does during a checkpoint.
#[derive(Default)]
struct During {
    watch: Option<Watch>,
    session: Option<Session>,
    /// The steps at which it inserts, and what.
    rows: Vec<(CheckpointStep, String, Range<i64>)>,
    /// The outcome.
    done: Vec<(String, Range<i64>, Fate)>,
}

impl During {
    fn at(&mut self, step: CheckpointStep) {
        self.watch.iter_mut().for_each(|watch| watch(step));
        let Some(session) = &mut self.session else { return };
        let (now, later) =
            std::mem::take(&mut self.rows).into_iter().partition(|(at, ..)| *at == step);
        self.rows = later;
        let now: Vec<(CheckpointStep, String, Range<i64>)> = now;
        for (_, table, ids) in now {
            let (sent, result) =
                transaction(session, |session| insert(session, &table, ids.clone()));
            note(sent, &result, |fate| self.done.push((table.clone(), ids.clone(), fate)));
        }
    }
}

/// Closes an engine's aio, which keeps the engine and the disk alive: they refer to each other.
struct Closing {
    disk: SimDisk,
    during: Arc<Mutex<During>>,
}

impl Drop for Closing {
    fn drop(&mut self) {
        let during = std::mem::take(&mut *self.during.lock());
        drop(during);
        self.disk.close();
    }
}

/// A running engine.
pub struct Life {
    session: Session,
    long: Option<Long>,
    reasons: Reasons,
    during: Arc<Mutex<During>>,
    /// The pool's first size and the number of changes, in a life that changes it.
    sizes: Option<(usize, usize)>,
    engine: Arc<Engine>,
    aio: Arc<Aio>,
    // Dropped last.
    _closing: Closing,
}

impl Life {
    /// Opens the data directory, with recovery if need be.
    ///
    /// # Errors
    /// As the engine.
    pub fn begin(disk: &SimDisk, setup: Setup) -> Result<Life, EngineError> {
        Life::begin_in(disk, setup, &data_dir(disk), |_| ())
    }

    /// The same for another data directory, with settings changed by `change`.
    pub(crate) fn begin_in(
        disk: &SimDisk,
        setup: Setup,
        dir: &Path,
        change: impl FnOnce(&mut EngineConfig),
    ) -> Result<Life, EngineError> {
        let reasons = Reasons::default();
        let seen = Arc::clone(&reasons);
        let action = FatalAction(Arc::new(move |reason: &str| seen.lock().push(reason.to_owned())));
        let during: Arc<Mutex<During>> = Arc::default();
        let meanwhile = Arc::clone(&during);
        let closing = Closing { disk: disk.clone(), during: Arc::clone(&during) };
        let mut config = EngineConfig {
            on_checkpoint: Some(CheckpointWatch(Arc::new(move |step| meanwhile.lock().at(step)))),
            shared_buffers: setup.buffers.into(),
            shared_buffers_max: Some(4 * setup.buffers),
            io_direct: IoDirect { data: setup.direct, wal: setup.direct, wal_init: setup.direct }
                .into(),
            max_connections: 8,
            background: Background::Stepped,
            wal_sync_method: if setup.open_datasync {
                WalSyncMethod::OpenDatasync
            } else {
                WalSyncMethod::Fdatasync
            },
            full_page_writes: setup.full_page_writes,
            verify_writes: setup.verify_writes,
            wal_buffers: Some(16),
            writing: WritingSettings {
                max_wal_size: 4 << 20,
                min_wal_size: 2 << 20,
                cleaner: CleanerOptions { max_pages: 8, ..CleanerOptions::default() },
                ..WritingSettings::default()
            },
            on_fatal: Some(action),
            ..EngineConfig::default()
        };
        change(&mut config);
        let aio = open_aio(disk, setup.order)?;
        let engine = Engine::open_on(dir, config, Arc::clone(&aio))?;
        let session = engine.session()?;
        during.lock().session = Some(engine.session()?);
        let sizes = setup.order.is_multiple_of(4).then_some((setup.buffers, 0));
        Ok(Life { session, long: None, reasons, during, sizes, engine, aio, _closing: closing })
    }

    pub(crate) fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub(crate) fn aio(&self) -> &Arc<Aio> {
        &self.aio
    }

    /// Has checkpoints call `watch`, or no longer.
    pub(crate) fn during_checkpoints(&self, watch: Option<Watch>) {
        self.during.lock().watch = watch;
    }

    /// Why the engine stopped itself, if it did.
    pub fn stopped(&self) -> Option<String> {
        self.reasons.lock().first().cloned()
    }

    /// Does `steps` things, or fewer if the power or the engine fails.
    pub fn work(&mut self, disk: &SimDisk, model: &mut Model, script: &mut Script, steps: usize) {
        for _ in 0..steps {
            if disk.is_off() || self.stopped().is_some() {
                return;
            }
            self.step(model, script);
        }
    }

    /// Asks an engine that had to stop for everything that would make something durable. None of it
    /// may count.
    pub fn linger(&mut self) {
        drop(self.engine.step());
        drop(self.session.checkpoint());
    }

    /// A step of the engine. In some lives it changes the pool's size; the first one comes back, so
    /// that pages are written early.
    fn work_in_the_background(&mut self) {
        if let Some((first, changes)) = &mut self.sizes {
            let times = [2, 1, 4, 1];
            *changes += 1;
            self.engine.change_pool_size(PoolSize::Blocks(*first * times[*changes % times.len()]));
        }
        drop(self.engine.step());
    }

    fn step(&mut self, model: &mut Model, script: &mut Script) {
        let present = model.present();
        let some = |dice: &mut Dice| present[dice.index(present.len())].clone();
        match script.dice.below(100) {
            _ if present.is_empty() => self.make(model, script.name()),
            0..8 => self.make(model, script.name()),
            8..12 => {
                let name = some(&mut script.dice);
                // It would wait for the other session's lock.
                if self.long.as_ref().is_none_or(|long| long.table != name) {
                    self.remove(model, &name);
                }
            }
            45..55 => match self.long.take() {
                Some(long) => finish(long, model, script.dice.chance(700)),
                None => {
                    let (name, ids) = (some(&mut script.dice), script.ids());
                    self.long = self.open(name, ids).ok();
                }
            },
            12..20 => {
                for step in CheckpointStep::ALL {
                    if script.dice.chance(300) {
                        let (name, ids) = (some(&mut script.dice), script.ids());
                        self.during.lock().rows.push((step, name, ids));
                    }
                }
                // The model finds out what failed.
                let _ = self.session.checkpoint();
                let mut during = self.during.lock();
                during.rows.clear();
                for (name, ids, fate) in during.done.drain(..) {
                    model.inserted(&name, ids, fate);
                }
            }
            20..35 => self.work_in_the_background(),
            35..45 => {
                let (name, ids) = (some(&mut script.dice), script.ids());
                let _ = self.give_up(&name, ids);
            }
            _ => {
                let (name, ids) = (some(&mut script.dice), script.ids());
                let waits = !script.dice.chance(150);
                self.put(model, &name, ids, waits);
            }
        }
    }

    /// Runs one small transaction.
    pub(crate) fn commit_something(&mut self, model: &mut Model, script: &mut Script) {
        let present = model.present();
        if present.is_empty() || script.dice.chance(100) {
            return self.make(model, script.name());
        }
        let name = &present[script.dice.index(present.len())];
        let from = script.ids;
        script.ids += 1 + script.dice.below(3) as i64;
        self.put(model, name, from..script.ids, true);
    }

    /// Inserts rows, and waits for them to be durable or not.
    pub(crate) fn put(&mut self, model: &mut Model, name: &str, ids: Range<i64>, waits: bool) {
        self.session.settings_mut().synchronous_commit = waits;
        let (sent, result) =
            transaction(&mut self.session, |session| insert(session, name, ids.clone()));
        self.session.settings_mut().synchronous_commit = true;
        note(sent, &result, |fate| {
            let fate = if fate == Fate::Done && !waits { Fate::Unwaited } else { fate };
            model.inserted(name, ids.clone(), fate);
        });
    }

    /// Creates a table.
    pub(crate) fn make(&mut self, model: &mut Model, name: String) {
        let (sent, result) = transaction(&mut self.session, |session| {
            let id = ColumnDef { not_null: true, ..ColumnDef::new("id", oids::INT8) };
            session.create_table(None, &name, &[id, ColumnDef::new("note", oids::TEXT)]).map(drop)
        });
        note(sent, &result, |fate| model.made(&name, fate));
    }

    /// Drops a table.
    pub(crate) fn remove(&mut self, model: &mut Model, name: &str) {
        let (sent, result) = transaction(&mut self.session, |session| {
            let table = session.open_table(None, name, LockMode::AccessExclusive)?;
            session.drop_table(&table)
        });
        note(sent, &result, |fate| model.dropped(name, fate));
    }

    /// Inserts rows in a transaction that is aborted.
    fn give_up(&mut self, name: &str, ids: Range<i64>) -> Result<(), EngineError> {
        self.session.begin()?;
        self.session.start_command()?;
        let result = insert(&mut self.session, name, ids);
        self.session.abort()?;
        result
    }

    /// Inserts rows in a session of its own, without ending the transaction.
    fn open(&self, table: String, ids: Range<i64>) -> Result<Long, EngineError> {
        let mut session = self.engine.session()?;
        session.begin()?;
        session.start_command()?;
        insert(&mut session, &table, ids.clone())?;
        Ok(Long { session, table, ids })
    }

    /// Inserts rows in a transaction that stays open, which replaces the one that did before.
    pub(crate) fn begin_long(
        &mut self,
        model: &mut Model,
        table: &str,
        ids: Range<i64>,
    ) -> Result<(), EngineError> {
        self.commit_long(model);
        self.long = Some(self.open(table.to_owned(), ids)?);
        Ok(())
    }

    /// Commits the transaction that stayed open.
    pub(crate) fn commit_long(&mut self, model: &mut Model) {
        if let Some(long) = self.long.take() {
            finish(long, model, true);
        }
    }

    /// Updates the first row of a table to what it is, while another session holds a lock on it, so
    /// that its old version gets a MultiXact with both.
    ///
    /// # Errors
    /// As the engine.
    pub(crate) fn change_beside_a_lock(&mut self, name: &str) -> Result<(), EngineError> {
        let mut locker = self.engine.session()?;
        locker.begin()?;
        locker.start_command()?;
        let table = locker.open_table(None, name, LockMode::RowShare)?;
        let mut scan = locker.scan(&table)?;
        let Some((id, place)) = first_row(scan.next(&mut locker)?)? else { return Ok(()) };
        drop(scan);
        locker.lock_row(&table, place, LockStrength::KeyShare, RowWait::NoWait)?;
        let (_, changed) = transaction(&mut self.session, |session| {
            let table = session.open_table(None, name, LockMode::RowExclusive)?;
            let note = note_of(id);
            let row = [Datum::Int8(id), Datum::text(&note)];
            session.update_row(&table, place, &row).map(drop)
        });
        locker.commit()?;
        changed
    }

    /// Vacuums and freezes all tables, and removes old ids.
    ///
    /// # Errors
    /// As the engine.
    pub(crate) fn vacuum(&mut self) -> Result<(), EngineError> {
        let options = VacuumOptions { freeze: true, ..VacuumOptions::default() };
        let mut tables = Vec::new();
        let (_, listed) = transaction(&mut self.session, |session| {
            tables = session.tables()?;
            Ok(())
        });
        listed?;
        for table in &tables {
            self.session.vacuum(table, &options, &mut Vec::new())?;
        }
        self.session.advance_oldest_ids()
    }

    /// Reads the whole database: the ids in each table. Each row's note is checked.
    ///
    /// # Errors
    /// The engine's error, or what is wrong with a row.
    pub fn contents(&mut self) -> Result<BTreeMap<String, Vec<i64>>, String> {
        let read = |session: &mut Session| -> Result<BTreeMap<String, Vec<i64>>, String> {
            let told = |error: EngineError| error.to_string();
            session.begin().and_then(|()| session.start_command()).map_err(told)?;
            let mut found = BTreeMap::new();
            for listed in session.tables_named(|name| name.starts_with("t_")).map_err(told)? {
                let table =
                    session.open_table(None, &listed.name, LockMode::AccessShare).map_err(told)?;
                let mut scan = session.scan(&table).map_err(told)?;
                let mut ids = Vec::new();
                while let Some(row) = scan.next(session).map_err(told)? {
                    match row.decode().map_err(told)?[..] {
                        [Datum::Int8(id), Datum::Text(ref text)] if *text == note_of(id) => {
                            ids.push(id);
                        }
                        ref other => {
                            return Err(format!("a row that was never written: {other:?}"));
                        }
                    }
                }
                found.insert(listed.name.clone(), ids);
            }
            session.commit().map_err(told)?;
            Ok(found)
        };
        read(&mut self.session)
    }

    /// Stops with a shutdown checkpoint.
    ///
    /// # Errors
    /// As the engine.
    pub fn end(self) -> Result<(), EngineError> {
        let other = self.during.lock().session.take();
        drop((self.session, self.long, other));
        self.engine.shutdown(ShutdownMode::Fast)
    }
}

/// A transaction, and whether its commit was sent.
fn transaction(
    session: &mut Session,
    body: impl FnOnce(&mut Session) -> Result<(), EngineError>,
) -> (bool, Result<(), EngineError>) {
    match session.begin().and_then(|()| session.start_command()).and_then(|()| body(session)) {
        Ok(()) => (true, session.commit()),
        Err(error) => {
            // The transaction's own error counts.
            let _ = session.abort();
            (false, Err(error))
        }
    }
}

/// Ends a long transaction, with a commit or without.
fn finish(mut long: Long, model: &mut Model, commit: bool) {
    if commit {
        let result = long.session.commit();
        note(true, &result, |fate| model.inserted(&long.table, long.ids.clone(), fate));
    } else {
        let _ = long.session.abort();
    }
}

/// Records the outcome of a transaction, unless its commit was never sent.
fn note(sent: bool, result: &Result<(), EngineError>, mut take_down: impl FnMut(Fate)) {
    match result {
        Ok(()) => take_down(Fate::Done),
        Err(_) if sent => take_down(Fate::Unknown),
        Err(_) => {}
    }
}

/// A row's id and place.
fn first_row(row: Option<RowView<'_>>) -> Result<Option<(i64, ItemPointer)>, EngineError> {
    let Some(row) = row else { return Ok(None) };
    let values = row.decode()?;
    let Some(Datum::Int8(id)) = values.first() else { return Ok(None) };
    Ok(Some((*id, row.place())))
}

/// A row's text, whose length depends on its id.
fn note_of(id: i64) -> String {
    let mut dice = Dice::new(id.unsigned_abs());
    let len = if dice.chance(50) { 2500 } else { 20 + dice.below(60) };
    format!("{id}:{}", char::from(b'a' + dice.below(26) as u8).to_string().repeat(len as usize))
}

fn insert(session: &mut Session, name: &str, ids: Range<i64>) -> Result<(), EngineError> {
    let table = session.open_table(None, name, LockMode::RowExclusive)?;
    let mut batch = RowBatch::new(&table);
    for id in ids {
        batch.push(&[Datum::Int8(id), Datum::text(&note_of(id))])?;
        if batch.bytes() > 64 << 10 {
            session.insert_batch(&table, &mut batch)?;
        }
    }
    session.insert_batch(&table, &mut batch).map(drop)
}

/// Chooses what a workload does next, and unused names and numbers.
#[derive(Clone, Debug)]
pub struct Script {
    dice: Dice,
    tables: u64,
    ids: i64,
}

impl Script {
    /// The workload of a seed.
    pub fn new(seed: u64) -> Script {
        Script { dice: Dice::new(seed ^ 0x7777), tables: 0, ids: 0 }
    }

    fn name(&mut self) -> String {
        self.tables += 1;
        format!("t_{}", self.tables)
    }

    pub(crate) fn ids(&mut self) -> Range<i64> {
        let n = if self.dice.chance(100) {
            300 + self.dice.below(1200)
        } else {
            1 + self.dice.below(40)
        };
        let from = self.ids;
        self.ids += n as i64;
        from..self.ids
    }
}
