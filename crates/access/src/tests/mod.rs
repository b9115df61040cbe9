//! What tests of several modules share.

pub(crate) mod fixture;
#[path = "../../../txn/tests/txn/fixture.rs"]
mod layers;
