//! The completions of reads and writes, which any thread may run. They neither block nor fail: the
//! results go into the descriptors, and a small outcome to the issuer.

use super::core::Core;
use super::damage::{Judgement, ReadPolicy, ReadWarning, WarningList};
use super::desc::{BadPages, DIRTY, IO_ERROR, IoFault, READING, VALID, WRITING};
use crate::error::relation_path;
use crate::smgr::Version;
use forebay_aio::{Completed, Errno, Outcome, PlantedBug, SharedCompletion, Status};
use forebay_format::checksum::{self, PageDefect};
use forebay_format::{BLOCK_SIZE, BlockNumber, Page, PageBytes, PageTag};
use smallvec::SmallVec;
use std::sync::Arc;

/// Pages verified together: as many as fit on the stack.
const GROUP: usize = 32;

/// The end of a read: verifies all pages of the I/O, and makes each valid or marks it as failed.
pub(crate) struct ReadCompletion {
    pub(crate) core: Arc<Core>,
    pub(crate) policy: ReadPolicy,
    /// Where to leave warnings, if the policy can cause any.
    pub(crate) warnings: Option<WarningList>,
}

impl SharedCompletion for ReadCompletion {
    fn complete(&self, io: &Completed<'_>) -> Outcome {
        let core = &*self.core;
        let mut outcome = Outcome::OK;
        // Of a failed read no page is looked at.
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

/// Describes a read of `blocks` pages, for its bad pages if there are any.
fn bad_pages(judged: &[Judgement], blocks: usize) -> BadPages {
    let mut bad = (0u32..).zip(judged).filter(|(_, judgement)| **judgement == Judgement::Bad);
    let first = bad.next().map_or(0, |(place, _)| place);
    BadPages { place: 0, last: blocks.saturating_sub(1) as u32, others: bad.count() as u32, first }
}

/// The end of a write: requests a sync and records the pages to be read back, then makes them clean
/// and releases their locks.
pub(crate) struct WriteCompletion(pub(crate) Arc<Core>);

impl SharedCompletion for WriteCompletion {
    fn complete(&self, io: &Completed<'_>) -> Outcome {
        let core = &*self.0;
        let outcome = io.transfer_outcome();
        let mut ok = outcome.status == Status::Ok;
        forebay_aio::planted_bug!(core, PagesCleanAfterFailedWrite, ok = true);
        // A short write has no error of its own.
        let fault = Some(IoFault::Transfer(io.result.err().unwrap_or(Errno::IO)));
        if let Some(&first) = io.data.first()
            && ok
        {
            // Before a page turns clean: a checkpoint that sees it clean must see the request.
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

    /// Records pages that were written, to be read back; or, after a failure, forgets them. The
    /// write still holds their locks.
    fn note_written(&self, bufs: &[u32], ok: bool) {
        let Some(&first) = bufs.first() else { return };
        let tag = self.descs[first as usize].tag();
        if ok {
            self.written.record(
                &tag,
                bufs.iter().zip(tag.block..).map(|(&buf, block)| self.version(buf, block)),
            );
        } else {
            self.written.remove(&tag, bufs.len() as u32);
        }
    }

    /// Returns the version of a buffer's page. An I/O must exclude changes meanwhile: a read by
    /// READING, or a write by its lock.
    fn version(&self, buf: u32, block: BlockNumber) -> Version {
        // SAFETY: the buffer's 8192 bytes lie in the region; the caller excludes changes.
        let page = unsafe { &*self.page_ptr(buf).cast::<PageBytes>() };
        Version::of(page, block, self.checksums)
    }

    /// Judges neighbouring pages that were just read, of a read of `blocks` pages. Only for the
    /// completion of the read, while READING is set: backends that wait for a page then find the
    /// warning.
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
        self.find_lost_writes(bufs, &tag, &defects, &mut judged);
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
            tracing::warn!(
                block, relation = %relation_path(tag.rel, tag.fork, self.owner), %defect, ?what,
                "invalid page"
            );
        }
        if warning.wrong_checksums > 0 {
            self.checksum_failures.add(tag.rel.db, u64::from(warning.wrong_checksums));
        }
        if let Some(warnings) = &read.warnings
            && warning.zeroed + warning.ignored > 0
        {
            warnings.lock().push(warning);
        }
        judged
    }

    /// Finds pages that are not what was last written there. READING is set. No write of them is in
    /// progress, since the pages would be in memory then.
    fn find_lost_writes(
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
        let versions = bufs.iter().enumerate().map(version);
        self.written.find_mismatches(first, versions, |n| judged[n] = Judgement::Lost);
    }

    /// Reports the pages with defects, of at most [`GROUP`] pages.
    fn verify(&self, bufs: &[u32], first: BlockNumber, mut bad: impl FnMut(usize, PageDefect)) {
        let pages: SmallVec<[&PageBytes; GROUP]> = bufs
            .iter()
            // SAFETY: the buffer's 8192 bytes lie in the region. The transfer is over, and READING
            // excludes all accesses but those of this completion.
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

    /// Judges a page with a defect by the reader's policy, and zeroes it if that asks for it.
    /// READING is set.
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
