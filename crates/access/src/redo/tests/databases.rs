//! Databases that are copied file by file, and tablespaces.

use forebay_format::ids::TABLESPACE_VERSION_DIR;
use forebay_format::wal::database::{CREATE_FILE_COPY, DatabaseDrop, DatabasePlace, FileCopy};
use forebay_format::wal::{database, tablespace};

use super::*;

/// Recovery from a backup begins before what its directory has lost: the source of a copy, or the
/// tablespace that the copy was in.
#[test]
fn a_copy_whose_source_or_tablespace_is_gone_later_is_redone() {
    let mut feeder = Feeder::new();
    let dir = feeder._dir.path().to_path_buf();
    std::fs::create_dir_all(dir.join("pg_tblspc")).unwrap();
    std::fs::write(dir.join("base/5/77"), "copied").unwrap();
    let (gone, there) =
        (DatabasePlace { db: 20_000, spc: 1663 }, DatabasePlace { db: 5, spc: 1663 });
    let copies = [
        FileCopy { from: gone, to: DatabasePlace { db: 20_001, spc: 1663 } },
        FileCopy { from: there, to: DatabasePlace { db: 20_002, spc: 30_000 } },
        FileCopy { from: gone, to: DatabasePlace { db: 20_003, spc: 30_000 } },
    ];
    for copy in copies {
        let main = copy.encode();
        let (result, _) = feeder.redo(&[record(Rmgr::DBASE, CREATE_FILE_COPY, 800, &main)]);
        result.unwrap();
        assert!(dir.join(copy.to.path()).is_dir(), "{copy:?}");
    }
    assert!(dir.join(copies[1].to.path()).join("77").exists());
    let mut drops: Vec<Vec<u8>> = Vec::new();
    for (db, spc) in [(20_000, 1663), (20_001, 1663), (20_002, 30_000), (20_003, 30_000)] {
        drops.push(DatabaseDrop { db, tablespaces: vec![spc] }.encode());
    }
    let drops: Vec<_> =
        drops.iter().map(|main| record(Rmgr::DBASE, database::DROP, 801, main)).collect();
    feeder.redo_from(3, &drops).0.unwrap();
    let gone = tablespace::encode_drop(30_000);
    feeder.redo_from(7, &[record(Rmgr::TBLSPC, tablespace::DROP, 802, &gone)]).0.unwrap();
    assert!(!dir.join("base/20000").exists() && !dir.join("pg_tblspc/30000").exists());
    assert!(dir.join("base/5").exists());
}

/// As in PostgreSQL, a tablespace that can't be removed is no end of recovery.
#[test]
fn a_tablespace_that_is_in_the_way_of_its_removal_stays() {
    let mut feeder = Feeder::new();
    let place = feeder._dir.path().join("pg_tblspc/30000");
    std::fs::create_dir_all(place.join(TABLESPACE_VERSION_DIR)).unwrap();
    std::fs::write(place.join("in the way"), "x").unwrap();
    let gone = tablespace::encode_drop(30_000);
    feeder.redo(&[record(Rmgr::TBLSPC, tablespace::DROP, 802, &gone)]).0.unwrap();
    assert!(place.join("in the way").exists());
}
