//! The policies that are compared, each as small as its idea.
//!
//! - `policy`: the trait; `list`: pages in an order
//! - `lru`, `two_queue`, `s3fifo`, `sieve`, `lirs`, `kernel`: from the literature, and
//!   the kernel's two lists
//! - `clock`: PostgreSQL's clock sweep, with and without rings
//! - `reuse`: a clock that admits by reuse distances: what the pool does
//! - `optimum`: Belady's, which knows the future

mod clock;
mod kernel;
mod lirs;
mod list;
mod lru;
mod optimum;
mod policy;
mod reuse;
mod s3fifo;
mod sieve;
mod two_queue;

#[cfg(test)]
mod tests;

pub(super) use policy::{Policy, Reference, Setup};

/// Makes a policy.
type Make = fn(&Setup<'_>) -> Box<dyn Policy>;

/// Belady's optimum is the last one.
pub(super) const POLICIES: [(&str, Make); 10] = [
    ("clock, rings", |s| Box::new(clock::Clock::new(s, true))),
    ("clock", |s| Box::new(clock::Clock::new(s, false))),
    ("LRU", |s| Box::new(lru::Lru::new(s))),
    ("kernel", |s| Box::new(kernel::TwoLists::new(s))),
    ("2Q", |s| Box::new(two_queue::TwoQueue::new(s))),
    ("SIEVE", |s| Box::new(sieve::Sieve::new(s))),
    ("S3-FIFO", |s| Box::new(s3fifo::S3Fifo::new(s))),
    ("LIRS", |s| Box::new(lirs::Lirs::new(s))),
    ("reuse", |s| Box::new(reuse::Reuse::new(s))),
    ("optimum", |s| Box::new(optimum::Optimum::new(s))),
];
