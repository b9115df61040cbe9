//! What a cut leaves of a mounted disk. Needs root and /dev/fuse.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_powercut::{Disk, Mounted, NamesRule, Rules, refusal};
use forebay_sim::Survival;

const RULES: Rules = Rules {
    names: NamesRule::Directory,
    lies: false,
    sync_micros: 100,
    write_micros: 100,
    seed: 1,
};
const DSYNC: i32 = rustix::fs::OFlags::DSYNC.bits() as i32;
const DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;

/// A mounted disk and the folder it is mounted on.
struct Fixture {
    disk: Arc<Disk>,
    mounted: Option<Mounted>,
    point: PathBuf,
}

impl Fixture {
    /// A mounted empty disk, or `None` after saying that `test` was skipped.
    fn new(test: &str, rules: Rules) -> Option<Fixture> {
        if let Some(why) = refusal() {
            println!("skipped: {test} needs {why}");
            return None;
        }
        let point =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        fs::create_dir(&point).expect("the target folder can be written");
        let disk = Disk::new(rules);
        let mounted = Some(Mounted::new(&disk, &point).expect("it can be mounted"));
        Some(Fixture { disk, mounted, point })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.point.join(name)
    }

    /// Cuts the power, and mounts what is left.
    fn cut(&mut self, mut survival: Survival) {
        let found = self.disk.cut(&mut survival, RULES);
        assert!(fs::read_dir(&self.point).is_err(), "nothing answers without power");
        self.mounted.take().expect("mounted").unmount().expect("unmounts");
        self.mounted = Some(Mounted::new(&found, &self.point).expect("mounts"));
        self.disk = found;
    }

    fn sync_names(&self) {
        File::open(&self.point).and_then(|dir| dir.sync_all()).expect("synced");
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.point).expect("listed");
        let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<_> = entries.map(|e| name(e).to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        drop(self.mounted.take());
        let _ = fs::remove_dir(&self.point);
    }
}

/// Memory that direct I/O takes.
#[repr(align(4096))]
struct Block([u8; 4096]);

#[test]
fn what_was_synced_stays_and_the_rest_is_lost() {
    let Some(mut fixture) = Fixture::new("what_was_synced_stays", RULES) else { return };
    let mut file = File::create(fixture.path("a")).expect("created");
    file.write_all(&[1; 8192]).expect("written");
    file.sync_all().expect("synced");
    fixture.sync_names();
    file.write_all_at(&[2; 4096], 0).expect("written");
    file.write_all_at(&[2; 4096], 8192).expect("written");
    File::create(fixture.path("b")).expect("created").sync_all().expect("synced");
    assert_eq!(
        fs::read(fixture.path("a")).expect("read"),
        [[2; 4096], [1; 4096], [2; 4096]].concat()
    );
    fixture.cut(Survival::none());
    assert_eq!(fs::read(fixture.path("a")).expect("read"), [1; 8192]);
    assert_eq!(fixture.names(), ["a"], "a name lasts after its directory's sync");
}

#[test]
fn everything_may_survive_too() {
    let Some(mut fixture) = Fixture::new("everything_may_survive", RULES) else { return };
    fs::write(fixture.path("a"), [1; 5000]).expect("written");
    fs::create_dir(fixture.path("d")).expect("made");
    fs::rename(fixture.path("a"), fixture.path("d/b")).expect("renamed");
    fs::hard_link(fixture.path("d/b"), fixture.path("c")).expect("linked");
    fixture.cut(Survival::all());
    assert_eq!(fixture.names(), ["c", "d"]);
    assert_eq!(fs::read(fixture.path("c")).expect("read"), [1; 5000]);
    assert_eq!(fs::read(fixture.path("d/b")).expect("read"), [1; 5000]);
}

#[test]
fn renames_and_removals_are_undone_unless_the_directory_was_synced() {
    let Some(mut fixture) = Fixture::new("renames_and_removals", RULES) else { return };
    for name in ["a", "b", "c"] {
        fs::write(fixture.path(name), name).expect("written");
        File::open(fixture.path(name)).and_then(|file| file.sync_all()).expect("synced");
    }
    fixture.sync_names();
    fs::rename(fixture.path("a"), fixture.path("b")).expect("renamed");
    fs::remove_file(fixture.path("c")).expect("removed");
    assert_eq!(fixture.names(), ["b"]);
    fixture.cut(Survival::none());
    assert_eq!(fixture.names(), ["a", "b", "c"]);
    assert_eq!(fs::read(fixture.path("b")).expect("read"), b"b");
    fs::rename(fixture.path("a"), fixture.path("b")).expect("renamed");
    fixture.sync_names();
    fixture.cut(Survival::none());
    assert_eq!(fixture.names(), ["b", "c"]);
    assert_eq!(fs::read(fixture.path("b")).expect("read"), b"a");
}

