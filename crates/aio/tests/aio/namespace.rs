//! Names, modes, locks, and the probe for direct I/O.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use forebay_aio::*;
use tempfile::TempDir;

fn names() -> (PosixNamespace, TempDir) {
    (PosixNamespace::new(), TempDir::new().unwrap())
}

const NEW: OpenOptions = OpenOptions::READ_WRITE.create_new();

#[test]
fn files_and_directories_are_private_and_close_on_exec() {
    let (ns, dir) = names();
    let (sub, path) = (dir.path().join("sub"), dir.path().join("sub/file"));
    ns.mkdir(&sub).unwrap();
    let file = ns.open(&path, &NEW).unwrap();
    assert_eq!(std::fs::metadata(&sub).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let info =
        std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.raw_fd().unwrap())).unwrap();
    let flags = info.lines().find_map(|l| l.strip_prefix("flags:")).unwrap().trim().to_string();
    assert_ne!(i32::from_str_radix(&flags, 8).unwrap() & libc::O_CLOEXEC, 0);
    let st = ns.stat(&path).unwrap().unwrap();
    assert_eq!((st.kind, st.len, st.links, st.mode), (FileKind::File, 0, 1, 0o600));
    assert_eq!(st.uid, std::fs::metadata(&path).unwrap().uid());
    assert_eq!(ns.stat(&sub).unwrap().unwrap().kind, FileKind::Directory);
}

#[test]
fn open_does_what_it_says() {
    let (ns, dir) = names();
    let path = dir.path().join("f");
    let e = ns.open(&path, &OpenOptions::READ).unwrap_err();
    assert!(e.is_not_found());
    assert_eq!(
        e.to_string(),
        format!("could not open file \"{}\": No such file or directory", path.display())
    );
    let file = ns.open(&path, &NEW).unwrap();
    assert_eq!(ns.open(&path, &NEW).unwrap_err().errno(), Some(Errno::EXIST));
    ns.set_len(&file, 10_000).unwrap();
    assert_eq!(ns.file_len(&file).unwrap(), 10_000);
    let again = ns.open(&path, &OpenOptions::READ_WRITE.create().dsync(true)).unwrap();
    assert_eq!(
        (ns.file_len(&again).unwrap(), again.is_dsync(), again.is_direct()),
        (10_000, true, false)
    );
    assert!(!again.same(&file) && again.same(&again.clone()));
    ns.open(&path, &OpenOptions::READ_WRITE.truncate()).unwrap();
    assert_eq!(ns.file_len(&again).unwrap(), 0);
    ns.sync_file(&file).unwrap();
    ns.sync_dir(dir.path()).unwrap();
    assert!(ns.sync_dir(&dir.path().join("absent")).unwrap_err().is_not_found());
}

#[test]
fn renaming_with_and_without_replacing() {
    let (ns, dir) = names();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    ns.set_len(&ns.open(&a, &NEW).unwrap(), 1).unwrap();
    ns.set_len(&ns.open(&b, &NEW).unwrap(), 2).unwrap();
    let e = ns.rename_noreplace(&a, &b).unwrap_err();
    assert_eq!((e.errno(), e.path()), (Some(Errno::EXIST), Some(b.as_path())));
    assert_eq!(ns.stat(&b).unwrap().unwrap().len, 2);
    ns.rename(&a, &b).unwrap();
    assert_eq!(ns.stat(&b).unwrap().unwrap().len, 1);
    assert!(!ns.exists(&a).unwrap());
    ns.rename_noreplace(&b, &a).unwrap();
    assert!(ns.exists(&a).unwrap() && !ns.exists(&b).unwrap());
    assert!(ns.rename(&b, &a).unwrap_err().is_not_found());
    ns.unlink(&a).unwrap();
    assert!(ns.unlink(&a).unwrap_err().is_not_found());
}

#[test]
fn listing_counting_and_removing() {
    let (ns, dir) = names();
    let at = |n: &str| dir.path().join(n);
    ns.mkdir(&at("d")).unwrap();
    ns.open(&at("f"), &NEW).unwrap();
    std::fs::hard_link(at("f"), at("g")).unwrap();
    std::os::unix::fs::symlink("f", at("s")).unwrap();
    let list = ns.list(dir.path()).unwrap();
    let list: BTreeMap<_, _> =
        list.into_iter().map(|e| (e.name.into_string().unwrap(), e.kind)).collect();
    let expected = [
        ("d", FileKind::Directory),
        ("f", FileKind::File),
        ("g", FileKind::File),
        ("s", FileKind::Symlink),
    ];
    assert_eq!(list, expected.map(|(n, k)| (n.to_string(), k)).into());
    assert_eq!(ns.link_count(&at("f")).unwrap(), 2);
    ns.unlink(&at("g")).unwrap();
    assert_eq!(ns.link_count(&at("f")).unwrap(), 1);
    ns.rmdir(&at("d")).unwrap();
    assert!(ns.list(&at("d")).unwrap_err().is_not_found());
    assert!(ns.rmdir(dir.path()).is_err(), "it is not empty");
}

