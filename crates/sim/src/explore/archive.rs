//! Lives of an archiver: a log that grows and recycles segments, an archive, crashes and kills at
//! any call.
//!
//! The log is a simple one of whole segments, which are made and recycled as crate wal does it. The
//! archiver and the modules that store files are the production code. When a module reports a file
//! as stored, that is recorded, and the file must be found after each crash. Other programs put
//! files into the archive as well: the same file without a sync, or another file of the same name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use forebay_aio::sync::{Arc, Duration, Instant, Mutex};
use forebay_aio::{
    Aio, AioConfig, AioError, AlignedBuf, BackendType, IoBackend, OpenOptions, PlantedBug,
};
use forebay_archive::durable_dir::TEMPORARY;
use forebay_archive::{
    ArchiveError, ArchiveModule, Archived, Archiver, ArchiverConfig, Digest, DurableDir, Expected,
    Mark, Next, Source, WalName,
};
use forebay_format::SegmentSize;
use forebay_format::wal::page_header::{LongHeader, PageHeader};
use forebay_testkit::Dice;

use super::Tally;
use crate::disk::{Ending, SimDisk};
use crate::faults::FaultRates;
use crate::survival::Survival;

const SYSTEM: u64 = 42;
const ROOT: &str = "/server";
/// Lives that end by a crash or kill before the last one.
const LIVES: u64 = 4;
/// Steps within which the last life must come to rest.
const PATIENCE: usize = 10_000;

/// Runs a server's log and its archive through several lives.
///
/// # Errors
/// A promise that was not kept.
pub fn archive_life(seed: u64, bug: Option<PlantedBug>) -> Result<Tally, String> {
    let mut world = World::new(seed);
    let mut disk = SimDisk::new(ROOT, seed);
    if let Some(bug) = bug {
        disk.plant(bug);
    }
    world.lay_out(&disk).map_err(|e| e.to_string())?;
    let mut tally = Tally::one();
    for life in 0..LIVES {
        let calls = world.dice.below(250);
        let ending = Ending::random(&mut world.dice, 300);
        disk.end_after(calls, ending);
        if world.dice.chance(300) {
            disk.set_faults(faults());
        }
        world.live(&disk, 40, false)?;
        tally.add_fired(&disk);
        disk = disk.reborn(Survival::random(seed ^ life << 20), seed + life);
        world.check(&disk).map_err(|wrong| format!("life {life}: {wrong}"))?;
        tally.compared += 1;
    }
    world.live(&disk, 10, true)?;
    tally.add_fired(&disk);
    world.check(&disk)?;
    world.check_rest(&disk)?;
    world.check(&disk.restart(Survival::none(), seed))?;
    Ok(tally)
}

/// A short life, crashed during each call that changes something, with the unsynced changes lost,
/// kept, and random.
///
/// # Errors
/// A promise that was not kept.
pub fn every_archive_crash(seed: u64, steps: usize) -> Result<Tally, String> {
    let mut tally = Tally::one();
    for call in 0.. {
        let mut world = World::new(seed);
        let disk = SimDisk::new(ROOT, seed);
        world.lay_out(&disk).map_err(|e| e.to_string())?;
        disk.crash_after(call);
        world.live(&disk, steps, false)?;
        let over = !disk.is_off();
        disk.cut_power();
        tally.add_fired(&disk);
        let fates = [
            ("nothing", Survival::none()),
            ("everything", Survival::all()),
            ("a part", Survival::random(seed ^ call << 8)),
        ];
        for (what, survival) in fates {
            let wrong = |reason: String| format!("crash at call {call}, {what} survived: {reason}");
            let left = disk.restart(survival, seed);
            let mut world = world.fork();
            world.check(&left).map_err(wrong)?;
            world.live(&left, 3, true).map_err(wrong)?;
            world.check_rest(&left).map_err(wrong)?;
            tally.compared += 1;
        }
        if over {
            break;
        }
    }
    Ok(tally)
}

fn faults() -> FaultRates {
    FaultRates {
        read_error: 5,
        write_error: 10,
        no_space: 10,
        short: 20,
        interrupted: 20,
        failed_sync: 10,
        false_alarm: 10,
        name_error: 5,
        ..FaultRates::default()
    }
}

fn size() -> SegmentSize {
    SegmentSize::new(1 << 20).unwrap_or_default()
}

