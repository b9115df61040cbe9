//! Which sets running transactions may still look at.

use std::collections::VecDeque;

use forebay_format::multixact::MultiXactId;

/// Marks of running transactions. Marks come in ascending order.
#[derive(Debug, Default)]
pub(super) struct Marks(VecDeque<(MultiXactId, usize)>);

impl Marks {
    pub(super) fn oldest(&self) -> Option<MultiXactId> {
        self.0.front().map(|(multi, _)| *multi)
    }

    pub(super) fn add(&mut self, multi: MultiXactId) {
        match self.0.back_mut() {
            Some((last, count)) if *last == multi => *count += 1,
            _ => self.0.push_back((multi, 1)),
        }
    }

    pub(super) fn remove(&mut self, multi: MultiXactId) {
        let at = self.0.iter().position(|(mark, _)| *mark == multi);
        let Some((_, count)) = at.and_then(|at| self.0.get_mut(at)) else {
            debug_assert!(false, "MultiXact {multi} was not marked");
            return;
        };
        *count -= 1;
        self.0.retain(|(_, count)| *count > 0);
    }
}
