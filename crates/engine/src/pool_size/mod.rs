//! The size of the buffer pool (shared_buffers), which a thread changes while the engine runs: to a
//! number of blocks, as the machine's memory allows, or as the embedding program says.
//!
//! - `state`: what the thread shares with others
//! - `target`: which size the pool should have
//!
//! A size that can't be had (buffers in use, no memory) is tried again now and then. The log tells
//! it once.

pub(crate) mod state;
mod target;

use std::cmp::Ordering;
use std::sync::Arc;

use forebay_aio::BackendType;
use forebay_aio::sync::thread::{self, JoinHandle};
use forebay_aio::sync::{Duration, Instant};
use forebay_format::BLOCK_SIZE;
use forebay_storage::{Backend, BufferPool, ResizeStop, Resized, ShrinkMode};

use crate::config::{Background, EngineConfig, PoolSize, PoolUse};
use crate::core::Core;
use crate::error::EngineError;
use crate::memory::{self, Gauge, Readings, blocks, bytes};

use target::{AT_ONCE, CALM, FORGOTTEN, LOOK, Present, SOON};

/// How long a shrink waits for buffers in use. A stop of the engine waits as long.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same where the pool follows the machine's memory, which goes on changing meanwhile.
const BRIEFLY: Duration = SOON;
/// How long until a size is tried again that could not be had.
const RETRY: Duration = Duration::from_secs(10);
/// What others take is told from two looks that are at least so far apart.
const SPAN: Duration = Duration::from_millis(50);
/// For so long ahead it counts what others take.
const AHEAD: Duration = Duration::from_millis(100);
/// For so long the files that tell of memory stay open.
const OPEN: Duration = Duration::from_secs(1);
/// An automatic pool grows before it has fewer blocks free.
const FREE: usize = (64 << 20) / BLOCK_SIZE;
/// The largest bound that an engine chooses by itself: half of what can be registered with
/// io_uring, which takes numbers for the whole bound.
const LARGEST: u64 = 1 << 39;

/// The most blocks that the pool of an engine may ever have, if its configuration does not say it:
/// seven eighths of the memory that the process may use.
pub(crate) fn bound(config: &EngineConfig) -> usize {
    let memory = || memory::read().map_or(0, |memory| memory.total / 8 * 7).min(LARGEST);
    let most = config.shared_buffers_max.unwrap_or_else(|| blocks(memory()));
    most.max(config.shared_buffers.at_start())
}

/// Makes room in a pool of automatic size for so many pages that are going to be read, as far as
/// half of the memory to spare allows.
pub(crate) fn make_room(core: &Core, pages: usize) {
    let _deciding = core.sizing.deciding();
    if core.sizing.wanted() != PoolSize::Automatic {
        return;
    }
    let Some(memory) = memory::read() else { return };
    let present = core.pool.buffers();
    // The queue of new pages takes some, too.
    let room = present + blocks(memory.spare() / 2);
    let wanted = (pages + pages / 8).min(room).min(most(core, &memory));
    if wanted > present
        && let Some(resized) = grow(core, wanted, || true)
    {
        tell(&resized);
        if let Some(stop) = &resized.stopped {
            complain(&resized, wanted, stop);
        }
    }
}

/// The most blocks of a pool of automatic size. Beside buffered data, the kernel's cache gets most
/// of the memory.
fn most(core: &Core, memory: &Readings) -> usize {
    let (least, most) = (core.pool.min_buffers(), core.pool.max_buffers());
    if core.direct.data { most } else { blocks(memory.total / 4).clamp(least, most) }
}

impl Core {
    /// Starts the thread. None: the engine has no threads.
    pub(crate) fn start_sizing(self: &Arc<Core>) -> Result<Option<JoinHandle<()>>, EngineError> {
        if self.config.background == Background::Stepped {
            return Ok(None);
        }
        let sizing = Arc::clone(&self.sizing);
        self.pool.on_demand(move || sizing.demand());
        let core = Arc::clone(self);
        let name = "poolsizer";
        let started = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || core.fatal.watch(name, || run(&core)));
        let handle = started.map_err(|error| {
            EngineError::statement("53000", format!("could not start {name}: {error}"))
        })?;
        Ok(Some(handle))
    }

    /// Gives the pool another number of blocks. The result says how far that came.
    fn resize_pool(
        &self,
        blocks: usize,
        resize: impl FnOnce(&BufferPool) -> Resized,
    ) -> Result<Resized, EngineError> {
        self.sizing.note(|done| done.target = Some(blocks));
        let resized = resize(&self.pool);
        if resized.buffers != resized.from {
            self.sizing.note(|done| done.resizes += 1);
        }
        // A failed sync or a stopped log must not go unnoticed.
        if let Some(ResizeStop::Failed(error)) = &resized.stopped
            && error.is_fatal()
        {
            return Err(self.fatal.check(error.clone().into()));
        }
        Ok(resized)
    }
}

