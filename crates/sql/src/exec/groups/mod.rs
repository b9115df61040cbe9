//! GROUP BY: groups in memory up to work_mem; the rows of further groups go into temporary files
//! and are grouped later.
//!
//! - `overflow.rs`: those files
//! - `combine.rs`: groups of several threads
//!
//! Once memory is full, no group is added; a row of a new group goes into one of several files,
//! chosen by its key. After the groups in memory, each file is grouped in the same way. The rows of
//! a group keep their order, so that sums of floats do not depend on memory.

mod combine;
mod overflow;

use super::aggregate::Accumulator;
use super::eval::{Values, eval, is_true};
use super::host::Host;
use super::row::OwnedRow;
use super::spill;
use crate::error::Result;
use crate::plan::{AggregateCall, Grouping};
use forebay_types::{Datum, pack_key_as};
use overflow::{Overflow, Waiting};
use std::collections::HashMap;

/// About how many bytes a group takes beside its key and its accumulators.
const GROUP_COST: usize = 64;

struct Group {
    keys: OwnedRow,
    states: Vec<Accumulator>,
}

/// Groups that a worker hands over.
pub(super) struct Batch(Vec<Group>);

impl Batch {
    /// The one group of a query without keys whose aggregates all count rows.
    pub(super) fn counted(grouping: &Grouping, count: u64) -> Batch {
        let count = count as i64;
        let states = grouping.calls.iter().map(|_| Accumulator::Count(count)).collect();
        Batch(vec![Group { keys: Vec::new(), states }])
    }
}

/// What is done with rows of groups for which there is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beyond {
    /// Their keys and inputs go into files.
    Inputs,
    /// Their keys and states go into files, as those of combined groups do.
    States,
    /// The groups in memory are handed over, and make room.
    HandOver,
}

/// Groups being filled.
pub(super) struct Groups {
    index: HashMap<Vec<u8>, usize>,
    groups: Vec<Group>,
    key: Vec<u8>,
    bytes: usize,
    /// Bytes that the groups may take.
    most: usize,
    /// How often the rows were in files before.
    level: u32,
    beyond: Beyond,
    /// If there is one, no group is added any more.
    overflow: Option<Overflow>,
    /// Groups to be handed over.
    full: Option<Batch>,
}

fn states(calls: &[AggregateCall]) -> Vec<Accumulator> {
    calls.iter().map(Accumulator::new).collect()
}

impl Groups {
    /// No rows yet; without keys there is one group from the start.
    pub(super) fn new(grouping: &Grouping, host: &mut Host) -> Groups {
        Groups::within(host.work_memory(), 0, Beyond::Inputs).with_all_rows(grouping)
    }

    fn within(most: usize, level: u32, beyond: Beyond) -> Groups {
        let (index, groups, key) = (HashMap::new(), Vec::new(), Vec::new());
        let (overflow, full) = (None, None);
        Groups { index, groups, key, bytes: 0, most, level, beyond, overflow, full }
    }

    /// Without keys, the group of all rows is there from the start.
    fn with_all_rows(mut self, grouping: &Grouping) -> Groups {
        if grouping.keys.is_empty() {
            self.groups.push(Group { keys: Vec::new(), states: states(&grouping.calls) });
        }
        self
    }

    /// The one group of a query without keys whose aggregates all count rows.
    pub(super) fn counted(grouping: &Grouping, count: u64, host: &mut Host) -> Groups {
        let mut groups = Groups::new(grouping, host);
        groups.groups = Batch::counted(grouping, count).0;
        groups
    }

