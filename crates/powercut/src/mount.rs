//! Mounts a disk, and unmounts it so that nothing of it stays in the kernel.

use std::io;
use std::path::{Path, PathBuf};

use forebay_aio::sync::Arc;
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::mount::{UnmountFlags, unmount};

use crate::disk::Disk;
use crate::fuse::Requests;

/// How many requests are answered at a time. Each sync in progress occupies a thread.
const THREADS: usize = 24;

/// A mounted disk, unmounted when dropped.
pub struct Mounted {
    session: Option<BackgroundSession>,
    point: PathBuf,
}

/// What is missing to mount a disk here, if anything.
pub fn refusal() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("root".into());
    }
    let device = rustix::fs::open("/dev/fuse", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty());
    device.err().map(|e| format!("/dev/fuse ({e})"))
}

impl Mounted {
    /// Mounts a disk on a directory, for every user.
    ///
    /// # Errors
    /// As mount(2).
    pub fn new(disk: &Arc<Disk>, point: &Path) -> io::Result<Mounted> {
        let mut config = Config::default();
        config.mount_options =
            vec![MountOption::DefaultPermissions, MountOption::FSName("powercut".into())];
        config.acl = SessionACL::All;
        config.n_threads = Some(THREADS);
        let session = Session::new(Requests::new(Arc::clone(disk)), point, &config)?.spawn()?;
        Ok(Mounted { session: Some(session), point: point.to_owned() })
    }

    /// Ends the connection with the kernel, even if a mount namespace still holds the mount.
    ///
    /// # Errors
    /// As umount2(2), or the error of the thread that answered requests.
    pub fn unmount(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        let Some(session) = self.session.take() else { return Ok(()) };
        unmount(&self.point, UnmountFlags::FORCE | UnmountFlags::DETACH)?;
        session.join()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A failing test has said why; nothing can be done about a mount that stays.
        let _ = self.end();
    }
}
