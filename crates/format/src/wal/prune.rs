//! Heap records of pruning and freezing.
//!
//! ```text
//!   main data:       reason u8 | flags u8 | [conflict horizon u32, not aligned]
//!   block 0's data:  [freeze plans:  count u16, padding u16, plans of 12 bytes]
//!                    [redirected:    count u16, pairs of line pointers (from, to)]
//!                    [dead:          count u16, line pointers]
//!                    [unused:        count u16, line pointers]
//!                    line pointers that the plans freeze, in the plans' order
//!   plan:            xmax u32 | infomask2 u16 | infomask u16 | freeze flags u8 | pad | count u16
//! ```

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{Cursor, push_u16s},
    ids::{FROZEN_XID, INVALID_XID, OffsetNumber, Xid},
    line_pointers::{self, Changes, LinePointerError},
    page::PageMut,
    tuple::HeapTupleMut,
    wal::error::{PayloadError, damaged},
};

/// Flag: the relation is a catalog.
pub const IS_CATALOG_REL: u8 = 1 << 1;
/// Flag: redo needs a cleanup lock on the page.
pub const CLEANUP_LOCK: u8 = 1 << 2;
const HAS_CONFLICT_HORIZON: u8 = 1 << 3;
const HAS_FREEZE_PLANS: u8 = 1 << 4;
const HAS_REDIRECTIONS: u8 = 1 << 5;
const HAS_DEAD: u8 = 1 << 6;
const HAS_UNUSED: u8 = 1 << 7;
/// The flags that announce no part.
const FREE_FLAGS: u8 = IS_CATALOG_REL | CLEANUP_LOCK;

/// Freeze flag: replaces the transaction of an old version's VACUUM FULL by the frozen one.
pub const FREEZE_XVAC: u8 = 2;
/// Freeze flag: marks the transaction of an old version's VACUUM FULL as invalid.
pub const INVALID_XVAC: u8 = 4;

/// How to freeze some tuples: the new values of header fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreezePlan {
    /// New xmax.
    pub xmax: Xid,
    /// New infomask2.
    pub infomask2: u16,
    /// New infomask.
    pub infomask: u16,
    /// `FREEZE_XVAC`, `INVALID_XVAC`.
    pub flags: u8,
    /// The tuples.
    pub offsets: Vec<OffsetNumber>,
}

impl FreezePlan {
    /// Freezes a tuple.
    pub fn apply(&self, tuple: &mut HeapTupleMut<'_>) {
        tuple.set_xmax(self.xmax);
        if self.flags & FREEZE_XVAC != 0 {
            tuple.set_cid(FROZEN_XID);
        }
        if self.flags & INVALID_XVAC != 0 {
            tuple.set_cid(INVALID_XID);
        }
        tuple.set_infomask(self.infomask);
        tuple.set_infomask2(self.infomask2);
    }

    /// Groups tuples, each with a plan that names no tuple, by equal plans, in PostgreSQL's order.
    pub fn group(mut tuples: Vec<(OffsetNumber, Self)>) -> Vec<Self> {
        let key = |plan: &Self| (plan.xmax, plan.infomask2, plan.infomask, plan.flags);
        tuples.sort_by_key(|(offset, plan)| (key(plan), *offset));
        let mut groups: Vec<Self> = Vec::new();
        for (offset, plan) in tuples {
            match groups.last_mut() {
                Some(last) if key(last) == key(&plan) => last.offsets.push(offset),
                _ => groups.push(Self { offsets: vec![offset], ..plan }),
            }
        }
        groups
    }
}

/// Bytes of a plan as stored.
const PLAN_SIZE: usize = 12;

