//! `cargo xtask occupy`: takes memory, holds it, and gives it back. The neighbour in
//! `cargo xtask measure --only neighbour`.

use std::hint::black_box;

use clap::Args;
use rustix::event::{Timespec, poll};

/// Memory is taken by pages.
const PAGE: usize = 4096;

/// How much, and for how long.
#[derive(Args)]
pub struct Options {
    megabytes: usize,
    seconds: i64,
}

/// Takes the memory, and returns after the time.
pub fn run(options: &Options) {
    let mut memory = vec![0_u8; options.megabytes << 20];
    memory.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
    // A signal may end it early.
    let _ = poll(&mut [], Some(&Timespec { tv_sec: options.seconds, tv_nsec: 0 }));
    black_box(&memory);
}
