//! Memory: alignment, and the arithmetic of its pieces.

use forebay_aio::*;
use proptest::prelude::*;

/// Miri is slow, so it gets smaller cases.
const LARGEST: usize = if cfg!(miri) { 20_000 } else { 3_000_000 };
const LONGEST: usize = if cfg!(miri) { 300 } else { 20_000 };
const CASES: u32 = if cfg!(miri) { 8 } else { 256 };

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(CASES)
    })]

    #[test]
    fn regions_are_aligned_zeroed_and_large_enough(len in 1..LARGEST) {
        let region = Region::new(len).unwrap();
        prop_assert_eq!(region.ptr(0) as usize % IO_ALIGN, 0);
        prop_assert!(region.len() >= len && region.len().is_multiple_of(IO_ALIGN));
        // SAFETY: nobody else uses the region.
        let bytes = unsafe { std::slice::from_raw_parts(region.ptr(0), region.len()) };
        prop_assert!(bytes.iter().all(|&b| b == 0));
    }

    #[test]
    fn buffers_behave_like_slices(bytes in prop::collection::vec(any::<u8>(), 0..LONGEST)) {
        let mut buf = AlignedBuf::copy_of(&bytes).unwrap();
        prop_assert_eq!(&buf[..], &bytes[..]);
        prop_assert_eq!(buf.as_ptr() as usize % IO_ALIGN, 0);
        buf.reverse();
        buf.reverse();
        prop_assert_eq!(&buf[..], &bytes[..]);
    }

    #[test]
    fn pieces_merge_without_changing_what_they_cover(
        blocks in prop::collection::vec((0usize..64, 1usize..4), 1..40),
    ) {
        let region = Region::new(128 * IO_ALIGN).unwrap();
        let mut memory = IoMemory::empty(region);
        let mut covered = Vec::new();
        for &(start, count) in &blocks {
            memory.push(start * IO_ALIGN, count * IO_ALIGN);
            covered.extend(start..start + count);
        }
        let blocks_of = |s: &IoSlice| s.offset / IO_ALIGN..(s.offset + s.len) / IO_ALIGN;
        let pieces = memory.slices.iter().flat_map(blocks_of);
        prop_assert_eq!(pieces.collect::<Vec<_>>(), covered.clone());
        prop_assert_eq!(memory.len(), covered.len() * IO_ALIGN);
        for pair in memory.slices.windows(2) {
            let end = pair[0].offset + pair[0].len;
            prop_assert!(end != pair[1].offset, "neighbours are one piece");
        }
    }

    /// Any aligned transfer, however scattered, reads back what was written.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no preadv")]
    fn scattered_transfers_keep_their_order(
        pieces in prop::collection::vec(1usize..4, 1..12),
        skip in 0u64..5,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let direct = probe_direct(dir.path()).is_ok();
        let names = std::sync::Arc::new(PosixNamespace);
        let aio = Aio::new(names, MethodKind::Sync, AioConfig::default()).unwrap();
        let mut backend = aio.backend(BackendType::Client).unwrap();
        let options = OpenOptions::READ_WRITE.create().direct(direct);
        let file = aio.namespace().open(&dir.path().join("f"), &options).unwrap();
        let region = Region::new(64 * IO_ALIGN).unwrap();
        let mut memory = IoMemory::empty(region.clone());
        let mut expected = Vec::new();
        for (n, &len) in pieces.iter().enumerate() {
            let at = (pieces.len() - 1 - n) * 5; // backwards, with gaps
            memory.push(at * IO_ALIGN, len * IO_ALIGN);
            // SAFETY: inside the region; no I/O is in flight.
            unsafe { region.ptr(at * IO_ALIGN).write_bytes(n as u8 + 1, len * IO_ALIGN) };
            expected.resize(expected.len() + len * IO_ALIGN, n as u8 + 1);
        }
        let offset = skip * IO_ALIGN as u64;
        backend.run(Io::write(file.clone(), offset, memory, Target::File)).unwrap();
        let mut back = AlignedBuf::zeroed(expected.len()).unwrap();
        backend.read_exact_at(&file, offset, &mut back).unwrap();
        prop_assert_eq!(&back[..], &expected[..]);
    }
}

/// Buffers of one region are aligned and don't overlap, and a read of a part goes where it belongs.
#[test]
#[cfg_attr(miri, ignore = "Miri has no O_NOCTTY")]
fn several_buffers_share_a_region() {
    let dir = tempfile::tempdir().unwrap();
    let aio = Aio::new(std::sync::Arc::new(PosixNamespace), MethodKind::Sync, AioConfig::default())
        .unwrap();
    let mut backend = aio.backend(BackendType::Client).unwrap();
    let file =
        aio.namespace().open(&dir.path().join("f"), &OpenOptions::READ_WRITE.create()).unwrap();
    backend.write_all_at(&file, 0, &AlignedBuf::copy_of(&[7; 2 * IO_ALIGN]).unwrap()).unwrap();
    let mut bufs = AlignedBuf::several(3, 2 * IO_ALIGN + 100, HugePages::Off).unwrap();
    let last = bufs.pop().unwrap();
    let read = backend.start_read(&file, 0, last, IO_ALIGN..2 * IO_ALIGN, Target::File);
    bufs[1].fill(9);
    let (last, result) = backend.finish_owned(read);
    assert_eq!(result.unwrap(), IO_ALIGN);
    for (buf, parts) in [(&bufs[0], [0, 0, 0]), (&bufs[1], [9, 9, 9]), (&last, [0, 7, 0])] {
        assert!(buf.as_ptr().addr().is_multiple_of(IO_ALIGN) && buf.len() == 2 * IO_ALIGN + 100);
        for (part, byte) in buf.chunks(IO_ALIGN).zip(parts) {
            assert!(part.iter().all(|b| *b == byte), "{byte}");
        }
    }
    assert!(AlignedBuf::several(usize::MAX / 2, 4096, HugePages::Off).is_err());
}

#[test]
#[should_panic(expected = "outside of a region")]
fn an_address_outside_is_refused() {
    let region = Region::new(IO_ALIGN).unwrap();
    region.ptr(IO_ALIGN + 1);
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no MAP_HUGETLB")]
fn large_pages_are_tried() {
    assert_eq!(Region::new(5 << 20).unwrap().huge_pages_refused(), None);
    let region = Region::with_huge_pages(5 << 20, HugePages::Try).unwrap();
    assert_ne!(region.uses_huge_pages(), region.huge_pages_refused().is_some());
    assert!(region.len() >= 5 << 20);
    if let Err(e) = Region::with_huge_pages(1 << 46, HugePages::On) {
        assert!(e.to_string().contains("I/O memory"), "{e}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "no madvise")]
fn a_suspended_part_is_zeroed_when_it_is_provided_again() {
    let region = Region::reserve(4 * IO_ALIGN, 8 * IO_ALIGN, HugePages::Off).unwrap();
    let fill = |page: usize, byte: u8| {
        // SAFETY: nobody else uses the region.
        unsafe { region.ptr(page * IO_ALIGN).write_bytes(byte, IO_ALIGN) };
    };
    let first = |page: usize| {
        // SAFETY: as above.
        unsafe { region.ptr(page * IO_ALIGN).read() }
    };
    (0..4).for_each(|page| fill(page, 7));
    region.suspend(IO_ALIGN..3 * IO_ALIGN);
    region.provide(0..4 * IO_ALIGN).unwrap();
    assert_eq!([first(0), first(1), first(2), first(3)], [7, 0, 0, 7]);
    assert_eq!(region.occupied(), 4 * IO_ALIGN);
}