/// Contents of a prune record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeapPrune {
    /// The reason for pruning, as stored.
    pub reason: u8,
    /// [`IS_CATALOG_REL`], [`CLEANUP_LOCK`].
    pub flags: u8,
    /// Standbys cancel queries with older snapshots.
    pub conflict_horizon: Option<Xid>,
    /// Tuples to freeze.
    pub plans: Vec<FreezePlan>,
    /// Line pointers that become redirects: from, to.
    pub redirected: Vec<(OffsetNumber, OffsetNumber)>,
    /// Line pointers that become dead.
    pub dead: Vec<OffsetNumber>,
    /// Line pointers that become unused.
    pub unused: Vec<OffsetNumber>,
}

impl HeapPrune {
    /// Appends the main data to `main` and block 0's data to `data`, which must be empty.
    pub fn encode(&self, main: &mut Vec<u8>, data: &mut Vec<u8>) {
        let flag = |on: bool, flag: u8| if on { flag } else { 0 };
        let flags = (self.flags & FREE_FLAGS)
            | flag(self.conflict_horizon.is_some(), HAS_CONFLICT_HORIZON)
            | flag(!self.plans.is_empty(), HAS_FREEZE_PLANS)
            | flag(!self.redirected.is_empty(), HAS_REDIRECTIONS)
            | flag(!self.dead.is_empty(), HAS_DEAD)
            | flag(!self.unused.is_empty(), HAS_UNUSED);
        main.extend_from_slice(&[self.reason, flags]);
        main.extend(self.conflict_horizon.into_iter().flat_map(u32::to_le_bytes));
        if !self.plans.is_empty() {
            push_u16s(data, [self.plans.len() as u16, 0]);
        }
        for plan in &self.plans {
            data.extend_from_slice(&plan.xmax.to_le_bytes());
            push_u16s(
                data,
                [plan.infomask2, plan.infomask, u16::from(plan.flags), plan.offsets.len() as u16],
            );
        }
        if !self.redirected.is_empty() {
            push_u16s(data, [self.redirected.len() as u16]);
            push_u16s(data, self.redirected.iter().flat_map(|&(from, to)| [from, to]));
        }
        for list in [&self.dead, &self.unused] {
            if !list.is_empty() {
                push_u16s(data, [list.len() as u16]);
                push_u16s(data, list.iter().copied());
            }
        }
        self.plans.iter().for_each(|plan| push_u16s(data, plan.offsets.iter().copied()));
    }

    /// Changes the page as the record says: prunes, then freezes. The caller must hold a cleanup
    /// lock if the flag [`CLEANUP_LOCK`] says so. If pruning fails, the page is as before.
    pub fn apply(&self, page: &mut PageMut<'_>) -> Result<(), LinePointerError> {
        let Self { redirected, dead, unused, .. } = self;
        if !redirected.is_empty() || !dead.is_empty() || !unused.is_empty() {
            let changes = Changes { redirected, dead, unused };
            if self.flags & CLEANUP_LOCK != 0 {
                line_pointers::prune(page, changes)?;
            } else {
                line_pointers::prune_in_place(page, changes)?;
            }
        }
        for plan in &self.plans {
            for &item in &plan.offsets {
                let tuple = page.item_mut(item).and_then(|bytes| HeapTupleMut::new(bytes).ok());
                plan.apply(&mut tuple.ok_or(LinePointerError::NoTuple { item })?);
            }
        }
        Ok(())
    }

    /// Decodes main data and block 0's data. A record with an image of the page has no block data;
    /// then only the fields of the main data are set. Bytes behind the last part are an error.
    pub fn decode(main: &[u8], data: Option<&[u8]>) -> Result<Self, PayloadError> {
        Self::read(&mut Cursor::new(main), data.map(Cursor::new)).ok_or(damaged("PRUNE"))
    }

