//! A disk: its contents, the writes in flight, and its power.

use std::collections::BTreeMap;
use std::path::Path;

use forebay_aio::sync::{Arc, Condvar, Duration, Instant, Mutex, MutexGuard, SystemTime};
use forebay_sim::{InFlight, Names, Node, SimFile, Survival};
use forebay_testkit::Dice;
use fuser::{Errno, FileAttr, FileType, INodeNo};

/// When a name is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamesRule {
    /// After the sync of its directory, as in POSIX.
    Directory,
    /// After any sync: one log holds the changes of all directories in order, as on ext4 and XFS.
    OneLog,
}

/// How a disk behaves.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// When a name is durable.
    pub names: NamesRule,
    /// Whether syncs and synchronous writes report success without making anything durable.
    pub lies: bool,
    /// How long a sync takes at most, in microseconds.
    pub sync_micros: u64,
    /// How long a direct or synchronous write takes at most, in microseconds.
    pub write_micros: u64,
    /// Decides how long each call takes.
    pub seed: u64,
}

/// Attributes of a file or directory. They are durable at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meta {
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub modified: SystemTime,
}

/// What the lock protects.
#[derive(Clone)]
pub(crate) struct State {
    pub names: Names,
    pub files: BTreeMap<u64, SimFile>,
    pub metas: BTreeMap<u64, Meta>,
    pub in_flight: BTreeMap<u64, InFlight>,
    next_file: u64,
    next_write: u64,
    on: bool,
    dice: Dice,
}

/// A disk with one file system.
pub struct Disk {
    pub(crate) state: Mutex<State>,
    off: Condvar,
    pub(crate) rules: Rules,
}

/// The root directory's inode, and its number among names.
pub(crate) const ROOT: u64 = 1;

/// The inode of a file or directory: odd for directories.
pub(crate) fn inode(node: Node) -> u64 {
    match node {
        Node::Directory(number) => 2 * number + ROOT,
        Node::File(number) => 2 * number + 2,
    }
}

pub(crate) fn node(inode: u64) -> Node {
    if inode % 2 == 1 { Node::Directory((inode - ROOT) / 2) } else { Node::File((inode - 2) / 2) }
}

impl Disk {
    /// An empty disk.
    pub fn new(rules: Rules) -> Arc<Disk> {
        let now = SystemTime::now();
        let root = Meta { mode: 0o755, uid: 0, gid: 0, modified: now };
        Disk::with(
            State {
                names: Names::new(Path::new("/")),
                files: BTreeMap::new(),
                metas: BTreeMap::from([(ROOT, root)]),
                in_flight: BTreeMap::new(),
                next_file: 0,
                next_write: 0,
                on: true,
                dice: Dice::new(rules.seed),
            },
            rules,
        )
    }

    fn with(state: State, rules: Rules) -> Arc<Disk> {
        Arc::new(Disk { state: Mutex::new(state), off: Condvar::new(), rules })
    }

    /// Makes everything durable, also on a disk that lies.
    pub fn settle(&self) {
        let mut state = self.state.lock();
        state.files.values_mut().for_each(|file| {
            file.sync();
        });
        state.names.sync_all();
    }

    /// Another disk with the same contents, and the power on.
    pub fn fork(&self, rules: Rules) -> Arc<Disk> {
        let state = State { on: true, dice: Dice::new(rules.seed), ..self.state.lock().clone() };
        Disk::with(state, rules)
    }

    /// Cuts the power: from now on all calls fail, also those in progress. Returns the disk as it
    /// is found when the power is back.
    pub fn cut(&self, survival: &mut Survival, rules: Rules) -> Arc<Disk> {
        let mut state = self.state.lock();
        state.on = false;
        self.off.notify_all();
        let names = match self.rules.names {
            NamesRule::Directory => state.names.after_crash(survival),
            NamesRule::OneLog => state.names.after_crash_in_order(survival),
        };
        let mut files = BTreeMap::new();
        let mut metas = BTreeMap::new();
        for (_, node) in names.all() {
            if let Node::File(number) = node
                && let Some(file) = state.files.get(&number)
            {
                let in_flight = state.in_flight.values().filter(|write| write.file == number);
                files.entry(number).or_insert_with(|| file.after_crash(survival, in_flight));
            }
            metas.extend(state.metas.get(&inode(node)).map(|meta| (inode(node), *meta)));
        }
        let (next_file, next_write) = (state.next_file, state.next_write);
        let (in_flight, dice) = (BTreeMap::new(), Dice::new(rules.seed));
        Disk::with(
            State { names, files, metas, in_flight, next_file, next_write, on: true, dice },
            rules,
        )
    }

    /// The state, while the power is on.
    pub(crate) fn powered(&self) -> Result<MutexGuard<'_, State>, Errno> {
        let state = self.state.lock();
        if state.on { Ok(state) } else { Err(Errno::EIO) }
    }

    /// Waits for the medium, up to `longest` microseconds, or until the power is cut.
    pub(crate) fn work(
        &self,
        state: &mut MutexGuard<'_, State>,
        longest: u64,
    ) -> Result<(), Errno> {
        let micros = state.dice.below(longest + 1);
        let until = Instant::now() + Duration::from_micros(micros);
        while state.on && !self.off.wait_until(state, until).timed_out() {}
        if state.on { Ok(()) } else { Err(Errno::EIO) }
    }
}

impl State {
    /// Adds an empty file, and returns its number.
    pub fn new_file(&mut self) -> u64 {
        let number = self.next_file;
        self.next_file += 1;
        self.files.insert(number, SimFile::default());
        number
    }

    /// Notes a write as in flight, and returns its number.
    pub fn begin_write(&mut self, write: InFlight) -> u64 {
        let number = self.next_write;
        self.next_write += 1;
        self.in_flight.insert(number, write);
        number
    }

    /// The file of an inode, named or not: files stay as long as the power is on.
    pub fn file(&mut self, inode: u64) -> Result<(u64, &mut SimFile), Errno> {
        let Node::File(number) = node(inode) else { return Err(Errno::EISDIR) };
        self.files.get_mut(&number).map(|file| (number, file)).ok_or(Errno::ESTALE)
    }

    /// The number of a directory's inode.
    pub fn directory(&self, inode: u64) -> Result<u64, Errno> {
        match node(inode) {
            Node::Directory(number) => Ok(number),
            Node::File(_) => Err(Errno::ENOTDIR),
        }
    }

    /// The attributes of an inode.
    pub fn attr(&self, ino: u64) -> Result<FileAttr, Errno> {
        let meta = self.metas.get(&ino).ok_or(Errno::ESTALE)?;
        let (kind, size, nlink) = match node(ino) {
            Node::Directory(_) => (FileType::Directory, 4096, 2),
            Node::File(number) => {
                let file = self.files.get(&number).ok_or(Errno::ESTALE)?;
                (FileType::RegularFile, file.live().len(), self.names.links(number))
            }
        };
        Ok(FileAttr {
            ino: INodeNo(ino),
            size,
            blocks: size.div_ceil(512),
            atime: meta.modified,
            mtime: meta.modified,
            ctime: meta.modified,
            crtime: meta.modified,
            kind,
            perm: meta.mode,
            nlink: nlink as u32,
            uid: meta.uid,
            gid: meta.gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}
