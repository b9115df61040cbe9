use proptest::prelude::*;

use super::*;

const BLOCK: u64 = 8192;

fn piece(index: usize, file: usize, op: OpKind, block: u64, blocks: u64) -> Piece {
    let (offset, len) = (block * BLOCK, blocks * BLOCK);
    Piece { index: index as u32, file, op, offset, len, vectors: 1, local_memory: false }
}

fn reads(blocks: &[u64]) -> Vec<Piece> {
    blocks.iter().enumerate().map(|(n, &b)| piece(n, 1, OpKind::Readv, b, 1)).collect()
}

fn units(staged: &[Piece], limit: u64) -> Vec<Vec<usize>> {
    let plan = Plan::new(staged, limit as usize, |_, _| false);
    plan.units().map(Iterator::collect).collect()
}

#[test]
fn neighbours_are_found_in_any_order() {
    assert_eq!(units(&reads(&[4, 5, 6]), 16 * BLOCK), [vec![0, 1, 2]]);
    assert_eq!(units(&reads(&[5, 4, 6, 9]), 16 * BLOCK), [vec![1, 0, 2], vec![3]]);
    assert_eq!(
        units(&reads(&[4, 6, 5]), 16 * BLOCK),
        [vec![0, 2, 1]],
        "5 joins 4, and then 6 does"
    );
    assert_eq!(units(&reads(&[7, 1, 6, 2, 0]), 16 * BLOCK), [vec![2, 0], vec![4, 1, 3]]);
}

#[test]
fn the_limit_is_kept() {
    assert_eq!(units(&reads(&[0, 1, 2, 3, 4]), 2 * BLOCK), [vec![0, 1], vec![2, 3], vec![4]]);
    for limit in [0, BLOCK, 2 * BLOCK - 1] {
        assert_eq!(units(&reads(&[0, 1]), limit).len(), 2);
    }
    let mut many = reads(&[0, 1, 2]);
    many.iter_mut().for_each(|p| p.vectors = 400);
    assert_eq!(units(&many, 16 * BLOCK), [vec![0, 1], vec![2]], "the system takes 1024 vectors");
}

#[test]
fn only_like_is_merged_with_like() {
    let mut a = reads(&[0, 1]);
    a[1].file = 2;
    assert_eq!(units(&a, 16 * BLOCK).len(), 2);
    let mut a = reads(&[0, 1]);
    a[1].op = OpKind::Writev;
    assert_eq!(units(&a, 16 * BLOCK).len(), 2);
    let mut a = reads(&[0, 1]);
    a[1].local_memory = true;
    assert_eq!(units(&a, 16 * BLOCK).len(), 2);
    let syncs = [piece(0, 1, OpKind::Fsync, 0, 0), piece(1, 1, OpKind::Fsync, 0, 0)];
    assert_eq!(units(&syncs, 16 * BLOCK).len(), 2, "syncs are never merged");
}

#[test]
fn nothing_passes_what_it_must_not() {
    use OpKind::{Fdatasync, Readv, Writev};
    let write_sync_write =
        [piece(0, 1, Writev, 0, 1), piece(1, 2, Fdatasync, 0, 0), piece(2, 1, Writev, 1, 1)];
    assert_eq!(units(&write_sync_write, 16 * BLOCK), [vec![0], vec![1], vec![2]]);
    let write_read_write =
        [piece(0, 1, Writev, 0, 1), piece(1, 1, Readv, 1, 1), piece(2, 1, Writev, 1, 1)];
    assert_eq!(units(&write_read_write, 16 * BLOCK), [vec![0], vec![1], vec![2]]);
    let apart = [piece(0, 1, Writev, 0, 1), piece(1, 1, Readv, 2, 1), piece(2, 1, Writev, 1, 1)];
    assert_eq!(units(&apart, 16 * BLOCK), [vec![0, 2], vec![1]]);
    let twice_read = [piece(0, 1, Readv, 0, 1), piece(1, 1, Readv, 1, 1), piece(2, 1, Readv, 1, 1)];
    assert_eq!(units(&twice_read, 16 * BLOCK), [vec![0, 1], vec![2]]);
    // The same path, opened twice.
    let twice_open =
        [piece(0, 1, Writev, 0, 1), piece(1, 2, Readv, 1, 1), piece(2, 1, Writev, 1, 1)];
    assert_eq!(units(&twice_open, 16 * BLOCK), [vec![0, 2], vec![1]]);
    assert_eq!(Plan::new(&twice_open, 1 << 20, |_, _| true).units().count(), 3);
    // A unit may not be drawn forward past what one of its members follows.
    let bridge = [
        piece(0, 1, Writev, 0, 1),
        piece(1, 1, Readv, 2, 1),
        piece(2, 1, Writev, 2, 1),
        piece(3, 1, Writev, 1, 1),
    ];
    assert_eq!(units(&bridge, 16 * BLOCK), [vec![0], vec![1], vec![3, 2]]);
}

