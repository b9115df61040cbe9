//! Registered memory and files: used where possible, released in time, and never an obstacle.
#![cfg(target_os = "linux")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use forebay_aio::*;

mod common;
use common::{Case, Setup, bytes, fill};

fn config() -> AioConfig {
    AioConfig { register_memory: true, register_files: true, ..common::config() }
}

/// `Aio`s with io_uring, buffered and direct, if it can be used.
fn setups() -> Vec<Setup> {
    let cases: Vec<Case> =
        common::cases().into_iter().filter(|c| c.method == MethodKind::IoUring).collect();
    cases.into_iter().map(|case| Setup::new(case, config())).collect()
}

fn registered(s: &Setup, len: usize) -> Arc<Region> {
    let region = Region::new(len).unwrap();
    match s.aio.register_memory(&region) {
        Registration::Registered => {}
        // The kernel or user may not: the other cases still hold.
        other => eprintln!("not registered: {other:?}"),
    }
    region
}

fn can_register(s: &Setup) -> bool {
    let region = Region::new(IO_ALIGN).unwrap();
    let can = s.aio.register_memory(&region) == Registration::Registered;
    if !can {
        eprintln!("skipped: nothing can be registered here");
    }
    can
}

fn every_other(region: &Arc<Region>, from: usize, pieces: usize) -> IoMemory {
    let mut memory = IoMemory::empty(region.clone());
    (0..pieces).for_each(|n| memory.push(from + 2 * n * IO_ALIGN, IO_ALIGN));
    memory
}

fn transfer(backend: &mut IoBackend, io: Io) {
    let expected = match &io.op {
        Op::Readv { memory, .. } | Op::Writev { memory, .. } => memory.len(),
        _ => 0,
    };
    let r = backend.start(io);
    assert_eq!(backend.wait(r).check().unwrap(), expected);
}

/// Writes a pattern from `region` and reads it back, whole and in parts.
fn round_trip(s: &Setup, backend: &mut IoBackend, name: &str, region: &Arc<Region>, seed: u8) {
    let half = region.len() / 2;
    let file = s.create(name);
    fill(region, 0, half, seed);
    fill(region, half, half, !seed);
    transfer(
        backend,
        Io::write(file.clone(), 0, IoMemory::new(region.clone(), 0, half), Target::File),
    );
    transfer(
        backend,
        Io::read(file.clone(), 0, IoMemory::new(region.clone(), half, half), Target::File),
    );
    assert!(bytes(region, half, half) == bytes(region, 0, half));

    let pieces = half / IO_ALIGN / 2;
    fill(region, half, half, !seed);
    let scattered = every_other(region, half, pieces);
    transfer(backend, Io::read(file.clone(), 0, scattered.clone(), Target::File));
    for n in 0..pieces {
        let read = bytes(region, half + 2 * n * IO_ALIGN, IO_ALIGN);
        assert!(read == bytes(region, n * IO_ALIGN, IO_ALIGN), "piece {n}");
    }
    transfer(backend, Io::write(file, half as u64, scattered, Target::File));
    let on_disk = std::fs::read(s.path(name)).unwrap();
    assert!(on_disk[..half] == bytes(region, 0, half));
    assert!(on_disk[half..] == bytes(region, 0, half / 2));
    std::fs::remove_file(s.path(name)).unwrap();
}

/// Writes a pattern from pages of a region, and reads it back into them.
fn pages_round_trip(s: &Setup, backend: &mut IoBackend, region: &Arc<Region>, at: usize, seed: u8) {
    let file = s.create("pages");
    let memory = || IoMemory::new(region.clone(), at * IO_ALIGN, 2 * IO_ALIGN);
    fill(region, at * IO_ALIGN, 2 * IO_ALIGN, seed);
    let written = bytes(region, at * IO_ALIGN, 2 * IO_ALIGN).to_vec();
    transfer(backend, Io::write(file.clone(), 0, memory(), Target::File));
    fill(region, at * IO_ALIGN, 2 * IO_ALIGN, !seed);
    transfer(backend, Io::read(file, 0, memory(), Target::File));
    assert!(bytes(region, at * IO_ALIGN, 2 * IO_ALIGN) == written[..], "at page {at}");
    std::fs::remove_file(s.path("pages")).unwrap();
}

