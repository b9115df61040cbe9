//! Pages whose header is damaged, and changes that cannot be logged.

use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_aio::{Errno, MethodKind};
use forebay_testkit::io::open_faulty;

use super::changes::{OneRow, ROW};
use super::*;
use crate::error::AccessError;

/// What adds a row to block 0.
type Add = fn(&mut OneRow) -> Result<(), AccessError>;

const INSERT: Add = |row| {
    let author = row.author();
    row.heap.insert(&mut row.backend, author, &tuple_of(7)).map(drop)
};
const INSERT_BATCH: Add = |row| {
    let author = row.author();
    row.heap.insert_batch(&mut row.backend, author, &batch_of(7..9), Strategy::Normal, None)
};
const UPDATE: Add = |row| {
    let author = row.author();
    let (xacts, sets) = (&row.fixture.xacts, &mut row.fixture.outcomes().sets());
    let columns = Columns { layouts: &[AttrLayout::INT8], keys: &[], indexed: &[] };
    let mut changer = Changer { xacts, tx: &Transaction::new(), author, sets, queues: None };
    row.heap.update(&mut row.backend, &mut changer, ROW, &tuple_of(8), &columns).map(drop)
};

impl OneRow {
    /// The first command of a transaction that stays open.
    fn author(&mut self) -> Author {
        Author { xid: self.begin().1, command: 0 }
    }

    /// The bytes of block 0.
    fn bytes(&mut self) -> Box<forebay_format::PageBytes> {
        let tag = self.heap.tag(0);
        let pin = self.heap.pool.read(&mut self.backend, tag, Strategy::Normal).unwrap();
        pin.lock_shared().copy()
    }
}

#[test]
fn a_page_with_a_damaged_header_is_reported_and_left_alone() {
    // Offsets of pd_lower, pd_upper and pd_special, and what they must not be.
    let damages: [(usize, u16); 4] = [(12, 9000), (12, 16), (14, 8193), (16, 64)];
    for (add, what) in [(INSERT, "insert"), (INSERT_BATCH, "batch"), (UPDATE, "update")] {
        for (at, value) in damages {
            let mut row = OneRow::new();
            let pin = row.heap.pool.read(&mut row.backend, row.heap.tag(0), Strategy::Normal);
            let pin = pin.unwrap();
            pin.lock_exclusive()[at..at + 2].copy_from_slice(&value.to_le_bytes());
            drop(pin);
            let before = row.bytes();
            let error = add(&mut row).unwrap_err();
            assert_eq!(error.sqlstate(), "XX001", "{what}, {value} at {at}");
            assert!(error.to_string().starts_with("corrupted page pointers"), "{error}");
            assert!(row.bytes() == before, "{what}, {value} at {at}: the page has changed");
            assert_eq!(row.fixture.failures.all(), [""; 0]);
        }
    }
}

#[test]
fn a_new_version_is_not_put_on_a_page_with_a_damaged_header() {
    let mut row = OneRow::new();
    row.fill_page();
    row.fixture.load(&mut row.backend, &row.heap, [9]);
    let pin = row.heap.pool.read(&mut row.backend, row.heap.tag(1), Strategy::Normal).unwrap();
    pin.lock_exclusive()[12..14].copy_from_slice(&16u16.to_le_bytes());
    drop(pin);
    assert_eq!(UPDATE(&mut row).unwrap_err().sqlstate(), "XX001");
    assert_eq!(row.fixture.failures.all(), [""; 0]);
}

#[test]
fn a_page_changed_without_a_record_stops_the_engine() {
    for add in [INSERT, INSERT_BATCH, UPDATE] {
        let plan = FaultPlan::new();
        let mut row = OneRow::over(Fixture::over(open_faulty(&plan, MethodKind::Sync), 64));
        promise(&mut row.backend, &row.heap);
        row.fixture.write_all(&mut row.backend);
        row.fixture.pool.evict_all(&mut row.backend).unwrap();
        // A record that is not flushed yet.
        let (other, author) = (RelFileLocator::in_default(5, 16_385), row.author());
        let other = row.fixture.heap(other);
        other.insert(&mut row.backend, author, &tuple_of(0)).unwrap();
        let (wal, mut backend) = (row.fixture.wal.clone(), row.fixture.backend());
        let failures = row.fixture.failures.clone();
        // The log fails after it was asked for room, while the map is read.
        let held = plan.hold(Rule::on(Ops::READ).path("_vm"));
        let adding = thread::spawn(move || add(&mut row).is_err());
        held.await_count(1);
        plan.add(Rule::on(Ops::WRITE).path("pg_wal"), Effect::Fail(Errno::IO));
        wal.flush_all(&mut backend.io).unwrap_err();
        held.release();
        assert!(adding.join().unwrap());
        assert_eq!(failures.all().len(), 1);
    }
}
