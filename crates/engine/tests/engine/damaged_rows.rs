//! Pages with damaged rows: every statement that meets one fails and names its place, and all else
//! goes on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::*;
use crate::row_fixture::{joined, make_table, row, update, waiting};
use forebay_engine::{
    EngineConfig, EngineError, IoMethod, ItemPointer, LockMode, LockStrength, RowOutcome, RowWait,
    Session, ShutdownMode, Table, VacuumOptions,
};
use forebay_format::checksum::set_checksum;
use forebay_format::page::{ItemId, PageMut};
use forebay_format::tuple::{HEAP_XMAX_BITS, HEAP_XMAX_IS_MULTI, HEAP_XMIN_FROZEN, HeapTupleMut};
use forebay_format::{BLOCK_SIZE, PageBytes};

/// Rows of a block of the table `v`.
const PER_BLOCK: i64 = 185;
/// The row that is damaged.
const PLACE: ItemPointer = ItemPointer::new(1, 7);

/// A stopped engine's directory with three blocks of rows in `v`, and the next transaction id.
fn three_blocks() -> (tempfile::TempDir, PathBuf, u32) {
    let (scratch, dir) = new_dir();
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    make_table(&mut session, 1..=2 * PER_BLOCK + 50);
    session.begin().expect("begin");
    update(&mut session, 1, 11).expect("update");
    let last = session.transaction_id().expect("it has changed a row");
    session.commit().expect("commit");
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    (scratch, dir, last + 1)
}

