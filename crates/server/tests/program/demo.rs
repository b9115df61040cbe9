//! The demonstration, with a small table.

use std::process::Command;

#[test]
fn it_shows_everything_and_cleans_up() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let mut demo = Command::new(env!("CARGO_BIN_EXE_forebay"));
    let output =
        demo.args(["demo", "--size", "8", "--dir"]).arg(folder.path()).output().expect("runs");
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{errors}");
    for part in [
        "Its I/O by default: ",
        "Loaded 100,000 rows",
        "io_method",
        "worker",
        "every acknowledged COPY is whole",
        "psql -h",
    ] {
        assert!(said.contains(part), "no {part:?} in\n{said}");
    }
    assert_eq!(folder.path().read_dir().expect("is there").count(), 0, "nothing is left behind");
}