/// A segment's bytes: mostly zeros, and a few that distinguish numbers and versions, in its first
/// and its last page too.
fn contents(timeline: u32, number: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 20];
    let mut dice = Dice::new(number << 32 ^ version ^ u64::from(timeline) << 56);
    for _ in 0..40 {
        let at = dice.below(1 << 20) as usize;
        bytes[at] = dice.any() as u8;
    }
    let len = bytes.len();
    bytes[len - 8..].copy_from_slice(&version.to_le_bytes());
    let long = LongHeader { system_id: SYSTEM, segment_size: size().get(), block_size: 8192 };
    PageHeader { info: 0, timeline, page_addr: size().start(number), rem_len: 0, long: Some(long) }
        .encode(&mut bytes);
    bytes
}

fn segment(timeline: u32, number: u64) -> String {
    size().file_name(timeline, number)
}

type Promises = Arc<Mutex<BTreeMap<String, Digest>>>;

/// Where files go in the archive: all in one directory, or in one of several.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Plain,
    Nested,
}

impl Layout {
    fn name(self, file: &str) -> String {
        match self {
            Layout::Plain => file.to_owned(),
            Layout::Nested => {
                let end = file.get(22..24).unwrap_or("history");
                format!("files/{end}/{file}")
            }
        }
    }
}

/// Stores files, and records what it has promised.
struct Witness {
    dir: DurableDir,
    layout: Layout,
    promises: Promises,
}

impl ArchiveModule for Witness {
    fn name(&self) -> &'static str {
        "witness"
    }

    fn startup(&self) -> Result<(), ArchiveError> {
        self.dir.clean().map(drop)
    }

    fn archive(&self, io: &mut IoBackend, file: &mut Source) -> Result<Archived, ArchiveError> {
        let name = file.name().to_string();
        let archived = self.dir.store(io, &self.layout.name(&name), file)?;
        let digest = file.digest().ok_or_else(|| ArchiveError::Name { name: name.clone() })?;
        self.promises.lock().insert(name, digest);
        Ok(archived)
    }
}

/// What is known besides the disk.
struct World {
    seed: u64,
    dice: Dice,
    layout: Layout,
    direct: bool,
    /// The content of segments that are whole and durable, by name.
    complete: BTreeMap<String, Digest>,
    /// The next segment of the log, and how often any segment was written.
    next: u64,
    version: u64,
    /// What modules have promised.
    promises: Promises,
    /// Foreign files that others have put durably into the archive under names of this server's.
    foreign: BTreeMap<String, Digest>,
    /// Names that were copied into the archive by hand.
    by_hand: BTreeSet<String>,
    now: Instant,
}

impl World {
    fn new(seed: u64) -> World {
        let mut dice = Dice::new(seed ^ 0xa7c4);
        let layout = if dice.chance(500) { Layout::Plain } else { Layout::Nested };
        let direct = dice.chance(500);
        World {
            seed,
            dice,
            layout,
            direct,
            complete: BTreeMap::new(),
            next: 1,
            version: 0,
            promises: Promises::default(),
            foreign: BTreeMap::new(),
            by_hand: BTreeSet::new(),
            // Ahead of the real clock, so that its pace does not matter.
            now: Instant::now() + Duration::from_secs(86_400),
        }
    }

    /// The same, to continue in another way.
    fn fork(&self) -> World {
        World {
            dice: self.dice.clone(),
            complete: self.complete.clone(),
            promises: Arc::new(Mutex::new(self.promises.lock().clone())),
            foreign: self.foreign.clone(),
            by_hand: self.by_hand.clone(),
            ..*self
        }
    }

    fn archive(&self) -> PathBuf {
        Path::new(ROOT).join("archive")
    }

    /// The directories of a server. Only the archiver makes the archive's directories durable.
    fn lay_out(&mut self, disk: &SimDisk) -> Result<(), AioError> {
        let aio = disk.open(AioConfig { max_backends: 2, ..AioConfig::default() }, self.seed)?;
        let names = aio.namespace();
        for dir in ["pg_wal", "pg_wal/archive_status"] {
            names.mkdir(&Path::new(ROOT).join(dir))?;
        }
        names.sync_dir(&Path::new(ROOT).join("pg_wal"))?;
        names.sync_dir(Path::new(ROOT))?;
        names.mkdir(&self.archive())?;
        drop(aio);
        disk.close();
        Ok(())
    }