#[test]
fn the_end_of_the_number_line_is_no_neighbour_of_its_beginning() {
    let mut a = reads(&[0, 1]);
    a[0].offset = u64::MAX - BLOCK + 1;
    a[1].offset = 0;
    assert_eq!(units(&a, 16 * BLOCK).len(), 2);
}

#[test]
fn shares_are_what_each_would_have_got_alone() {
    let members = [(0, 10), (10, 5), (15, 10)].map(|(at, len)| Member { index: 0, at, len });
    let shares = |n| members.each_ref().map(|m| m.share(Ok(n)).unwrap());
    assert_eq!(shares(25), [10, 5, 10]);
    assert_eq!(shares(17), [10, 5, 2]);
    assert_eq!(shares(10), [10, 0, 0]);
    assert_eq!(shares(0), [0, 0, 0]);
    assert_eq!(members[1].share(Err(Errno::IO)), Err(Errno::IO));
}

fn any_piece() -> impl Strategy<Value = (usize, u8, u64, u64)> {
    (0usize..3, 0u8..16, 0u64..12, 1u64..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    /// Whatever is staged: each piece goes once, in a contiguous unit of its kind within the limit,
    /// and what is bound to an order keeps it.
    #[test]
    fn a_plan_keeps_the_rules(
        raw in prop::collection::vec(any_piece(), 1..=MAX_STAGED),
        limit in 0u64..10,
        one_path in any::<bool>(),
    ) {
        let staged: Vec<Piece> = raw
            .iter()
            .enumerate()
            .map(|(n, &(file, kind, block, blocks))| match kind {
                0 => piece(n, file, OpKind::Fdatasync, 0, 0),
                1..=9 => piece(n, file, OpKind::Readv, block, blocks),
                _ => piece(n, file, OpKind::Writev, block, blocks),
            })
            .collect();
        let limit = limit * BLOCK;
        let plan = Plan::new(&staged, limit as usize, |_, _| one_path);
        let units: Vec<Vec<usize>> = plan.units().map(Iterator::collect).collect();

        let mut place = vec![None; staged.len()];
        for (at, unit) in units.iter().enumerate() {
            for (&a, &b) in unit.iter().zip(&unit[1..]) {
                let (a, b) = (staged[a], staged[b]);
                prop_assert_eq!(a.offset + a.len, b.offset);
                prop_assert_eq!((a.file, a.op), (b.file, b.op));
                prop_assert!(matches!(a.op, OpKind::Readv | OpKind::Writev));
            }
            let bytes: u64 = unit.iter().map(|&n| staged[n].len).sum();
            prop_assert!(unit.len() == 1 || bytes <= limit);
            for &n in unit {
                prop_assert_eq!(place[n].replace(at), None);
            }
        }
        prop_assert!(place.iter().all(Option::is_some));
        for b in 0..staged.len() {
            for a in 0..b {
                let (p, q) = (staged[a], staged[b]);
                let barrier = p.op == OpKind::Fdatasync || q.op == OpKind::Fdatasync;
                let overlap = p.offset < q.offset + q.len && q.offset < p.offset + p.len;
                let written = p.op == OpKind::Writev || q.op == OpKind::Writev;
                if barrier || overlap && written && (p.file == q.file || one_path) {
                    prop_assert!(place[a] < place[b], "{} and {} of {:?}", a, b, units);
                }
            }
        }
    }
}
