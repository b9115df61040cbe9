//! The problems that a verification finds.

use std::fs;

use forebay_archive::store::StoreOptions;
use forebay_archive::store::verify::{Problem, Verification, VerifyOptions};

use forebay_testkit::files::flip;

use crate::common::fixture::{Fixture, all_options};
use crate::common::segments::{SIZE, SYSTEM, segment_bytes, wal_name};

fn verify(fixture: &Fixture, options: &StoreOptions, quick: bool) -> Verification {
    let repository = fixture.repository(options.clone());
    repository.verify(&fixture.aio, &VerifyOptions { threads: 3, quick }, &|_, _| ()).unwrap()
}

fn filled(options: &StoreOptions) -> Fixture {
    let mut fixture = Fixture::new();
    let repository = fixture.repository(options.clone());
    for number in 3..9 {
        let name = fixture.segment(1, number);
        fixture.push(&repository, &name).unwrap();
    }
    // The new timeline begins in the middle of segment 6.
    let switch = format!("1\t0/{:X}\tno recovery target specified\n", 6 * SIZE.bytes() + 0x100);
    fs::write(fixture.wal("00000002.history"), switch).unwrap();
    fixture.push(&repository, "00000002.history").unwrap();
    for number in 6..8 {
        let name = SIZE.file_name(2, number);
        // The first segment begins with pages of its parent.
        let bytes = segment_bytes(if number == 6 { 1 } else { 2 }, number, SYSTEM);
        fs::write(fixture.wal(&name), bytes).unwrap();
        fixture.push(&repository, &name).unwrap();
    }
    fixture
}

#[test]
fn a_whole_archive_has_no_problems() {
    for options in all_options() {
        let fixture = filled(&options);
        let found = verify(&fixture, &options, false);
        assert_eq!(found.problems, [], "{options:?}");
        assert_eq!(found.files, 9);
        assert_eq!(verify(&fixture, &options, true).problems, []);
        // Without the key, the stored bytes can still be compared.
        let keyless = StoreOptions { key: None, ..options };
        assert_eq!(verify(&fixture, &keyless, false).problems, []);
    }
}

#[test]
fn all_problems_are_found() {
    for options in all_options() {
        let fixture = filled(&options);
        let file = |number: u64, ending: &str| {
            let name = SIZE.file_name(1, number);
            let found = fixture.contents().into_keys().find(|path| {
                let file = path.file_name().unwrap().to_string_lossy().into_owned();
                file.starts_with(&name) && file.ends_with(".manifest") == (ending == ".manifest")
            });
            found.expect("it is there")
        };
        let len = fs::metadata(file(3, "")).unwrap().len() as usize;
        flip(&file(3, ""), len / 2);
        for path in [file(4, ""), file(4, ".manifest")] {
            fs::remove_file(path).unwrap();
        }
        fs::remove_file(file(5, "")).unwrap();
        fs::remove_file(file(7, ".manifest")).unwrap();
        flip(&file(8, ".manifest"), 50);
        let dir = file(3, "").parent().unwrap().to_path_buf();
        fs::write(dir.join("notes.txt"), b"x").unwrap();
        fs::write(dir.join("forebay-temp.x.1.2"), b"x").unwrap();
        let found = verify(&fixture, &options, false).problems;
        let name = |number| wal_name(&SIZE.file_name(1, number));
        let has = |what: &dyn Fn(&Problem) -> bool| {
            found.iter().filter(|problem| what(problem)).count() == 1
        };
        assert!(
            has(&|p| matches!(p, Problem::Damaged { name: n, .. } if *n == name(3))),
            "{found:?}"
        );
        let gap = SIZE.file_name(1, 4);
        assert!(
            has(&|p| matches!(p, Problem::Gap { first, count: 1, .. } if *first == gap)),
            "{found:?}"
        );
        assert!(has(&|p| matches!(p, Problem::Missing { name: n } if *n == name(5))), "{found:?}");
        assert!(
            has(&|p| matches!(p, Problem::NoManifest { name: n } if *n == name(7))),
            "{found:?}"
        );
        assert!(
            has(&|p| matches!(p, Problem::Damaged { name: n, .. } if *n == name(8))),
            "{found:?}"
        );
        assert!(
            has(&|p| matches!(p, Problem::Foreign { key } if key.ends_with("notes.txt"))),
            "{found:?}"
        );
        assert!(has(&|p| matches!(p, Problem::Unfinished { .. })), "{found:?}");
        assert_eq!(found.len(), 7, "{found:?}");
        let serious = found.iter().filter(|problem| problem.is_serious()).count();
        assert_eq!(serious, 4);
    }
}

#[test]
fn a_file_stored_twice_is_reported() {
    let options = StoreOptions::default();
    let fixture = filled(&options);
    let name = SIZE.file_name(1, 3);
    fs::copy(fixture.archive().join(&name), fixture.archive().join(format!("{name}.lz4"))).unwrap();
    let found = verify(&fixture, &options, false).problems;
    assert!(matches!(found.as_slice(), [Problem::Twice { .. }]), "{found:?}");
}

#[test]
fn a_file_under_the_wrong_name_is_found() {
    let options = StoreOptions::default();
    let fixture = filled(&options);
    let (from, to) = (SIZE.file_name(1, 3), SIZE.file_name(1, 9));
    fs::copy(fixture.archive().join(from), fixture.archive().join(to)).unwrap();
    let found = verify(&fixture, &options, false).problems;
    assert!(
        matches!(found.as_slice(), [Problem::NoManifest { .. }, Problem::Damaged { .. }]),
        "{found:?}"
    );
}
