//! What the batteries share: their sizes, and the number of threads.

/// A number from the environment.
pub fn setting(name: &str, default: u64) -> u64 {
    forebay_testkit::env::number(name).unwrap_or(default)
}

/// One thread for each processor.
pub fn threads() -> usize {
    setting(
        "FOREBAY_SIM_THREADS",
        std::thread::available_parallelism().map_or(1, usize::from) as u64,
    ) as usize
}
