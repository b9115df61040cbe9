//! The buffer pool: pages of relations in aligned memory, between the access methods and the files.
//!
//! Each module uses only modules below it in this table.
//!
//! | module | what it holds |
//! |---|---|
//! | `sizes` | what a change of the pool's size does to its parts |
//! | `inspect` | the contents of the buffers, and verifying the pages in memory |
//! | `readback` | making writes durable, and reading them back |
//! | `discard` | forgetting the pages of dropped or truncated relations |
//! | `extend` | new pages at a relation's end; pages that recovery makes from nothing |
//! | `traced` | what a traced pool records |
//! | `prefetch` | [`Prefetched`]: reading pages ahead without keeping a pin |
//! | `read` | pinning pages, and starting and awaiting their reads |
//! | `relocate` | moving pages out of a part of the pool that is given up |
//! | `victim` | the search for a buffer for a new page |
//! | `victim_writes` | writes that make buffers reusable |
//! | `uses` | counting uses and misses, with which time passes |
//! | `run` | neighbouring dirty pages, written by one I/O |
//! | `lookup` | finding and pinning pages in memory; giving a buffer a page |
//! | `buffer_pool` | [`BufferPool`] itself |
//! | `complete` | what any thread does when a read or write has ended |
//! | `guard` | [`Pinned`], [`PageReadGuard`], [`PageHoldGuard`], [`PageWriteGuard`], [`CleanupRequest`]: for users |
//! | `pins` | the right to take pins |
//! | `locking` | the content lock, and waiting for it |
//! | `core` | what completions and pins need of the pool |
//! | `backend` | [`Backend`]: a thread's context, passed down as `&mut` |
//! | `config` | [`PoolConfig`] |
//! | `trace` | [`PageTrace`]: recording which pages are pinned, for developers |
//! | `wal_flush` | [`WalFlush`]: the write-ahead log, as far as the pool needs it |
//! | `damage` | [`ReadPolicy`], [`ReadWarning`]: damaged pages, and their number |
//! | `counters` | [`PoolStats`]: buffer replacement in numbers |
//! | `cleaner_wakeup` | waking the cleaner |
//! | `demand` | waking the thread that sizes the pool while buffers are still free |
//! | `freed` | buffers whose pages were forgotten, for the next new pages |
//! | `trail` | what a load or vacuum has filled, to be written behind it |
//! | `strategy` | [`Strategy`]: what an access is for |
//! | `places` | the clock and the queue: which buffers are there, and whose turn it is |
//! | `newcomer` | which page gives way to which |
//! | `ghosts` | when pages that have left were used last |
//! | `time` | time, which passes with misses and uses; its epochs |
//! | `table` | which buffer contains a page |
//! | `budget` | how many pins each backend may hold, and waiting for one |
//! | `cleanup_waiters` | [`Latch`]; who waits for the cleanup lock of a page |
//! | `parking` | where threads sleep until a buffer changes |
//! | `desc` | a buffer's descriptor: state word, tag, pins, I/O in progress |
//! | `slab` | [`Slab`](slab::Slab): an array that grows in place |
//! | `usage` | the class of a buffer and the epoch of its last use, in its state word |
//! | `trace_format` | [`TraceReader`], [`PageReference`]: a trace in a file |
//! | `cache_line` | a value in a cache line of its own |

mod backend;
mod budget;
mod buffer_pool;
mod cache_line;
mod cleaner_wakeup;
mod cleanup_waiters;
mod complete;
mod config;
mod core;
mod counters;
mod damage;
mod demand;
pub(crate) mod desc;
mod discard;
mod extend;
mod freed;
mod ghosts;
mod guard;
mod inspect;
mod locking;
mod lookup;
mod newcomer;
mod parking;
mod pins;
mod places;
mod prefetch;
mod read;
mod readback;
mod relocate;
mod run;
mod sizes;
mod slab;
mod strategy;
mod table;
mod time;
mod trace;
mod trace_format;
mod traced;
mod trail;
mod usage;
mod uses;
mod victim;
mod victim_writes;
mod wal_flush;

pub use backend::Backend;
pub use buffer_pool::BufferPool;
pub use cleanup_waiters::Latch;
pub use config::PoolConfig;
pub use counters::PoolStats;
pub use damage::{ChecksumFailures, ReadPolicy, ReadWarning};
pub use guard::{CleanupRequest, PageHoldGuard, PageReadGuard, PageWriteGuard, Pinned};
pub use inspect::{BufferInfo, BufferPage, MemoryChecksums, PoolSummary, UsageCount};
pub use prefetch::Prefetched;
pub use readback::READ_BACK_FILES;
pub use relocate::ShrinkMode;
pub use strategy::Strategy;
pub use trace::PageTrace;
pub use trace_format::{AccessKind, Manner, PageReference, TraceReader};
pub use wal_flush::WalFlush;

pub(crate) use cleaner_wakeup::NEVER;
pub(crate) use read::{Slot, SlotState};
pub(crate) use run::Run;
pub(crate) use usage::{Class, age};
pub(crate) use victim::Claim;
