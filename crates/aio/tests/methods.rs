//! One suite over all methods, buffered and direct.

use forebay_aio::*;

mod common;
use common::each_case;

#[test]
fn round_trips() {
    each_case(|s| {
        let mut be = s.backend();
        let file = s.create("data");
        let region = Region::new(64 * IO_ALIGN).unwrap();
        common::fill(&region, 0, 8 * IO_ALIGN, 7);
        let w = be.start(Io::write(
            file.clone(),
            0,
            IoMemory::new(region.clone(), 0, 8 * IO_ALIGN),
            Target::File,
        ));
        assert_eq!(be.wait(w).check().unwrap(), 8 * IO_ALIGN);
        let sync = be.start(Io::new(file.clone(), Op::Fsync, Target::File));
        assert_eq!(be.wait(sync).check().unwrap(), 0);
        let sync = be.start(Io::new(file.clone(), Op::Fdatasync, Target::File));
        assert_eq!(be.wait(sync).check().unwrap(), 0);
        // Scattered over three pieces, in another order.
        let mut memory = IoMemory::empty(region.clone());
        for piece in [40, 20, 30] {
            memory.push(piece * IO_ALIGN, 2 * IO_ALIGN);
        }
        let r = be.start(Io::read(file.clone(), 2 * IO_ALIGN as u64, memory, Target::File));
        assert_eq!(be.wait(r).check().unwrap(), 6 * IO_ALIGN);
        let whole = common::bytes(&region, 0, 8 * IO_ALIGN);
        for (n, piece) in [40, 20, 30].into_iter().enumerate() {
            let from = (2 + 2 * n) * IO_ALIGN;
            assert_eq!(
                common::bytes(&region, piece * IO_ALIGN, 2 * IO_ALIGN),
                whole[from..from + 2 * IO_ALIGN]
            );
        }
        assert_eq!(s.aio.namespace().file_len(&file).unwrap(), 8 * IO_ALIGN as u64);
        assert_eq!(be.in_flight(), 0);
    });
}
