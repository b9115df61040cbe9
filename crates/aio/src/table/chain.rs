//! Chains of merged I/Os in the handle table: the steps that all members take together (see
//! [`crate::merge`]).

use super::{Body, HandleTable, encode};
use crate::error::Errno;
use crate::execute::Request;
use crate::handle::{HandleState, Word};
use crate::merge::{Chain, Member};
use crate::op::OpKind;
use crate::sync::atomic::Ordering::Relaxed;

impl HandleTable {
    /// Chains staged neighbours, given in file order; a single handle stays as it is. Returns the
    /// handle to submit.
    pub(crate) fn link(&self, mut members: impl Iterator<Item = u32>) -> u32 {
        let head = members.next().expect("a unit has a member");
        let Some(second) = members.next() else { return head };
        let mut chain = self.with_body(head, |b| {
            let mut chain = Chain::new(b.file.clone(), b.op, b.offset);
            chain.push(head, &b.vectors, b.region.as_ref());
            chain
        });
        for index in std::iter::once(second).chain(members) {
            self.with_body(index, |b| chain.push(index, &b.vectors, b.region.as_ref()));
            self.handle(index).link.join(head);
        }
        let link = &self.handle(head).link;
        *link.chain.write() = Some(Box::new(chain));
        link.join(head);
        head
    }

    /// Whether these two are on files of one path.
    pub(crate) fn same_path(&self, a: u32, b: u32) -> bool {
        self.with_body(a, |a| self.with_body(b, |b| a.file.path() == b.file.path()))
    }

    fn with_body<R>(&self, index: u32, f: impl FnOnce(&Body) -> R) -> R {
        f(self.handle(index).body.read().as_ref().expect("a staged handle has a body"))
    }

    /// Whether this is the head of a chain.
    pub(super) fn is_head(&self, index: u32) -> bool {
        self.handle(index).link.head() == Some(index)
    }

    /// The handle that the method has: the head of the chain, or the handle itself.
    pub(crate) fn head_of(&self, index: u32) -> u32 {
        self.handle(index).link.head().unwrap_or(index)
    }

    /// The handle to wait for at the method in place of a handle that was just seen as `seen`,
    /// which is SUBMITTED. None if it has moved on.
    pub(super) fn at_method(&self, index: u32, seen: Word) -> Option<(u32, Word)> {
        let head = self.head_of(index);
        if head == index {
            return Some((index, seen));
        }
        let at_head = self.word(head);
        // If this is still the same use of the member, the head above was the head of its chain.
        if self.word(index) != seen {
            return None;
        }
        assert_eq!(
            at_head.state(),
            HandleState::Submitted,
            "a member is SUBMITTED no longer than its head"
        );
        Some((head, at_head))
    }

    /// Calls `f` with the members after the head, last first.
    fn each_follower(&self, head: u32, mut f: impl FnMut(&Member)) {
        if self.is_head(head) {
            let chain = self.handle(head).link.chain.read();
            let members =
                &chain.as_ref().expect("a head has its chain until it is completed").members;
            members[1..].iter().rev().for_each(&mut f);
        }
    }

    /// The head has moved to SUBMITTED; moves the others.
    pub(super) fn begin_followers(&self, head: u32) {
        self.each_follower(head, |m| {
            self.handle(m.index).state.advance(HandleState::Staged, HandleState::Submitted);
        });
    }

    /// The head is about to move to COMPLETED_IO; moves the others.
    pub(super) fn executed_followers(&self, head: u32, whole: Result<usize, Errno>) {
        self.each_follower(head, |m| {
            let handle = self.handle(m.index);
            handle.raw.store(encode(m.share(whole)), Relaxed);
            handle.state.advance(HandleState::Submitted, HandleState::CompletedIo);
        });
    }

    /// Completes an executed handle, or all members of its chain, with the result of the whole.
    pub(super) fn conclude(&self, index: u32, whole: Result<usize, Errno>) {
        if !self.is_head(index) {
            self.count_completed(index, 1);
            return self.complete_shared(index, whole);
        }
        // Taken out, because the head may be in its next use before the last member is completed.
        let chain =
            self.handle(index).link.chain.write().take().expect("a chain is completed once");
        let repeat = whole.is_err() && !(chain.op == OpKind::Writev && chain.file.is_dsync());
        if !repeat {
            self.count_completed(index, chain.members.len() as u64);
        }
        let members = chain.into_members();
        for member in &members {
            let result = if repeat { self.carry_again(member.index) } else { member.share(whole) };
            if repeat {
                self.count_completed(member.index, 1);
            }
            self.complete_shared(member.index, result);
        }
    }

    /// Executes a member alone, after its chain failed.
    fn carry_again(&self, index: u32) -> Result<usize, Errno> {
        // As if it had been interrupted. A panic must not stop the completion of the other members.
        let interrupted = Some(Err(Errno::INTR));
        let again = |whole: &Request<'_>| self.carry_request(index, whole, interrupted);
        self.surviving(index, || self.with_own_request(index, again))
    }

    fn count_completed(&self, index: u32, ios: u64) {
        self.counters.completed(self.slot_of(index), ios, self.handle(index).since.load(Relaxed));
    }
}

impl Chain {
    /// The chain as one request.
    pub(super) fn request(&self) -> Request<'_> {
        Request {
            file: &self.file,
            op: self.op,
            offset: self.offset,
            length: self.len as u64,
            vectors: &self.vectors,
            region: self.region.as_deref(),
        }
    }
}
