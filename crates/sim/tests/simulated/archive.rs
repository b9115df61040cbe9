//! The archiver on a disk that loses, tears and reorders unsynced changes, and fails. After every
//! crash the archive must hold everything reported as archived. Nothing in an archive may ever
//! change, and a restart must converge by itself.

use crate::runs::run;
use forebay_sim::FaultClass;
use forebay_sim::explore::{archive_life, every_archive_crash};

/// Power loss before the .done rename persists, with the segment intact, gone or recycled; during
/// storing, syncing and renaming; unsynced copies; files of other servers; temporary files left
/// behind; kills.
#[test]
#[ignore = "run by cargo xtask test"]
fn lives_of_an_archiver() {
    let (n, tally) = run("lives_of_an_archiver", "FOREBAY_SIM_ARCHIVE_RUNS", 40, |seed| {
        archive_life(seed, None)
    });
    assert!(tally.compared >= 4 * n);
    if n >= 200 {
        for class in [
            FaultClass::Crash,
            FaultClass::Kill,
            FaultClass::LostUnsynced,
            FaultClass::LostName,
            FaultClass::WriteError,
            FaultClass::NoSpace,
            FaultClass::FailedSync,
            FaultClass::FalseAlarm,
            FaultClass::NameError,
        ] {
            assert!(tally.of(class) > 0, "no {class} in {n} runs");
        }
    }
}

#[test]
#[ignore = "run by cargo xtask test"]
fn a_crash_at_every_call_of_an_archiver() {
    let (n, tally) = run("a_crash_at_every_call", "FOREBAY_SIM_ARCHIVE_CRASHES", 2, |seed| {
        every_archive_crash(seed, 12)
    });
    assert!(tally.compared >= 50 * n, "{tally}");
}