    fn read(main: &mut Cursor<'_>, data: Option<Cursor<'_>>) -> Option<Self> {
        let (reason, flags) = (main.u8()?, main.u8()?);
        let mut prune = Self { reason, flags: flags & FREE_FLAGS, ..Self::default() };
        if flags & HAS_CONFLICT_HORIZON != 0 {
            prune.conflict_horizon = Some(main.u32()?);
        }
        let Some(mut data) = data else { return Some(prune) };
        let mut counts = Vec::new();
        if flags & HAS_FREEZE_PLANS != 0 {
            let count = usize::from(data.u16()?);
            data.u16()?;
            let mut plans = Cursor::new(data.take(count * PLAN_SIZE)?);
            for _ in 0..count {
                let (plan, tuples) = read_plan(&mut plans)?;
                prune.plans.push(plan);
                counts.push(tuples);
            }
        }
        if flags & HAS_REDIRECTIONS != 0 {
            let count = usize::from(data.u16()?);
            let pairs = data.u16s(count * 2)?;
            prune.redirected =
                pairs.as_chunks::<2>().0.iter().map(|&[from, to]| (from, to)).collect();
        }
        for (flag, list) in [(HAS_DEAD, &mut prune.dead), (HAS_UNUSED, &mut prune.unused)] {
            if flags & flag != 0 {
                let count = usize::from(data.u16()?);
                *list = data.u16s(count)?;
            }
        }
        for (plan, count) in prune.plans.iter_mut().zip(counts) {
            plan.offsets = data.u16s(count)?;
        }
        (data.remaining() == 0).then_some(prune)
    }
}

fn read_plan(cursor: &mut Cursor<'_>) -> Option<(FreezePlan, usize)> {
    let (xmax, infomask2, infomask) = (cursor.u32()?, cursor.u16()?, cursor.u16()?);
    let [flags, _] = cursor.array()?;
    let plan = FreezePlan { xmax, infomask2, infomask, flags, offsets: Vec::new() };
    Some((plan, usize::from(cursor.u16()?)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn layout() {
        let plan = FreezePlan { xmax: 1, infomask2: 2, infomask: 3, flags: 4, offsets: vec![7, 8] };
        let prune = HeapPrune {
            reason: 1,
            flags: CLEANUP_LOCK,
            conflict_horizon: Some(9),
            plans: vec![plan],
            redirected: vec![(1, 2)],
            dead: vec![3],
            unused: vec![4, 5],
        };
        let (mut main, mut data) = (Vec::new(), Vec::new());
        prune.encode(&mut main, &mut data);
        assert_eq!(main, [1, 0xfc, 9, 0, 0, 0]);
        assert_eq!(data[..16], [1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 3, 0, 4, 0, 2, 0]);
        assert_eq!(data[16..], [1, 0, 1, 0, 2, 0, 1, 0, 3, 0, 2, 0, 4, 0, 5, 0, 7, 0, 8, 0]);
        assert_eq!(HeapPrune::decode(&main, Some(&data)), Ok(prune));
        assert!(HeapPrune::decode(&main, Some(&data[..35])).is_err());
        assert!(HeapPrune::decode(&main, Some(&[&data[..], &[9, 0]].concat())).is_err());
        assert_eq!(HeapPrune::decode(&main, None).unwrap().conflict_horizon, Some(9));
    }

    proptest! {
        #[test]
        fn round_trip(
            reason: u8,
            flags: u8,
            conflict_horizon: Option<u32>,
            plans: Vec<(u32, u16, u16, u8, Vec<u16>)>,
            redirected: Vec<(u16, u16)>,
            dead: Vec<u16>,
            unused: Vec<u16>,
        ) {
            let plans = plans.into_iter().map(|(xmax, infomask2, infomask, flags, offsets)| {
                FreezePlan { xmax, infomask2, infomask, flags, offsets }
            }).collect();
            let flags = flags & FREE_FLAGS;
            let prune =
                HeapPrune { reason, flags, conflict_horizon, plans, redirected, dead, unused };
            let (mut main, mut data) = (Vec::new(), Vec::new());
            prune.encode(&mut main, &mut data);
            prop_assert_eq!(HeapPrune::decode(&main, Some(&data)), Ok(prune));
        }

        #[test]
        fn arbitrary_bytes_never_panic(main: Vec<u8>, data: Vec<u8>) {
            let _ = HeapPrune::decode(&main, Some(&data));
        }
    }
}
