//! pg_stat_io.

use forebay_aio::*;

use crate::common::each_case;

fn counts(aio: &Aio, who: BackendType, object: IoObject, context: IoContext, op: IoOp) -> Counts {
    let row = |r: &IoStatsRow| (r.backend_type, r.object, r.context) == (who, object, context);
    aio.stats().snapshot().iter().find(|r| row(r)).expect("a row").get(op)
}

#[test]
fn io_is_counted_under_its_account() {
    use BackendType::{Checkpointer, Client};
    use IoContext::{BulkRead, Normal};
    use IoObject::{Relation, Wal};
    each_case(|s| {
        let file = s.create("data");
        let region = Region::new(4 * IO_ALIGN).unwrap();
        let memory = IoMemory::new(region, 0, 4 * IO_ALIGN);
        let mut backend = s.backend();
        let write = Io::write(file.clone(), 0, memory.clone(), Target::File).account(
            Wal,
            Normal,
            IoOp::Write,
        );
        let w = backend.start(write);
        backend.wait(w).check().unwrap();
        for _ in 0..3 {
            let read = Io::read(file.clone(), 0, memory.clone(), Target::File).account(
                Relation,
                BulkRead,
                IoOp::Read,
            );
            let r = backend.start(read);
            backend.wait(r).check().unwrap();
        }
        backend.count(Relation, Normal, IoOp::Hit, 10);
        backend
            .run(Io::new(file.clone(), Op::Fsync, Target::File).account(Wal, Normal, IoOp::Fsync))
            .unwrap();
        let live = |aio: &Aio| {
            let c = counts(aio, Client, Relation, BulkRead, IoOp::Read);
            assert_eq!((c.count, c.bytes, c.time_ns), (3, 3 * 4 * IO_ALIGN as u64, 0));
            assert_eq!(counts(aio, Client, Wal, Normal, IoOp::Write).count, 1);
            assert_eq!(counts(aio, Client, Relation, Normal, IoOp::Hit).count, 10);
            let f = counts(aio, Client, Wal, Normal, IoOp::Fsync);
            assert_eq!((f.count, f.bytes), (1, 0));
            assert_eq!(counts(aio, Checkpointer, Relation, Normal, IoOp::Read), Counts::default());
        };
        live(&s.aio);
        drop(backend);
        live(&s.aio);

        s.aio.stats().count(Checkpointer, Relation, Normal, IoOp::Writeback, 2, 0);
        assert_eq!(counts(&s.aio, Checkpointer, Relation, Normal, IoOp::Writeback).count, 2);
        let before = s.aio.stats().reset_at();
        s.aio.stats().reset();
        assert!(s.aio.stats().reset_at() >= before);
        assert!(
            s.aio
                .stats()
                .snapshot()
                .iter()
                .all(|r| IoOp::ALL.iter().all(|&op| r.get(op) == Counts::default()))
        );
        let mut backend = s.backend();
        backend.count(Relation, Normal, IoOp::Evict, 1);
        assert_eq!(counts(&s.aio, Client, Relation, Normal, IoOp::Evict).count, 1);
    });
}

#[test]
fn time_is_measured_when_asked() {
    each_case(|s| {
        s.aio.set_track_io_timing(true);
        let file = s.create("data");
        let memory = IoMemory::new(Region::new(IO_ALIGN).unwrap(), 0, IO_ALIGN);
        let mut backend = s.backend();
        for _ in 0..10 {
            let io = Io::write(file.clone(), 0, memory.clone(), Target::File);
            let w = backend.start(io.account(IoObject::Relation, IoContext::Normal, IoOp::Write));
            backend.wait(w).check().unwrap();
        }
        let c =
            counts(&s.aio, BackendType::Client, IoObject::Relation, IoContext::Normal, IoOp::Write);
        assert!(c.time_ns > 0 && c.count == 10);
    });
}

/// The rows of PostgreSQL 18.6: how many there are for each backend type, in its order.
#[test]
fn the_rows_are_postgresqls() {
    let aio = Aio::new(std::sync::Arc::new(PosixNamespace), MethodKind::Sync, AioConfig::default())
        .unwrap();
    let rows = aio.stats().snapshot();
    assert_eq!(rows.len(), 79);
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for row in rows {
        match counted.last_mut() {
            Some((name, n)) if *name == row.backend_type.name() => *n += 1,
            _ => counted.push((row.backend_type.name(), 1)),
        }
    }
    let expected = [
        ("client backend", 8),
        ("autovacuum launcher", 5),
        ("autovacuum worker", 6),
        ("background worker", 8),
        ("walsender", 8),
        ("slotsync worker", 8),
        ("standalone backend", 7),
        ("background writer", 4),
        ("checkpointer", 4),
        ("io worker", 8),
        ("startup", 7),
        ("walreceiver", 2),
        ("walsummarizer", 2),
        ("walwriter", 2),
    ];
    assert_eq!(counted, expected);
}
