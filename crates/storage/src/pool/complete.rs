//! What any thread does when a read or a write has ended. Nothing here blocks or raises: the result goes into the
//! descriptors, and a small outcome to the issuer.

use super::Core;
use super::desc::{DIRTY, IO_ERROR, IoFault, READING, VALID, WRITING};
use forebay_aio::{Completed, Errno, Outcome, SharedCompletion, Status};
use forebay_format::{BLOCK_SIZE, Page, PageBytes, PageTag, checksum};
use smallvec::SmallVec;
use std::sync::Arc;

/// Pages judged together: as many as need no memory but the stack's.
const GROUP: usize = 32;

/// The end of a read: verifies all pages of the I/O, then makes each valid or marks it failed.
pub(crate) struct ReadCompletion(pub(crate) Arc<Core>);

impl SharedCompletion for ReadCompletion {
    fn complete(&self, io: &Completed<'_>) -> Outcome {
        let core = &*self.0;
        let mut outcome = Outcome::OK;
        let whole = io.result.unwrap_or(0) / BLOCK_SIZE;
        let mut good = [false; GROUP];
        for (i, &buf) in io.data.iter().enumerate() {
            if i % GROUP == 0 {
                let group = &io.data[i..io.data.len().min(i + GROUP)];
                core.judge(&group[..group.len().min(whole.saturating_sub(i))], &mut good);
            }
            let desc = &core.descs[buf as usize];
            let fault = match io.result {
                Err(errno) => Some(IoFault::Transfer(errno)),
                Ok(got) if got < (i + 1) * BLOCK_SIZE => {
                    Some(IoFault::Short(got.saturating_sub(i * BLOCK_SIZE) as u32))
                }
                Ok(_) if !good[i % GROUP] => Some(IoFault::Page),
                Ok(_) => None,
            };
            if fault.is_some() && outcome.status == Status::Ok {
                outcome = Outcome::new(Status::Error, i as u64);
            }
            if fault == Some(IoFault::Page) {
                let tag = desc.tag();
                tracing::warn!(block = tag.block, relation = %tag.rel.path(tag.fork), "invalid page");
            }
            let set = if fault.is_none() { VALID } else { IO_ERROR };
            if desc.end_io(READING, set, fault) {
                core.parking.wake(buf, desc);
            }
            core.unpin(buf);
        }
        outcome
    }
}

/// The end of a write: asks for a sync, then makes the pages clean and gives up their locks.
pub(crate) struct WriteCompletion(pub(crate) Arc<Core>);

impl SharedCompletion for WriteCompletion {
    fn complete(&self, io: &Completed<'_>) -> Outcome {
        let core = &*self.0;
        let outcome = io.transfer_outcome();
        let ok = outcome.status == Status::Ok;
        let fault = Some(IoFault::Transfer(io.result.err().unwrap_or(Errno::IO)));
        if let Some(&first) = io.data.first()
            && ok
        {
            // Before a page turns clean: a checkpoint that finds it clean must find the request.
            let tag = core.descs[first as usize].tag();
            core.sync.request(&tag);
        }
        for &buf in io.data {
            let desc = &core.descs[buf as usize];
            let parked = if ok {
                desc.end_io(WRITING | DIRTY | IO_ERROR, 0, None)
            } else {
                desc.end_io(WRITING, IO_ERROR, fault)
            };
            if desc.unlock_share_exclusive() || parked {
                core.parking.wake(buf, desc);
            }
            core.unpin(buf);
        }
        outcome
    }
}

impl Core {
    /// Which of these pages, just read and neighbours in their file, are pages? Only for the completion, while READING is set.
    fn judge(&self, bufs: &[u32], good: &mut [bool; GROUP]) {
        let Some(&first) = bufs.first() else { return };
        let tag: PageTag = self.descs[first as usize].tag();
        let pages: SmallVec<[&PageBytes; GROUP]> = bufs
            .iter()
            // SAFETY: the buffer's 8192 bytes lie in the region; READING keeps everyone but this completion off them,
            // and the transfer is over.
            .map(|&buf| unsafe { &*self.page_ptr(buf).cast::<PageBytes>() })
            .collect();
        if self.checksums {
            checksum::verify_scattered(&pages, tag.block, |n, verdict| good[n] = verdict.is_ok());
        } else {
            pages.iter().zip(good).for_each(|(page, good)| *good = Page::new(page).header_is_sane());
        }
    }
}
