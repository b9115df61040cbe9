//! Redo of WAL records: the frame that all resource managers share, and the managers of
//! transactions.
//!
//! | file | holds |
//! |---|---|
//! | `error.rs` | [`RedoError`] |
//! | `record.rs` | [`RedoRecord`]: a record with its LSNs |
//! | `context.rs` | [`RedoContext`]: what redo works on; [`Counters`]: the next ids; [`ClusterState`]; [`Made`] |
//! | `manager.rs` | [`ResourceManager`]: redoes the records of one resource manager number |
//! | `xact.rs` | commit and abort |
//! | `clog.rs` | pages of `pg_xact` |
//! | `multixact.rs` | sets of transactions |
//! | `commit_ts.rs` | pages of `pg_commit_ts` |
//! | `origin.rs` | positions of replication origins |
//! | `standby.rs` | records for standbys, which change nothing |

mod clog;
mod commit_ts;
mod context;
mod error;
mod manager;
mod multixact;
mod origin;
mod record;
mod standby;
mod xact;

pub use clog::ClogRedo;
pub use commit_ts::CommitTsRedo;
pub use context::{ClusterState, Counters, Made, RedoContext};
pub use error::RedoError;
pub use manager::ResourceManager;
pub use multixact::MultiXactRedo;
pub use origin::OriginRedo;
pub use record::RedoRecord;
pub use standby::StandbyRedo;
pub use xact::XactRedo;
