//! Sets of transactions: members, pages, the wraparound of both counters, removal, redo.

use std::fs;

use forebay_format::Lsn;
use forebay_format::multixact::{Member, MemberStatus};
use forebay_format::wal::multixact::{CREATE_ID, MultiXactCreate, ZERO_OFF_PAGE, encode_zero_page};
use forebay_format::wal::{DecodedRecord, RecordHeader, Rmgr};
use forebay_txn::redo::MultiXactRedo;
use forebay_txn::{DatabaseName, IdWarning, MultiUse};

use super::*;

const SEGMENT_MEMBERS: u32 = 32 * 1636;

fn member(xid: Xid, status: MemberStatus) -> Member {
    Member { xid, status }
}

fn lockers(xids: impl IntoIterator<Item = Xid>) -> Vec<Member> {
    xids.into_iter().map(|xid| member(xid, MemberStatus::ForShare)).collect()
}

/// A fixture, with `pg_multixact` at some counters, as after a restart.
struct Multis {
    fixture: Fixture,
    multis: Arc<MultiXacts>,
    backend: Backend,
}

impl Multis {
    fn at(next: u32, next_offset: u32, oldest: u32) -> Multis {
        let fixture = Fixture::new();
        // Full files of zeros around the counters.
        for (dir, segment) in
            [("offsets", next / 65_536), ("members", next_offset / SEGMENT_MEMBERS)]
        {
            let dir = fixture.dir.path().join("pg_multixact").join(dir);
            fs::create_dir_all(&dir).unwrap();
            let file = fs::File::create(dir.join(format!("{segment:04X}"))).unwrap();
            file.set_len(32 * 8192).unwrap();
        }
        let counters = MultiCounters { next, next_offset, oldest, oldest_db: 1 };
        let mut backend = fixture.backend();
        let multis = Arc::new(MultiXacts::beside(&fixture.clog, counters));
        multis.finish_recovery(&mut backend.io, counters).unwrap();
        Multis { fixture, multis, backend }
    }

    fn create(&mut self, members: Vec<Member>) -> Result<u32, TxnError> {
        let mut of_one = MultiUse::begin(self.multis.clone());
        let xid = members[0].xid;
        of_one.create(&mut self.backend.io, &self.fixture.xacts, xid, members)
    }

    /// The same, with its warnings.
    fn create_warned(&mut self, members: Vec<Member>) -> (Result<u32, TxnError>, Vec<IdWarning>) {
        let mut of_one = MultiUse::begin(self.multis.clone());
        let xid = members[0].xid;
        let made = of_one.create(&mut self.backend.io, &self.fixture.xacts, xid, members);
        (made, of_one.take_warnings())
    }

    /// The members of a set, by one who has not seen it.
    fn members(&mut self, multi: u32) -> Result<Vec<Member>, TxnError> {
        MultiUse::begin(self.multis.clone()).members(&mut self.backend.io, multi, false)
    }

    /// Another instance over the same files.
    fn reopened(&self, counters: MultiCounters) -> Arc<MultiXacts> {
        Arc::new(MultiXacts::beside(&self.fixture.clog, counters))
    }

