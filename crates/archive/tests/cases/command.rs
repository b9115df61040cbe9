//! archive_command.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use forebay_aio::sync::{Arc, Duration, Instant};
use forebay_archive::archiver::Threads;
use forebay_archive::modules::Command;
use forebay_archive::{ArchiveError, ArchiveModule, Archiver, Next, StopMode};

use crate::fixture::*;

fn archiver(fixture: &Fixture, command: &str) -> Arc<Archiver> {
    let archiver = fixture.archiver(None);
    archiver.set_module(Some(Arc::new(Command::new(command, fixture.dir.path()))));
    archiver.scan().unwrap();
    archiver
}

#[test]
fn a_command_gets_path_and_name_in_the_data_directory() {
    let mut fixture = Fixture::plain();
    (1..=2).for_each(|n| drop(fixture.put_ready(1, n)));
    let archiver =
        archiver(&fixture, "test ! -f archive/%f && cp %p archive/%f && echo 100%% %p >> said");
    assert_eq!(fixture.work(&archiver, Instant::now()), Next::Rest(None));
    for n in 1..=2 {
        assert!(
            fs::read(fixture.archive().join(segment(1, n).as_str())).unwrap() == contents(1, n)
        );
    }
    let said = fs::read_to_string(fixture.dir.path().join("said")).unwrap();
    assert_eq!(said, format!("100% pg_wal/{}\n100% pg_wal/{}\n", segment(1, 1), segment(1, 2)));
    assert_eq!(archiver.stats().archived_count, 2);
}

#[test]
fn a_failed_command_is_tried_three_times_and_then_after_a_pause() {
    let mut fixture = Fixture::plain();
    fixture.put_ready(1, 1);
    let archiver = archiver(&fixture, "echo try >> tries; exit 1");
    let mut now = Instant::now();
    for tries in 1..=4_usize {
        let Next::Rest(Some(rest)) = fixture.work(&archiver, now) else {
            panic!("it is tried again")
        };
        assert_eq!(
            fs::read_to_string(fixture.dir.path().join("tries")).unwrap().lines().count(),
            tries
        );
        assert_eq!(rest <= Duration::from_secs(2), tries < 3, "{tries}: {rest:?}");
        now += rest + Duration::from_millis(100);
    }
    assert_eq!(archiver.stats().failed_count, 4);
    assert_eq!(fixture.marks(), [segment(1, 1).ready()]);
}

#[test]
fn a_killed_or_missing_command_pauses_all_files_for_ten_seconds() {
    for command in ["kill -9 $$", "exit 126", "/no/such/program %p 2>/dev/null"] {
        let mut fixture = Fixture::plain();
        (1..=2).for_each(|n| drop(fixture.put_ready(1, n)));
        let archiver = archiver(&fixture, command);
        let Next::Rest(Some(rest)) = fixture.work(&archiver, Instant::now()) else {
            panic!("it begins again")
        };
        assert!(rest > Duration::from_secs(9) && rest <= Duration::from_secs(11), "{rest:?}");
        assert_eq!(archiver.stats().failed_count, 1, "the other one was not even tried");
        archiver.stop(StopMode::Drain);
        assert_eq!(fixture.work(&archiver, Instant::now()), Next::Ended, "one last attempt");
        assert_eq!(archiver.stats().failed_count, 2);
    }
}

#[test]
fn an_exit_up_to_125_is_a_failure_of_the_file() {
    let mut fixture = Fixture::plain();
    (1..=2).for_each(|n| drop(fixture.put_ready(1, n)));
    let archiver = archiver(&fixture, "exit 125");
    fixture.work(&archiver, Instant::now());
    assert_eq!(archiver.stats().failed_count, 2, "both were tried");
}

#[test]
fn invalid_commands_are_reported() {
    let fixture = Fixture::plain();
    assert_eq!(
        Command::new("", fixture.dir.path()).check_configured(),
        Err("\"archive_command\" is not set.".to_owned())
    );
    fixture.put_ready(1, 1);
    let mut io = fixture.aio.backend(forebay_aio::BackendType::Standalone).unwrap();
    let mut run = |command: &str| {
        let mut source = fixture.source(&segment(1, 1)).unwrap();
        let error =
            Command::new(command, fixture.dir.path()).archive(&mut io, &mut source).unwrap_err();
        source.close(&mut io);
        error
    };
    let error = run("false %f");
    assert_eq!(
        error.to_string(),
        format!(
            "archive command failed with exit code 1; the failed archive command was: false {}",
            segment(1, 1)
        )
    );
    let error = run("kill -TERM $$");
    assert!(
        error.to_string().starts_with("archive command was terminated by signal 15: Terminated"),
        "{error}"
    );
    let error = run("cp %p %q");
    assert!(matches!(error, ArchiveError::Placeholder(_)), "{error}");
}

#[test]
fn a_command_does_not_run_for_an_invalid_segment() {
    let fixture = Fixture::plain();
    fixture.put(&segment(1, 1), &contents(1, 2));
    let mut io = fixture.aio.backend(forebay_aio::BackendType::Standalone).unwrap();
    let mut source = fixture.source(&segment(1, 1)).unwrap();
    let error =
        Command::new("touch ran", fixture.dir.path()).archive(&mut io, &mut source).unwrap_err();
    assert!(matches!(error, ArchiveError::Header { .. }), "{error}");
    assert!(!fixture.dir.path().join("ran").exists());
}

#[test]
fn a_stop_ends_a_running_command() {
    let fixture = Fixture::plain();
    fixture.put_ready(1, 1);
    let fifo = fixture.dir.path().join("fifo");
    let made = std::process::Command::new("mkfifo")
        .args([&fifo, &fixture.dir.path().join("never")])
        .status();
    assert!(made.unwrap().success());
    let archiver = archiver(&fixture, "echo begun > fifo; cat never");
    let threads = Threads::start(&archiver, 1).unwrap();
    assert_eq!(fs::read_to_string(&fifo).unwrap(), "begun\n");
    threads.stop(StopMode::Now).unwrap();
    assert_eq!(fixture.marks(), [segment(1, 1).ready()]);
    assert_eq!(archiver.stats().failed_count, 0);
}

/// A command that fails as long as the archive refuses to store.
#[test]
fn a_command_fails_until_the_archive_is_writable() {
    let mut fixture = Fixture::plain();
    fixture.put_ready(1, 1);
    let script = fixture.dir.path().join("push");
    fs::write(&script, "#!/bin/sh\ncp \"$1\" archive/\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o600)).unwrap();
    let archiver = archiver(&fixture, "./push %p 2>/dev/null");
    let now = Instant::now();
    assert!(matches!(fixture.work(&archiver, now), Next::Rest(Some(_))), "it begins again");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(fixture.work(&archiver, now + Duration::from_secs(15)), Next::Rest(None));
    assert_eq!(fixture.stored(), [segment(1, 1).as_str()]);
}