    /// Runs a life until the disk ends it or so many things were done; the last life runs until
    /// everything is at rest.
    fn live(&mut self, disk: &SimDisk, steps: usize, last: bool) -> Result<(), String> {
        let config = AioConfig { max_backends: 2, ..AioConfig::default() };
        let aio = disk.open(config, self.seed).map_err(|e| e.to_string())?;
        let io = aio.backend(BackendType::Standalone).map_err(|e| e.to_string())?;
        self.repair(&aio);
        let mut life = Life::begin(self, &aio, io);
        let lived = life.lead(steps, last);
        drop(life);
        drop(aio);
        disk.close();
        match lived {
            Err(End::Wrong(reason)) => Err(reason),
            Err(End::Failed(reason)) if last => Err(format!("the last life failed: {reason}")),
            _ => Ok(()),
        }
    }

    /// Repairs what the administrator must repair. The archive's directory may not have survived,
    /// if nothing in it was promised. A copy made by hand may be damaged, so that the archiver
    /// refuses to touch it. Errors are those of the disk.
    fn repair(&self, aio: &Arc<Aio>) {
        let (names, promises) = (aio.namespace(), self.promises.lock());
        if promises.is_empty() && names.exists(&self.archive()).is_ok_and(|found| !found) {
            let _ = names.mkdir(&self.archive());
        }
        for name in self.by_hand.iter().filter(|name| !promises.contains_key(*name)) {
            let _ = names.unlink(&self.archive().join(name));
        }
    }

    /// Checks that everything promised is there.
    fn check(&self, disk: &SimDisk) -> Result<(), String> {
        let stored = |name: &str| disk.bytes(&self.archive().join(self.layout.name(name)));
        for (name, digest) in &*self.promises.lock() {
            match stored(name) {
                None => return Err(format!("{name} was archived, and is not in the archive")),
                Some(bytes) if Digest::of(&bytes) != *digest => {
                    return Err(format!("{name} was archived, and is another one in the archive"));
                }
                Some(_) => {}
            }
            if self.complete.get(name).is_some_and(|real| real != digest) {
                return Err(format!("{name} was archived, but not as it is"));
            }
        }
        for (name, digest) in &self.foreign {
            if stored(name).map(|bytes| Digest::of(&bytes)) != Some(*digest) {
                return Err(format!("somebody else's file {name} was changed"));
            }
        }
        Ok(())
    }

    /// Checks that the archive has everything that was ever complete, and that no temporary files
    /// are left.
    fn check_rest(&self, disk: &SimDisk) -> Result<(), String> {
        let promises = self.promises.lock();
        if let Some(name) = self.complete.keys().find(|name| !promises.contains_key(*name)) {
            return Err(format!("{name} was never archived"));
        }
        let left = |dir: &str, what: &str| {
            let files = disk.files_below(&Path::new(ROOT).join(dir));
            files
                .into_iter()
                .find(|path| path.to_string_lossy().contains(what) && !self.is_foreign(path))
        };
        if let Some(path) = left("pg_wal/archive_status", ".ready") {
            return Err(format!("{} is left", path.display()));
        }
        // With several directories, the place does not search them at start.
        match left("archive", TEMPORARY).filter(|_| matches!(self.layout, Layout::Plain)) {
            Some(path) => Err(format!("{} is left", path.display())),
            None => Ok(()),
        }
    }

    fn is_foreign(&self, path: &Path) -> bool {
        self.foreign.keys().any(|name| path.to_string_lossy().contains(name.as_str()))
    }
}

/// Why a life ended.
enum End {
    /// By the disk, or a final failure.
    Failed(String),
    /// By an error of the code under test.
    Wrong(String),
}

impl From<AioError> for End {
    fn from(e: AioError) -> End {
        End::Failed(e.to_string())
    }
}

impl From<ArchiveError> for End {
    fn from(e: ArchiveError) -> End {
        End::Failed(e.to_string())
    }
}

/// A running server.
struct Life<'w> {
    world: &'w mut World,
    aio: Arc<Aio>,
    io: IoBackend,
    archiver: Arc<Archiver>,
    wal: PathBuf,
    status: PathBuf,
}

