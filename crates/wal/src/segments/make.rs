//! Makes a new segment: a temporary file that gets its name once it is complete and durable.

use std::collections::VecDeque;
use std::path::Path;

use forebay_aio::sync::Arc;
use forebay_aio::{
    AioError, Errno, File, Io, IoBackend, IoContext, IoMemory, IoObject, IoOp, Namespace, Op,
    OpenOptions, Region, Target, WaitRef,
};

use super::files::{Segments, TEMPORARY};
use crate::{error::WalError, position::WAL_BLOCK};

/// Bytes of zeros in one write.
const FILL: usize = 512 << 10;
/// Writes in flight: enough to use the disk fully, but few enough not to delay the write of a
/// commit much.
const FILL_DEPTH: usize = 4;

impl Segments {
    /// Makes a segment and opens it. The caller must hold `making_ready`.
    pub(super) fn create(&self, io: &mut IoBackend, number: u64) -> Result<File, WalError> {
        let temporary = self.dir.join(format!("{TEMPORARY}{}", std::process::id()));
        let path = self.path(number);
        let namespace = Arc::clone(self.aio.namespace());
        if let Err(e) = self.fill(io, &temporary) {
            // If this fails too, the next start removes the file.
            let _ = namespace.unlink(&temporary);
            return Err(WalError::segment("create", &path, e));
        }
        if let Err(ended) = self.poison.check() {
            let _ = namespace.unlink(&temporary);
            return Err(ended);
        }
        let mut unsettled = self.names.lock();
        // An old segment may have been recycled under that name meanwhile.
        let renamed = match namespace.exists(&path) {
            Ok(true) => namespace.unlink(&temporary),
            Ok(false) => namespace.rename(&temporary, &path),
            Err(e) => Err(e),
        };
        if let Err(e) = renamed {
            let _ = namespace.unlink(&temporary);
            return Err(WalError::segment("rename to", &path, e));
        }
        *unsettled = true;
        drop(unsettled);
        self.settle_names()?;
        self.stats.lock().made += 1;
        let opened = self.open_existing(number)?;
        let missing = || AioError::os("open file", &path, Errno::NOENT);
        opened.ok_or_else(|| WalError::segment("open", &path, missing()))
    }

    /// Makes a file of a segment's length that reads as zeros, and syncs it.
    fn fill(&self, io: &mut IoBackend, path: &Path) -> Result<(), AioError> {
        let options = OpenOptions::READ_WRITE.create().truncate().direct(self.init_direct);
        let namespace = Arc::clone(self.aio.namespace());
        let file = namespace.open(path, &options)?;
        let size = self.size.bytes();
        let zeros = Region::new(FILL)?;
        if self.policy.lock().init_zero {
            reserve(namespace.as_ref(), &file, size)?;
            write_zeros(io, &file, &zeros, 0, size)?;
        } else {
            write_zeros(io, &file, &zeros, size - WAL_BLOCK, size)?;
        }
        let sync = Io::new(file.clone(), Op::Fsync, target());
        io.run(sync.account(IoObject::Wal, IoContext::Init, IoOp::Fsync))?;
        if self.direct && !self.init_direct {
            namespace.forget_cached(&file)?;
        }
        Ok(())
    }
}

fn target() -> Target {
    Target::Other("new WAL segment".into())
}

/// Allocates all blocks of the file if the file system can, so that lack of room shows at once.
/// Otherwise a failing attempt would use up the room that is left, and others would fail meanwhile.
fn reserve(namespace: &dyn Namespace, file: &File, size: u64) -> Result<(), AioError> {
    match namespace.reserve(file, 0, size) {
        Err(e) if matches!(e.errno(), Some(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS)) => {
            Ok(())
        }
        reserved => reserved,
    }
}

/// Writes zeros from `from` to `to`, with several writes in flight. None is in flight when it
/// returns, even if one has failed.
fn write_zeros(
    io: &mut IoBackend,
    file: &File,
    zeros: &Arc<Region>,
    from: u64,
    to: u64,
) -> Result<(), AioError> {
    let mut in_flight: VecDeque<WaitRef> = VecDeque::with_capacity(FILL_DEPTH);
    let mut done = Ok(());
    for offset in (from..to).step_by(FILL) {
        if in_flight.len() == FILL_DEPTH
            && let Some(oldest) = in_flight.pop_front()
        {
            done = io.wait(oldest).check().map(drop);
        }
        if done.is_err() {
            break;
        }
        let len = (to - offset).min(FILL as u64) as usize;
        let write =
            Io::write(file.clone(), offset, IoMemory::new(Arc::clone(zeros), 0, len), target());
        in_flight.push_back(io.start(write.account(IoObject::Wal, IoContext::Init, IoOp::Write)));
    }
    for write in in_flight {
        done = done.and(io.wait(write).check().map(drop));
    }
    done
}
