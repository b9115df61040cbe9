//! Faults of the namespace: each call can fail, as the system's own would.

use std::sync::Arc;
use std::thread;

use forebay_aio::fault::{Effect, FaultPlan, FaultyNamespace, Ops, Rule};
use forebay_aio::*;
use tempfile::TempDir;

#[test]
fn every_call_can_fail_and_says_so_as_the_system_would() {
    let dir = TempDir::new().unwrap();
    let plan = FaultPlan::new();
    let names = FaultyNamespace::new(Arc::new(PosixNamespace), plan.clone());
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let file = names.open(&a, &OpenOptions::READ_WRITE.create_new()).unwrap();
    type Call<'a> = &'a dyn Fn() -> Result<(), AioError>;
    let calls: [(Ops, &str, Call<'_>); 16] = [
        (Ops::OPEN, "open file", &|| names.open(&a, &OpenOptions::READ).map(drop)),
        (Ops::MKDIR, "create directory", &|| names.mkdir(&a)),
        (Ops::RENAME, "rename file", &|| names.rename(&a, &b)),
        (Ops::RENAME, "rename file", &|| names.rename_noreplace(&a, &b)),
        (Ops::UNLINK, "remove file", &|| names.unlink(&a)),
        (Ops::RMDIR, "remove directory", &|| names.rmdir(&a)),
        (Ops::LIST, "read directory", &|| names.list(&a).map(drop)),
        (Ops::STAT, "stat file", &|| names.stat(&a).map(drop)),
        (Ops::STAT, "stat file", &|| names.link_count(&a).map(drop)),
        (Ops::STAT, "stat file", &|| names.file_len(&file).map(drop)),
        (Ops::SET_LEN, "truncate file", &|| names.set_len(&file, 9)),
        (Ops::ALLOCATE, "allocate space in file", &|| names.allocate(&file, 0, 9)),
        (Ops::SYNC_FILE, "fsync file", &|| names.sync_file(&file)),
        (Ops::SYNC_DIR, "fsync directory", &|| names.sync_dir(&a)),
        (Ops::SYNC_FS, "synchronize file system for file", &|| names.sync_file_system(&a)),
        (Ops::LOCK, "lock file", &|| names.try_lock(&file).map(drop)),
    ];
    for (op, action, call) in calls {
        let fault = plan.add(Rule::on(op), Effect::Fail(Errno::IO));
        let error = call().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("could not {action} \"{}\": Input/output error", a.display())
        );
        assert_eq!(plan.fired(fault), 1);
        plan.mend();
    }
    assert!(names.exists(&a).unwrap() && !names.exists(&b).unwrap(), "nothing of it was done");
    assert_eq!(names.file_len(&file).unwrap(), 0);
    names.set_len(&file, 9).unwrap();
    assert_eq!(plan.fired_by_class().get("stat: Input/output error"), Some(&3));
}

#[test]
fn rules_choose_by_path_number_and_predicate() {
    let dir = TempDir::new().unwrap();
    let plan = FaultPlan::new();
    let names = FaultyNamespace::new(Arc::new(PosixNamespace), plan.clone());
    let new = OpenOptions::READ_WRITE.create();
    let open = |name: &str| names.open(&dir.path().join(name), &new).err().and_then(|e| e.errno());
    let third = plan.add(Rule::on(Ops::OPEN).path("/x").nth(2), Effect::Fail(Errno(libc::EMFILE)));
    let direct = plan.add(Rule::on(Ops::OPEN).when(|call| !call.write), Effect::Fail(Errno::INVAL));
    assert_eq!(
        ["x1", "y", "x2", "x3", "x4"].map(open),
        [None, None, None, Some(Errno(libc::EMFILE)), None]
    );
    assert_eq!((plan.matched(third), plan.fired(third), plan.fired(direct)), (4, 1, 0));
    let error = names.open(&dir.path().join("y"), &OpenOptions::READ).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::INVAL));
    plan.mend();
    assert!(names.open(&dir.path().join("y"), &OpenOptions::READ).is_ok());
    assert_eq!(plan.calls(Ops::OPEN), 7);
}

#[test]
fn an_allocation_fails_after_a_part() {
    let dir = TempDir::new().unwrap();
    let plan = FaultPlan::new();
    let names = FaultyNamespace::new(Arc::new(PosixNamespace), plan.clone());
    let file = names.open(&dir.path().join("f"), &OpenOptions::READ_WRITE.create_new()).unwrap();
    plan.add(Rule::on(Ops::SET_LEN).times(1), Effect::FailAfter(5000, Errno::NOSPC));
    assert_eq!(names.set_len(&file, 9000).unwrap_err().errno(), Some(Errno::NOSPC));
    assert_eq!(names.file_len(&file).unwrap(), 5000);
}

#[test]
fn a_held_name_waits_for_its_release() {
    let dir = TempDir::new().unwrap();
    let plan = FaultPlan::new();
    let names = FaultyNamespace::new(Arc::new(PosixNamespace), plan.clone());
    let held = plan.hold(Rule::on(Ops::MKDIR));
    thread::scope(|scope| {
        let making = scope.spawn(|| names.mkdir(&dir.path().join("d")));
        held.await_count(1);
        assert!(!making.is_finished() && !dir.path().join("d").exists());
        held.release();
        making.join().unwrap().unwrap();
    });
    assert!(dir.path().join("d").exists());
}
