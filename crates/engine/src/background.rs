//! The engine's threads. Each loops over a step until the engine stops.

use std::sync::Arc;

use forebay_aio::BackendType;
use forebay_aio::sync::{Condvar, Duration, Mutex, thread};
use forebay_storage::{Backend, Cleaner};
use forebay_wal::WriterPace;

use crate::archiver::SegmentAge;
use crate::checkpoint;
use crate::config::Background;
use crate::core::Core;
use crate::error::EngineError;
use crate::pool_size;

/// How long a background thread waits after an I/O error. A backend that needs a buffer or a
/// segment meanwhile tries itself.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// A sleep that a stop ends.
#[derive(Debug, Default)]
struct Ticker {
    stopped: Mutex<bool>,
    wake: Condvar,
}

impl Ticker {
    /// Sleeps. False if the thread is to end.
    fn rest(&self, time: Duration) -> bool {
        let mut stopped = self.stopped.lock();
        if !*stopped {
            self.wake.wait_for(&mut stopped, time);
        }
        !*stopped
    }

    /// Whether the thread is to end: the engine stops or has stopped.
    fn is_over(&self, core: &Core) -> bool {
        *self.stopped.lock() || core.fatal.has_stopped()
    }

    fn stop(&self) {
        *self.stopped.lock() = true;
        self.wake.notify_all();
    }
}

/// Makes durable the WAL for which no commit waits.
fn write_wal(core: &Core, backend: &mut Backend, ticker: &Ticker) {
    let mut age = SegmentAge::new(&core.archiving, &core.wal);
    let mut pace = WriterPace { delay: Duration::ZERO, flush_after: 0, last_flush: None };
    while !ticker.is_over(core) {
        let writing = core.writing();
        (pace.delay, pace.flush_after) = (writing.wal_writer_delay, writing.wal_writer_flush_after);
        if let Err(error) = age.check(&core.archiving, &core.wal, backend) {
            tracing::error!("WAL writer: {}", core.fatal.check(error));
        }
        match core.wal.write_behind(&mut backend.io, &mut pace) {
            Ok(true) => {}
            Ok(false) => core.wal_writer.rest(writing.wal_writer_delay),
            Err(error) => {
                tracing::error!("WAL writer: {}", core.fatal.check(error.into()));
                core.wal_writer.rest(writing.wal_writer_delay);
            }
        }
    }
}

/// A round of all background work, for engines without threads: prepares the log, gives the pool
/// another size if one is wanted, cleans buffers, makes a checkpoint if one is requested, and
/// archives.
pub(crate) fn step(
    core: &Core,
    backend: &mut Backend,
    cleaner: &mut Cleaner,
) -> Result<(), EngineError> {
    core.fatal.check_alive()?;
    core.wal.step(&mut backend.io)?;
    pool_size::step(core, backend)?;
    cleaner.step(&core.pool, backend, &core.writing().cleaner)?;
    if core.checkpointer.requests.is_waiting() {
        checkpoint::step(core, backend);
        core.fatal.check_alive()?;
    }
    core.archiving.step(backend)
}

/// Makes WAL segments before they are needed. It has its own thread because it would delay the WAL
/// writer.
fn prepare_segments(core: &Core, backend: &mut Backend, ticker: &Ticker) {
    /// The log wakes the thread earlier.
    const LONG: Duration = Duration::from_secs(60);
    let mut backoff = Backoff::default();
    while !ticker.is_over(core) {
        match core.wal.prepare_segments(&mut backend.io) {
            Ok(_) => {
                backoff = Backoff::default();
                core.wal.wait_for_segment_demand(LONG);
            }
            Err(error) => {
                let error = core.fatal.check(error.into());
                // Once: a backend that needs a segment reports it each time.
                if backoff == Backoff::default() {
                    tracing::warn!("could not prepare a WAL segment: {error}");
                }
                let relieved = core.wal.wait_to_retry_segments(backoff.next());
                if relieved {
                    backoff.relieve();
                }
            }
        }
    }
}

