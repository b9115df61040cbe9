//! Defects at the end of a log, as PostgreSQL's own tests make them: the log ends at the right
//! position with the right reason, and resumes there.

use crate::common::defects::{DEFECTS, defect};
use crate::common::*;
use forebay_aio::MethodKind;
use forebay_format::Lsn;

/// The log is filled up to this many bytes before the end of its third page.
fn place(room: u64) -> Lsn {
    BEGIN.add(3 * 8192 - room)
}

fn ends_the_log(name: &str) {
    let defect = defect(name);
    for direct in direct_choices(Rig::new(MethodKind::Sync).dir.path()) {
        let mut rig = Rig::new(MethodKind::Sync);
        rig.config.direct = direct;
        let wal = rig.fresh();
        insert(&wal, &mut rig.io, &[1; 9000]);
        let at = place(defect.room);
        fill_up_to(&wal, &mut rig.io, at, 2);
        wal.flush_all(&mut rig.io).expect("flush");
        let last = wal.last_record_lsn();
        drop(wal);
        defect.write(&rig.config.dir, segment_size(), 1, at, last);

        let (records, end) = rig.read_all(BEGIN);
        assert_eq!((records.len(), end.end, end.last_record), (2, at, last), "{name}");
        assert!(end.reason.to_string().contains(defect.reason), "{name}: {}", end.reason);
        let missing = at.page_start().add(8192);
        let skipped = defect.is_incomplete().then_some((at, missing));
        assert_eq!(
            end.aborted.map(|aborted| (aborted.start, aborted.missing_page)),
            skipped,
            "{name}"
        );
        assert_eq!(
            end.page,
            if defect.is_incomplete() { missing } else { at.page_start() },
            "{name}"
        );

        let (_, wal) = rig.recover();
        insert(&wal, &mut rig.io, &[3; 20_000]);
        wal.flush_all(&mut rig.io).expect("flush");
        drop(wal);
        let (again, end) = rig.read_all(BEGIN);
        assert_eq!(again[..2], records, "{name}");
        assert_eq!(mains(&again[again.len() - 1..]), [vec![3; 20_000]], "{name}: {}", end.reason);
        assert_eq!(again.len(), 3 + usize::from(defect.is_incomplete()), "{name}");
        assert_eq!(end.aborted, None, "{name}");
    }
}

macro_rules! defects {
    ($($test:ident: $name:literal,)*) => {
        $(#[test] fn $test() { ends_the_log($name); })*

        #[test]
        fn each_defect_has_its_test() {
            let mut tested = [$($name),*];
            tested.sort_unstable();
            let mut all = DEFECTS.map(|defect| defect.name);
            all.sort_unstable();
            assert_eq!(tested, all);
        }
    };
}

defects! {
    a_length_of_zero: "length zero",
    a_length_that_is_too_short: "length short",
    a_length_that_is_too_short_at_the_end_of_a_page: "length short at the end of a page",
    a_wrong_previous_link: "previous link",
    a_wrong_checksum: "checksum",
    a_next_page_without_magic: "page magic zero",
    a_next_page_with_a_wrong_magic: "page magic",
    a_next_page_of_another_address: "page address",
    a_next_page_with_wrong_info_bits: "page info bits",
    a_next_page_without_the_continuation_flag: "continuation flag",
    a_next_page_with_a_wrong_remaining_length: "remaining length",
    a_split_header_before_a_page_without_magic: "page magic zero, split header",
    a_split_header_before_a_page_of_another_address: "page address, split header",
    a_split_header_before_a_page_without_the_continuation_flag: "continuation flag, split header",
    a_split_header_before_a_page_with_a_wrong_remaining_length: "remaining length, split header",
    a_split_header_with_a_wrong_previous_link: "previous link, split header",
}
