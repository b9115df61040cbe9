//! What any thread does when a read or a write has ended. Nothing here blocks or raises: the result
//! goes into the descriptors, and a small outcome to the issuer.

use super::Core;
use super::damage::{Judgement, Mailbox, ReadPolicy, ReadWarning};
use super::desc::{BadPages, DIRTY, IO_ERROR, IoFault, READING, VALID, WRITING};
use crate::error::relation_path;
use crate::smgr::Version;
use forebay_aio::{Completed, Errno, Outcome, PlantedBug, SharedCompletion, Status};
use forebay_format::checksum::{self, PageDefect};
use forebay_format::{BLOCK_SIZE, BlockNumber, Page, PageBytes, PageTag};
use smallvec::SmallVec;
use std::sync::Arc;

/// Pages judged together: as many as need no memory but the stack's.
const GROUP: usize = 32;

/// The end of a read: verifies all pages of the I/O, then makes each valid or marks it failed.
pub(crate) struct ReadCompletion {
    pub(crate) core: Arc<Core>,
    pub(crate) policy: ReadPolicy,
    /// Where to leave warnings, if the policy makes any.
    pub(crate) mailbox: Option<Mailbox>,
}

impl SharedCompletion for ReadCompletion {
    fn complete(&self, io: &Completed<'_>) -> Outcome {
        let core = &*self.core;
        let mut outcome = Outcome::OK;
        let whole = io.result.unwrap_or(0) / BLOCK_SIZE;
        let judged = core.judge(&io.data[..io.data.len().min(whole)], io.data.len(), self);
        let bad = bad_pages(&judged, io.data.len());
        for (i, &buf) in io.data.iter().enumerate() {
            let desc = &core.descs[buf as usize];
            let fault = match io.result {
                Err(errno) => Some(IoFault::Transfer(errno)),
                Ok(got) if got < (i + 1) * BLOCK_SIZE => {
                    Some(IoFault::Short(got.saturating_sub(i * BLOCK_SIZE) as u32))
                }
                Ok(_) if judged.get(i) == Some(&Judgement::Lost) => Some(IoFault::Lost),
                Ok(_) if judged.get(i) == Some(&Judgement::Bad) => {
                    Some(IoFault::Page(BadPages { place: i as u32, ..bad }))
                }
                Ok(_) => None,
            };
            if fault.is_some() && outcome.status == Status::Ok {
                outcome = Outcome::new(Status::Error, i as u64);
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

/// What is said of a read of so many pages, if one of these was bad.
fn bad_pages(judged: &[Judgement], blocks: usize) -> BadPages {
    let mut bad = (0u32..).zip(judged).filter(|(_, judgement)| **judgement == Judgement::Bad);
    let first = bad.next().map_or(0, |(place, _)| place);
    BadPages { place: 0, last: blocks.saturating_sub(1) as u32, others: bad.count() as u32, first }
}

/// The end of a write: asks for a sync, and to be read back where that is wanted, then makes the
/// pages clean and gives up their locks.
pub(crate) struct WriteCompletion(pub(crate) Arc<Core>);

impl SharedCompletion for WriteCompletion {
    fn complete(&self, io: &Completed<'_>) -> Outcome {
        let core = &*self.0;
        let outcome = io.transfer_outcome();
        let mut ok = outcome.status == Status::Ok;
        forebay_aio::planted_bug!(core, PagesCleanAfterFailedWrite, ok = true);
        let fault = Some(IoFault::Transfer(io.result.err().unwrap_or(Errno::IO)));
        if let Some(&first) = io.data.first()
            && ok
        {
            // Before a page turns clean: a checkpoint that finds it clean must find the request.
            core.request_sync(first);
        }
        core.note_written(io.data, ok);
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
    /// For [`forebay_aio::planted_bug!`].
    fn has_bug(&self, bug: PlantedBug) -> bool {
        self.aio.upgrade().is_some_and(|aio| aio.has_bug(bug))
    }

    /// Requests a sync of the file that has this buffer's page.
    fn request_sync(&self, buf: u32) {
        forebay_aio::planted_bug!(self, PagesWrittenWithoutSyncRequest, return);
        self.sync.request(&self.descs[buf as usize].tag());
    }

    /// Pages are to be read back that were written, or are not any more. While their write holds
    /// their locks.
    fn note_written(&self, bufs: &[u32], ok: bool) {
        let Some(&first) = bufs.first() else { return };
        let tag = self.descs[first as usize].tag();
        if ok {
            self.written.note(
                &tag,
                bufs.iter().zip(tag.block..).map(|(&buf, block)| self.version(buf, block)),
            );
        } else {
            self.written.strike_off(&tag, bufs.len() as u32);
        }
    }

    /// A page's in a buffer; while an I/O on it keeps everyone from changing it: its READING, or
    /// the lock that its write holds.
    fn version(&self, buf: u32, block: BlockNumber) -> Version {
        // SAFETY: the buffer's 8192 bytes lie in the region; the caller sees to the rest.
        let page = unsafe { &*self.page_ptr(buf).cast::<PageBytes>() };
        Version::of(page, block, self.checksums)
    }

    /// What of these pages, just read and neighbours in their file? Only for the completion of a
    /// read of `blocks` pages, while READING is set. Whoever waits for a page finds the warning
    /// left.
    fn judge(
        &self,
        bufs: &[u32],
        blocks: usize,
        read: &ReadCompletion,
    ) -> SmallVec<[Judgement; GROUP]> {
        let mut judged: SmallVec<[Judgement; GROUP]> =
            SmallVec::from_elem(Judgement::Good, bufs.len());
        let Some(&first) = bufs.first() else { return judged };
        let tag = self.descs[first as usize].tag();
        let mut defects: SmallVec<[(usize, PageDefect); 4]> = SmallVec::new();
        for (group, bufs) in bufs.chunks(GROUP).enumerate() {
            let before = group * GROUP;
            self.verify(bufs, tag.block + before as u32, |n, defect| {
                defects.push((before + n, defect))
            });
        }
        self.look_for_lost(bufs, &tag, &defects, &mut judged);
        defects.retain(|(n, _)| judged[*n] != Judgement::Lost);
        if defects.is_empty() {
            return judged;
        }
        let mut warning = ReadWarning::new(&tag, self.owner, blocks);
        for (n, defect) in defects {
            warning.wrong_checksums += u32::from(matches!(defect, PageDefect::BadChecksum { .. }));
            judged[n] = self.accept(bufs[n], &defect, read.policy);
            if judged[n] != Judgement::Bad {
                warning.add(n, judged[n]);
            }
            let (block, what) = (tag.block + n as u32, judged[n]);
            tracing::warn!(block, relation = %relation_path(tag.rel, tag.fork, self.owner), %defect, ?what, "invalid page");
        }
        if warning.wrong_checksums > 0 {
            self.checksum_failures.add(tag.rel.db, u64::from(warning.wrong_checksums));
        }
        if let Some(mailbox) = &read.mailbox
            && warning.zeroed + warning.ignored > 0
        {
            mailbox.lock().push(warning);
        }
        judged
    }

    /// Finds the pages that are not what was written there last; while READING is set. No write of
    /// theirs is on its way: it would have them in memory.
    fn look_for_lost(
        &self,
        bufs: &[u32],
        first: &PageTag,
        defects: &[(usize, PageDefect)],
        judged: &mut [Judgement],
    ) {
        forebay_aio::planted_bug!(self, ReadBackSkipsComparison, return);
        let version = |(n, &buf): (usize, &u32)| {
            let is_valid = defects.iter().all(|(defect, _)| *defect != n);
            is_valid.then(|| self.version(buf, first.block + n as u32))
        };
        self.written
            .unlike(first, bufs.iter().enumerate().map(version), |n| judged[n] = Judgement::Lost);
    }

    /// Finds the pages that are none; at most a group of them.
    fn verify(&self, bufs: &[u32], first: BlockNumber, mut bad: impl FnMut(usize, PageDefect)) {
        let pages: SmallVec<[&PageBytes; GROUP]> = bufs
            .iter()
            // SAFETY: the buffer's 8192 bytes lie in the region; READING keeps everyone but this
            // completion off them, and the transfer is over.
            .map(|&buf| unsafe { &*self.page_ptr(buf).cast::<PageBytes>() })
            .collect();
        forebay_aio::planted_bug!(self, PagesNotVerified, return);
        if self.checksums {
            checksum::verify_scattered(&pages, first, |n, verdict| {
                verdict.err().into_iter().for_each(|defect| bad(n, defect));
            });
        } else {
            let insane = |page: &&PageBytes| !Page::new(page).header_is_sane();
            let insane = pages.iter().enumerate().filter(|(_, page)| insane(page));
            insane.for_each(|(n, _)| bad(n, PageDefect::BadHeader));
        }
    }

    /// What a reader of this policy makes of a page with a defect; while READING is set.
    fn accept(&self, buf: u32, defect: &PageDefect, policy: ReadPolicy) -> Judgement {
        // SAFETY: as in `verify`, whose references are gone.
        let page = unsafe { &mut *self.page_ptr(buf).cast::<PageBytes>() };
        let only_checksum =
            matches!(defect, PageDefect::BadChecksum { .. }) && Page::new(page).header_is_sane();
        if only_checksum && policy.ignore_checksum_failure {
            Judgement::Ignored
        } else if policy.zeroes() {
            page.fill(0);
            Judgement::Zeroed
        } else {
            Judgement::Bad
        }
    }
}
