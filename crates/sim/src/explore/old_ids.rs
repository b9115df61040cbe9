//! The removal of old transaction ids and MultiXacts, with crashes at its calls.
//!
//! The ids of the directory are about to reach the next files of pg_xact and pg_multixact. Rows are
//! updated while others lock them, a vacuum freezes everything, and the first files go. Whatever a
//! crash leaves, all rows can be read, and the next vacuum removes the rest.

use forebay_aio::PlantedBug;
use forebay_engine::{EngineError, FirstIds, FullXid, OldestIds};
use forebay_testkit::Dice;

use super::Tally;
use super::cut_short::CutShort;
use crate::disk::SimDisk;
use crate::model::Model;
use crate::workload::{Life, Setup, disk_at};

/// Transactions in a file of pg_xact, MultiXacts in one of offsets, members in one of members.
const PER_FILE: [u32; 3] = [32 * 32_768, 32 * 2048, 32 * 1636];

/// Two new data directories whose MultiXacts are at the ends of their files. In the first one the
/// transactions are too: each truncation must be durable without the other.
///
/// # Errors
/// As init.
pub fn old_ids_disks() -> Result<[SimDisk; 2], EngineError> {
    let [xids, multis, members] = PER_FILE;
    let (none, multi) = (FirstIds::default(), multis - 2);
    let oldest = OldestIds { multi, ..none.oldest };
    let at = |xid| disk_at(FirstIds { xid, multi, member: members - 3, oldest });
    Ok([at(FullXid::new(0, xids - 8))?, at(none.xid)?])
}

/// A life of a seed on a copy of one of the disks that [`old_ids_disks`] made, crashed at every
/// `stride`-th call. Each time the unsynced changes are lost, kept, and torn.
///
/// # Errors
/// What contradicts the model, with the number of the call and what survived.
pub fn old_ids_removed(
    templates: &[SimDisk; 2],
    seed: u64,
    stride: usize,
    bug: Option<PlantedBug>,
) -> Result<Tally, String> {
    let template = &templates[(seed % 2) as usize];
    let setup = Setup::random(&mut Dice::new(seed));
    let life = CutShort { template, setup, seed, stride, bug };
    life.run(
        |mut life, model| {
            work(&mut life, model);
            Ok(())
        },
        |disk, model| look(disk, setup, model),
    )
}

/// What is done before the crash.
fn work(life: &mut Life, model: &mut Model) {
    const TABLE: &str = "t_1";
    life.make(model, TABLE.to_owned());
    if model.present().is_empty() {
        return;
    }
    for id in 0..3 {
        life.put(model, TABLE, 10 * id..10 * id + 4, true);
    }
    for _ in 0..3 {
        // Who cannot be told of an outcome has changed nothing that is compared.
        let _ = life.change_beside_a_lock(TABLE);
    }
    let _ = life.session().checkpoint();
    let _ = life.change_beside_a_lock(TABLE);
    let _ = life.vacuum();
    life.put(model, TABLE, 100..103, true);
}

/// Compares what is found, before and after a vacuum.
fn look(disk: &SimDisk, setup: Setup, model: &Model) -> Result<(), String> {
    let mut model = model.clone();
    let mut life = Life::begin(disk, setup).map_err(|error| error.to_string())?;
    model.settle(&life.contents()?)?;
    life.vacuum().map_err(|error| format!("vacuum: {error}"))?;
    model.settle(&life.contents()?)?;
    Ok(())
}