#[test]
fn registration_follows_a_region_that_grows_and_shrinks() {
    const PAGE: u64 = IO_ALIGN as u64;
    for s in setups().iter().filter(|s| can_register(s)) {
        let mut backend = s.backend();
        let region = Region::reserve(16 * IO_ALIGN, 64 * IO_ALIGN, HugePages::Off).unwrap();
        assert_eq!(s.aio.register_memory(&region), Registration::Registered);
        assert_eq!(s.aio.registration_stats().memory, 16 * PAGE);
        for round in 0..3 {
            region.occupy(64 * IO_ALIGN).unwrap();
            let registered = |s: &Setup| s.aio.registration_stats().with_memory;
            let before = registered(s);
            pages_round_trip(s, &mut backend, &region, 60, round);
            assert_eq!(registered(s), before, "not registered yet");
            let grown = s.aio.memory_resized(&region, 64 * IO_ALIGN);
            assert_eq!(grown, Registration::Registered);
            assert_eq!(s.aio.registration_stats().memory, 64 * PAGE);
            pages_round_trip(s, &mut backend, &region, 62, round + 10);
            pages_round_trip(s, &mut s.backend(), &region, 3, round + 20);
            assert_eq!(registered(s), before + 4);
            let shrunk = s.aio.memory_resized(&region, 8 * IO_ALIGN);
            assert_eq!(shrunk, Registration::Registered);
            region.vacate(8 * IO_ALIGN);
            assert_eq!(s.aio.registration_stats().memory, 8 * PAGE);
            pages_round_trip(s, &mut backend, &region, 6, round + 30);
            assert_eq!(registered(s), before + 6);
        }
        drop(region);
        assert_eq!(s.aio.registration_stats().memory, 0);
        assert_eq!(s.aio.registration_stats().refused, 0);
    }
}

#[test]
fn registered_memory_is_used_by_old_and_new_rings() {
    for s in setups().iter().filter(|s| can_register(s)) {
        let mut before = s.backend();
        let region = registered(s, 64 * IO_ALIGN);
        let mut after = s.backend();
        let start = s.aio.registration_stats();
        assert_eq!(start.memory, 64 * IO_ALIGN as u64);
        assert_eq!(s.aio.register_memory(&region), Registration::Registered, "once is enough");
        let named = [&mut before, &mut after].map(|backend| {
            let from = s.aio.registration_stats();
            round_trip(s, backend, "a", &region, 3);
            let to = s.aio.registration_stats();
            assert_eq!(to.operations - from.operations, 4);
            to.with_memory - from.with_memory
        });
        // Two transfers of one range each, and two of several, for which older kernels have no
        // operation.
        assert!(named == [4, 4] || named == [2, 2], "{named:?}");
        let end = s.aio.registration_stats();
        assert_eq!((end.memory, end.refused), (start.memory, 0));

        // Memory that is not registered works through the same rings.
        round_trip(s, &mut before, "b", &Region::new(16 * IO_ALIGN).unwrap(), 7);
        assert_eq!(s.aio.registration_stats().with_memory, end.with_memory);
    }
}

/// A dropped region is removed first, and what is mapped at its place later is not mistaken for it.
#[test]
fn a_dropped_region_is_released() {
    for s in setups().iter().filter(|s| can_register(s)) {
        let mut backends = [s.backend(), s.backend()];
        let kept = registered(s, 8 * IO_ALIGN);
        for round in 0..20u8 {
            let region = registered(s, 32 * IO_ALIGN);
            assert_eq!(s.aio.registration_stats().memory, 40 * IO_ALIGN as u64);
            backends.iter_mut().for_each(|backend| round_trip(s, backend, "gone", &region, round));
            drop(region);
            assert_eq!(s.aio.registration_stats().memory, 8 * IO_ALIGN as u64);
            let before = s.aio.registration_stats().with_memory;
            // Most likely at the same address.
            let other = Region::new(32 * IO_ALIGN).unwrap();
            backends.iter_mut().for_each(|backend| round_trip(s, backend, "new", &other, !round));
            assert_eq!(s.aio.registration_stats().with_memory, before);
            backends.iter_mut().for_each(|backend| round_trip(s, backend, "kept", &kept, round));
        }
        assert_eq!(s.aio.registration_stats().refused, 0);
    }
}

#[test]
fn the_pages_outlive_neither_region_nor_aio() {
    for s in setups().iter().filter(|s| can_register(s)) {
        // The `Aio` is dropped first.
        let other = Setup::new(s.case, config());
        let region = registered(&other, 4 * IO_ALIGN);
        round_trip(&other, &mut other.backend(), "a", &region, 1);
        // A second `Aio` may use the region, but not register it.
        let elsewhere = s.aio.register_memory(&region);
        assert_eq!(elsewhere, Registration::Refused(RegistrationRefusal::Elsewhere));
        drop(other);
        round_trip(s, &mut s.backend(), "b", &region, 2);
        assert_eq!(s.aio.registration_stats().refused, 0);
    }
}

#[test]
fn memory_comes_and_goes_while_others_do_io() {
    for s in setups().iter().filter(|s| can_register(s)) {
        let region = registered(s, 16 * IO_ALIGN);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let turnover = scope.spawn(|| {
                let mut rounds = 0;
                while !stop.load(SeqCst) {
                    let coming = registered(s, (1 + rounds % 7) * IO_ALIGN);
                    drop(coming);
                    rounds += 1;
                }
                rounds
            });
            let mut backend = s.backend();
            for round in 0..60u8 {
                round_trip(s, &mut backend, "busy", &region, round);
            }
            stop.store(true, SeqCst);
            assert!(turnover.join().unwrap() > 0);
        });
        let stats = s.aio.registration_stats();
        assert_eq!((stats.refused, stats.memory), (0, 16 * IO_ALIGN as u64));
        assert!(stats.with_memory > 0);
    }
}

