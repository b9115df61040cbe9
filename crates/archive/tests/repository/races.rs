//! Many writers at once, into one directory.

use std::fs;
use std::sync::Arc;

use forebay_aio::Aio;
use forebay_archive::store::{Repository, StoreOptions};

use crate::common::fixture::{Fixture, all_options};
use crate::common::segments::{SIZE, SYSTEM, segment_bytes};
use crate::common::writers::{
    check_all_succeeded, different_contents, different_options, race, the_winner,
};

/// Opens the archive with the nth of these options.
fn open<'a>(
    fixture: &'a Fixture,
    options: &'a [StoreOptions],
) -> impl Fn(usize, &Arc<Aio>) -> Repository + Sync + 'a {
    |n, aio| {
        let location = fixture.archive().to_string_lossy().into_owned();
        Repository::open(aio, &location, options[n % options.len()].clone()).unwrap()
    }
}

#[test]
fn sixteen_writers_of_the_same_contents() {
    let mut fixture = Fixture::new();
    for (number, options) in (3..).zip([StoreOptions::default(), all_options().pop().expect("one")])
    {
        let name = SIZE.file_name(1, number);
        fs::remove_dir_all(fixture.archive()).unwrap();
        fs::create_dir(fixture.archive()).unwrap();
        let contents = [segment_bytes(1, number, SYSTEM)];
        let opener = open(&fixture, std::slice::from_ref(&options));
        check_all_succeeded(&race(&fixture, &name, &contents, opener));
        let repository = fixture.repository(options);
        assert!(fixture.get(&repository, &name).unwrap().as_ref() == Some(&contents[0]));
        fixture.check_no_temporary();
    }
}

#[test]
fn sixteen_writers_of_different_contents_and_one_wins() {
    let mut fixture = Fixture::new();
    let name = SIZE.file_name(1, 3);
    let (contents, options) = (different_contents(), different_options());
    let results = race(&fixture, &name, &contents, open(&fixture, &options));
    let winner = the_winner(&results);
    let repository = fixture.plain();
    assert!(fixture.get(&repository, &name).unwrap().as_ref() == Some(&contents[winner]));
    let names: Vec<_> = fixture.contents().into_keys().collect();
    assert_eq!(names.len(), 3, "the marker, the segment, its manifest: {names:?}");
    fixture.check_no_temporary();
}

#[test]
fn writers_that_compress_differently_store_one_file() {
    let mut fixture = Fixture::new();
    let name = SIZE.file_name(1, 3);
    let (contents, options) = ([segment_bytes(1, 3, SYSTEM)], different_options());
    let results = race(&fixture, &name, &contents, open(&fixture, &options));
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let repository = fixture.plain();
    assert!(fixture.get(&repository, &name).unwrap().as_ref() == Some(&contents[0]));
    fixture.check_no_temporary();
}
