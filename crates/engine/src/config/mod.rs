//! What an engine is made and opened with. Names, defaults and units follow PostgreSQL's settings.
//!
//! - `engine`: everything but what follows; `direct`: io_direct; `archive`: the archive;
//!   `pool_size`: shared_buffers; `recovery`: recovery, and what it reports; `stop`: ending a
//!   recovery from outside; `vacuum`: vacuum; `parallel`: parallel scans

mod archive;
mod autovacuum;
mod direct;
mod engine;
mod parallel;
mod pool_size;
mod recovery;
mod stop;
mod vacuum;

pub use archive::{ArchiveMode, ArchiveModules, ArchiveSettings, ArchiveStore};
pub use autovacuum::AutovacuumSettings;
pub use direct::IoDirectSetting;
pub use engine::*;
pub use parallel::ParallelSettings;
pub(crate) use pool_size::DEFAULT as DEFAULT_POOL;
pub use pool_size::{PoolSize, PoolUse, SizeChooser};
pub use recovery::{
    PrefetchStats, RecoveryProgress, RecoveryReport, RecoverySettings, RecoveryTarget, RestoreFrom,
    RestoreSettings, RestoreSource, TargetAction, TargetTimeline,
};
pub(crate) use stop::Interruptible;
pub use stop::RecoveryStop;
pub use vacuum::VacuumSettings;
