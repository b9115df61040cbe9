//! io_method io_uring: the kernel executes. Each backend slot has a ring, and any thread reaps it.
//!
//! | Module | Contents |
//! |---|---|
//! | `ring` | one ring: its leader and followers, and its completions |
//! | `entry` | the submission entry of an I/O |
//! | `buffers` | registered memory, cloned from one ring into the others |
//! | `files` | registered files, of those used often |
//!
//! - Only the slot's backend uses the submission queue. Waiters enter the kernel with nothing to
//!   submit.
//! - One of the threads that wait on a ring leads. It alone takes completions out of the queue, and
//!   sleeps in the kernel for more. So while a leader's handle is SUBMITTED, its completion has not
//!   arrived. The other threads follow: they sleep on their handles, and each wakes when its own
//!   I/O is finished. If they waited for a lock of the leader, they would sleep through their own
//!   completions. When the leader's I/O has arrived, it gives up the lead and wakes a follower to
//!   take it.
//! - A leader finishes what arrived after it gives up the lead, so that several threads verify
//!   checksums at once.
//! - IORING_SETUP_SINGLE_ISSUER and DEFER_TASKRUN are not set: with them only the issuer could make
//!   completions appear.
//! - COOP_TASKRUN is not set: a completion would then wait until the issuer next enters the kernel.
//!   For the read of a thread that computes, that took 3.9 ms (a tick of 250 Hz) in place of 40 us,
//!   and the flag saved no processor time.
//! - The kernel posts a completion by work on the submitting thread (task work). It wakes a thread
//!   in an interruptible sleep for that: in io_uring_enter, or on a futex. It does not wake one in
//!   an uninterruptible sleep (a plain fdatasync or pwrite, the start of a process), and
//!   completions wait. So a backend with I/O in flight gives its synchronous operations to the ring
//!   and sleeps in io_uring_enter; see `completes_through_issuer`, and `IoBackend::quiesce` for
//!   what a ring can't do.
//! - IOSQE_ASYNC and IORING_SETUP_SQPOLL would not help. With the first, direct I/O that a kernel
//!   worker submits still completes through the submitting thread, and a read took 51 us or more in
//!   place of 37. With the second, the kernel's thread delayed a read by up to a second on two busy
//!   processors.
//! - A ring stays with its slot until the method is dropped, so it outlives everything in flight.
//! - The thread that reaps an I/O executes it if the kernel cancelled it because its submitter
//!   exited.

use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::{Arc, OnceLock};

use io_uring::squeue;

use super::probe::{probe_io_uring_for, setup_refusal};
use crate::config::AioConfig;
use crate::error::AioError;
use crate::execute::Request;
use crate::handle::{HandleState, Word};
use crate::memory::Region;
use crate::method::Method;
use crate::registration::{Registration, RegistrationStats};
use crate::table::HandleTable;

mod buffers;
mod entry;
mod files;
mod ring;

use buffers::Buffers;
use entry::{Numbers, describe};
use files::Files;
use ring::{Counts, Ring, Rings, Until};

/// With more buffered I/Os in flight than this, the kernel is told not to execute in the
/// submitter's time, because it would copy out of the page cache there, one I/O after the other.
const ASYNC_THRESHOLD: usize = 4;

/// The method.
pub(crate) struct Uring {
    rings: Arc<Rings>,
    entries: u32,
    buffers: Option<Arc<Buffers>>,
    files: Option<Arc<Files>>,
}

impl Uring {
    /// Rings for the backends of `config`, set up when first needed.
    ///
    /// # Errors
    /// io_uring can't be used for so many backends.
    pub(crate) fn new(config: &AioConfig) -> Result<Uring, AioError> {
        probe_io_uring_for(config.max_backends)?;
        let rings: Arc<Rings> =
            Arc::new((0..config.max_backends).map(|_| OnceLock::new()).collect());
        Ok(Uring {
            // Twice as many completions fit, so neither queue overflows.
            entries: (config.handles_per_backend as u32).next_power_of_two(),
            buffers: config.register_memory.then(|| Buffers::new(Arc::clone(&rings))),
            files: config.register_files.then(|| Files::new(Arc::clone(&rings))),
            rings,
        })
    }

    fn wait_until(&self, table: &HandleTable, index: u32, seen: Word, until: Until) {
        let ring = self.ring(table.slot_of(index));
        if ring.take_lead(table, index, seen) {
            for index in ring.lead(table, index, seen, until) {
                table.finish(index);
            }
        }
    }