/// A size that was said since the last step, for engines without threads. Both ways to make a pool
/// smaller take turns, so that simulations meet both.
pub(crate) fn step(core: &Core, backend: &mut Backend) -> Result<(), EngineError> {
    let changed = core.sizing.take_change();
    if let (true, PoolSize::Blocks(blocks)) = (changed, core.sizing.wanted()) {
        let mode = match core.sizing.done().resizes % 2 {
            0 => ShrinkMode::Orderly,
            _ => ShrinkMode::Urgent,
        };
        let how = (mode, Duration::ZERO);
        core.resize_pool(blocks, |pool| pool.resize_with(backend, blocks, how))?;
    }
    Ok(())
}

fn run(core: &Core) {
    let mut sizer = Sizer::new();
    let mut time = Some(Duration::ZERO);
    while core.sizing.rest(time) && !core.fatal.has_stopped() {
        let is_news = core.sizing.take_change();
        time = match core.sizing.wanted() {
            PoolSize::Blocks(blocks) => sizer.set(core, blocks, is_news),
            PoolSize::Automatic => {
                sizer.follow(core, BRIEFLY, |sizer, pool| sizer.automatic(core, pool));
                // Woken by then, it grows before those are taken.
                if core.pool.has_free(FREE) {
                    core.pool.tell_after(FREE / 4);
                }
                Some(sizer.next_look())
            }
            PoolSize::Chosen(chooser) => {
                sizer.follow(core, PATIENCE, |sizer, pool| {
                    (sizer.hurry, sizer.gauge) = (false, None);
                    chooser.ask(pool).clamp(pool.least, pool.most)
                });
                Some(LOOK)
            }
        };
    }
}

/// What the thread remembers.
struct Sizer {
    /// Tells of the machine's memory, and since when. None: nobody asks.
    gauge: Option<(Instant, Gauge)>,
    /// Its own, kept: making one needs memory.
    backend: Option<Backend>,
    /// The most that others took in the time ahead, and when that was.
    burst: Option<(u64, Instant)>,
    /// The last look at the machine's memory.
    last: Option<Look>,
    /// How soon it must be looked at again.
    next: Duration,
    /// Whether the pool has just become larger, or smaller.
    resizes: Ordering,
    /// Whether memory is short.
    hurry: bool,
    /// When memory was short last, or a size could not be had.
    short: Option<Instant>,
    /// Pages that had given way to others by the last look.
    evicted: u64,
    /// The size that the log told last.
    told: usize,
    /// Whether the log has told why the automatic size could not be had.
    complained: bool,
}

/// One look at the machine's memory.
#[derive(Clone, Copy)]
struct Look {
    at: Instant,
    memory: Readings,
    /// Bytes of the pool.
    pool: u64,
}

impl Look {
    /// The bytes that others take in the time ahead, if they go on as they did since a look.
    fn falling(&self, since: &Look) -> u64 {
        let left = |look: &Look| look.memory.room + look.pool;
        let taken = left(since).saturating_sub(left(self)) as f64;
        let seconds = (self.at - since.at).max(SPAN).as_secs_f64();
        (taken / seconds * AHEAD.as_secs_f64()) as u64
    }
}

impl Sizer {
    fn new() -> Sizer {
        Sizer {
            gauge: None,
            backend: None,
            burst: None,
            last: None,
            next: LOOK,
            resizes: Ordering::Equal,
            hurry: false,
            short: None,
            evicted: 0,
            told: 0,
            complained: false,
        }
    }

