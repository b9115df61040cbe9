//! What this crate costs beside the system call: 8 kB writes to /dev/null, executed in place,
//! started one at a time, and in batches.

use std::sync::Arc;
use std::time::Instant;

use forebay_aio::*;

fn main() {
    let rounds = if std::env::args().any(|a| a == "--bench") { 100_000 } else { 500 };
    let region = Region::new(32 * 8192).expect("memory");
    let mut methods = vec![MethodKind::Sync, MethodKind::Worker(WorkerLimits::fixed(2))];
    if probe_io_uring().is_ok() {
        methods.push(MethodKind::IoUring);
    }
    for method in methods {
        let aio = Aio::new(Arc::new(PosixNamespace), method, AioConfig::default()).expect("an Aio");
        let mut backend = aio.backend(BackendType::Client).expect("a backend");
        let file = aio
            .namespace()
            .open("/dev/null".as_ref(), &OpenOptions::READ_WRITE)
            .expect("/dev/null");
        let begun = Instant::now();
        for _ in 0..rounds {
            let memory = IoMemory::new(region.clone(), 0, 8192);
            backend.run(Io::write(file.clone(), 0, memory, Target::File)).expect("a write");
        }
        let each = begun.elapsed().as_nanos() as usize / rounds;
        println!(
            "{:9} run, with nothing in flight: {each} ns per write to /dev/null",
            method.name()
        );
        for depth in [1, 16] {
            let begun = Instant::now();
            for _ in 0..rounds / depth {
                backend.begin_batch();
                let refs: Vec<_> = (0..depth)
                    .map(|n| {
                        let memory = IoMemory::new(region.clone(), n * 8192, 8192);
                        let io = Io::write(file.clone(), 0, memory, Target::File);
                        backend.start(io.account(
                            IoObject::Relation,
                            IoContext::Normal,
                            IoOp::Write,
                        ))
                    })
                    .collect();
                backend.end_batch();
                for r in refs {
                    backend.wait(r).check().expect("a write");
                }
            }
            let each = begun.elapsed().as_nanos() as usize / (rounds / depth * depth).max(1);
            println!("{:9} depth {depth:2}: {each} ns per write to /dev/null", method.name());
        }
    }
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null").expect("/dev/null");
    let begun = Instant::now();
    for _ in 0..rounds {
        std::os::unix::fs::FileExt::write_at(&null, &[0; 8192], 0).expect("a write");
    }
    println!("system call alone: {} ns", begun.elapsed().as_nanos() as usize / rounds);
}
