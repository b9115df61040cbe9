//! Recording the references to pages.

use crate::fixture::*;
use forebay_aio::sync::Mutex;
use forebay_format::{Fork, PageTag};
use forebay_storage::{AccessKind, Manner, PageReference, Strategy, TraceReader};
use std::io::{self, Write};
use std::sync::Arc;

/// A sink that the test can read, and that may fail.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<(Vec<u8>, bool)>>);

impl Sink {
    fn references(&self) -> Vec<PageReference> {
        let bytes = self.0.lock().0.clone();
        TraceReader::new(&bytes[..]).unwrap().map(Result::unwrap).collect()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sink = self.0.lock();
        if sink.1 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        sink.0.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The recorded references, without their backends.
fn seen(sink: &Sink) -> Vec<(u32, AccessKind, Manner, bool)> {
    let references = sink.references();
    let seen = |r: &PageReference| {
        assert_eq!(PageTag { block: 0, ..r.page }, tag(0));
        (r.page.block, r.access, r.manner, r.hit)
    };
    references.iter().map(seen).collect()
}

#[test]
fn every_pin_is_recorded_with_its_kind_in_order() {
    let fixture = Fixture::new(Spec::plain());
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, 40);
    let sink = Sink::default();
    let pool = fixture.traced(Box::new(sink.clone()));
    for strategy in [Strategy::Normal, Strategy::VACUUM] {
        pool.read(&mut backend, tag(7), strategy).unwrap();
    }
    pool.read_many(&mut backend, REL, Fork::Main, 6, 3, Strategy::BulkRead).unwrap();
    pool.prefetch(&mut backend, tag(20), Strategy::Normal).unwrap();
    pool.extend(&mut backend, REL, Fork::Main, 2, Strategy::BulkWrite).unwrap();
    let mut blocks = [19, 20, 21, 22].into_iter();
    let mut stream = full_stream(&pool, || blocks.next(), Strategy::BulkRead, 4, 4);
    while stream.next(&mut backend).unwrap().is_some() {}
    drop(stream);
    drop(pool);
    use AccessKind::{BulkRead, BulkWrite, Normal, Vacuum};
    let expected = [
        (7, Normal, Manner::Single, false),
        (7, Vacuum, Manner::Single, true),
        (6, BulkRead, Manner::Stream, false),
        (7, BulkRead, Manner::Stream, true),
        (8, BulkRead, Manner::Stream, false),
        (20, Normal, Manner::Prefetch, false),
        (40, BulkWrite, Manner::Extend, false),
        (41, BulkWrite, Manner::Extend, false),
        (19, BulkRead, Manner::Stream, false),
        (20, BulkRead, Manner::Stream, true),
        (21, BulkRead, Manner::Stream, false),
        (22, BulkRead, Manner::Stream, false),
    ];
    assert_eq!(seen(&sink), expected);
}

/// A stream over pages in memory returns them one by one, on another path.
#[test]
fn a_stream_over_pages_in_memory_is_recorded_once() {
    let fixture = Fixture::new(Spec::plain());
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, 8);
    let sink = Sink::default();
    let pool = fixture.traced(Box::new(sink.clone()));
    for _ in 0..2 {
        let settings = forebay_storage::StreamSettings::new(1, 1);
        let mut blocks = 0..8;
        let flags = forebay_storage::StreamFlags::DEFAULT;
        let source = || blocks.next();
        let mut stream = forebay_storage::ReadStream::new(
            &pool,
            REL,
            Fork::Main,
            source,
            flags,
            Strategy::Normal,
            settings,
        );
        while stream.next(&mut backend).unwrap().is_some() {}
    }
    drop(pool);
    let expected: Vec<_> = [false, true]
        .into_iter()
        .flat_map(|hit| (0..8).map(move |n| (n, AccessKind::Normal, Manner::Stream, hit)))
        .collect();
    assert_eq!(seen(&sink), expected);
}

/// A full disk ends the trace, and nothing else.
#[test]
fn a_trace_that_cannot_be_written_ends() {
    let fixture = Fixture::new(Spec::plain());
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, 8);
    let sink = Sink::default();
    sink.0.lock().1 = true;
    let pool = fixture.traced(Box::new(sink.clone()));
    for n in 0..60_000 {
        pool.read(&mut backend, tag(n % 8), Strategy::Normal).unwrap();
    }
    assert!(sink.0.lock().0.is_empty());
}