    fn files(&self, dir: &str) -> Vec<String> {
        let entries = fs::read_dir(self.fixture.dir.path().join("pg_multixact").join(dir)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    /// Replays the log over an empty `pg_multixact`. Returns it with the counters.
    fn replayed(&mut self, from: MultiCounters) -> (Arc<MultiXacts>, MultiCounters) {
        let fixture = &self.fixture;
        fixture.wal.flush_all(&mut self.backend.io).unwrap();
        let multis = Arc::new(MultiXacts::beside(&fixture.clog, from));
        multis.set_recovering(true);
        let mut io = fixture.aio.backend(BackendType::Startup).unwrap();
        let mut reader = reader(&fixture.aio, fixture.dir.path(), WAL_START);
        let (next_multi, next_multi_offset) = (from.next, from.next_offset);
        let point =
            forebay_format::wal::xlog::CheckPoint { next_multi, next_multi_offset, ..checkpoint() };
        let (pool, clog) = (&fixture.pool, &fixture.clog);
        let mut ctx = RedoContext::new(&mut self.backend, pool, clog, &multis, &point);
        let managers: [&dyn ResourceManager; 3] = [&XactRedo, &ClogRedo, &MultiXactRedo];
        while let Some(record) = reader.next(&mut io).unwrap() {
            let decoded = record.decode().unwrap();
            let manager = managers.iter().find(|m| m.id() == decoded.header.rmgr).unwrap();
            assert!(manager.knows(decoded.header.info));
            let record = RedoRecord { start: record.start, end: record.end, record: &decoded };
            manager.redo(&record, &mut ctx).unwrap();
        }
        let counters = MultiCounters {
            next: ctx.counters.next_multi,
            next_offset: ctx.counters.next_multi_offset,
            ..multis.counters()
        };
        multis.set_recovering(false);
        (multis, counters)
    }
}

#[test]
fn a_set_is_made_once_and_found_again() {
    let mut it = Multis::at(1, 1, 1);
    let (xacts, io) = (&it.fixture.xacts, &mut it.backend.io);
    let (mut a, mut b, mut c) = (Transaction::new(), Transaction::new(), Transaction::new());
    let [xa, xb, xc] = [&mut a, &mut b, &mut c].map(|tx| xacts.assign(io, tx).unwrap());
    let mut of_b = MultiUse::begin(it.multis.clone());
    let (share, update) = (MemberStatus::ForShare, MemberStatus::NoKeyUpdate);
    let two = vec![member(xb, share), member(xa, share)];
    let multi = of_b.create(io, xacts, xb, two.clone()).unwrap();
    assert_eq!(multi, 1);
    assert_eq!(of_b.create(io, xacts, xb, two.iter().rev().copied().collect()).unwrap(), 1);
    let mut of_c = MultiUse::begin(it.multis.clone());
    assert_eq!(of_c.members(io, 1, false).unwrap(), lockers([xa, xb]));
    assert!(of_c.members(io, 1, true).unwrap().len() == 2, "it is remembered");
    assert_eq!(of_c.expand(io, xacts, 1, member(xa, share)).unwrap(), 1, "it is in the set");

    // Lockers that are over leave the set, an update that committed stays.
    let updated = of_c.expand(io, xacts, 1, member(xc, update)).unwrap();
    assert_eq!(updated, 2);
    xacts.commit(io, &mut c).unwrap();
    xacts.commit(io, &mut b).unwrap();
    let again = of_b.expand(io, xacts, updated, member(xa, MemberStatus::ForKeyShare)).unwrap();
    let expected =
        vec![member(xa, MemberStatus::ForKeyShare), member(xa, share), member(xc, update)];
    assert_eq!(of_b.members(io, again, false).unwrap(), expected);
    assert_eq!(it.multis.counters().next, 4);
    assert_eq!(it.multis.counters().next_offset, 1 + 2 + 3 + 3);

    // As the files have it, and the log.
    assert_eq!(it.multis.flush(io).unwrap(), 2);
    assert_eq!(it.multis.flush(io).unwrap(), 0);
    drop((of_b, of_c));
    let reopened = it.reopened(it.multis.counters());
    it.multis = reopened;
    assert_eq!(it.members(again).unwrap(), expected);
    let from = MultiCounters { next: 1, next_offset: 1, oldest: 1, oldest_db: 1 };
    let (replayed, counters) = it.replayed(from);
    assert_eq!(counters, it.multis.counters());
    replayed.finish_recovery(&mut it.backend.io, counters).unwrap();
    it.multis = replayed;
    assert_eq!(it.members(1).unwrap(), lockers([xa, xb]));
    assert_eq!(it.members(again).unwrap(), expected);
}

#[test]
fn each_set_writes_where_the_next_one_begins() {
    let mut it = Multis::at(2046, 1630, 2046);
    let sets: Vec<Vec<Member>> = (0..6).map(|n| lockers(10 * n + 10..10 * n + 14 + n)).collect();
    for set in &sets {
        it.create(set.clone()).unwrap();
    }
    it.multis.flush(&mut it.backend.io).unwrap();
    let bytes = fs::read(it.fixture.dir.path().join("pg_multixact/offsets/0000")).unwrap();
    let offset = |multi: usize| u32::from_le_bytes(bytes[4 * multi..][..4].try_into().unwrap());
    // Across a page of offsets and one of members, and one beyond the newest.
    let starts: Vec<u32> = (2046..2053).map(offset).collect();
    assert_eq!(starts, [1630, 1634, 1639, 1645, 1652, 1660, 1669]);
    assert_eq!(offset(2053), 0);
    for (multi, set) in (2046..).zip(&sets) {
        assert_eq!(it.members(multi).unwrap(), *set);
    }
    // 5 and 6 were not durable: what the checkpoint does not know is cleared.
    let counters = MultiCounters { next: 2050, next_offset: 1652, oldest: 2046, oldest_db: 1 };
    it.multis = it.reopened(counters);
    it.multis.finish_recovery(&mut it.backend.io, counters).unwrap();
    assert_eq!(it.members(2049).unwrap(), sets[3]);
    assert_eq!(it.create(lockers([7, 8])).unwrap(), 2050);
    assert_eq!(it.members(2050).unwrap(), lockers([7, 8]));
}

#[test]
fn ids_and_members_wrap_around() {
    // Each start so that the wrap comes within the sets, at all places.
    for back in 0..9u32 {
        let mut it = Multis::at(u32::MAX - 2, u32::MAX - back, u32::MAX - 2);
        let sets: Vec<Vec<Member>> = (0..6).map(|n| lockers(n + 10..n + 13)).collect();
        let multis: Vec<u32> = sets.iter().map(|set| it.create(set.clone()).unwrap()).collect();
        assert_eq!(multis, [u32::MAX - 2, u32::MAX - 1, u32::MAX, 1, 2, 3]);
        for (multi, set) in multis.iter().zip(&sets) {
            assert_eq!(it.members(*multi).unwrap(), *set, "{multi}, {back} back");
        }
        assert!(it.multis.counters().next_offset <= 18);
        let from = MultiCounters {
            next: u32::MAX - 2,
            next_offset: u32::MAX - back,
            oldest: u32::MAX - 2,
            oldest_db: 1,
        };
        let (replayed, counters) = it.replayed(from);
        assert_eq!(counters.next, 4);
        replayed.finish_recovery(&mut it.backend.io, counters).unwrap();
        it.multis = replayed;
        for (multi, set) in multis.iter().zip(&sets) {
            assert_eq!(it.members(*multi).unwrap(), *set, "{multi} redone, {back} back");
        }
    }
}

#[test]
fn sets_that_do_not_exist_are_errors() {
    let mut it = Multis::at(100, 50, 90);
    let gone = it.members(89);
    let message = "MultiXactId 89 does no longer exist -- apparent wraparound";
    assert_eq!(gone.as_ref().unwrap_err().to_string(), message);
    assert_eq!(sqlstate(gone), "XX000");
    let message = "MultiXactId 100 has not been created yet -- apparent wraparound";
    assert_eq!(it.members(100).unwrap_err().to_string(), message);
    // The file has zeros for 95.
    let damaged = it.members(95);
    let message = damaged.as_ref().unwrap_err().to_string();
    assert_eq!((&message[..], sqlstate(damaged)), ("MultiXact 95 has invalid offset", "XX001"));
    // Older than any member that ran: nobody needs to look.
    let mut of_one = MultiUse::begin(it.multis.clone());
    assert_eq!(of_one.members(&mut it.backend.io, 95, true).unwrap(), []);
}

#[test]
fn a_set_whose_pages_can_not_be_read_is_not_made() {
    let mut it = Multis::at(5, 9, 5);
    it.create(lockers([3, 4])).unwrap();
    it.multis.flush(&mut it.backend.io).unwrap();
    it.multis = it.reopened(it.multis.counters());
    // Not before the end of recovery.
    let message = it.create(lockers([5, 6])).unwrap_err().to_string();
    assert_eq!(message, "cannot assign MultiXactIds during recovery");
    it.multis.finish_recovery(&mut it.backend.io, it.multis.counters()).unwrap();
    it.multis = it.reopened(it.multis.counters());
    let file = it.fixture.dir.path().join("pg_multixact/members/0000");
    let aside = it.fixture.dir.path().join("aside");
    fs::rename(&file, &aside).unwrap();
    let before = (it.multis.counters(), it.fixture.wal.insert_lsn());
    it.multis.finish_recovery(&mut it.backend.io, before.0).unwrap_err();
    assert!(it.create(lockers([5, 6])).is_err());
    assert_eq!((it.multis.counters(), it.fixture.wal.insert_lsn()), before);
    fs::rename(&aside, &file).unwrap();
    it.multis.finish_recovery(&mut it.backend.io, before.0).unwrap();
    assert_eq!(it.create(lockers([5, 6])).unwrap(), 6);
    assert_eq!(it.members(5).unwrap(), lockers([3, 4]));
}

#[test]
fn counters_stop_before_the_oldest() {
    let stop = 10 + (u32::MAX >> 1) - 3_000_000;
    let mut it = Multis::at(stop - 1, 5, stop - 1);
    let counters = MultiCounters { oldest: 10, ..it.multis.counters() };
    // The oldest set's page is there, and says where its members begin.
    let path = it.fixture.dir.path().join("pg_multixact/offsets/0000");
    let mut bytes = vec![0; 8192];
    bytes[40..44].copy_from_slice(&(3 * SEGMENT_MEMBERS + 7).to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    it.multis.flush(&mut it.backend.io).unwrap();
    it.multis = it.reopened(counters);
    it.multis.finish_recovery(&mut it.backend.io, counters).unwrap();
    assert_eq!(it.create(lockers([3, 4])).unwrap(), stop - 1);
    assert_eq!(sqlstate(it.create(lockers([3, 4]))), "54000");

    // One file before that of the oldest members.
    let counters = MultiCounters { next: 70, next_offset: 2 * SEGMENT_MEMBERS - 3, ..counters };
    let members = it.fixture.dir.path().join("pg_multixact/members/0001");
    fs::File::create(members).unwrap().set_len(32 * 8192).unwrap();
    it.multis = it.reopened(counters);
    it.multis.finish_recovery(&mut it.backend.io, counters).unwrap();
    let error = it.create(lockers([3, 4, 5])).unwrap_err();
    assert_eq!(error.to_string(), "multixact \"members\" limit exceeded");
    assert_eq!(
        error.detail().unwrap(),
        "This command would create a multixact with 3 members, but the remaining space is only \
         enough for 2 members."
    );
    assert_eq!(
        error.hint().unwrap(),
        "Execute a database-wide VACUUM in database with OID 1 with reduced \
         \"vacuum_multixact_freeze_min_age\" and \"vacuum_multixact_freeze_table_age\" settings."
    );
    let (multi, warnings) = it.create_warned(lockers([3, 4]));
    assert_eq!((multi.unwrap(), warnings.len()), (70, 1));
    let warning = &warnings[0];
    assert_eq!(
        (warning.sqlstate, &warning.hint[..52]),
        ("54000", "Execute a database-wide VACUUM in that database with",)
    );
    let message = "database with OID 1 must be vacuumed before 5 more multixact members are used";
    assert_eq!(warning.message, message);
}

#[test]
fn each_of_the_last_sets_comes_with_a_warning() {
    let wrap = 10 + (u32::MAX >> 1);
    let mut it = Multis::at(wrap - 40_000_001, 5, 10);
    let (_, warnings) = it.create_warned(lockers([3, 4]));
    assert_eq!(warnings, []);
    let (_, warnings) = it.create_warned(lockers([3, 5]));
    let message = "database with OID 1 must be vacuumed before 40000000 more MultiXactIds are used";
    assert_eq!(warnings.iter().map(|w| &w.message[..]).collect::<Vec<_>>(), [message]);
    // The limit moves with the oldest set.
    let next = it.multis.counters().next;
    let io = &mut it.backend.io;
    let database = || DatabaseName { oid: 5, name: Some("app".into()) };
    let warning = it.multis.set_limit(io, 10, database()).unwrap().unwrap();
    let message = "database \"app\" must be vacuumed before 39999999 more MultiXactIds are used";
    assert_eq!(warning.message, message);
    assert_eq!(it.multis.set_limit(io, next, database()).unwrap(), None);
    let counters = it.multis.counters();
    assert_eq!((counters.oldest, counters.oldest_db), (next, 5));
    assert_eq!(it.create_warned(lockers([3, 6])).1, []);
}

#[test]
fn what_running_transactions_may_see_stays() {
    let mut it = Multis::at(40, 5, 40);
    assert_eq!(it.multis.oldest_in_use(), 40);
    let first = MultiUse::begin(it.multis.clone());
    it.create(lockers([3, 4])).unwrap();
    it.create(lockers([3, 5])).unwrap();
    let second = MultiUse::begin(it.multis.clone());
    let third = MultiUse::begin(it.multis.clone());
    assert_eq!(it.multis.oldest_in_use(), 40);
    drop(first);
    assert_eq!(it.multis.oldest_in_use(), 40, "they may look at sets that the first is in");
    drop(second);
    drop(third);
    assert_eq!(it.multis.oldest_in_use(), 42);
    let mut later = MultiUse::begin(it.multis.clone());
    assert_eq!(later.members(&mut it.backend.io, 41, true).unwrap(), []);
    assert_eq!(later.members(&mut it.backend.io, 41, false).unwrap(), lockers([3, 5]));
}

#[test]
fn old_sets_are_removed_and_logged() {
    let mut it = Multis::at(65_534, SEGMENT_MEMBERS - 5, 65_534);
    let from = it.multis.counters();
    let sets: Vec<u32> = (0..6).map(|n| it.create(lockers(n + 3..n + 6)).unwrap()).collect();
    it.multis.flush(&mut it.backend.io).unwrap();
    assert_eq!(it.files("offsets"), ["0000", "0001"]);
    assert_eq!(it.files("members"), ["0000", "0001"]);
    let (xacts, io) = (it.fixture.xacts.clone(), &mut it.backend.io);
    assert!(!it.multis.truncate(io, &xacts, sets[0], 7).unwrap());
    assert!(it.multis.truncate(io, &xacts, sets[3], 7).unwrap());
    let counters = it.multis.counters();
    assert_eq!((counters.oldest, counters.oldest_db), (65_537, 7));
    assert_eq!(it.files("offsets"), ["0001"]);
    assert_eq!(it.files("members"), ["0001"]);
    assert_eq!(sqlstate(it.members(sets[2])), "XX000");
    assert_eq!(it.members(sets[3]).unwrap(), lockers(6..9));
    let beyond = it.multis.truncate(&mut it.backend.io, &xacts, 65_541, 7);
    assert_eq!(sqlstate(beyond), "XX000");

    // A crash left the files: redo removes them.
    fs::write(it.fixture.dir.path().join("pg_multixact/members/0000"), [0; 8192]).unwrap();
    fs::write(it.fixture.dir.path().join("pg_multixact/offsets/0000"), [0; 8192]).unwrap();
    let (replayed, redone) = it.replayed(from);
    assert_eq!(redone, counters);
    assert_eq!(
        (it.files("offsets"), it.files("members")),
        (vec!["0001".into()], vec!["0001".into()])
    );
    replayed.finish_recovery(&mut it.backend.io, redone).unwrap();
    it.multis = replayed;
    assert_eq!(it.members(sets[5]).unwrap(), lockers(8..11));
    // All of them.
    let next = it.multis.counters().next;
    assert!(it.multis.truncate(&mut it.backend.io, &xacts, next, 7).unwrap());
    assert_eq!(it.create(lockers([3, 4])).unwrap(), next);
}

#[test]
fn many_make_sets_while_pages_are_written() {
    let it = Multis::at(2000, 1600, 2000);
    let makers: Vec<_> = (1..4u32)
        .map(|maker| {
            let (multis, xacts) = (it.multis.clone(), it.fixture.xacts.clone());
            let mut backend = it.fixture.backend();
            thread::spawn(move || {
                let io = &mut backend.io;
                for round in 0..200u32 {
                    let set = lockers((0..1 + round % 7).map(|n| maker * 1000 + round + n));
                    let mut of_one = MultiUse::begin(multis.clone());
                    let multi = of_one.create(io, &xacts, maker * 1000, set.clone()).unwrap();
                    let mut of_another = MultiUse::begin(multis.clone());
                    assert_eq!(of_another.members(io, multi, false).unwrap(), set);
                    if round % 50 == 0 {
                        multis.flush(io).unwrap();
                    }
                }
            })
        })
        .collect();
    for maker in makers {
        maker.join().unwrap();
    }
    let mut it = it;
    assert_eq!(it.multis.counters().next, 2600);
    assert_eq!(it.multis.oldest_in_use(), 2600, "nobody uses sets any more");
    let expected: Vec<_> = (2000..2600).map(|multi| it.members(multi).unwrap()).collect();
    it.multis.flush(&mut it.backend.io).unwrap();
    it.multis = it.reopened(it.multis.counters());
    for (multi, set) in (2000..).zip(&expected) {
        assert_eq!(it.members(multi).unwrap(), *set);
    }
}

/// Older minor versions add a page of offsets with the first set on it, after the set that writes
/// where that one begins.
#[test]
fn a_page_that_an_older_log_adds_late_keeps_its_first_entry() {
    let mut it = Multis::at(2047, 5, 2047);
    it.multis.set_recovering(true);
    let create = |multi, offset, xid| {
        let main = MultiXactCreate { multi, offset, members: lockers([xid, xid + 1]) }.encode();
        (CREATE_ID, main)
    };
    let page = (ZERO_OFF_PAGE, encode_zero_page(1).to_vec());
    // The record of 2048 was lost in a crash.
    let log = [create(2047, 5, 10), page, create(2049, 9, 30)];
    let point = checkpoint();
    let (pool, clog) = (&it.fixture.pool, &it.fixture.clog);
    let mut ctx = RedoContext::new(&mut it.backend, pool, clog, &it.multis, &point);
    for (info, main) in &log {
        let header = RecordHeader {
            total_len: 24,
            xid: 0,
            prev: Lsn(0),
            info: *info,
            rmgr: Rmgr::MULTIXACT,
            crc: 0,
        };
        let (blocks, origin) = (Vec::new(), None);
        let record = DecodedRecord { header, blocks, main, origin, toplevel_xid: None };
        let record = RedoRecord { start: Lsn(8), end: Lsn(16), record: &record };
        MultiXactRedo.redo(&record, &mut ctx).unwrap();
    }
    let (next, next_offset) = (ctx.counters.next_multi, ctx.counters.next_multi_offset);
    let counters = MultiCounters { next, next_offset, ..it.multis.counters() };
    it.multis.set_recovering(false);
    it.multis.finish_recovery(&mut it.backend.io, counters).unwrap();
    assert_eq!(it.members(2047).unwrap(), lockers([10, 11]));
    assert_eq!(it.members(2049).unwrap(), lockers([30, 31]));
}

#[test]
fn two_updates_in_a_set_are_damage() {
    let mut it = Multis::at(1, 1, 1);
    let (xacts, io) = (&it.fixture.xacts, &mut it.backend.io);
    let (mut a, mut b) = (Transaction::new(), Transaction::new());
    let [xa, xb] = [&mut a, &mut b].map(|tx| xacts.assign(io, tx).unwrap());
    let mut of_b = MultiUse::begin(it.multis.clone());
    let (share, update) = (MemberStatus::ForShare, MemberStatus::Update);
    let multi = of_b.create(io, xacts, xa, vec![member(xa, update), member(xb, share)]).unwrap();
    xacts.commit(io, &mut a).unwrap();
    let error = of_b.expand(io, xacts, multi, member(xb, update));
    let message = error.as_ref().unwrap_err().to_string();
    assert_eq!(message, "MultiXact 1 has an updating member already");
    assert_eq!(sqlstate(error), "XX001");

    // The second member is damaged on the disk.
    it.multis.flush(io).unwrap();
    let path = it.fixture.dir.path().join("pg_multixact/members/0000");
    let mut bytes = fs::read(&path).unwrap();
    assert_eq!(bytes[1..3], [update as u8, share as u8]);
    bytes[2] = update as u8;
    fs::write(&path, &bytes).unwrap();
    drop(of_b);
    it.multis = it.reopened(it.multis.counters());
    let message = it.members(multi).unwrap_err().to_string();
    assert_eq!(message, "MultiXact 1 has more than one updating member");
}

#[test]
fn a_damaged_length_allocates_no_more_than_a_set_can_have() {
    let counters = MultiCounters { next: 7, next_offset: 200_000_000, oldest: 5, oldest_db: 1 };
    let mut it = Multis::at(7, 200_000_000, 5);
    let mut bytes = vec![0; 8192];
    bytes[20..24].copy_from_slice(&1u32.to_le_bytes());
    bytes[24..28].copy_from_slice(&199_999_998u32.to_le_bytes());
    fs::write(it.fixture.dir.path().join("pg_multixact/offsets/0000"), &bytes).unwrap();
    it.multis = it.reopened(counters);
    it.multis.finish_recovery(&mut it.backend.io, counters).unwrap();
    assert_eq!(it.members(5).unwrap_err().to_string(), "MultiXact 5 has too many members");
}

/// What pg_resetwal leaves: it moves the counters and makes no files.
#[test]
fn the_oldest_set_may_be_missing() {
    let file = |it: &Multis| it.fixture.dir.path().join("pg_multixact/offsets/0000");
    let damages: [fn(&Path); 3] = [
        |_| (), // zeros
        |path| fs::File::options().write(true).open(path).unwrap().set_len(100).unwrap(),
        |path| fs::remove_file(path).unwrap(),
    ];
    for damage in damages {
        let mut it = Multis::at(70_000, SEGMENT_MEMBERS - 3, 90);
        fs::write(file(&it), vec![0; 8192]).unwrap();
        damage(&file(&it));
        let counters = it.multis.counters();
        it.multis = it.reopened(counters);
        it.multis.finish_recovery(&mut it.backend.io, counters).unwrap();
        // Nothing protects the members of the oldest set, and it is not removed.
        assert_eq!(it.create(lockers([3, 4])).unwrap(), 70_000);
        let (xacts, io) = (it.fixture.xacts.clone(), &mut it.backend.io);
        assert!(!it.multis.truncate(io, &xacts, 70_000, 1).unwrap());
        assert_eq!(it.multis.counters().oldest, 90);
        // Once it is not in use any more, it does not matter.
        let database = DatabaseName { oid: 1, name: None };
        assert_eq!(it.multis.set_limit(io, 70_000, database).unwrap(), None);
        assert_eq!(it.multis.counters().oldest, 70_000);
        assert_eq!(it.create(lockers([3, 5])).unwrap(), 70_001);
        assert!(it.multis.truncate(&mut it.backend.io, &xacts, 70_001, 1).unwrap());
        assert_eq!(it.files("offsets"), ["0001"]);
        assert_eq!(it.members(70_001).unwrap(), lockers([3, 5]));
    }
}

/// A truncation that a failure cuts off at any of its removals is completed by redo.
#[test]
fn a_removal_that_was_cut_off_is_redone() {
    for cut_off in 0..=2 {
        let mut it = Multis::at(65_534, SEGMENT_MEMBERS - 5, 65_534);
        let from = it.multis.counters();
        let sets: Vec<u32> = (0..6).map(|n| it.create(lockers(n + 3..n + 6)).unwrap()).collect();
        it.multis.flush(&mut it.backend.io).unwrap();
        let dir = it.fixture.dir.path().join("pg_multixact");
        let old = [dir.join("members/0000"), dir.join("offsets/0000")];
        let saved = old.each_ref().map(|path| fs::read(path).unwrap());
        let xacts = it.fixture.xacts.clone();
        assert!(it.multis.truncate(&mut it.backend.io, &xacts, sets[4], 7).unwrap());
        // Members go first.
        for (path, bytes) in old.iter().zip(&saved).skip(cut_off) {
            fs::write(path, bytes).unwrap();
        }
        let (replayed, redone) = it.replayed(from);
        assert_eq!((redone.oldest, redone.oldest_db), (sets[4], 7));
        assert!(old.iter().all(|path| !path.exists()), "cut off at {cut_off}");
        replayed.finish_recovery(&mut it.backend.io, redone).unwrap();
        it.multis = replayed;
        assert_eq!(it.members(sets[5]).unwrap(), lockers(8..11));
        assert_eq!(it.create(lockers([3, 4])).unwrap(), redone.next);
    }
}