#[test]
fn one_log_of_names_is_durable_with_any_sync() {
    let rules = Rules { names: NamesRule::OneLog, ..RULES };
    let Some(mut fixture) = Fixture::new("one_log_of_names", rules) else { return };
    fs::write(fixture.path("a"), "a").expect("written");
    let file = File::create(fixture.path("b")).expect("created");
    file.sync_all().expect("synced");
    fs::remove_file(fixture.path("b")).expect("removed");
    fixture.cut(Survival::none());
    assert_eq!(fixture.names(), ["a", "b"]);
    assert_eq!(fs::read(fixture.path("a")).expect("read"), b"", "its contents were not synced");
}

#[test]
fn synchronous_writes_are_durable_buffered_and_direct() {
    let Some(mut fixture) = Fixture::new("synchronous_writes", RULES) else { return };
    let open = |flags| {
        OpenOptions::new().write(true).custom_flags(flags).open(fixture.path("a")).expect("opened")
    };
    fs::write(fixture.path("a"), [0; 16384]).expect("written");
    open(0).sync_all().expect("synced");
    fixture.sync_names();
    // The kernel lets a sync of the whole file follow a buffered one.
    open(DSYNC).write_all_at(&[1; 4096], 0).expect("written");
    open(DSYNC | DIRECT).write_all_at(&Block([2; 4096]).0, 4096).expect("written");
    open(DIRECT).write_all_at(&Block([3; 4096]).0, 8192).expect("written");
    open(0).write_all_at(&[4; 4096], 12288).expect("written");
    let first = |bytes: Vec<u8>| bytes.chunks(4096).map(|page| page[0]).collect::<Vec<_>>();
    assert_eq!(first(fs::read(fixture.path("a")).expect("read")), [1, 2, 3, 4]);
    fixture.cut(Survival::none());
    assert_eq!(first(fs::read(fixture.path("a")).expect("read")), [1, 2, 0, 0]);
}

#[test]
fn lengths_are_lost_with_their_file_unsynced() {
    let Some(mut fixture) = Fixture::new("lengths_are_lost", RULES) else { return };
    let file = File::create(fixture.path("a")).expect("created");
    file.set_len(10_000).expect("extended");
    file.sync_all().expect("synced");
    fixture.sync_names();
    file.set_len(0).expect("cut");
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 50_000)
        .expect("allocated");
    assert_eq!(file.metadata().expect("known").len(), 50_000);
    fixture.cut(Survival::none());
    assert_eq!(fs::metadata(fixture.path("a")).expect("known").len(), 10_000);
}

#[test]
fn a_file_system_that_lies_keeps_nothing() {
    let Some(mut fixture) = Fixture::new("a_file_system_that_lies", Rules { lies: true, ..RULES })
    else {
        return;
    };
    fs::write(fixture.path("a"), "a").expect("written");
    File::open(fixture.path("a")).and_then(|file| file.sync_all()).expect("it says so");
    fixture.sync_names();
    fixture.cut(Survival::none());
    assert!(fixture.names().is_empty());
}

#[test]
fn a_name_that_exists_is_not_replaced_against_ones_will() {
    let Some(fixture) = Fixture::new("a_name_that_exists", RULES) else { return };
    fs::write(fixture.path("a"), "a").expect("written");
    fs::write(fixture.path("b"), "b").expect("written");
    let (a, b) = (fixture.path("a"), fixture.path("b"));
    let flags = rustix::fs::RenameFlags::NOREPLACE;
    let refused = rustix::fs::renameat_with(rustix::fs::CWD, &a, rustix::fs::CWD, &b, flags);
    assert_eq!(refused, Err(rustix::io::Errno::EXIST));
    assert_eq!(fs::read(b).expect("read"), b"b");
    fs::create_dir(fixture.path("d")).expect("made");
    fs::write(fixture.path("d/f"), "f").expect("written");
    assert!(fs::remove_dir(fixture.path("d")).is_err(), "it is not empty");
}
