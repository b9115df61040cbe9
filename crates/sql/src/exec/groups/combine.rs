//! Groups that several threads fill: each worker hands its own over, at the end and whenever memory
//! is full, and the leader combines them.

use super::{Batch, Beyond, Group, Groups, states};
use crate::error::Result;
use crate::exec::aggregate::Accumulator;
use crate::exec::host::Host;
use crate::exec::row::OwnedRow;
use crate::plan::Grouping;

impl Groups {
    /// A worker's groups, which may take so many bytes.
    pub(in crate::exec) fn of_worker(grouping: &Grouping, most: usize) -> Groups {
        Groups::within(most, 0, Beyond::HandOver).with_all_rows(grouping)
    }

    /// The leader's groups.
    pub(in crate::exec) fn of_leader(grouping: &Grouping, host: &mut Host) -> Groups {
        Groups::within(host.work_memory(), 0, Beyond::States).with_all_rows(grouping)
    }

    /// What a worker must hand over before it takes in another row.
    pub(in crate::exec) fn take_full(&mut self) -> Option<Batch> {
        self.full.take()
    }

    /// All groups.
    pub(in crate::exec) fn take_all(&mut self) -> Batch {
        self.index.clear();
        self.bytes = 0;
        Batch(std::mem::take(&mut self.groups))
    }

    /// Takes in the groups of a worker.
    pub(in crate::exec) fn combine_all(
        &mut self,
        grouping: &Grouping,
        Batch(groups): Batch,
        host: &mut Host,
    ) -> Result<()> {
        groups.into_iter().try_for_each(|group| self.combine(grouping, group, host))
    }

    pub(super) fn combine(
        &mut self,
        grouping: &Grouping,
        group: Group,
        host: &mut Host,
    ) -> Result<()> {
        let Some(at) = self.find(grouping, &group.keys)? else {
            return self.put_off(&group.save(), host);
        };
        let own = self.groups[at].states.iter_mut();
        own.zip(group.states).try_for_each(|(state, other)| state.combine(other))
    }
}

impl Group {
    /// A row of its keys and states.
    fn save(self) -> OwnedRow {
        let mut row = self.keys;
        self.states.into_iter().for_each(|state| state.save(&mut row));
        row
    }

    /// The group that was saved as a row.
    pub(super) fn load(grouping: &Grouping, row: OwnedRow) -> Result<Group> {
        let mut values = row.into_iter();
        let keys = values.by_ref().take(grouping.keys.len()).collect();
        let load = |state: Accumulator| state.load(&mut values);
        Ok(Group {
            keys,
            states: states(&grouping.calls).into_iter().map(load).collect::<Result<_>>()?,
        })
    }
}
