//! One table of command lines and directories, run by both programs as the same user on the same
//! paths.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

use forebay_testkit::peer::Peer;
use forebay_testkit::process::must;

use super::text;

type Damage = fn(&Path);

/// Command lines without a directory that is one. True: the words are the same, not only the exit
/// status.
const LINES: [(&[&str], bool); 27] = [
    (&[], true),
    (&["-?"], false),
    (&["--help"], false),
    (&["-V"], false),
    (&["-x"], false),
    (&["--bogus"], false),
    (&["-f"], false),
    (&["--p", "/n"], false),
    (&["--progress=3", "/n"], false),
    (&["-D", "/n"], true),
    (&["--pgdata=/n", "-N", "-P", "-v"], true),
    (&["--che", "/n"], true),
    (&["-ced", "/n"], true),
    (&["-D", "/n", "-D", "/m"], true),
    (&["-cDe", "/n"], true),
    (&["--", "-c"], true),
    (&["/n", "/m"], true),
    (&["-D", "/n", "/m"], true),
    (&["-e", "-f", "1"], true),
    (&["-e", "-f", "1", "/n"], true),
    (&["-f", "1", "-d", "/n"], true),
    (&["-f", "x", "-D", "/n"], true),
    (&["-f", "-1", "/n"], true),
    (&["-f", "2147483648", "/n"], true),
    (&["-f", " 7 ", "/n"], true),
    (&["--sync-method=x", "/n"], true),
    (&["--sync-method", "syncfs", "/n"], true),
];

/// Directories, and command lines for them.
const DIRECTORIES: [(&str, Damage, &[&str]); 39] = [
    ("whole", |_| {}, &["-c"]),
    ("whole", |_| {}, &[]),
    ("the last mode counts", |_| {}, &["-e", "-d", "-c"]),
    ("disabled", |_| {}, &["-d", "-v"]),
    ("disabled, not synced", |_| {}, &["-dN"]),
    ("disabled, file systems synced", |_| {}, &["-d", "--sync-method=syncfs"]),
    ("enabled twice", |_| {}, &["-e"]),
    ("one relation", |_| {}, &["-f", "1259"]),
    ("no such relation", |_| {}, &["-f", "999999"]),
    ("no PG_VERSION", |d| remove(&d.join("PG_VERSION")), &[]),
    ("shorter than a page", |d| put(&d.join("base/5/99999"), &[1; 100]), &[]),
    ("not whole pages", |d| put(&d.join("base/5/99999"), &[0; 8292]), &[]),
    ("not whole pages, nobody looks", |d| put(&d.join("base/5/99999"), &[0; 8292]), &["-d"]),
    ("an empty file", |d| put(&d.join("base/5/99999"), &[]), &[]),
    (
        "a directory for a file",
        |d| (remove(&d.join("base/5/1259")), dirs(&d.join("base/5/1259"))).1,
        &[],
    ),
    ("a directory for pg_control", |d| (remove(&control(d)), dirs(&control(d))).1, &[]),
    (
        "a file for a directory",
        |d| (remove_all(&d.join("base")), put(&d.join("base"), b"x")).1,
        &[],
    ),
    ("no base", |d| remove_all(&d.join("base")), &[]),
    ("no pg_tblspc", |d| remove_all(&d.join("pg_tblspc")), &[]),
    ("a text in pg_tblspc", |d| put(&d.join("pg_tblspc/777"), b"hello"), &[]),
    ("an empty tablespace", |d| dirs(&d.join("pg_tblspc/777")), &[]),
    ("a tablespace nowhere", |d| link("/nowhere", &d.join("pg_tblspc/777")), &[]),
    ("a tablespace, and another version's", tablespace, &["-v"]),
    ("another version's alone", |d| dirs(&d.join("pg_tblspc/777/PG_17_202406281/5")), &[]),
    ("a link nowhere", |d| link("/nowhere", &d.join("base/5/777")), &[]),
    ("a link to a file", |d| link("1259", &d.join("base/5/777")), &[]),
    ("names without pages", without_pages, &[]),
    ("a segment number of 0", |d| put(&d.join("base/5/1259.0"), &[0; 8192]), &[]),
    ("bad CRC", |d| flip(&control(d), 100), &[]),
    ("bad CRC", |d| flip(&control(d), 100), &["-d"]),
    ("pg_control cut", |d| put(&control(d), &[0; 100]), &[]),
    ("pg_control empty", |d| put(&control(d), &[]), &[]),
    ("no pg_control", |d| remove(&control(d)), &[]),
    ("an unreadable file", |d| mode(&d.join("base/5/1259"), 0), &[]),
    ("an unreadable file, nobody looks", |d| mode(&d.join("base/5/1259"), 0), &["-d"]),
    ("a file that can't be written", |d| mode(&d.join("base/5/1259"), 0o400), &[]),
    ("an unreadable directory", |d| mode(&d.join("base/5"), 0), &[]),
    ("pg_control can't be written", |d| mode(&control(d), 0o400), &["-d"]),
    ("an unreadable cluster", |d| mode(d, 0), &[]),
];

