//! The submission entry of an I/O.

use io_uring::{opcode, squeue, types};

use crate::execute::Request;
use crate::op::OpKind;
use crate::platform::MAX_VECTORS;

/// The numbers of what is registered of an I/O.
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

/// Builds the entry.
pub(super) fn describe(request: &Request<'_>, numbers: Numbers) -> squeue::Entry {
    let fd = request.file.raw_fd().unwrap_or(-1); // another namespace's file: EBADF
    on_file!(numbers.file, fd, |target| match request.op {
        OpKind::Readv | OpKind::Writev => {
            let count = request.vectors.len().min(MAX_VECTORS) as u32;
            let iov = request.vectors.as_ptr().cast::<libc::iovec>();
            let write = request.op == OpKind::Writev;
            let single = match request.vectors {
                [one] => u32::try_from(one.len()).ok().map(|len| (one.ptr(), len)),
                _ => None,
            };
            let offset = request.offset;
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
            // The entry holds 32 bits. A longer range is written out up to the end of the file,
            // which includes it.
            let len = u32::try_from(request.length).unwrap_or(0);
            let flags = libc::SYNC_FILE_RANGE_WRITE;
            opcode::SyncFileRange::new(target, len).offset(request.offset).flags(flags).build()
        }
        OpKind::Allocate =>
            opcode::Fallocate::new(target, request.length).offset(request.offset).build(),
        OpKind::Fsync | OpKind::Invalid => opcode::Fsync::new(target).build(),
    })
}
