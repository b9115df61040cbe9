//! Runs many seeds by several threads. Runs share nothing, so the outcome does not depend on the
//! number of threads.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use forebay_aio::sync::Mutex;
use forebay_aio::sync::atomic::{AtomicU64, Ordering::Relaxed};
use forebay_aio::sync::thread;

use super::Tally;

/// The first seed that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The seed.
    pub seed: u64,
    /// What was wrong.
    pub wrong: String,
}

/// Runs all seeds of a range by `threads` threads. A panic is a failure. After a failure only
/// smaller seeds are run, so the reported seed is always the same.
///
/// # Errors
/// The smallest seed that failed.
pub fn many(
    seeds: Range<u64>,
    threads: usize,
    run: impl Fn(u64) -> Result<Tally, String> + Sync,
) -> Result<Tally, Failed> {
    let (next, limit) = (AtomicU64::new(seeds.start), AtomicU64::new(seeds.end));
    let total = Mutex::new(Tally::default());
    let failed: Mutex<Option<Failed>> = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= limit.load(Relaxed) {
                        break;
                    }
                    match guarded(&run, seed) {
                        Ok(one) => total.lock().add(&one),
                        Err(wrong) => {
                            let mut first = failed.lock();
                            if first.as_ref().is_none_or(|f| seed < f.seed) {
                                *first = Some(Failed { seed, wrong });
                                limit.fetch_min(seed, Relaxed);
                            }
                        }
                    }
                }
            });
        }
    });
    let failed = failed.lock().take();
    match failed {
        Some(failed) => Err(failed),
        None => Ok(total.lock().clone()),
    }
}

fn guarded(
    run: &(impl Fn(u64) -> Result<Tally, String> + Sync),
    seed: u64,
) -> Result<Tally, String> {
    catch_unwind(AssertUnwindSafe(|| run(seed))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panicked: {}", text.unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_seeds_are_run_once() {
        let sum = AtomicU64::new(0);
        let tally = many(3..103, 4, |seed| {
            sum.fetch_add(seed, Relaxed);
            Ok(Tally::one())
        });
        assert_eq!((tally.map(|t| t.runs), sum.into_inner()), (Ok(100), (3..103).sum()));
    }

    #[test]
    fn the_smallest_failing_seed_is_told_and_panics_count() {
        let run = |seed| match seed {
            17 => panic!("on purpose"),
            40.. => Err("wrong".to_owned()),
            _ => Ok(Tally::one()),
        };
        let failed = many(0..1000, 3, run).expect_err("17 fails");
        assert_eq!((failed.seed, failed.wrong.as_str()), (17, "panicked: on purpose"));
    }
}
