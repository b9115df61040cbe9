//! Asynchronous I/O for code without `unsafe`: the I/O owns the buffer until it is finished.

use std::ops::Range;

use crate::backend::IoBackend;
use crate::error::AioError;
use crate::file::File;
use crate::handle::WaitRef;
use crate::io::{Io, Op};
use crate::memory::{AlignedBuf, IoMemory};
use crate::op::Target;

/// A transfer in flight, with its buffer. Dropping it gives up the buffer; the I/O continues on
/// memory that it keeps alive.
#[derive(Debug)]
#[must_use = "the buffer comes back from Backend::finish_owned"]
pub struct OwnedIo {
    buf: AlignedBuf,
    r: WaitRef,
}

impl OwnedIo {
    /// The reference for [`IoBackend::is_done`].
    pub fn wait_ref(&self) -> WaitRef {
        self.r
    }
}

impl IoBackend {
    /// Starts a read into a part of `buf`, which begins at a multiple of
    /// [`IO_ALIGN`](crate::IO_ALIGN).
    pub fn start_read(
        &mut self,
        file: &File,
        offset: u64,
        buf: AlignedBuf,
        part: Range<usize>,
        target: Target,
    ) -> OwnedIo {
        let memory = memory_of(&buf, &part);
        let r = self.start(Io::new(file.clone(), Op::Readv { offset, memory }, target));
        OwnedIo { buf, r }
    }

    /// Starts a write of a part of `buf`, which begins at a multiple of
    /// [`IO_ALIGN`](crate::IO_ALIGN).
    pub fn start_write(
        &mut self,
        file: &File,
        offset: u64,
        buf: AlignedBuf,
        part: Range<usize>,
        target: Target,
    ) -> OwnedIo {
        let memory = memory_of(&buf, &part);
        let r = self.start(Io::new(file.clone(), Op::Writev { offset, memory }, target));
        OwnedIo { buf, r }
    }

    /// Waits for a transfer of this backend. Returns the buffer, and the bytes transferred or the
    /// error. A report that [`IoBackend::drain`] dropped is an error too.
    pub fn finish_owned(&mut self, io: OwnedIo) -> (AlignedBuf, Result<usize, AioError>) {
        let result = self.wait(io.r).check();
        (io.buf, result)
    }
}

fn memory_of(buf: &AlignedBuf, part: &Range<usize>) -> IoMemory {
    assert!(part.start < part.end, "{part:?} is nothing to transfer");
    buf.io_memory_of(part.clone())
}