/// Changes a page of the table `v` in its file.
fn damage(dir: &Path, block: u32, change: impl FnOnce(&mut PageMut<'_>)) {
    let path = dir.join("base/5/16384");
    let mut bytes = std::fs::read(&path).expect("file");
    let page = &mut bytes[block as usize * BLOCK_SIZE..][..BLOCK_SIZE];
    let page: &mut PageBytes = page.try_into().expect("a page");
    change(&mut PageMut(page));
    set_checksum(page, block);
    std::fs::write(&path, &bytes).expect("written");
}

fn damage_tuple(dir: &Path, change: impl FnOnce(&mut HeapTupleMut<'_>)) {
    damage(dir, PLACE.block, |page| {
        let item = page.item_mut(PLACE.offset).expect("a row");
        change(&mut HeapTupleMut::new(item).expect("a tuple"));
    });
}

fn infomask(tuple: &mut HeapTupleMut<'_>, clear: u16, set: u16) {
    let mask = tuple.tuple().infomask();
    tuple.set_infomask(mask & !clear | set);
}

type Damage = fn(&Path, u32);

/// What befalls the row, the code and the beginning of the message.
const DAMAGES: [(&str, Damage, &str, &str); 6] = [
    (
        "xmin is not assigned yet",
        |dir, next| {
            damage_tuple(dir, |tuple| {
                tuple.set_xmin(next + 1_000);
                infomask(tuple, HEAP_XMIN_FROZEN, 0);
            });
        },
        "XX001",
        "could not access status of transaction ",
    ),
    (
        "pg_xact has no xmin",
        |dir, _| {
            damage_tuple(dir, |tuple| {
                tuple.set_xmin(3_000_000_000);
                infomask(tuple, HEAP_XMIN_FROZEN, 0);
            });
        },
        "58P01",
        "could not access status of transaction 3000000000 ",
    ),
    (
        "pg_xact has no xmax",
        |dir, _| {
            damage_tuple(dir, |tuple| {
                tuple.set_xmax(3_000_000_000);
                infomask(tuple, HEAP_XMAX_BITS, 0);
            });
        },
        "58P01",
        "could not access status of transaction 3000000000 ",
    ),
    (
        "pg_multixact has no xmax",
        |dir, _| {
            damage_tuple(dir, |tuple| {
                tuple.set_xmax(77);
                infomask(tuple, HEAP_XMAX_BITS, HEAP_XMAX_IS_MULTI);
            });
        },
        "XX000",
        "MultiXactId 77 has not been created yet -- apparent wraparound ",
    ),
    (
        "the line pointer leads out of the page",
        |dir, _| {
            damage(dir, PLACE.block, |page| {
                let id = page.page().item_id(PLACE.offset).expect("a line pointer");
                page.set_item_id(PLACE.offset, ItemId { len: 0x7fff, ..id });
            });
        },
        "XX001",
        "line pointer leads out of the page ",
    ),
    (
        "the row is shorter than its header",
        |dir, _| {
            damage(dir, PLACE.block, |page| {
                let id = page.page().item_id(PLACE.offset).expect("a line pointer");
                page.set_item_id(PLACE.offset, ItemId { len: 8, ..id });
            });
        },
        "XX001",
        "",
    ),
];

fn opened(session: &mut Session) -> Result<Arc<Table>, EngineError> {
    session.open_table(None, "v", LockMode::RowExclusive)
}

type Statement = fn(&mut Session) -> Result<(), EngineError>;

/// Statements that meet the row.
const STATEMENTS: [(&str, Statement); 6] = [
    ("SELECT", |session| {
        transaction(session, |s| {
            let table = opened(s)?;
            let mut scan = s.scan(&table)?;
            while scan.next(s)?.is_some() {}
            Ok(())
        })
    }),
    ("count(*)", |session| count(session, "v").map(drop)),
    ("UPDATE", |session| {
        transaction(session, |s| {
            let table = opened(s)?;
            s.update_row(&table, PLACE, &row(0, 0)).map(drop)
        })
    }),
    ("DELETE", |session| {
        transaction(session, |s| {
            let table = opened(s)?;
            s.delete_row(&table, PLACE).map(drop)
        })
    }),
    ("FOR UPDATE", |session| {
        transaction(session, |s| {
            let table = opened(s)?;
            s.lock_row(&table, PLACE, LockStrength::Exclusive, RowWait::Wait).map(drop)
        })
    }),
    ("VACUUM", |session| {
        let table = transaction(session, opened)?;
        let options = VacuumOptions { disable_page_skipping: true, ..VacuumOptions::default() };
        session.vacuum(&table, &options, &mut Vec::new())
    }),
];

/// Rows of another block and of the same one, and other tables. Each time other rows.
fn others_go_on(session: &mut Session, name: &str, time: u16) {
    for place in [(0, 5 + time), (PLACE.block, PLACE.offset + 1 + time)] {
        let place = ItemPointer::new(place.0, place.1);
        let changed = transaction(session, |s| {
            let table = opened(s)?;
            assert!(s.fetch_row(&table, place)?.is_some(), "{name}: {place}");
            s.start_command()?;
            s.update_row(&table, place, &row(0, 0))
        });
        assert!(matches!(changed, Ok(RowOutcome::Done(_))), "{name}: {place}: {changed:?}");
    }
    insert(session, "t", 0..10);
}

#[test]
fn every_statement_names_the_place_of_a_damaged_row_and_others_go_on() {
    for (name, damage, code, message) in DAMAGES {
        let (_scratch, dir, next) = three_blocks();
        damage(&dir, next);
        let (action, reasons) = noting();
        let config = EngineConfig { on_fatal: Some(action), ..config(IoMethod::Sync, false) };
        let (engine, mut session) = open_session(&dir, &config);
        create(&mut session, "t");
        for (time, (statement, run)) in (0..).zip(STATEMENTS) {
            let error = run(&mut session).expect_err(name);
            let text = error.to_string();
            assert_eq!(error.sqlstate(), code, "{name}: {statement}: {text}");
            let place = "(block 1, offset 7 of base/5/16384)";
            assert!(text.starts_with(message), "{name}: {statement}: {text}");
            assert!(text.ends_with(place), "{name}: {statement}: {text}");
            assert_eq!(
                error.detail().is_some(),
                text.starts_with("could not access"),
                "{name}: {statement}: {:?}",
                error.detail()
            );
            assert!(!session.in_transaction());
            others_go_on(&mut session, name, time);
        }
        assert!(reasons.lock().expect("reasons").is_empty(), "{name}");
        drop(session);
        engine.shutdown(ShutdownMode::Fast).expect("stop");
    }
}

#[test]
fn a_chain_that_ends_nowhere_is_named_by_those_who_follow_it() {
    for nowhere in [ItemPointer::new(999, 1), ItemPointer::new(2, 200)] {
        let (_scratch, dir, next) = three_blocks();
        // The next transaction has updated the row, it seems.
        damage_tuple(&dir, |tuple| {
            tuple.set_xmax(next);
            tuple.set_ctid(nowhere);
            infomask(tuple, HEAP_XMAX_BITS, 0);
        });
        let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
        start(&mut session);
        let table = opened(&mut session).expect("table");
        session.update_row(&table, ItemPointer::new(0, 5), &row(0, 0)).expect("update");
        assert_eq!(session.transaction_id(), Some(next));
        let missing = |error: EngineError| {
            let ItemPointer { block, offset } = nowhere;
            let expected = format!(
                "the version of a row that transaction {next} made is missing (block {block}, \
                 offset {offset} of base/5/16384)"
            );
            assert_eq!((error.sqlstate(), error.to_string()), ("XX001", expected));
        };
        let mut locker = engine.session().expect("session");
        let locked = transaction(&mut locker, |s| {
            let table = opened(s)?;
            s.lock_row(&table, PLACE, LockStrength::KeyShare, RowWait::Wait)
        });
        match nowhere.block {
            999 => missing(locked.expect_err("no such block")),
            // An inserter that aborts meanwhile may leave nothing there.
            _ => assert!(matches!(locked, Ok(RowOutcome::Done(_))), "{locked:?}"),
        }
        let follower = waiting(&engine, 1, locker, |session| {
            transaction(session, |s| {
                let table = opened(s)?;
                s.update_row(&table, PLACE, &row(0, 0))
            })
        });
        session.commit().expect("commit");
        let (mut follower, followed) = joined(follower);
        missing(followed.expect_err("the chain ends nowhere"));
        let rows = count(&mut follower, "v").expect("count");
        assert_eq!(rows, (2 * PER_BLOCK + 50) as u64 - 1, "others are read");
    }
}
