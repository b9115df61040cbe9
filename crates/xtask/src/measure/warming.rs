//! Reading before the clock starts, until caches have the size that they keep.

use std::time::{Duration, Instant};

/// So long work is repeated.
const WARMING: Duration = Duration::from_secs(10);

/// Repeats work, twice at least.
///
/// # Errors
/// Those of the work.
pub fn warm(mut work: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    let begun = Instant::now();
    work()?;
    work()?;
    while begun.elapsed() < WARMING {
        work()?;
    }
    Ok(())
}
