//! PostgreSQL 18's own pg_waldump reads what this crate writes.
//!
//! Needs FOREBAY_PG18_ROOT, the root of a tree with PostgreSQL 18, and the right to chroot.

mod common;

use std::path::PathBuf;
use std::process::{Command, Output};

use common::*;
use forebay_aio::MethodKind;
use forebay_format::{
    BLOCK_SIZE, Fork, Lsn, PageBytes, PageMut, PageTag, RelFileLocator,
    wal::{Rmgr, xlog::FPI},
};
use forebay_wal::{BlockFlags, BlockRef, CheckpointKind, Record, Wal};

/// A folder inside the peer's tree, removed at the end.
struct Folder {
    root: PathBuf,
    inside: PathBuf,
}

impl Folder {
    fn new(test: &str) -> Option<Folder> {
        let Some(root) = std::env::var_os("FOREBAY_PG18_ROOT") else {
            println!("skipped: {test} needs PostgreSQL 18 (cargo xtask peers)");
            return None;
        };
        let root = PathBuf::from(root);
        let inside = PathBuf::from(format!("/tmp/forebay-wal-{}-{test}", std::process::id()));
        let folder = Folder { root, inside };
        std::fs::create_dir_all(folder.outside()).expect("folder in the peer's tree");
        Some(folder)
    }

    fn outside(&self) -> PathBuf {
        self.root.join(self.inside.strip_prefix("/").expect("absolute"))
    }

    /// Runs pg_waldump on the segments of `rig`, from `start` to `end`.
    fn dump(&self, rig: &Rig, start: Lsn, end: Lsn, options: &[&str]) -> Output {
        for name in rig.names() {
            std::fs::copy(rig.config.dir.join(&name), self.outside().join(&name)).expect("copy");
        }
        let mut command = Command::new("chroot");
        command.arg(&self.root).arg("/usr/lib/postgresql/18/bin/pg_waldump");
        command.arg("--path").arg(&self.inside);
        command.args(["--start", &start.to_string(), "--end", &end.to_string()]).args(options);
        command.output().expect("pg_waldump runs")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.outside());
    }
}

fn lines(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn page(fill: u8) -> PageBytes {
    let mut bytes = [0; BLOCK_SIZE];
    let mut page = PageMut(&mut bytes);
    page.init(0);
    page.add_item(&[fill; 500], None);
    bytes
}

#[test]
fn pg_waldump_reads_segments_of_records() {
    let Some(folder) = Folder::new("pg_waldump_reads_segments_of_records") else { return };
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    let mut numbers = Numbers(2026);
    let mut places = Vec::new();
    let mut last_redo = Lsn(0);
    for n in 0..400u32 {
        let at = match n % 20 {
            3 => {
                last_redo =
                    wal.begin_checkpoint(&mut rig.io, CheckpointKind::Online { wal_level: 1 }).expect("redo");
                forebay_wal::Inserted { start: last_redo, end: wal.end_lsn() }
            }
            5 => {
                let image = page(n as u8);
                let tag = PageTag::new(RelFileLocator::in_default(5, 16384), Fork::Main, n);
                let flags = BlockFlags::FORCE_IMAGE | BlockFlags::STANDARD;
                let block = BlockRef { id: 0, tag, page: Some(&image), flags, data: &[] };
                let record = Record { rmgr: Rmgr::XLOG, info: FPI, xid: 0, main: &[], blocks: &[block] };
                wal.insert(&mut rig.io, &record).expect("insert")
            }
            _ => {
                let len = if n % 20 == 7 { 150_000 } else { numbers.below(900) as usize + 1 };
                insert(&wal, &mut rig.io, &vec![n as u8; len])
            }
        };
        places.push(at);
    }
    wal.flush_all(&mut rig.io).expect("flush");
    assert!(wal.end_lsn().0 > BEGIN.0 + 2 * SEGMENT);
    let dumped = lines(&folder.dump(&rig, places[0].start, wal.end_lsn(), &[]));
    assert_eq!(dumped.len(), places.len());
    let mut prev = Lsn(0);
    for (line, at) in dumped.iter().zip(&places) {
        let (high, low) = (at.start.0 >> 32, at.start.0 as u32);
        assert!(
            line.contains(&format!("lsn: {high:X}/{low:08X}, prev {:X}/{:08X}", prev.0 >> 32, prev.0 as u32)),
            "{line}"
        );
        prev = at.start;
    }
    assert_eq!(dumped.iter().filter(|line| line.contains("CHECKPOINT_REDO")).count(), 20);
    assert_eq!(dumped.iter().filter(|line| line.contains("FPW") || line.contains("FPI")).count(), 20);
    assert!(last_redo > BEGIN);
}

#[test]
fn pg_waldump_reads_past_restarts_and_an_incomplete_record() {
    let test = "pg_waldump_reads_past_restarts_and_an_incomplete_record";
    let Some(folder) = Folder::new(test) else { return };
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    let restart = |rig: &mut Rig, wal: Wal| {
        wal.flush_all(&mut rig.io).expect("flush");
        drop(wal);
        rig.recover().1
    };
    let first = insert(&wal, &mut rig.io, &[1; 100]).start;
    let mut wal = restart(&mut rig, wal);
    insert(&wal, &mut rig.io, &[2; 20_000]);
    wal = restart(&mut rig, wal);
    // A record over the segment's end, of which the second segment's part is lost.
    let end = BEGIN.add(SEGMENT - 512);
    fill_up_to(&wal, &mut rig.io, end, 3);
    insert(&wal, &mut rig.io, &[4; 5000]);
    wal.flush_all(&mut rig.io).expect("flush");
    drop(wal);
    rig.patch(BEGIN.add(SEGMENT), |bytes| bytes.fill(0));
    let (records, wal) = rig.recover();
    assert_eq!(records.len(), 3);
    insert(&wal, &mut rig.io, &[5; 700]);
    let wal = restart(&mut rig, wal);
    insert(&wal, &mut rig.io, &[6; 700]);
    wal.flush_all(&mut rig.io).expect("flush");
    let dumped = lines(&folder.dump(&rig, first, wal.end_lsn(), &[]));
    assert_eq!(dumped.len(), 6, "{dumped:#?}");
    assert!(dumped[3].contains("OVERWRITE_CONTRECORD"), "{}", dumped[3]);
}
