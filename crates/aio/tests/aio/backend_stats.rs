//! pg_stat_aio_backends.

use forebay_aio::*;

use crate::common::{each_case, each_case_with};

const BLOCK: usize = IO_ALIGN;

fn row(aio: &Aio, backend: &IoBackend) -> BackendStatsRow {
    aio.backend_stats()
        .into_iter()
        .find(|r| r.pid == backend.id())
        .expect("a living backend has a row")
}

fn memory(region: &std::sync::Arc<Region>, n: usize) -> IoMemory {
    IoMemory::new(region.clone(), n * BLOCK, BLOCK)
}

#[test]
fn what_a_backend_does_is_counted() {
    each_case(|s| {
        let file = s.create("data");
        let region = Region::new(4 * BLOCK).unwrap();
        let mut other = s.backend();
        let mut backend = s.backend();
        let fresh = row(&s.aio, &backend);
        assert_eq!((fresh.acquired, fresh.in_flight, fresh.latency_count), (0, 0, 0));
        assert_eq!(
            (fresh.backend_type, fresh.io_method),
            (BackendType::Client, s.aio.method_name())
        );

        backend.begin_batch();
        // Not neighbours, so that nothing is merged.
        let refs: Vec<_> = (0..4)
            .map(|n| {
                let at = (2 * n * BLOCK) as u64;
                backend.start(Io::write(file.clone(), at, memory(&region, n), Target::File))
            })
            .collect();
        backend.end_batch();
        for r in refs {
            backend.wait(r).check().unwrap();
        }
        backend.fdatasync(&file).unwrap();
        let r = backend.start(Io::read(file.clone(), 0, memory(&region, 0), Target::File));
        backend.wait(r).check().unwrap();

        let got = row(&s.aio, &backend);
        assert_eq!((got.acquired, got.acquire_waits), (6, 0));
        assert_eq!((got.writes, got.write_bytes), (4, 4 * BLOCK as u64));
        assert_eq!((got.reads, got.read_bytes), (1, BLOCK as u64));
        assert_eq!((got.syncs, got.others, got.errors, got.retries), (1, 0, 0, 0));
        assert_eq!(got.staged + got.immediate, 6);
        assert_eq!(got.issued + got.merged, got.staged);
        assert!(got.submissions >= 1 || got.staged == 0);
        assert_eq!((got.in_flight, got.completed_self + got.completed_other), (0, 6));
        assert!((1..=4).contains(&got.in_flight_max), "{got:?}");
        assert_eq!((got.latency_count, got.latency_histogram.iter().sum::<u64>()), (6, 6));
        assert!(got.latency_max > 0 && got.latency_sum >= got.latency_max);
        assert!(got.latency_sum <= 6 * got.latency_max);
        let top = got.latency_histogram.iter().rposition(|&n| n > 0).unwrap();
        assert_eq!(top, got.latency_max.ilog2() as usize);
        assert!(got.waits == 0 || got.wait_time > 0);

        assert_eq!(row(&s.aio, &other).acquired, 0, "each backend has counters of its own");
        other.fsync(&file).unwrap();
        assert_eq!(row(&s.aio, &backend).syncs, 1);

        s.aio.reset_backend_stats();
        let zero = row(&s.aio, &backend);
        assert_eq!((zero.acquired, zero.staged, zero.immediate, zero.writes), (0, 0, 0, 0));
        assert_eq!((zero.latency_sum, zero.latency_max, zero.completed_self), (0, 0, 0));
        assert!(zero.stats_reset >= got.stats_reset);
        let id = backend.id();
        drop(backend);
        assert!(s.aio.backend_stats().iter().all(|r| r.pid != id), "a backend takes its row along");
        let next = s.backend();
        assert_eq!(row(&s.aio, &next).syncs, 0, "a slot's next backend begins from zero");
    });
}

#[test]
fn latency_is_measured_unless_switched_off() {
    each_case(|s| {
        let file = s.create("data");
        let mut backend = s.backend();
        backend.fsync(&file).unwrap();
        s.aio.set_measure_latency(false);
        backend.fsync(&file).unwrap();
        let got = row(&s.aio, &backend);
        assert_eq!((got.syncs, got.latency_count), (2, 1));
    });
}

#[test]
fn a_handle_that_had_to_be_waited_for_is_counted() {
    each_case_with(AioConfig { handles_per_backend: 1, ..crate::common::config() }, |s| {
        let file = s.create("data");
        let region = Region::new(2 * BLOCK).unwrap();
        let mut backend = s.backend();
        backend.begin_batch();
        for n in 0..2 {
            let at = (n * BLOCK) as u64;
            backend.start(Io::write(file.clone(), at, memory(&region, n), Target::File));
        }
        backend.end_batch();
        assert_eq!(backend.drain(), Leftovers::default());
        let got = row(&s.aio, &backend);
        assert_eq!((got.acquired, got.writes, got.in_flight_max), (2, 2, 1));
        // The first was complete when its handle was needed, or it was waited for.
        assert!(got.acquire_waits <= 1 && got.waits >= got.acquire_waits, "{got:?}");
    });
}

#[test]
fn errors_and_repeated_attempts_are_counted() {
    each_case(|s| {
        let name = "data";
        drop(s.create(name));
        let read_only = s.open(name, OpenOptions::READ);
        let region = Region::new(BLOCK).unwrap();
        let mut backend = s.backend();
        let r = backend.start(Io::write(read_only.clone(), 0, memory(&region, 0), Target::File));
        assert!(backend.wait(r).check().is_err());
        let got = row(&s.aio, &backend);
        assert_eq!((got.errors, got.retries, got.latency_count), (1, 0, 1));
        // The end of the file.
        let r = backend.start(Io::read(read_only, 0, memory(&region, 0), Target::File));
        assert!(backend.wait(r).check().is_err());
        assert_eq!(
            row(&s.aio, &backend).errors,
            1,
            "a read that meets the end of the file is partial"
        );
    });
}

#[test]
fn completions_by_another_thread_are_told_apart() {
    each_case(|s| {
        let file = s.create("data");
        s.aio.namespace().set_len(&file, BLOCK as u64).unwrap();
        let region = Region::new(BLOCK).unwrap();
        let mut backend = s.backend();
        for _ in 0..20 {
            let r = backend.start(Io::read(file.clone(), 0, memory(&region, 0), Target::File));
            std::thread::scope(|scope| {
                scope.spawn(|| s.aio.wait_done(r));
            });
            backend.wait(r).check().unwrap();
        }
        let got = row(&s.aio, &backend);
        assert_eq!(got.completed_self + got.completed_other, 20);
        match s.aio.method_name() {
            "sync" => assert_eq!(got.completed_other, 0),
            // A worker or the waiter; with io_uring no other thread reaped before the report was
            // taken.
            "worker" | "io_uring" => assert_eq!(got.completed_other, 20),
            _ => {}
        }
    });
}
