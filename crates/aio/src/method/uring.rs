//! io_method io_uring: the kernel executes; each backend slot has a ring, and any thread reaps it.
//!
//! | Module | |
//! |---|---|
//! | `ring` | one ring: who leads, who follows, what has arrived |
//! | `entry` | an I/O as the kernel wants it described |
//! | `buffers` | registered memory, cloned from one ring into the others |
//! | `files` | registered files, of those used often |
//!
//! - The submission queue belongs to the slot's backend alone. Nobody else looks at it: waiters
//!   enter the kernel with nothing to submit.
//! - Of the threads that wait for I/O of one ring, one leads: it alone takes completions out of the
//!   queue, and sleeps in the kernel for more. A leader whose handle is still SUBMITTED therefore
//!   knows that its completion has yet to arrive. The others follow: they sleep on their handles,
//!   so each wakes as soon as its own I/O is finished, whatever the leader still waits for. (Were
//!   they queued for a lock that the leader holds, they would sleep through their own completion.)
//!   A leader whose I/O has arrived gives up the lead, and nudges a follower to take it.
//! - What arrived is finished after the lead is given up, so that several threads verify checksums
//!   at once.
//! - No IORING_SETUP_SINGLE_ISSUER or DEFER_TASKRUN: with them only the issuer could make
//!   completions appear.
//! - No COOP_TASKRUN either: a completion then waits until the issuer next enters the kernel. A
//!   thread that waits for the read of one that computes had it after 40 us without the flag, after
//!   3.9 ms with it (a tick of 250 Hz) wherever the disk's interrupt came to the other processor;
//!   and the flag saved no processor time (a read cost 2.8 us without and 3.0 us with it at 8 KiB,
//!   5.5 and 5.9 us at 128 KiB; medians of nine, depth 32).
//! - The kernel posts a completion by work that it gives to the submitting thread (task work). A
//!   thread in an interruptible sleep is woken for it: in io_uring_enter, on a futex. One in an
//!   uninterruptible sleep (a plain fdatasync or pwrite, the start of a process) is not, and its
//!   completions reach nobody meanwhile. So a backend with I/O in flight hands its synchronous
//!   operations to the ring and sleeps in io_uring_enter; see `completes_through_issuer`, and
//!   `Backend::quiesce` for what no ring can do. IOSQE_ASYNC is no way out: direct I/O that a
//!   kernel worker submits still completes by way of the first thread, and a read at depth 1 took
//!   51 to 69 us instead of 37. Nor is IORING_SETUP_SQPOLL: on two busy processors its thread kept
//!   a read waiting for a second (fio, 8 KiB direct, 3 rounds).
//! - A ring stays with its slot, and goes when the method does: longer than anything in flight.
//! - What the kernel cancels (because the thread that submitted it has exited) is executed by
//!   whoever reaps it.

use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::{Arc, OnceLock};

use io_uring::squeue;

use super::{Method, setup_refusal};
use crate::aio::AioConfig;
use crate::error::AioError;
use crate::handle::{HandleState, Word};
use crate::memory::Region;
use crate::registration::{Registration, RegistrationStats};
use crate::table::{HandleTable, KernelView};

mod buffers;
mod entry;
mod files;
mod ring;

use buffers::Buffers;
use entry::{Numbers, describe};
use files::Files;
use ring::{Counts, Ring, Rings, Until};

/// Buffered I/Os in flight beyond which the kernel is told not to try in the submitter's time: the
/// copy out of the page cache would run there, one after the other.
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
    pub(crate) fn new(config: &AioConfig) -> Result<Uring, AioError> {
        super::probe_io_uring_for(config.max_backends)?;
        let rings: Arc<Rings> =
            Arc::new((0..config.max_backends).map(|_| OnceLock::new()).collect());
        Ok(Uring {
            // Twice as many completions fit; so neither queue overflows.
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

    /// What of an I/O is registered with the ring; counts it.
    fn numbers(&self, ring: &Ring, view: &KernelView<'_>) -> Numbers {
        let file = self.files.as_ref().and_then(|files| files.number(ring, view.file));
        let memory =
            self.buffers.as_ref().filter(|b| view.vectors.len() == 1 || b.vectored()).and_then(
                |b| {
                    let region = view.region.filter(|_| ring.has_buffers())?;
                    b.number(region, view.vectors)
                },
            );
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
            let entry = table.with_kernel_view(index, |view| {
                let force_async = in_flight + n > ASYNC_THRESHOLD && !view.file.is_direct();
                let flags = if force_async { squeue::Flags::ASYNC } else { squeue::Flags::empty() };
                describe(&view, self.numbers(ring, &view)).flags(flags)
            });
            // Before the kernel knows of it: the completion may be reaped at once, by anyone.
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