/// How long the thread waits after failures in a row: twice as long each time, up to a limit.
#[derive(Debug, Default, PartialEq, Eq)]
struct Backoff {
    last: Duration,
}

impl Backoff {
    const LONGEST: Duration = Duration::from_secs(60);

    /// The time after one more failure.
    fn next(&mut self) -> Duration {
        self.last = (self.last * 2).clamp(AFTER_ERROR, Backoff::LONGEST);
        self.last
    }

    /// There is room again: the next failure counts as the first one, but is not logged again.
    fn relieve(&mut self) {
        self.last = self.last.min(AFTER_ERROR / 2);
    }
}

/// The running threads.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    ticker: Arc<Ticker>,
    handles: Vec<thread::JoinHandle<()>>,
}

impl Threads {
    /// Starts the checkpointer, the WAL writer, the thread that makes WAL segments, the background
    /// writer, the launcher of autovacuum, and the threads of warm restarts and of the pool's size,
    /// unless the embedding program does their work.
    pub(crate) fn start(core: &Arc<Core>) -> Result<Threads, EngineError> {
        let mut threads = Threads::default();
        if core.config.background == Background::Stepped {
            return Ok(threads);
        }
        let result = threads.start_all(core);
        if let Err(error) = result {
            threads.stop(core);
            return Err(error);
        }
        Ok(threads)
    }

    fn start_all(&mut self, core: &Arc<Core>) -> Result<(), EngineError> {
        self.spawn(core, "checkpointer", BackendType::Checkpointer, |core, backend, _| {
            while checkpoint::step(core, backend) {}
        })?;
        self.spawn(core, "walwriter", BackendType::WalWriter, write_wal)?;
        self.spawn(core, "walpreparer", BackendType::WalWriter, prepare_segments)?;
        self.spawn(core, "bgwriter", BackendType::BackgroundWriter, |core, backend, ticker| {
            let mut cleaner = Cleaner::default();
            while !ticker.is_over(core) {
                let options = core.writing().cleaner;
                match cleaner.step(&core.pool, backend, &options) {
                    Ok(report) => cleaner.rest(&core.pool, &options, report),
                    Err(error) => {
                        tracing::error!("background writer: {}", core.fatal.check(error.into()));
                        ticker.rest(AFTER_ERROR.max(options.delay));
                    }
                }
            }
        })?;
        self.handles.extend(core.start_autovacuum()?);
        self.handles.extend(core.start_warm()?);
        self.handles.extend(core.start_sizing()?);
        Ok(())
    }

    fn spawn(
        &mut self,
        core: &Arc<Core>,
        name: &str,
        who: BackendType,
        body: fn(&Core, &mut Backend, &Ticker),
    ) -> Result<(), EngineError> {
        let mut backend = Backend::new(core.aio.backend(who)?);
        let (core, ticker) = (Arc::clone(core), Arc::clone(&self.ticker));
        let who = name.to_owned();
        let handle = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || core.fatal.watch(&who, || body(&core, &mut backend, &ticker)))
            .map_err(|error| {
                EngineError::statement("53000", format!("could not start {name}: {error}"))
            })?;
        self.handles.push(handle);
        Ok(())
    }

    /// Ends all threads, and waits for them.
    pub(crate) fn stop(&mut self, core: &Core) {
        core.checkpointer.requests.stop();
        self.ticker.stop();
        core.wal_writer.wake();
        core.autovacuum.stop();
        core.warm.stop();
        core.sizing.stop();
        core.wal.wake_preparer();
        core.pool.wake_cleaner();
        for handle in self.handles.drain(..) {
            if handle.join().is_err() {
                core.fatal.stop("a background thread panicked");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_after_failures_in_a_row_grow() {
        let mut backoff = Backoff::default();
        let seconds: Vec<u64> = (0..8).map(|_| backoff.next().as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
        backoff.relieve();
        assert_ne!(backoff, Backoff::default());
        assert_eq!((backoff.next().as_secs(), backoff.next().as_secs()), (1, 2));
    }
}
