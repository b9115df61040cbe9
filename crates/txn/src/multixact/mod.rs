//! `pg_multixact`: sets of transactions that hold one row at the same time.
//!
//! | file | holds |
//! |---|---|
//! | `store.rs` | [`MultiXacts`]: the pages, the counters, new sets, their members |
//! | `truncate.rs` | removal of old sets, and the end of recovery |
//! | `age.rs` | how old sets may become if members are short |
//! | `in_use.rs` | which sets running transactions may still look at |
//! | `usage.rs` | [`MultiUse`]: what one transaction does with sets |

mod age;
mod in_use;
mod store;
mod truncate;
mod usage;

pub use store::{MultiCounters, MultiXacts};
pub use usage::MultiUse;
