//! A new segment: a temporary file of zeros that gets its name once it is whole and durable.

use std::collections::VecDeque;
use std::path::Path;

use forebay_aio::sync::{Arc, atomic::Ordering};
use forebay_aio::{
    AioError, Backend, Errno, File, Io, IoContext, IoMemory, IoObject, IoOp, Namespace, Op,
    OpenOptions, Region, Target, WaitRef,
};

use super::{Segments, TEMPORARY, vanished};
use crate::{error::WalError, position::WAL_BLOCK};

/// Bytes of zeros in one write.
const FILL: usize = 512 << 10;
/// Writes in flight: enough for the disk's full rate, and not so much that the write of a commit
/// waits long behind.
const FILL_DEPTH: usize = 4;

impl Segments {
    /// Makes a segment. The caller is alone in that.
    pub(super) fn create(&self, io: &mut Backend, number: u64) -> Result<File, WalError> {
        let temporary = self.dir.join(format!("{TEMPORARY}{}", std::process::id()));
        let path = self.path(number);
        let namespace = Arc::clone(self.aio.namespace());
        if let Err(e) = self.fill(io, &temporary) {
            // What is left of it would only be in the way; the next start removes it too.
            let _ = namespace.unlink(&temporary);
            return Err(WalError::segment("create", &path, e));
        }
        if let Err(lost) = self.poison.check() {
            let _ = namespace.unlink(&temporary);
            return Err(lost);
        }
        let mut unsettled = self.names.lock();
        // An old segment may have been given that name meanwhile.
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
        self.counters.made.fetch_add(1, Ordering::Relaxed);
        self.open_existing(number)?.ok_or_else(|| vanished(&path))
    }

    /// Makes a file of a segment's length that reads as zeros, and syncs it.
    fn fill(&self, io: &mut Backend, path: &Path) -> Result<(), AioError> {
        let options = OpenOptions::READ_WRITE.create().truncate().direct(self.init_direct);
        let namespace = Arc::clone(self.aio.namespace());
        let file = namespace.open(path, &options)?;
        let size = self.size.bytes();
        let zeros = Region::new(FILL)?;
        if self.init_zero.load(Ordering::Relaxed) {
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

/// Has the file system set aside all the room that a segment takes, so that want of it is found out
/// at once: an attempt that wrote until nothing was left would take it from everybody else
/// meanwhile.
fn reserve(namespace: &dyn Namespace, file: &File, size: u64) -> Result<(), AioError> {
    match namespace.reserve(file, 0, size) {
        Err(e) if matches!(e.errno(), Some(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS)) => {
            Ok(())
        }
        reserved => reserved,
    }
}

/// Writes zeros from `from` to `to`, several writes at a time. None is in flight when it returns,
/// whatever came of them.
fn write_zeros(
    io: &mut Backend,
    file: &File,
    zeros: &Arc<Region>,
    from: u64,
    to: u64,
) -> Result<(), AioError> {
    let mut flying: VecDeque<WaitRef> = VecDeque::with_capacity(FILL_DEPTH);
    let mut done = Ok(());
    for offset in (from..to).step_by(FILL) {
        if flying.len() == FILL_DEPTH
            && let Some(oldest) = flying.pop_front()
        {
            done = io.wait(oldest).check().map(drop);
        }
        if done.is_err() {
            break;
        }
        let len = usize::try_from(to - offset).unwrap_or(FILL).min(FILL);
        let write =
            Io::write(file.clone(), offset, IoMemory::new(Arc::clone(zeros), 0, len), target());
        flying.push_back(io.start(write.account(IoObject::Wal, IoContext::Init, IoOp::Write)));
    }
    for write in flying {
        done = done.and(io.wait(write).check().map(drop));
    }
    done
}
