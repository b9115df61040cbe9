//! Damaged pages: the effects of the reader's policy, warnings and counts.

use crate::fixture::{Fixture, Gate, REL, Spec, each, full_stream, tag, version};
use forebay_aio::IoOp;
use forebay_aio::execute::PosixExecutor;
use forebay_format::{Fork, Page};
use forebay_storage::{Backend, BufferPool, ReadPolicy, StorageError, Strategy};
use std::sync::Arc;
use std::thread;

const ZERO: ReadPolicy =
    ReadPolicy { zero_damaged_pages: true, ignore_checksum_failure: false, zero_on_error: false };
const IGNORE: ReadPolicy =
    ReadPolicy { zero_damaged_pages: false, ignore_checksum_failure: true, zero_on_error: false };
const BOTH: ReadPolicy =
    ReadPolicy { zero_damaged_pages: false, ignore_checksum_failure: true, zero_on_error: true };

/// Makes a page's checksum wrong.
fn spoil_checksum(fixture: &Fixture, block: u32) {
    fixture.damage(block, 5000, b"rot");
}

/// Makes a page's header invalid.
fn spoil_header(fixture: &Fixture, block: u32) {
    fixture.damage(block, 12, &[0xff, 0xff]);
}

fn is_zero(pool: &Arc<BufferPool>, block: u32) -> bool {
    Page::new(&pool.lookup(&tag(block)).unwrap().lock_shared().copy()).is_new()
}

/// Reads the first five blocks at once, and returns each warning's message, detail and hint.
fn read_five(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
) -> Vec<(String, Option<String>, Option<String>)> {
    pool.read_many(backend, REL, Fork::Main, 0, 5, Strategy::Normal).unwrap();
    backend.take_read_warnings().iter().map(|w| (w.to_string(), w.detail(), w.hint())).collect()
}

fn told(
    message: &str,
    detail: Option<&str>,
    hint: Option<&str>,
) -> (String, Option<String>, Option<String>) {
    (message.into(), detail.map(Into::into), hint.map(Into::into))
}

#[test]
fn damaged_pages_are_zeroed_if_asked_for() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 8);
        spoil_checksum(fixture, 3);
        assert!(matches!(
            pool.read(&mut backend, tag(3), Strategy::Normal),
            Err(StorageError::InvalidPage { .. })
        ));
        assert_eq!(backend.take_read_warnings(), []);
        backend.policy = ZERO;
        let one = "invalid page in block 3 of relation \"base/5/16384\"; zeroing out page";
        assert_eq!(read_five(&pool, &mut backend), [told(one, None, None)]);
        assert!(is_zero(&pool, 3) && !is_zero(&pool, 2));
        assert_eq!(read_five(&pool, &mut backend), [], "it is reported once");

        spoil_header(fixture, 1);
        pool.evict_all(&mut backend).unwrap();
        let two = "zeroing out 2 invalid pages among blocks 0..4 of relation \"base/5/16384\"";
        let detail = Some("Block 1 held the first zeroed page.");
        let hint = Some("See server log for the other 1 zeroed block(s).");
        assert_eq!(read_five(&pool, &mut backend), [told(two, detail, hint)]);
        assert!(is_zero(&pool, 1) && is_zero(&pool, 3));
        assert!(!pool.lookup(&tag(1)).unwrap().is_dirty());
    });
}

