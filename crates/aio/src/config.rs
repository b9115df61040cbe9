//! [`AioConfig`]: sizes and switches.

/// Sizes and switches of an [`Aio`](crate::Aio).
#[derive(Clone, Copy, Debug)]
pub struct AioConfig {
    /// The maximum number of backends at one time.
    pub max_backends: usize,
    /// The maximum number of I/Os in flight per backend (1 to 1024).
    pub handles_per_backend: usize,
    /// Whether I/Os with an account are timed.
    pub track_io_timing: bool,
    /// Whether io_uring may register memory
    /// ([`Aio::register_memory`](crate::Aio::register_memory)).
    pub register_memory: bool,
    /// Whether io_uring may register files that are used often. Off by default: on two processors
    /// the gain is within the noise.
    pub register_files: bool,
    /// The maximum size in bytes of an I/O merged from staged neighbours.
    pub combine_limit: usize,
}

impl Default for AioConfig {
    fn default() -> AioConfig {
        AioConfig {
            max_backends: 128,
            handles_per_backend: 64,
            track_io_timing: false,
            register_memory: true,
            register_files: false,
            combine_limit: DEFAULT_COMBINE_LIMIT,
        }
    }
}

/// The default of `combine_limit`: PostgreSQL's 16 blocks.
const DEFAULT_COMBINE_LIMIT: usize = 128 * 1024;
