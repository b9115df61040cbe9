//! The buffer pool's size as the embedding program says it: a number, or a rule.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use forebay_engine::{
    Engine, EngineConfig, IoMethod, PoolSize, PoolUse, ShutdownMode, SizeChooser,
};

use crate::common::{config, new_dir};

/// Asks until the pool has so many blocks. Each question is one of the program's rule, so there is
/// no need to sleep.
fn await_size(engine: &Engine, asked: &mpsc::Receiver<PoolUse>, blocks: u64) {
    while engine.pool_size().buffers != blocks {
        asked.recv().expect("the engine goes on asking");
    }
}

#[test]
fn a_program_chooses_the_size_and_is_kept_to_the_bounds() {
    let (_dir, data) = new_dir();
    let (told, asked) = mpsc::channel();
    let wanted = Arc::new(AtomicUsize::new(20_000));
    let says = Arc::clone(&wanted);
    let chooser = SizeChooser::new(move |about| {
        // Once the test has ended, nobody listens.
        let _ = told.send(about);
        says.load(Ordering::SeqCst)
    });
    let engine = Engine::open(
        &data,
        EngineConfig {
            shared_buffers: PoolSize::Chosen(chooser),
            shared_buffers_max: Some(30_000),
            ..config(IoMethod::Sync, false)
        },
    )
    .expect("opens");
    let first = asked.recv().expect("asked");
    assert_eq!((first.buffers, first.most), (16_384, 30_000), "it begins with 128 MB");
    await_size(&engine, &asked, 20_000);
    wanted.store(5000, Ordering::SeqCst);
    await_size(&engine, &asked, 5000);
    wanted.store(usize::MAX, Ordering::SeqCst);
    await_size(&engine, &asked, 30_000);
    assert!(!engine.pool_size().automatic);
    engine.shutdown(ShutdownMode::Fast).expect("stops");
}