impl Life<'_> {
    fn begin<'w>(world: &'w mut World, aio: &Arc<Aio>, io: IoBackend) -> Life<'w> {
        let wal = Path::new(ROOT).join("pg_wal");
        let expected =
            Expected { system_id: Some(SYSTEM), segment_size: Some(size()), magic: None };
        let config = ArchiverConfig { expected, direct: world.direct, transfers: None };
        let archiver = Archiver::new(aio, &wal, config);
        archiver.set_module(Some(Arc::new(Witness {
            dir: DurableDir::new(aio, &world.archive(), world.direct),
            layout: world.layout,
            promises: Arc::clone(&world.promises),
        })));
        let status = wal.join("archive_status");
        Life { world, aio: Arc::clone(aio), io, archiver, wal, status }
    }

    fn lead(&mut self, steps: usize, last: bool) -> Result<(), End> {
        self.archiver.scan()?;
        self.announce_again()?;
        for _ in 0..steps {
            match self.world.dice.below(10) {
                0..3 => self.make_segment()?,
                3 => self.retire()?,
                4 => self.copy_by_hand()?,
                5 if self.world.dice.chance(200) => self.clash()?,
                _ => self.archive(1 + self.world.dice.clone().below(8) as usize)?,
            }
        }
        if last {
            self.come_to_rest()?;
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>, End> {
        let entries = self.aio.namespace().list(dir)?;
        Ok(entries.into_iter().filter_map(|entry| entry.name.into_string().ok()).collect())
    }

    fn marks(&self) -> Result<Vec<Mark>, End> {
        Ok(self.list(&self.status)?.iter().map(|name| Mark::parse(name)).collect())
    }

    /// Marks again the segments that lost their marks in a crash, as the log does.
    fn announce_again(&mut self) -> Result<(), End> {
        let marks = self.marks()?;
        for name in self.list(&self.wal)? {
            let Some(file) = WalName::parse(&name) else { continue };
            let known = marks.contains(&Mark::Ready(file.clone()))
                || marks.contains(&Mark::Done(file.clone()));
            if !known && self.world.complete.contains_key(&name) {
                self.archiver.announce(&file)?;
            }
        }
        Ok(())
    }

    /// Writes a file and syncs it.
    fn write(&mut self, path: &Path, options: OpenOptions, bytes: &[u8]) -> Result<(), End> {
        let file = self.aio.namespace().open(path, &options)?;
        self.io.write_all_at(&file, 0, &AlignedBuf::copy_of(bytes)?)?;
        Ok(self.io.fsync(&file)?)
    }

    /// Writes the next segment, into a new file or a recycled one.
    fn make_segment(&mut self) -> Result<(), End> {
        let (number, version) = (self.world.next, self.world.version);
        let name = segment(1, number);
        let path = self.wal.join(&name);
        if self.world.complete.contains_key(&name) {
            return Err(End::Wrong(format!("{name} is written twice")));
        }
        self.world.version += 1;
        let bytes = contents(1, number, version);
        let names = Arc::clone(self.aio.namespace());
        if names.exists(&path)? {
            self.write(&path, OpenOptions::READ_WRITE, &bytes)?;
        } else {
            let temporary = self.wal.join("xlogtemp.1");
            self.write(&temporary, OpenOptions::READ_WRITE.create().truncate(), &bytes)?;
            names.rename(&temporary, &path)?;
            names.sync_dir(&self.wal)?;
        }
        self.world.complete.insert(name.clone(), Digest::of(&bytes));
        self.world.next += 1;
        match WalName::parse(&name) {
            // The next start finds it without a mark.
            Some(file) => Ok(self.archiver.announce(&file)?),
            None => Ok(()),
        }
    }

    /// Recycles or removes segments that the archive has.
    fn retire(&mut self) -> Result<(), End> {
        let marks = self.marks()?;
        let names = Arc::clone(self.aio.namespace());
        let mut future = self.world.next + 1;
        let mut old = Vec::new();
        for name in self.list(&self.wal)? {
            let Some(file) = WalName::parse(&name) else { continue };
            if self.world.complete.contains_key(&name) && marks.contains(&Mark::Done(file.clone()))
            {
                old.push(file);
            }
        }
        if old.is_empty() {
            return Ok(());
        }
        names.sync_dir(&self.status)?;
        for file in &old {
            if !self.world.promises.lock().contains_key(file.as_str()) {
                return Err(End::Wrong(format!(
                    "{file} is marked as archived, and nobody has archived it"
                )));
            }
            let path = self.wal.join(file.as_str());
            let recycled = self.wal.join(segment(1, future));
            if self.world.dice.chance(600) && !names.exists(&recycled)? {
                names.rename(&path, &recycled)?;
                future += 1;
            } else {
                names.unlink(&path)?;
            }
        }
        names.sync_dir(&self.wal)?;
        for file in &old {
            for mark in [file.done(), file.ready()] {
                match names.unlink(&self.status.join(mark)) {
                    Err(e) if !e.is_not_found() => return Err(e.into()),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Copies a segment into the archive by hand, without a sync.
    fn copy_by_hand(&mut self) -> Result<(), End> {
        let promises = self.world.promises.lock().clone();
        let waiting = |name: &&String| !promises.contains_key(*name);
        let Some(name) = self.world.complete.keys().find(waiting).cloned() else { return Ok(()) };
        if matches!(self.world.layout, Layout::Nested) {
            return Ok(());
        }
        let to = self.world.archive().join(&name);
        if self.aio.namespace().exists(&to)? {
            return Ok(());
        }
        let bytes = self.io.read_file(&self.wal.join(&name))?;
        // A part of a copy would block the name for ever, so the copy is made elsewhere and
        // renamed.
        let aside = self.world.archive().join("by-hand");
        let file =
            self.aio.namespace().open(&aside, &OpenOptions::READ_WRITE.create().truncate())?;
        self.io.write_all_at(&file, 0, &AlignedBuf::copy_of(&bytes)?)?;
        self.world.by_hand.insert(name);
        Ok(self.aio.namespace().rename_noreplace(&aside, &to)?)
    }

    /// Puts a file of another server into the archive, under a name that is about to be used.
    fn clash(&mut self) -> Result<(), End> {
        let number = self.world.version + 1000;
        self.world.version += 1;
        let name = segment(9, number);
        if matches!(self.world.layout, Layout::Nested)
            || !self.aio.namespace().exists(&self.world.archive())?
        {
            return Ok(());
        }
        let (ours, theirs) = (contents(9, number, 1), contents(9, number, 2));
        let path = self.world.archive().join(&name);
        self.write(&path, OpenOptions::READ_WRITE.create(), &theirs)?;
        self.aio.namespace().sync_dir(&self.world.archive())?;
        self.aio.namespace().sync_dir(Path::new(ROOT))?;
        self.world.foreign.insert(name.clone(), Digest::of(&theirs));
        self.write(&self.wal.join(&name), OpenOptions::READ_WRITE.create(), &ours)?;
        self.aio.namespace().sync_dir(&self.wal)?;
        match WalName::parse(&name) {
            Some(file) => Ok(self.archiver.announce(&file)?),
            None => Ok(()),
        }
    }

    /// Runs some steps of the archiver.
    fn archive(&mut self, steps: usize) -> Result<(), End> {
        for _ in 0..steps {
            match self.archiver.step(&mut self.io, self.world.now)? {
                Next::Worked => {}
                Next::Rest(None) => break,
                Next::Rest(Some(time)) => self.world.now += time,
                Next::Ended => return Err(End::Failed("the archiver has ended".to_owned())),
            }
        }
        Ok(())
    }

    /// Runs until only files that can't be archived wait.
    fn come_to_rest(&mut self) -> Result<(), End> {
        for _ in 0..PATIENCE {
            match self.archiver.step(&mut self.io, self.world.now)? {
                Next::Worked => continue,
                Next::Rest(Some(time)) => self.world.now += time,
                Next::Rest(None) | Next::Ended => {}
            }
            let foreign = &self.world.foreign;
            let ours = |mark: &Mark| match mark {
                Mark::Ready(name) => !foreign.contains_key(name.as_str()),
                Mark::Done(_) | Mark::Junk => false,
            };
            if !self.marks()?.iter().any(ours) {
                return Ok(());
            }
        }
        Err(End::Wrong(format!("it never comes to rest: {:?}", self.archiver.backlog())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_differ() {
        assert_ne!(contents(1, 5, 1), contents(1, 5, 2));
        assert_ne!(contents(1, 5, 1), contents(1, 6, 1));
    }
}