#[test]
fn wrong_checksums_are_ignored_if_asked_for_but_impossible_headers_are_not() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 8);
        spoil_checksum(fixture, 2);
        backend.policy = IGNORE;
        let one = "ignoring checksum failure in block 2 of relation \"base/5/16384\"";
        assert_eq!(read_five(&pool, &mut backend), [told(one, None, None)]);
        let page = pool.lookup(&tag(2)).unwrap().lock_shared().copy();
        assert_eq!((version(&page, 2), &page[5000..5003]), (0, &b"rot"[..]));

        spoil_checksum(fixture, 4);
        pool.evict_all(&mut backend).unwrap();
        let two = "ignoring 2 checksum failures among blocks 0..4 of relation \"base/5/16384\"";
        let detail = Some("Block 2 held the first ignored page.");
        let hint = Some("See server log for the other 1 ignored block(s).");
        assert_eq!(read_five(&pool, &mut backend), [told(two, detail, hint)]);

        // Pages with bad headers are an error, or are zeroed.
        spoil_header(fixture, 1);
        spoil_header(fixture, 3);
        pool.evict_all(&mut backend).unwrap();
        let error =
            pool.read_many(&mut backend, REL, Fork::Main, 0, 5, Strategy::Normal).unwrap_err();
        let two = "2 invalid pages among blocks 0..4 of relation \"base/5/16384\"";
        let detail = Some("Block 1 held the first invalid page.");
        let hint = Some("See server log for the other 1 invalid block(s).");
        assert_eq!(
            told(&error.to_string(), error.detail().as_deref(), error.hint().as_deref()),
            told(two, detail, hint)
        );
        backend.take_read_warnings();
        pool.evict_all(&mut backend).unwrap();
        backend.policy = BOTH;
        let mixed = "zeroing 2 page(s) and ignoring 4 checksum failure(s) among blocks 0..4 of \
                     relation \"base/5/16384\"";
        let detail = Some("Block 1 held the first zeroed page.");
        let hint = Some("See server log for details about the other 5 invalid blocks.");
        assert_eq!(read_five(&pool, &mut backend), [told(mixed, detail, hint)]);
        assert!([1, 3].iter().all(|&block| is_zero(&pool, block)));
        assert!([0, 2, 4].iter().all(|&block| !is_zero(&pool, block)));
    });
}

#[test]
fn checksum_failures_are_counted_with_their_time() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 8);
        assert_eq!(pool.checksum_failures(), []);
        let before = std::time::SystemTime::now();
        [0, 4].iter().for_each(|&block| spoil_checksum(fixture, block));
        pool.read_many(&mut backend, REL, Fork::Main, 0, 5, Strategy::Normal).unwrap_err();
        let failures = pool.checksum_failures();
        assert_eq!(failures.iter().map(|f| (f.db, f.count)).collect::<Vec<_>>(), [(5, 2)]);
        assert!(failures[0].last >= before && failures[0].last <= std::time::SystemTime::now());
        backend.policy = IGNORE;
        read_five(&pool, &mut backend);
        assert_eq!(pool.checksum_failures()[0].count, 4, "ignored ones count");
    });
}

#[test]
fn a_stream_follows_its_readers_policy() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 40);
        [5, 6, 22].iter().for_each(|&block| spoil_checksum(fixture, block));
        backend.policy = ZERO;
        let mut blocks = 0..40;
        let next = || blocks.next();
        let mut stream = full_stream(&pool, next, Strategy::Normal, 4, 16);
        let mut zeros = Vec::new();
        while let Some(pin) = stream.next(&mut backend).unwrap() {
            if Page::new(&pin.lock_shared().copy()).is_new() {
                zeros.push(pin.tag().block);
            }
        }
        assert_eq!(zeros, [5, 6, 22]);
        let told: u32 = backend.take_read_warnings().iter().map(|warning| warning.zeroed).sum();
        assert_eq!(told, 3);
    });
}

#[test]
fn a_thread_that_completes_anothers_read_leaves_the_warning_to_the_issuer() {
    let (fixture, gate) = Fixture::gated(Spec::plain(), Arc::new(PosixExecutor));
    let pool = fixture.fill_cold(&mut fixture.backend(), 8);
    spoil_checksum(&fixture, 1);
    gate.shut();
    thread::scope(|scope| {
        let _open = gate.open_at_end();
        let (mut issuer, mut joiner) = (fixture.backend(), fixture.backend());
        issuer.policy = ZERO;
        let (pool, gate): (_, &Arc<Gate>) = (&pool, &gate);
        let issued = scope.spawn(move || {
            drop(pool.read(&mut issuer, tag(1), Strategy::Normal).unwrap());
            issuer.take_read_warnings().len()
        });
        gate.await_held(1);
        let joined = scope.spawn(move || {
            // Its policy is strict, but another backend has accepted the page.
            drop(pool.read(&mut joiner, tag(1), Strategy::Normal).unwrap());
            joiner.take_read_warnings().len()
        });
        gate.await_waiters(2);
        gate.open();
        assert_eq!((issued.join().unwrap(), joined.join().unwrap()), (1, 0));
    });
    assert_eq!(fixture.count(IoOp::Read), 1);
    assert!(is_zero(&pool, 1));
}
