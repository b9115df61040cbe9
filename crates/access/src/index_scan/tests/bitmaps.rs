//! Bitmaps, compared with sets.

use std::collections::BTreeSet;

use super::*;

type Set = BTreeSet<ItemPointer>;

/// A bitmap with what it must contain. Small ones become lossy.
fn filled(random: &mut Random, memory: usize, blocks: u32) -> (TidBitmap, Set) {
    let (mut bitmap, mut set) = (TidBitmap::new(memory), Set::new());
    for _ in 0..random.below(1500) {
        let tid = ItemPointer::new(random.below(blocks), 1 + random.below(291) as u16);
        bitmap.add(tid, false);
        set.insert(tid);
    }
    (bitmap, set)
}

/// Checks that a bitmap has all rows of a set, and others only where they are checked again.
fn check(bitmap: TidBitmap, set: &Set) {
    let (exact, lossy) = bitmap.page_counts();
    let pages: Vec<_> = bitmap.into_pages().collect();
    assert!(pages.is_sorted_by(|a, b| a.block < b.block));
    let lossy_pages = pages.iter().filter(|page| page.offsets.is_none()).count();
    assert_eq!((pages.len() as u64, lossy_pages as u64), (exact + lossy, lossy));
    let mut missing = set.clone();
    for page in pages {
        let Some(offsets) = page.offsets else {
            assert!(page.recheck);
            missing.retain(|tid| tid.block != page.block);
            continue;
        };
        for offset in offsets {
            let tid = ItemPointer::new(page.block, offset);
            assert!(set.contains(&tid) || page.recheck);
            missing.remove(&tid);
        }
    }
    assert_eq!(missing, Set::new());
}

#[test]
fn bitmaps_are_sets_of_rows() {
    let mut random = Random(9);
    for round in 0..200 {
        let memory = [0, 1 << 12, 1 << 20][round % 3];
        let blocks = [40, 2000][round % 2];
        let (mut a, mut in_a) = filled(&mut random, memory, blocks);
        let (b, in_b) = filled(&mut random, [1 << 20, 0][round % 2], blocks);
        let (c, in_c) = filled(&mut random, memory, blocks);
        check(a.clone(), &in_a);
        a.and(&b);
        in_a.retain(|tid| in_b.contains(tid));
        check(a.clone(), &in_a);
        a.or(&c);
        in_a.extend(&in_c);
        check(a, &in_a);
    }
}

#[test]
fn a_bitmap_with_room_is_exact_and_one_without_stays_small() {
    let (mut large, mut small) = (TidBitmap::new(1 << 24), TidBitmap::new(1 << 14));
    for block in 0..20_000 {
        for bitmap in [&mut large, &mut small] {
            bitmap.add(ItemPointer::new(block * 3, 7), false);
        }
    }
    assert_eq!(large.page_counts(), (20_000, 0));
    let (exact, lossy) = small.page_counts();
    assert_eq!(exact + lossy, 20_000);
    assert!(exact < 300, "{exact} exact pages");
    // A line pointer that no page has.
    let mut odd = TidBitmap::new(1 << 14);
    odd.add(ItemPointer::new(5, 2000), false);
    assert_eq!(odd.page_counts(), (0, 1));
}