    /// Gives the pool this size. Returns when that is to be tried again.
    fn set(&mut self, core: &Core, blocks: usize, is_news: bool) -> Option<Duration> {
        let _deciding = core.sizing.deciding();
        if core.pool.buffers() == blocks && !core.pool.has_leftovers() {
            return None;
        }
        let how = (ShrinkMode::Orderly, PATIENCE);
        let Some(resized) = resize(core, &mut None, blocks, how) else { return Some(RETRY) };
        if resized.buffers != resized.from {
            tell(&resized);
        }
        let stop = resized.stopped.as_ref()?;
        if is_news && !is_late(&resized, blocks) {
            complain(&resized, blocks, stop);
        }
        // Bounds stay as they are.
        (!matches!(stop, ResizeStop::Bounds { .. })).then_some(RETRY)
    }

    /// Decides which size the pool should have now, and gives it that.
    fn follow(
        &mut self,
        core: &Core,
        patience: Duration,
        decide: impl FnOnce(&mut Sizer, PoolUse) -> usize,
    ) {
        let evicted = core.pool.stats().evicted;
        let _deciding = core.sizing.deciding();
        let present = core.pool.buffers();
        let pool = PoolUse {
            buffers: present,
            least: core.pool.min_buffers(),
            most: core.pool.max_buffers(),
            evicted: evicted - std::mem::replace(&mut self.evicted, evicted),
        };
        let wanted = decide(self, pool);
        self.resizes = Ordering::Equal;
        if wanted == present && core.pool.has_leftovers() {
            let how = (ShrinkMode::Urgent, Duration::ZERO);
            resize(core, &mut self.backend, wanted, how);
        }
        // What could not be had is not tried again at once.
        if wanted == present || (wanted > present && self.calm() < CALM) {
            core.sizing.note(|done| done.target = Some(wanted));
            return;
        }
        let mode = if self.hurry { ShrinkMode::Urgent } else { ShrinkMode::Orderly };
        let resized = match wanted > present {
            true => grow(core, wanted, || self.may_grow()),
            false => resize(core, &mut self.backend, wanted, (mode, patience)),
        };
        let Some(resized) = resized else { return };
        self.resizes = resized.buffers.cmp(&resized.from);
        self.heed(&resized, wanted);
        if self.told == 0 {
            self.told = resized.from;
        }
        if resized.buffers.abs_diff(self.told) > self.told / 4 {
            tell(&Resized { from: self.told, ..resized });
            self.told = core.pool.buffers();
        }
    }

    /// Returns the number of blocks that fits the machine's memory, as far as that is known.
    fn automatic(&mut self, core: &Core, pool: PoolUse) -> usize {
        let Some(memory) = self.gauge() else { return pool.buffers };
        let look = Look { at: Instant::now(), memory, pool: bytes(pool.buffers) };
        let last = *self.last.get_or_insert(look);
        if look.at - last.at >= SPAN {
            self.last = Some(look);
        }
        let falling = look.falling(&last);
        if self.burst(look.at) <= falling {
            self.burst = Some((falling, look.at));
        }
        let present = Present {
            size: look.pool,
            falling,
            burst: self.burst(look.at),
            bounds: (bytes(pool.least), bytes(most(core, &memory))),
            is_full: pool.evicted > 0 || !core.pool.has_free(FREE),
            calm: self.calm(),
        };
        (self.hurry, self.next) = (memory.is_short(present.falling), memory.next_look());
        let wanted = target::target(&memory, &present);
        if wanted < look.pool {
            self.short = Some(look.at);
            core.sizing.note(|done| done.shortages += 1);
        }
        blocks(wanted)
    }

    /// Reads what the machine's memory is.
    fn gauge(&mut self) -> Option<Readings> {
        let now = Instant::now();
        // The process may have come into another group.
        if self.gauge.as_ref().is_none_or(|(since, _)| now - *since >= OPEN && !self.hurry) {
            self.gauge = Gauge::open().map(|gauge| (now, gauge));
        }
        self.gauge.as_ref()?.1.read()
    }

    /// Whether there is memory for the next part of a growth.
    fn may_grow(&self) -> bool {
        let memory = self.gauge.as_ref().and_then(|(_, gauge)| gauge.read());
        memory.is_none_or(|memory| memory.spare() > self.burst(Instant::now()))
    }

    /// The most that others have lately taken in the time ahead.
    fn burst(&self, now: Instant) -> u64 {
        self.burst.filter(|(_, at)| now - *at < FORGOTTEN).map_or(0, |(bytes, _)| bytes)
    }

    /// How long until memory is looked at again.
    fn next_look(&self) -> Duration {
        match self.resizes {
            Ordering::Less if self.hurry => AT_ONCE,
            Ordering::Less | Ordering::Equal => self.next,
            Ordering::Greater => SOON,
        }
    }

