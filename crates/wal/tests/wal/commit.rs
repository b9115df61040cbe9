//! Concurrent committers: every acknowledged record survives a crash at any moment.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::{crash::recording_aio, *};
use forebay_aio::MethodKind;
use forebay_format::Lsn;
use forebay_wal::{SyncMethod, Wal};

const THREADS: u64 = 6;

/// Inserts and flushes until `stop`. Each record's main data has the thread's number, and a count.
fn commit_loop(wal: &Wal, rig: &Rig, thread: u64, stop: &AtomicBool, acknowledged: &[AtomicU64]) {
    let mut io = rig.backend();
    let mut numbers = Dice::new(thread + 1);
    let mut n = 0u64;
    while !stop.load(Ordering::Relaxed) {
        n += 1;
        let mut main = thread.to_le_bytes().to_vec();
        main.extend(n.to_le_bytes());
        let more = if n.is_multiple_of(40) { numbers.below(120_000) } else { numbers.below(600) };
        main.resize(16 + more as usize, thread as u8);
        let at = insert(wal, &mut io, &main);
        wal.flush(&mut io, at.end).expect("flush");
        assert!(wal.flushed_lsn() >= at.end);
        acknowledged[thread as usize].store(n, Ordering::SeqCst);
    }
}

/// The count of each thread's last record. Checks that each thread's records are in order without
/// gaps.
fn last_of_each(mains: &[Vec<u8>]) -> HashMap<u64, u64> {
    let mut last = HashMap::new();
    for main in mains {
        let number =
            |range| u64::from_le_bytes(<[u8; 8]>::try_from(&main[range]).expect("8 bytes"));
        let (thread, n) = (number(0..8), number(8..16));
        if thread < THREADS {
            let before = last.insert(thread, n).unwrap_or(0);
            assert_eq!(n, before + 1);
            assert!(main[16..].iter().all(|&byte| byte == thread as u8));
        }
    }
    last
}

fn crash_at_any_moment(sync_method: SyncMethod, buffers: usize) {
    let (aio, disk) = recording_aio();
    let mut rig = Rig::with(aio);
    rig.config.sync_method = sync_method;
    rig.config.buffers = buffers;
    let wal = rig.fresh();
    let stop = AtomicBool::new(false);
    let acknowledged: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
    let crashes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let (wal, rig, stop, acknowledged) = (&wal, &rig, &stop, &acknowledged[..]);
        for thread in 0..THREADS {
            scope.spawn(move || commit_loop(wal, rig, thread, stop, acknowledged));
        }
        let mut numbers = Dice::new(9);
        for round in 0..25u64 {
            // The next crash is a little later in the log.
            while wal.flushed_lsn().0 < BEGIN.0 + round * 60_000 {
                std::thread::yield_now();
            }
            let promised: Vec<u64> =
                acknowledged.iter().map(|n| n.load(Ordering::SeqCst)).collect();
            let dir = tempfile::tempdir().expect("directory");
            disk.crash_into(dir.path(), &mut numbers, [0, 50, 100, 90, 10][round as usize % 5]);
            crashes.lock().expect("crashes").push((promised, dir));
        }
        stop.store(true, Ordering::Relaxed);
    });
    drop(wal);
    for (promised, dir) in crashes.into_inner().expect("crashes") {
        let mut rig = Rig::in_dir(Arc::clone(&rig.aio), dir);
        let (records, wal) =
            if names(&rig.config.dir).is_empty() { continue } else { rig.recover() };
        let last = last_of_each(&mains(&records));
        for (thread, promised) in (0..THREADS).zip(promised) {
            let found = last.get(&thread).copied().unwrap_or(0);
            assert!(found >= promised, "thread {thread}: {promised} acknowledged, {found} found");
        }
        // The log can be used again.
        insert(&wal, &mut rig.io, &[0xff; 20_000]);
        wal.flush_all(&mut rig.io).expect("flush");
        drop(wal);
        let (again, _) = rig.read_all(BEGIN);
        assert_eq!(again[..records.len()], records);
        assert_eq!(mains(&again[again.len() - 1..]), [vec![0xff; 20_000]]);
    }
}

#[test]
fn a_crash_with_fdatasync() {
    crash_at_any_moment(SyncMethod::Fdatasync, 64);
}

#[test]
fn a_crash_with_open_datasync() {
    crash_at_any_moment(SyncMethod::OpenDatasync, 64);
}

#[test]
fn a_crash_with_few_buffers() {
    crash_at_any_moment(SyncMethod::Fdatasync, 4);
}

/// With all methods, buffered and direct, acknowledged records are read back, and flushes are
/// shared.
#[test]
fn committers_share_flushes() {
    for method in methods() {
        for direct in direct_choices(Rig::new(MethodKind::Sync).dir.path()) {
            let mut rig = Rig::new(method);
            rig.config.direct = direct;
            rig.config.sync_method =
                if direct { SyncMethod::OpenDatasync } else { SyncMethod::Fdatasync };
            rig.config.buffers = 64;
            let wal = rig.fresh();
            let ends = Mutex::new(Vec::<(Lsn, Lsn)>::new());
            std::thread::scope(|scope| {
                for thread in 0..8u8 {
                    let (wal, ends, mut io) = (&wal, &ends, rig.backend());
                    scope.spawn(move || {
                        for n in 0..100 {
                            let at = insert(wal, &mut io, &vec![thread; 1 + n * 7]);
                            wal.flush(&mut io, at.end).expect("flush");
                            assert!(wal.flushed_lsn() >= at.end);
                            ends.lock().expect("ends").push((at.start, at.end));
                        }
                    });
                }
            });
            let stats = wal.stats();
            assert_eq!(stats.records, 800);
            assert!(stats.flushes <= 800, "{stats:?}");
            let (records, _) = rig.read_all(BEGIN);
            let mut ends = ends.into_inner().expect("ends");
            ends.sort_unstable();
            assert_eq!(records.iter().map(|r| (r.start, r.end)).collect::<Vec<_>>(), ends);
        }
    }
}
