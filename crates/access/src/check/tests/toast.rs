//! Values out of line and their chunks, with much memory and with little.

use forebay_format::varlena::ToastPointer;
use proptest::prelude::*;

use crate::check::toast::Chunk;
use crate::check::{ChunkRow, Orphans, StoredValue, ToastShare, ToastTally};

const TOAST: u32 = 5000;
/// Bytes of a chunk.
const CHUNK: u32 = 1996;

fn value(id: u32, stored: u32) -> StoredValue {
    let pointer =
        ToastPointer { raw_size: stored + 4, ext_info: stored, value_id: id, toast_rel: TOAST };
    StoredValue { pointer, block: id / 7, offset: (id % 7 + 1) as u16, attribute: 1 }
}

fn row(value: u32, number: i32, size: u32) -> ChunkRow {
    let chunk = Ok(Chunk { number, size, info: None });
    ChunkRow { value, live: true, number: Some(number), chunk }
}

/// The chunks of a value.
fn rows(of: &StoredValue) -> Vec<ChunkRow> {
    let stored = of.pointer.ext_info;
    let size = |n: u32| CHUNK.min(stored - n * CHUNK);
    (0..stored.div_ceil(CHUNK)).map(|n| row(of.pointer.value_id, n as i32, size(n))).collect()
}

/// All passes over values and chunks: what is found, how many values there were, orphans, passes.
fn told(
    values: &[StoredValue],
    chunks: &[ChunkRow],
    memory: usize,
) -> (Vec<String>, u64, Orphans, usize) {
    let (mut found, mut count, mut orphans, mut passes) = (Vec::new(), 0, Orphans::default(), 0);
    let mut shares = vec![ToastShare::default()];
    while let Some(share) = shares.pop() {
        let mut tally = ToastTally::new(TOAST, share, memory);
        values.chunks(3).for_each(|some| tally.add_values(some));
        chunks.chunks(4).for_each(|some| tally.add_chunks(some));
        let (own, of_none) = tally.finish(&mut |finding| found.push(finding.to_string()));
        shares.extend(tally.put_off());
        passes += 1;
        count += own;
        orphans.values += of_none.values;
        orphans.bytes += of_none.bytes;
    }
    found.sort();
    (found, count, orphans, passes)
}

#[test]
fn chunks_may_come_in_any_order() {
    let of = value(7, 4 * CHUNK + 10);
    for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 3, 0, 1, 4], [1, 4, 2, 0, 3]] {
        let all = rows(&of);
        let chunks: Vec<ChunkRow> = order.iter().map(|n: &usize| all[*n].clone()).collect();
        assert_eq!(told(&[of], &chunks, 1 << 20).0, [""; 0], "{order:?}");
        let some: Vec<ChunkRow> =
            chunks.iter().filter(|row| row.number != Some(3)).cloned().collect();
        let found = told(&[of], &some, 1 << 20).0;
        assert_eq!(found, ["block 1, offset 1, attribute 1: toast value 7 lacks chunk 3 of 5"]);
        let twice: Vec<ChunkRow> = chunks.iter().chain([&all[1]]).cloned().collect();
        let found = told(&[of], &twice, 1 << 20).0;
        let expected = "block 1, offset 1, attribute 1: toast value 7 has chunk 1 more than once";
        assert_eq!(found, [expected]);
    }
}

#[test]
fn compressed_values_begin_with_their_size() {
    let pointer = ToastPointer { raw_size: 9004, ext_info: 100, value_id: 8, toast_rel: TOAST };
    let of = StoredValue { pointer, ..value(8, 1) };
    let with = |info: Option<u32>| {
        let chunk = Ok(Chunk { number: 0, size: 100, info });
        told(&[of], &[ChunkRow { chunk, ..row(8, 0, 100) }], 1 << 20).0
    };
    assert_eq!(with(Some(9000)), [""; 0]);
    assert!(with(Some(9001))[0].contains(" begins with raw size and method 0x00002329, but its"));
    assert!(
        with(Some(9000 | 1 << 30))[0]
            .contains("method 0x40002328, but its pointer says 0x00002328")
    );
    assert!(with(None)[0].ends_with(" is too short for a compressed value"));
}

#[test]
fn of_dead_rows_only_their_values_are_told() {
    let of = value(9, CHUNK);
    let dead = ChunkRow { live: false, ..row(9, 0, CHUNK) };
    let found = told(&[of], std::slice::from_ref(&dead), 1 << 20).0;
    let expected = "toast value 9 not found in toast table (but rows of it that are deleted)";
    assert!(found[0].ends_with(expected), "{found:?}");
    assert_eq!(told(&[of], &[dead.clone(), row(9, 0, CHUNK)], 1 << 20).0, [""; 0]);
    assert_eq!(told(&[], &[dead], 1 << 20).2, Orphans::default());
}

proptest! {
    #[test]
    fn little_memory_finds_the_same(
        sizes in prop::collection::vec((1_u32..5 * CHUNK, 0_u32..10), 1..60),
        seed in any::<u64>(),
    ) {
        let mut dice = forebay_testkit::Dice::new(seed);
        let (mut values, mut chunks, mut expected) = (Vec::new(), Vec::new(), Orphans::default());
        for (n, (stored, fate)) in sizes.into_iter().enumerate() {
            let of = value(16_384 + n as u32 * 3, stored);
            let mut own = rows(&of);
            match fate {
                0 => {
                    expected.values += 1;
                    expected.bytes += u64::from(stored);
                    chunks.append(&mut own);
                    continue;
                }
                1 => drop(own.swap_remove(dice.index(own.len()))),
                2 => own.push(own[dice.index(own.len())].clone()),
                3 => own.push(row(of.pointer.value_id, 99, 5)),
                4 => values.push(of),
                _ => {}
            }
            values.push(of);
            chunks.append(&mut own);
        }
        // Partly in order, as in a table.
        for _ in 0..dice.index(20) {
            let (a, b) = (dice.index(chunks.len().max(1)), dice.index(chunks.len().max(1)));
            if a < chunks.len() && b < chunks.len() {
                chunks.swap(a, b);
            }
        }
        let (found, count, orphans, passes) = told(&values, &chunks, usize::MAX);
        prop_assert_eq!((count, orphans, passes), (values.len() as u64, expected, 1));
        for memory in [1, 300, 1000] {
            let (again, again_count, again_orphans, passes) = told(&values, &chunks, memory);
            prop_assert_eq!((&again, again_count), (&found, count));
            prop_assert_eq!(again_orphans, expected);
            prop_assert!(passes > 1 || memory > 1 || values.len() < 2, "{} passes", passes);
        }
    }
}