/// Uses a file so often that a ring registers it.
fn use_often(backend: &mut IoBackend, file: &File, region: &Arc<Region>) {
    for _ in 0..100 {
        transfer(
            backend,
            Io::read(file.clone(), 0, IoMemory::new(region.clone(), 0, IO_ALIGN), Target::File),
        );
    }
}

/// Locks a file without the namespace's knowledge, so that only the system releases the lock, when
/// it closes the file.
fn lock(file: &File) -> bool {
    let fd = file.borrow_fd().expect("a file of the system");
    rustix::fs::flock(fd, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok()
}

#[test]
fn a_closed_file_is_held_by_no_ring() {
    for s in setups() {
        let region = Region::new(2 * IO_ALIGN).unwrap();
        let mut backends = [s.backend(), s.backend()];
        for round in 0..5u8 {
            fill(&region, 0, IO_ALIGN, round);
            let file = s.create("locked");
            assert!(lock(&file));
            let backend = &mut backends[0];
            transfer(
                backend,
                Io::write(
                    file.clone(),
                    0,
                    IoMemory::new(region.clone(), 0, IO_ALIGN),
                    Target::File,
                ),
            );
            let before = s.aio.registration_stats();
            backends.iter_mut().for_each(|backend| use_often(backend, &file, &region));
            assert!(bytes(&region, 0, IO_ALIGN)[..64] == *expected(round));
            let after = s.aio.registration_stats();
            assert!(after.with_file > before.with_file && after.files == 1, "{after:?}");

            // The lock lasts as long as a clone of the open file exists.
            let again = s.open("locked", OpenOptions::READ_WRITE);
            assert!(!lock(&again));
            drop(file);
            assert!(lock(&again), "a ring keeps the file open");
            assert_eq!(s.aio.registration_stats().files, 0);
            drop(again);
            std::fs::remove_file(s.path("locked")).unwrap();
        }
    }
}

fn expected(seed: u8) -> Box<[u8; 64]> {
    let mut all = Box::new([0; 64]);
    all.iter_mut().enumerate().for_each(|(n, b)| *b = common::pattern(n, seed));
    all
}

/// More files than there are numbers, and numbers that are used again: no file is read in place of
/// another.
#[test]
fn files_are_told_apart() {
    for s in setups() {
        let region = Region::new(IO_ALIGN).unwrap();
        let mut backend = s.backend();
        for generation in 0..2u8 {
            let mut files = Vec::new();
            for n in 0..150u8 {
                let name = format!("{n}");
                let content = vec![n ^ (generation << 7); IO_ALIGN];
                std::fs::write(s.path(&name), &content).unwrap();
                files.push(s.open(&name, OpenOptions::READ));
            }
            for (n, file) in files.iter().enumerate() {
                use_often(&mut backend, file, &region);
                assert_eq!(bytes(&region, 0, 1)[0], n as u8 ^ (generation << 7));
            }
            for (n, file) in files.iter().enumerate().rev() {
                transfer(
                    &mut backend,
                    Io::read(
                        file.clone(),
                        0,
                        IoMemory::new(region.clone(), 0, IO_ALIGN),
                        Target::File,
                    ),
                );
                assert_eq!(bytes(&region, 0, 1)[0], n as u8 ^ (generation << 7));
            }
            assert_eq!(s.aio.registration_stats().files, 128);
        }
        assert_eq!(s.aio.registration_stats().files, 0);
    }
}

/// Operations on ranges, in the ring.
#[test]
fn ranges_are_allocated_and_written_out_in_the_ring() {
    for s in setups() {
        let file = s.create("ranges");
        let mut backend = s.backend();
        let before = s.aio.registration_stats().operations;
        let allocate = Op::Allocate { offset: 0, len: 1 << 20 };
        let r = backend.start(Io::new(file.clone(), allocate, Target::File));
        match backend.wait(r).check() {
            Ok(_) => assert_eq!(s.aio.namespace().file_len(&file).unwrap(), 1 << 20),
            Err(e) => assert_eq!(e.errno(), Some(Errno::OPNOTSUPP), "{e}"),
        }
        for len in [0, 1 << 19, 5 << 32] {
            let r = backend.start(Io::new(
                file.clone(),
                Op::SyncFileRange { offset: IO_ALIGN as u64, len },
                Target::File,
            ));
            backend.wait(r).check().unwrap();
        }
        assert_eq!(s.aio.registration_stats().operations - before, 4);
    }
}

#[test]
fn registration_can_be_switched_off() {
    for s in setups() {
        let config = AioConfig { register_memory: false, register_files: false, ..config() };
        let s = Setup::new(s.case, config);
        let region = Region::new(16 * IO_ALIGN).unwrap();
        assert_eq!(s.aio.register_memory(&region), Registration::Unused);
        let mut backend = s.backend();
        round_trip(&s, &mut backend, "a", &region, 5);
        let file = s.create("b");
        s.aio.namespace().set_len(&file, IO_ALIGN as u64).unwrap();
        use_often(&mut backend, &file, &region);
        let stats = s.aio.registration_stats();
        assert_eq!((stats.with_memory, stats.with_file, stats.memory, stats.files), (0, 0, 0, 0));
        assert_eq!(stats.operations, 104);
    }
}
