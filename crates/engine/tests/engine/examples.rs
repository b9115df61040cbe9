//! The programs of `examples/`, each in a directory of its own.

#[path = "../../examples/backup_and_restore.rs"]
#[expect(dead_code, reason = "main is the program's")]
mod backup_and_restore;
#[path = "../../examples/bulk_load.rs"]
#[expect(dead_code, reason = "main is the program's")]
mod bulk_load;
#[path = "../../examples/embed.rs"]
#[expect(dead_code, reason = "main is the program's")]
mod embed;
#[path = "../../examples/scan.rs"]
#[expect(dead_code, reason = "main is the program's")]
mod scan;
#[path = "../../examples/transfer.rs"]
#[expect(dead_code, reason = "main is the program's")]
mod transfer;

use crate::common::scratch;

#[test]
fn embed_runs() {
    embed::run(&scratch().path().join("data")).expect("it runs");
}

#[test]
fn bulk_load_runs() {
    bulk_load::run(&scratch().path().join("data"), 20_000).expect("it runs");
}

#[test]
fn scan_runs() {
    scan::run(&scratch().path().join("data")).expect("it runs");
}

#[test]
fn backup_and_restore_runs() {
    backup_and_restore::run(scratch().path()).expect("it runs");
}

#[test]
fn transfer_runs() {
    transfer::run(&scratch().path().join("data")).expect("it runs");
}
