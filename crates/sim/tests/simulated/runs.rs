//! Runs a part of the battery over its seeds.

use crate::common::{setting, threads};
use forebay_sim::explore::{Tally, many};

/// Runs seeds from FOREBAY_SIM_SEED on, as many as the variable `runs` or else `usual` says, and
/// prints the result. Returns how many there were, and what came of them.
///
/// # Panics
/// When a run fails. The message names the command that repeats it.
pub fn run(
    test: &str,
    runs: &str,
    usual: u64,
    run: impl Fn(u64) -> Result<Tally, String> + Sync,
) -> (u64, Tally) {
    let began = std::time::Instant::now();
    let (first, n) = (setting("FOREBAY_SIM_SEED", 1), setting(runs, usual));
    match many(first..first + n, threads(), run) {
        Ok(tally) => {
            println!("battery: {test}: {tally} {:.1} s", began.elapsed().as_secs_f64());
            (n, tally)
        }
        Err(failed) => {
            let again = again(test, runs, failed.seed);
            panic!("seed {}: {}\nagain: {again}", failed.seed, failed.wrong)
        }
    }
}

/// The command that repeats one seed of a test as it was run here.
fn again(test: &str, runs: &str, seed: u64) -> String {
    let filter = test.split(' ').next().unwrap_or(test);
    let sizes = std::env::vars().filter(|(name, _)| {
        name.starts_with("FOREBAY_SIM_")
            && name != runs
            && !["FOREBAY_SIM_SEED", "FOREBAY_SIM_THREADS"].contains(&&name[..])
    });
    let mut sizes: Vec<String> = sizes.map(|(name, value)| format!("{name}={value} ")).collect();
    sizes.sort();
    let sizes = sizes.concat();
    format!(
        "FOREBAY_SIM_SEED={seed} {runs}=1 {sizes}cargo test --profile battery -p forebay-sim \
         --test simulated {filter} -- --include-ignored"
    )
}
