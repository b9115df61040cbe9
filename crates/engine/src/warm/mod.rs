//! Warm restarts: which pages were in the pool is written down at a clean stop and now and then,
//! and these pages are read again, in the background, after the next start. There is no kernel's
//! cache to come back to where data files are read directly.
//!
//! - `state`: what the thread shares with those who stop it
//! - `block_list`: the file, in the format of PostgreSQL's autoprewarm
//! - `load`: reads the pages of such a file
//!
//! ```text
//!   start ─ load, database by database ─ every autoprewarm_interval: dump ─ ... ─ clean stop: dump
//! ```
//!
//! A stop before all is read leaves the file as it is. Whatever is wrong with the file or a
//! relation costs only that: the log tells, and the rest is read.

mod block_list;
mod load;
pub(crate) mod state;

use std::sync::Arc;

use forebay_aio::BackendType;
use forebay_aio::sync::Instant;
use forebay_aio::sync::thread::{self, JoinHandle};
use forebay_format::PageTag;
use forebay_storage::Backend;

use crate::config::Background;
use crate::core::Core;
use crate::error::EngineError;

/// Bytes of the thread's stack: as a session's.
const STACK: usize = 8 << 20;

impl Core {
    /// Starts the thread. None: there are no warm restarts, or no threads.
    pub(crate) fn start_warm(self: &Arc<Core>) -> Result<Option<JoinHandle<()>>, EngineError> {
        if !self.config.autoprewarm || self.config.background == Background::Stepped {
            return Ok(None);
        }
        let core = Arc::clone(self);
        let name = "autoprewarm";
        let started = thread::Builder::new()
            .name(name.to_owned())
            .stack_size(STACK)
            .spawn(move || core.fatal.watch(name, || run(&core)));
        let handle = started.map_err(|error| {
            EngineError::statement("53000", format!("could not start {name}: {error}"))
        })?;
        Ok(Some(handle))
    }

    /// Writes down which pages are in the pool, at a clean stop, when the thread has ended.
    pub(crate) fn dump_at_stop(&self, backend: &mut Backend) {
        if self.config.autoprewarm && self.warm.is_loaded() {
            dump(self, backend);
        }
    }
}

fn run(core: &Arc<Core>) {
    load::load(core);
    if core.warm.is_stopped() {
        return;
    }
    core.warm.set_loaded();
    let mut last = Instant::now();
    loop {
        let interval = core.writing().autoprewarm_interval;
        let next = (!interval.is_zero()).then(|| last + interval);
        if !core.warm.rest_until(next) {
            return;
        }
        // The interval may have changed.
        if next.is_some_and(|next| next <= Instant::now()) {
            match core.aio.backend(BackendType::BackgroundWorker) {
                Ok(io) => dump(core, &mut Backend::new(io)),
                Err(error) => tracing::warn!("could not write down what is in the pool: {error}"),
            }
            last = Instant::now();
        }
    }
}

/// Writes down which pages are in the pool.
fn dump(core: &Core, backend: &mut Backend) {
    let mut pages: Vec<PageTag> = core
        .pool
        .inspect()
        .filter_map(|buffer| buffer.page.filter(|page| page.valid).map(|page| page.tag))
        .collect();
    pages.sort_unstable_by_key(block_list::key);
    match block_list::write(&mut backend.io, &core.dir, &pages) {
        Ok(()) => tracing::debug!("wrote block details for {} blocks", pages.len()),
        Err(error) => tracing::warn!("could not write down what is in the pool: {error}"),
    }
}
