//! A disk that records what was synced, to compute the state after a crash at any moment.
//!
//! In addition to the real files, each written segment has a `durable` image, which certainly
//! survives, and a `live` image with everything written. A crash leaves one or the other for each
//! sector that differs.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use forebay_aio::{
    Aio, AioConfig, Errno, MethodKind, OpKind, PosixNamespace,
    execute::{Executor, PosixExecutor, Request},
};

use super::{Dice, SEGMENT};

#[derive(Clone)]
struct Images {
    durable: Vec<u8>,
    live: Vec<u8>,
}

/// The images of all segments, by file name. Segments begin as zeros, synced.
#[derive(Default)]
pub struct Disk {
    images: Mutex<BTreeMap<String, Images>>,
}

impl Disk {
    /// Writes to `dir` what a crash now would leave. Each unsynced sector survives with a
    /// probability of `chance` percent.
    pub fn crash_into(&self, dir: &Path, numbers: &mut Dice, chance: u64) {
        let images = self.images.lock().expect("images").clone();
        for (name, image) in images {
            let mut left = image.durable;
            for (sector, live) in left.chunks_mut(512).zip(image.live.chunks(512)) {
                if sector != live && numbers.below(100) < chance {
                    sector.copy_from_slice(live);
                }
            }
            std::fs::write(dir.join(name), left).expect("segment");
        }
    }

    fn wrote(&self, request: &Request<'_>, len: usize) {
        let path = request.file().path();
        let name = path.file_name().expect("name").to_string_lossy().into_owned();
        if name.starts_with("xlogtemp") {
            return;
        }
        let mut bytes = vec![0; len];
        let file = File::open(path).expect("segment");
        file.read_exact_at(&mut bytes, request.offset()).expect("read back");
        let mut images = self.images.lock().expect("images");
        let zeros =
            || Images { durable: vec![0; SEGMENT as usize], live: vec![0; SEGMENT as usize] };
        let image = images.entry(name).or_insert_with(zeros);
        let range = request.offset() as usize..request.offset() as usize + len;
        image.live[range.clone()].copy_from_slice(&bytes);
        if request.file().is_dsync() {
            image.durable[range].copy_from_slice(&bytes);
        }
    }

    fn synced(&self, request: &Request<'_>) {
        let name = request.file().path().file_name().expect("name").to_string_lossy().into_owned();
        if let Some(image) = self.images.lock().expect("images").get_mut(&name) {
            image.durable.copy_from_slice(&image.live);
        }
    }
}

struct Recording(Arc<Disk>);

impl Executor for Recording {
    fn execute(&self, request: &Request<'_>) -> Result<usize, Errno> {
        let done = PosixExecutor.execute(request)?;
        match request.op() {
            OpKind::Writev => self.0.wrote(request, done),
            OpKind::Fsync | OpKind::Fdatasync => self.0.synced(request),
            _ => {}
        }
        Ok(done)
    }
}

/// An aio with such a disk.
pub fn recording_aio() -> (Arc<Aio>, Arc<Disk>) {
    let disk = Arc::new(Disk::default());
    let executor = Arc::new(Recording(Arc::clone(&disk)));
    let config = AioConfig::default();
    let aio = Aio::with_method(Arc::new(PosixNamespace), executor, config, |table| {
        MethodKind::Sync.start(&table, &config)
    });
    (aio.expect("aio"), disk)
}