    fn calm(&self) -> Duration {
        self.short.map_or(Duration::MAX, |since| since.elapsed())
    }

    /// After a size that could not be had the pool does not grow for a while. The log tells why,
    /// once.
    fn heed(&mut self, resized: &Resized, wanted: usize) {
        let Some(stop) = &resized.stopped else {
            self.complained = false;
            return;
        };
        self.short = Some(Instant::now());
        if is_late(resized, wanted) {
            return;
        }
        if !std::mem::replace(&mut self.complained, true) {
            complain(resized, wanted, stop);
        }
    }
}

/// Changes the size with this backend, which it makes if there is none. None if there can't be one,
/// or the engine must stop.
fn resize(
    core: &Core,
    backend: &mut Option<Backend>,
    blocks: usize,
    how: (ShrinkMode, Duration),
) -> Option<Resized> {
    if backend.is_none() {
        let io = core.aio.backend(BackendType::BackgroundWorker).map_err(|e| unchanged(&e)).ok()?;
        *backend = Some(Backend::new(io));
    }
    let backend = backend.as_mut()?;
    let resized = core.resize_pool(blocks, |pool| pool.resize_with(backend, blocks, how));
    resized.map_err(|e| unchanged(&e)).ok()
}

/// Makes the pool larger. None if the engine must stop.
fn grow(core: &Core, blocks: usize, go_on: impl FnMut() -> bool) -> Option<Resized> {
    let resized = core.resize_pool(blocks, |pool| pool.grow_while(blocks, go_on));
    resized.map_err(|e| unchanged(&e)).ok()
}

fn unchanged(error: &dyn std::fmt::Display) {
    tracing::warn!("the size of shared buffers is not changed: {error}");
}

/// Whether the pool has the size that was wanted, and gives up buffers in use later.
fn is_late(resized: &Resized, wanted: usize) -> bool {
    resized.buffers == wanted && matches!(resized.stopped, Some(ResizeStop::InUse { .. }))
}

fn complain(resized: &Resized, wanted: usize, stop: &ResizeStop) {
    let size = megabytes(resized.buffers);
    match megabytes(wanted) {
        wanted if wanted == size => {
            tracing::warn!("shared_buffers is {size} MB, but more memory is in use: {stop}");
        }
        wanted => tracing::warn!("shared_buffers is {size} MB instead of {wanted} MB: {stop}"),
    }
}

fn megabytes(blocks: usize) -> f64 {
    bytes(blocks) as f64 / f64::from(1 << 20)
}

fn tell(resized: &Resized) {
    let [from, to] = [resized.from, resized.buffers].map(megabytes);
    tracing::info!("shared buffers were resized from {from} MB to {to} MB");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_take_is_foreseen() {
        let at = Instant::now();
        let look = |ms, room, pool| Look {
            at: at + Duration::from_millis(ms),
            memory: Readings { total: 10_000, room, stalled: 0.0 },
            pool,
        };
        let before = look(0, 1000, 5000);
        assert_eq!(look(200, 900, 5000).falling(&before), 50);
        assert_eq!(look(100, 900, 5100).falling(&before), 0, "the pool has it");
        assert_eq!(look(200, 1000, 4900).falling(&before), 50, "it has got what the pool gave");
        assert_eq!(look(100, 1100, 5000).falling(&before), 0);
        assert_eq!(before.falling(&before), 0);
    }

    #[test]
    fn after_a_size_that_could_not_be_had_the_pool_waits() {
        let mut sizer = Sizer::new();
        let had = Resized { from: 100, buffers: 200, stopped: None };
        sizer.heed(&had, 200);
        assert!(sizer.short.is_none() && !sizer.complained);
        let stopped = Some(ResizeStop::InUse { buffers: 3 });
        sizer.heed(&Resized { from: 200, buffers: 150, stopped }, 100);
        assert!(sizer.short.is_some() && sizer.complained);
        sizer.heed(&had, 200);
        assert!(sizer.short.is_some(), "the time since then counts");
        assert!(!sizer.complained, "the log tells the next one");
        let stopped = Some(ResizeStop::InUse { buffers: 3 });
        sizer.heed(&Resized { from: 200, buffers: 100, stopped }, 100);
        assert!(!sizer.complained, "nor does it tell of buffers that are given back later");
    }
}