fn control(dir: &Path) -> std::path::PathBuf {
    dir.join("global/pg_control")
}

fn put(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("written");
}

fn remove(path: &Path) {
    fs::remove_file(path).expect("removed");
}

fn remove_all(path: &Path) {
    fs::remove_dir_all(path).expect("removed");
}

fn dirs(path: &Path) {
    fs::create_dir_all(path).expect("made");
}

fn link(to: &str, path: &Path) {
    symlink(to, path).expect("linked");
}

fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).expect("changed");
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("readable");
    bytes[at] ^= 0x40;
    put(path, &bytes);
}

fn tablespace(dir: &Path) {
    for version in ["PG_18_202506291", "PG_17_202406281"] {
        dirs(&dir.join("pg_tblspc/777").join(version).join("5"));
    }
    fs::copy(dir.join("base/5/1259"), dir.join("pg_tblspc/777/PG_18_202506291/5/1259"))
        .expect("copied");
    put(&dir.join("pg_tblspc/777/PG_17_202406281/5/1259"), b"not ours to read");
}

fn without_pages(dir: &Path) {
    dirs(&dir.join("base/pgsql_tmp"));
    for name in [
        "base/pgsql_tmp/x",
        "base/5/pg_internal.init.7",
        "base/5/pgsql_tmp1.2",
        "global/pg_internal.init",
    ] {
        put(&dir.join(name), b"no pages");
    }
}

/// Its output, sorted, without the program's name and without what only Forebay adds; and its exit
/// code.
fn outcome(output: &Output) -> (Option<i32>, String, Vec<String>) {
    let errors = text(&output.stderr).replace("forebay checksums", "pg_checksums");
    let lines = errors.lines().filter(|line| !line.starts_with("pg_checksums: detail: "));
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.sort();
    (output.status.code(), text(&output.stdout), lines)
}

#[test]
#[ignore = "run by cargo xtask test"]
fn command_lines_and_directories_are_refused_alike() {
    let Some(peer) = Peer::find("command_lines_and_directories_are_refused_alike") else { return };
    let program = peer.carry(Path::new(env!("CARGO_BIN_EXE_forebay")));
    let ours = |arguments: &[&str]| {
        let words = [&[program.as_str(), "checksums"], arguments].concat();
        peer.command_as("postgres", &words).output().expect("forebay runs")
    };
    let theirs =
        |arguments: &[&str]| peer.command("pg_checksums").args(arguments).output().expect("runs");
    for (arguments, words) in LINES {
        let (us, them) = (outcome(&ours(arguments)), outcome(&theirs(arguments)));
        if words {
            assert_eq!(us, them, "{arguments:?}");
        } else {
            assert_eq!(us.0, them.0, "{arguments:?}: {us:?}");
            assert!(us.2.len() <= 2, "one line and a hint: {us:?}");
        }
    }

    peer.init("pg");
    let (original, copy) = (peer.outside("pg"), peer.outside("copy"));
    // Checksums know nothing of these: smaller copies.
    for part in ["base/1", "base/4", "pg_wal"] {
        remove_all(&original.join(part));
    }
    dirs(&original.join("pg_wal"));
    for (what, damage, arguments) in DIRECTORIES {
        let run = |program: &dyn Fn(&[&str]) -> Output| {
            if copy.exists() {
                fs::remove_dir_all(&copy).expect("removed");
            }
            must(Command::new("cp").arg("-a").arg(&original).arg(&copy));
            damage(&copy);
            peer.give_to_postgres();
            outcome(&program(&[&["-D", peer.inside("copy").as_str()], arguments].concat()))
        };
        assert_eq!(run(&ours), run(&theirs), "{what} {arguments:?}");
    }
}