    /// Takes in a row.
    pub(super) fn add(
        &mut self,
        grouping: &Grouping,
        row: Values<'_>,
        params: &[Datum<'static>],
        host: &mut Host,
    ) -> Result<()> {
        let mut keys: smallvec::SmallVec<[Datum<'_>; 4]> = smallvec::SmallVec::new();
        for key in &grouping.keys {
            keys.push(eval(key, row, params, host)?);
        }
        let Some(at) = self.find(grouping, &keys)? else {
            let mut values: OwnedRow = keys.into_iter().map(Datum::into_owned).collect();
            for call in &grouping.calls {
                let value = input(call, row, params, host)?;
                match self.beyond {
                    Beyond::Inputs => values.push(value.into_owned()),
                    Beyond::States => state_of(call, value)?.save(&mut values),
                    Beyond::HandOver => unreachable!("there is room"),
                }
            }
            return self.put_off(&values, host);
        };
        let group = &mut self.groups[at];
        for (call, state) in grouping.calls.iter().zip(&mut group.states) {
            let value = input(call, row, params, host)?;
            if !value.is_null() {
                state.add(value)?;
            }
        }
        Ok(())
    }

    /// Takes a row out of a file.
    fn add_values(&mut self, grouping: &Grouping, values: OwnedRow, host: &mut Host) -> Result<()> {
        if self.beyond == Beyond::States {
            return self.combine(grouping, Group::load(grouping, values)?, host);
        }
        let (keys, inputs) = values.split_at(grouping.keys.len().min(values.len()));
        let Some(at) = self.find(grouping, keys)? else { return self.put_off(&values, host) };
        let group = &mut self.groups[at];
        for (value, state) in inputs.iter().zip(&mut group.states) {
            if !value.is_null() {
                state.add(value.reborrow())?;
            }
        }
        Ok(())
    }

    /// The group with these keys, which is added if there is memory for it. Leaves the packed keys
    /// in `key`.
    fn find(&mut self, grouping: &Grouping, keys: &[Datum<'_>]) -> Result<Option<usize>> {
        if keys.is_empty() {
            return Ok(Some(0));
        }
        self.key.clear();
        for (value, ty) in keys.iter().zip(&grouping.types) {
            pack_key_as(value, *ty, &mut self.key)?;
        }
        if let Some(at) = self.index.get(&self.key) {
            return Ok(Some(*at));
        }
        // The first is added in any case, so that each file makes progress.
        if self.overflow.is_some() || self.bytes > self.most && !self.groups.is_empty() {
            if self.beyond != Beyond::HandOver {
                return Ok(None);
            }
            self.full = Some(self.take_all());
        }
        let keys: OwnedRow = keys.iter().map(|key| key.reborrow().into_owned()).collect();
        let states = states(&grouping.calls);
        self.bytes = self.bytes.saturating_add(
            GROUP_COST + spill::memory(&keys) + self.key.len() + size_of_val(states.as_slice()),
        );
        self.groups.push(Group { keys, states });
        self.index.insert(self.key.clone(), self.groups.len() - 1);
        Ok(Some(self.groups.len() - 1))
    }

    /// Writes a row into a file; `key` has its packed keys.
    fn put_off(&mut self, values: &[Datum<'_>], host: &mut Host) -> Result<()> {
        let overflow = match &mut self.overflow {
            Some(overflow) => overflow,
            none => none.insert(Overflow::new(self.level, host)?),
        };
        overflow.add(&self.key, values, host)
    }

    /// No more rows come: the rows of all groups.
    pub(super) fn rows(self, host: &mut Host) -> Result<GroupRows> {
        let (ready, most, beyond) = (Vec::new().into_iter(), self.most, self.beyond);
        let mut rows = GroupRows { ready, waiting: Vec::new(), most, beyond };
        rows.take(self, host)?;
        Ok(rows)
    }
}

/// The rows of groups: keys, then aggregates.
pub(super) struct GroupRows {
    /// Groups of which all rows have come in.
    ready: std::vec::IntoIter<Group>,
    /// Files of rows whose groups come later, the next one last; how often the rows of each were in
    /// files.
    waiting: Vec<(Waiting, u32)>,
    most: usize,
    beyond: Beyond,
}

impl GroupRows {
    fn take(&mut self, groups: Groups, host: &mut Host) -> Result<()> {
        let Groups { groups, level, overflow, .. } = groups;
        self.ready = groups.into_iter();
        if let Some(overflow) = overflow {
            let files = overflow.finish(host)?.into_iter();
            self.waiting.extend(files.rev().map(|file| (file, level + 1)));
        }
        Ok(())
    }

    /// The next row.
    pub(super) fn next(
        &mut self,
        grouping: &Grouping,
        host: &mut Host,
    ) -> Result<Option<OwnedRow>> {
        loop {
            if let Some(Group { keys: mut row, states }) = self.ready.next() {
                for state in states {
                    row.push(state.finish()?);
                }
                return Ok(Some(row));
            }
            let Some((file, level)) = self.waiting.pop() else { return Ok(None) };
            let columns = self.beyond.columns(grouping);
            let mut groups = Groups::within(self.most, level, self.beyond);
            file.read(columns, host, &mut |values, host| {
                groups.add_values(grouping, values, host)
            })?;
            self.take(groups, host)?;
        }
    }
}

impl Beyond {
    /// Columns of a row in a file.
    fn columns(self, grouping: &Grouping) -> usize {
        let states = || grouping.calls.iter().map(Accumulator::columns).sum();
        let of_calls = if self == Beyond::Inputs { grouping.calls.len() } else { states() };
        grouping.keys.len() + of_calls
    }
}

/// The state of an aggregate after one row with this input.
fn state_of(call: &AggregateCall, input: Datum<'_>) -> Result<Accumulator> {
    let mut state = Accumulator::new(call);
    if !input.is_null() {
        state.add(input)?;
    }
    Ok(state)
}

/// An aggregate's input: NULL if it skips the row.
fn input<'a>(
    call: &'a AggregateCall,
    row: Values<'a>,
    params: &'a [Datum<'static>],
    host: &mut Host,
) -> Result<Datum<'a>> {
    if let Some(filter) = &call.filter
        && !is_true(filter, row, params, host)?
    {
        return Ok(Datum::Null);
    }
    match &call.arg {
        None => Ok(Datum::Bool(true)),
        Some(arg) => eval(arg, row, params, host),
    }
}
