//! Asynchronous I/O for code without `unsafe`: the buffer goes into the I/O and comes back when it
//! is finished.

use std::ops::Range;

use crate::backend::Backend;
use crate::error::AioError;
use crate::file::File;
use crate::handle::WaitRef;
use crate::memory::{AlignedBuf, IoMemory};
use crate::op::{Io, Op, Target};

/// A transfer under way, with its buffer. Whoever drops it gives up the buffer; the I/O goes on, on
/// memory of its own.
#[derive(Debug)]
#[must_use = "the buffer comes back from Backend::finish_owned"]
pub struct OwnedIo {
    buf: AlignedBuf,
    r: WaitRef,
}

impl OwnedIo {
    /// What to ask for with [`Backend::is_done`].
    pub fn wait_ref(&self) -> WaitRef {
        self.r
    }
}

impl Backend {
    /// Starts to read into a part of `buf`. The part begins at a multiple of
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

    /// Starts to write a part of `buf`. The part begins at a multiple of
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

    /// Waits for a transfer of this backend; gives the buffer back, and the bytes transferred or
    /// the error. A report that went with [`Backend::drain`] is an error as well.
    pub fn finish_owned(&mut self, io: OwnedIo) -> (AlignedBuf, Result<usize, AioError>) {
        let result = self.wait(io.r).check();
        (io.buf, result)
    }
}

fn memory_of(buf: &AlignedBuf, part: &Range<usize>) -> IoMemory {
    assert!(part.start < part.end, "{part:?} is nothing to transfer");
    buf.io_memory_of(part.clone())
}
