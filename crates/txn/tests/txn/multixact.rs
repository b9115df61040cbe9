//! Sets of transactions: members, pages, the wraparound of both counters, removal, redo.

use std::fs;

use forebay_format::multixact::{Member, MemberStatus};
use forebay_txn::redo::MultiXactRedo;
use forebay_txn::{MultiCounters, MultiUse, MultiXacts};

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
        let mut ctx = RedoContext::new(&mut self.backend, &fixture.pool, &fixture.clog, &point)
            .with_multis(&multis);
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
    // Unknown until the oldest set has been read.
    assert_eq!(sqlstate(it.create(lockers([5, 6]))), "54000");
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
    let error = it.create(lockers([3, 4, 5]));
    let message = error.unwrap_err().to_string();
    assert_eq!(message, "multixact \"members\" limit exceeded");
    assert_eq!(it.create(lockers([3, 4])).unwrap(), 70);
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
