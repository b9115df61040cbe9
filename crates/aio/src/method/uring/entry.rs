//! An I/O as the kernel wants it described.

use io_uring::{opcode, squeue, types};

use crate::op::OpKind;
use crate::platform::MAX_VECTORS;
use crate::table::KernelView;

/// What of an I/O is registered, and under which number.
#[derive(Clone, Copy, Default)]
pub(super) struct Numbers {
    pub(super) file: Option<u32>,
    pub(super) memory: Option<u16>,
}

/// Builds an operation on a file that is named by its number or its descriptor.
macro_rules! on_file {
    ($file:expr, $fd:expr, |$target:ident| $build:expr) => {
        match $file {
            Some(number) => {
                let $target = types::Fixed(number);
                $build
            }
            None => {
                let $target = types::Fd($fd);
                $build
            }
        }
    };
}

/// The submission queue's entry.
pub(super) fn describe(view: &KernelView<'_>, numbers: Numbers) -> squeue::Entry {
    let fd = view.file.raw_fd().unwrap_or(-1); // another namespace's file: EBADF
    on_file!(numbers.file, fd, |target| match view.op {
        OpKind::Readv | OpKind::Writev => {
            let count = view.vectors.len().min(MAX_VECTORS) as u32;
            let iov = view.vectors.as_ptr().cast::<libc::iovec>();
            let write = view.op == OpKind::Writev;
            let single = match view.vectors {
                [one] => u32::try_from(one.len()).ok().map(|len| (one.ptr(), len)),
                _ => None,
            };
            let offset = view.offset;
            match (write, single, numbers.memory) {
                (false, Some((at, len)), Some(n)) => {
                    opcode::ReadFixed::new(target, at, len, n).offset(offset).build()
                }
                (true, Some((at, len)), Some(n)) => {
                    opcode::WriteFixed::new(target, at, len, n).offset(offset).build()
                }
                (false, Some((at, len)), None) => {
                    opcode::Read::new(target, at, len).offset(offset).build()
                }
                (true, Some((at, len)), None) => {
                    opcode::Write::new(target, at, len).offset(offset).build()
                }
                (false, None, Some(n)) => {
                    opcode::ReadvFixed::new(target, iov, count, n).offset(offset).build()
                }
                (true, None, Some(n)) => {
                    opcode::WritevFixed::new(target, iov, count, n).offset(offset).build()
                }
                (false, None, None) => {
                    opcode::Readv::new(target, iov, count).offset(offset).build()
                }
                (true, None, None) => {
                    opcode::Writev::new(target, iov, count).offset(offset).build()
                }
            }
        }
        OpKind::Fdatasync => opcode::Fsync::new(target).flags(types::FsyncFlags::DATASYNC).build(),
        OpKind::SyncFileRange => {
            // The entry holds 32 bits: a longer range is written out up to the end of the file,
            // which is no less.
            let len = u32::try_from(view.length).unwrap_or(0);
            let flags = libc::SYNC_FILE_RANGE_WRITE;
            opcode::SyncFileRange::new(target, len).offset(view.offset).flags(flags).build()
        }
        OpKind::Allocate => opcode::Fallocate::new(target, view.length).offset(view.offset).build(),
        OpKind::Fsync | OpKind::Invalid => opcode::Fsync::new(target).build(),
    })
}
