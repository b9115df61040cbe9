//! A session that reads the row while others change it. A snapshot shows one state of the row, the
//! same at each read: at least as new as the last commit that had returned when the snapshot was
//! taken.

use forebay_access::heap::Visibility;
use forebay_format::ItemPointer;
use forebay_txn::{LastRunning, Transaction};

use super::{Fixture, SESSIONS, STEPS, TRANSACTIONS, number_of};

/// Snapshots that a reader takes.
const SNAPSHOTS: usize = 3;
/// Versions that there may be.
const VERSIONS: u16 = 1 + (SESSIONS * STEPS) as u16 * TRANSACTIONS as u16;

/// Takes snapshots, and reads with each of them twice.
pub(super) fn read(fixture: &Fixture) {
    let (mut backend, tx) = (fixture.backend(), Transaction::new());
    let mut last = LastRunning::default();
    // Kept in use: a session may get its last snapshot again.
    let mut in_use = Vec::new();
    for _ in 0..SNAPSHOTS {
        let returned = fixture.model().returned;
        let snapshot = fixture.xacts.snapshot_since(&tx, &mut last);
        let mut seen = || -> Vec<i64> {
            let mut visibility = Visibility::new(snapshot.clone(), fixture.outcomes.clone());
            let at = |offset| ItemPointer::new(0, offset);
            let mut fetch = |tid| fixture.heap.fetch(&mut backend, &mut visibility, tid);
            let versions = (1..=VERSIONS).filter_map(|offset| fetch(at(offset)).expect("fetched"));
            versions.map(|version| number_of(&version)).collect()
        };
        let found = seen();
        assert_eq!(seen(), found, "a snapshot shows the same again");
        assert!(found.len() <= 1, "a row is there once: {found:?}");
        let model = fixture.model();
        let possible = &model.history[returned..];
        assert!(possible.contains(&found.first().copied()), "{found:?} is none of {possible:?}");
        in_use.push(snapshot);
    }
}