    fn ring(&self, slot: u32) -> &Ring {
        self.rings[slot as usize].get().expect("a backend that does I/O has its ring")
    }

    /// What of an I/O is registered with the ring; also counts its use.
    fn numbers(&self, ring: &Ring, request: &Request<'_>) -> Numbers {
        let file = self.files.as_ref().and_then(|files| files.number(ring, request.file));
        let usable = |b: &&Arc<Buffers>| request.vectors.len() == 1 || b.vectored();
        let buffers = self.buffers.as_ref().filter(usable);
        let region = request.region.filter(|_| ring.has_buffers());
        let memory = buffers.zip(region).and_then(|(b, region)| b.number(region, request.vectors));
        let counts = &ring.counts;
        Counts::add(&counts.operations);
        if file.is_some() {
            Counts::add(&counts.with_file);
        }
        if memory.is_some() {
            Counts::add(&counts.with_memory);
        }
        Numbers { file, memory }
    }
}

impl Method for Uring {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn attach(&self, slot: u32) -> Result<(), AioError> {
        let cell = &self.rings[slot as usize];
        if cell.get().is_none() {
            let ring = Ring::new(self.entries)
                .map_err(|e| setup_refusal(e.raw_os_error().unwrap_or(libc::EIO)))?;
            let publish = |ring| {
                assert!(cell.set(ring).is_ok(), "a slot is attached by one backend at a time");
            };
            match &self.buffers {
                Some(buffers) => buffers.enter(ring, publish),
                None => publish(ring),
            }
        }
        Ok(())
    }

    fn executes_by_table(&self) -> bool {
        false
    }

    fn completes_through_issuer(&self) -> bool {
        true
    }

    fn submit(&self, table: &HandleTable, slot: u32, staged: &[u32], in_flight: usize) {
        let ring = self.ring(slot);
        for (n, &index) in staged.iter().enumerate() {
            let user_data = table.word(index).generation() << 32 | u64::from(index);
            let entry = table.with_request(index, |request| {
                let force_async = in_flight + n > ASYNC_THRESHOLD && !request.file.is_direct();
                let flags = if force_async { squeue::Flags::ASYNC } else { squeue::Flags::empty() };
                describe(request, self.numbers(ring, request)).flags(flags)
            });
            // Before the kernel has it: any thread may reap the completion at once.
            table.begin(index);
            // SAFETY: this is the slot's backend. The entry's memory (and its vectors, in the
            // handle's body) stays in place until the handle is collected, which happens after
            // completion.
            unsafe { ring.push(&entry.user_data(user_data)) };
        }
        ring.submit(table, staged.len() as u32);
    }

    fn wait(&self, table: &HandleTable, index: u32, seen: Word) {
        debug_assert_eq!(seen.state(), HandleState::Submitted);
        self.wait_until(table, index, seen, Until::Executed);
    }

    fn wait_any(&self, table: &HandleTable, index: u32, seen: Word) {
        self.wait_until(table, index, seen, Until::AnyArrived);
    }

    fn poll(&self, table: &HandleTable, index: u32) {
        let (ring, seen) = (self.ring(table.slot_of(index)), table.word(index));
        while table.word(index) == seen && ring.collect_arrived(table) {}
    }

    fn arrived(&self, slot: u32) -> usize {
        self.ring(slot).arrived()
    }

    fn register_memory(&self, region: &Arc<Region>) -> Registration {
        self.buffers.as_ref().map_or(Registration::Unused, |buffers| buffers.register(region))
    }

    fn memory_resized(&self, region: &Arc<Region>, bytes: usize) -> Registration {
        self.buffers.as_ref().map_or(Registration::Unused, |buffers| buffers.resize(region, bytes))
    }

    fn registration_stats(&self) -> RegistrationStats {
        let mut stats = RegistrationStats {
            memory: self.buffers.as_ref().map_or(0, |b| b.bytes()),
            files: self.files.as_ref().map_or(0, |f| f.count()),
            ..RegistrationStats::default()
        };
        for ring in self.rings.iter().filter_map(OnceLock::get) {
            stats.operations += ring.counts.operations.load(Relaxed);
            stats.with_memory += ring.counts.with_memory.load(Relaxed);
            stats.refused += ring.counts.refused.load(Relaxed);
            stats.with_file += ring.counts.with_file.load(Relaxed);
        }
        stats
    }
}