#[test]
fn a_lock_is_one_holders() {
    let (ns, dir) = names();
    let path = dir.path().join("lock");
    let first = ns.open(&path, &NEW).unwrap();
    let second = ns.open(&path, &OpenOptions::READ_WRITE).unwrap();
    assert!(ns.try_lock(&first).unwrap());
    assert!(!ns.try_lock(&second).unwrap());
    // As a process that is being started has it.
    let inherited = first.borrow_fd().unwrap().try_clone_to_owned().unwrap();
    drop(first);
    assert!(ns.try_lock(&second).unwrap());
    drop(inherited);
}

#[test]
fn allocation_extends_with_zeros() {
    let (ns, dir) = names();
    let path = dir.path().join("f");
    let file = ns.open(&path, &NEW).unwrap();
    match ns.allocate(&file, 8192, 8192) {
        Ok(()) => assert_eq!(std::fs::read(&path).unwrap(), vec![0; 16384]),
        Err(e) => assert_eq!(e.errno(), Some(Errno::OPNOTSUPP)),
    }
}

#[test]
fn direct_files_bypass_the_cache() {
    let (ns, dir) = names();
    match ns.probe_direct(dir.path()) {
        Ok(a) => {
            assert!(a.memory <= IO_ALIGN && a.offset <= IO_ALIGN && a.memory.is_power_of_two());
            let file = ns.open(&dir.path().join("f"), &NEW.direct(true)).unwrap();
            // SAFETY: a query of an open descriptor's flags.
            let flags = unsafe { libc::fcntl(file.raw_fd().unwrap().as_raw_fd(), libc::F_GETFL) };
            assert_ne!(flags & libc::O_DIRECT, 0);
            assert_eq!(ns.list(dir.path()).unwrap().len(), 1, "the probe leaves nothing behind");
        }
        Err(e) => {
            assert!(!e.reason.is_empty());
            assert!(ns.open(&dir.path().join("f"), &NEW.direct(true)).is_err());
        }
    }
}

#[test]
fn where_direct_io_is_a_wish_only_readers_are_refused() {
    let (_, dir) = names();
    let ns = DirectIfPossible::new();
    let path = dir.path().join("f");
    let can = probe_direct(dir.path()).is_ok_and(|told| told.note.is_none());
    for options in [NEW, OpenOptions::READ_WRITE] {
        assert_eq!(ns.open(&path, &options.direct(true)).unwrap().is_direct(), can);
        assert!(!ns.open(&path, &OpenOptions::READ_WRITE).unwrap().is_direct());
    }
    assert_eq!(ns.probe_direct(dir.path()), probe_direct(dir.path()));
    assert_eq!(ns.list(dir.path()).unwrap().len(), 1, "the probe leaves nothing behind");

    // This file system has no direct I/O.
    let none = Path::new("/proc/self/mem");
    assert!(!ns.open(none, &OpenOptions::READ_WRITE.direct(true)).unwrap().is_direct());
    let refused = ns.open(none, &OpenOptions::READ.direct(true)).unwrap_err();
    assert!(matches!(refused, AioError::Direct(_)), "{refused}");
    let missing = Path::new("/nowhere/at/all");
    let error = ns.open(missing, &OpenOptions::READ_WRITE.direct(true)).unwrap_err();
    assert!(error.is_not_found(), "{error}");
}

#[test]
fn a_refusal_of_direct_io_names_file_system_and_reason() {
    let e = probe_direct(Path::new("/proc/self")).unwrap_err();
    let text = e.to_string();
    assert!(
        text.starts_with("direct I/O is not possible in \"/proc/self\" (file system "),
        "{text}"
    );
    let e = probe_direct(Path::new("/nowhere/at/all")).unwrap_err();
    assert!(e.reason.contains("No such file or directory"), "{e}");
}

#[test]
fn a_forgotten_file_is_read_from_the_disk() {
    // Not on a temporary file system, because it has no disk to read from.
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, [7; 4096]).unwrap();
    let ns = PosixNamespace::new();
    let file = ns.open(&path, &OpenOptions::READ_WRITE).unwrap();
    let cached = || {
        let mut byte = [0];
        let file = std::fs::File::open(&path).unwrap();
        let buffers = &mut [rustix::io::IoSliceMut::new(&mut byte)];
        // Without waiting, only what is in memory can be read.
        rustix::io::preadv2(&file, buffers, 0, rustix::io::ReadWriteFlags::NOWAIT) == Ok(1)
    };
    ns.sync_file(&file).unwrap();
    assert!(cached());
    ns.forget_cached(&file).unwrap();
    assert!(!cached());
    assert_eq!(std::fs::read(&path).unwrap(), [7; 4096]);
}
