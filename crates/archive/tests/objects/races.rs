//! Many writers at once, into one bucket.

use forebay_archive::store::StoreOptions;

use crate::common::fixture::Fixture;
use crate::common::segments::{SIZE, SYSTEM, segment_bytes};
use crate::common::writers::{
    check_all_succeeded, different_contents, different_options, race, the_winner,
};
use crate::store::{LONG, Store};

#[test]
fn sixteen_writers_of_the_same_contents() {
    let Some(store) = Store::new("sixteen_writers_of_the_same_contents") else { return };
    let mut fixture = Fixture::new();
    let name = SIZE.file_name(1, 3);
    let contents = [segment_bytes(1, 3, SYSTEM)];
    let open = |_: usize, _: &_| store.repository(StoreOptions::default(), LONG);
    check_all_succeeded(&race(&fixture, &name, &contents, open));
    assert!(fixture.get(&store.plain(), &name).unwrap().as_ref() == Some(&contents[0]));
    let keys = store.keys();
    assert_eq!(keys.len(), 3, "the marker, the segment, its manifest: {keys:?}");
}

#[test]
fn sixteen_writers_of_different_contents_and_one_wins() {
    let Some(store) = Store::new("sixteen_writers_of_different_contents_and_one_wins") else {
        return;
    };
    let mut fixture = Fixture::new();
    let name = SIZE.file_name(1, 3);
    let (contents, options) = (different_contents(), different_options());
    let open = |n: usize, _: &_| store.repository(options[n % options.len()].clone(), LONG);
    let winner = the_winner(&race(&fixture, &name, &contents, open));
    assert!(fixture.get(&store.plain(), &name).unwrap().as_ref() == Some(&contents[winner]));
    let keys = store.keys();
    assert_eq!(keys.len(), 3, "the marker, the segment, its manifest: {keys:?}");
}
