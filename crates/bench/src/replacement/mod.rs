//! Which page should leave the pool: traces of references are replayed against policies.
//!
//! - `plan`: the options
//! - `policies`: the policies
//! - `trace`: a trace in memory; reading one that the pool has recorded
//! - `synthetic`: loops, skewed look-ups, and hot sets under other work
//! - `run`: replays; `report`: the figures

mod plan;
mod policies;
#[cfg(test)]
mod pool_tests;
mod report;
mod run;
mod synthetic;
mod trace;

pub use plan::ReplacementBench;
pub use run::bench_replacement;
