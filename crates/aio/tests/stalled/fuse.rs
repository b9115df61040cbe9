//! A file whose calls end when the test releases them: the root of a FUSE file system that this
//! process serves. A thread whose call the server holds sleeps like one whose device has stalled:
//! no signal and no task work wakes it. The file system is unmounted as soon as the file is open,
//! and ends with its last descriptor.

use std::ffi::CString;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use forebay_aio::{File, FileFlags, IO_ALIGN};

/// The protocol's requests that the server knows. It holds those of [`HELD`].
mod request {
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const INTERRUPT: u32 = 36;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const HELD: [u32; 4] = [READ, WRITE, FSYNC, FALLOCATE];
}

/// Sizes of a request's header, of a reply's header, and of the largest request.
const IN_HEADER: usize = 40;
const OUT_HEADER: usize = 16;
const LARGEST: usize = 1 << 18;

/// The file, and the server's two ends.
pub struct StallingFile {
    pub file: File,
    held: Receiver<()>,
    release: Sender<()>,
    server: JoinHandle<()>,
}

impl StallingFile {
    /// Mounts, opens and unmounts. The error says what is missing.
    pub fn new(dir: &Path) -> std::io::Result<StallingFile> {
        let device = std::fs::File::options().read(true).write(true).open("/dev/fuse")?;
        let path = dir.join("stalling");
        std::fs::write(&path, b"")?;
        let target = CString::new(path.as_os_str().as_bytes())?;
        let options = CString::new(format!(
            "fd={},rootmode=100644,user_id=0,group_id=0",
            device.as_raw_fd()
        ))?;
        // SAFETY: all strings live during the call.
        let mounted = unsafe {
            libc::mount(
                c"forebay-test".as_ptr(),
                target.as_ptr(),
                c"fuse".as_ptr(),
                libc::MS_NOSUID | libc::MS_NODEV,
                options.as_ptr().cast(),
            )
        };
        if mounted != 0 {
            return Err(std::io::Error::last_os_error());
        }
        let (tell, held) = mpsc::channel();
        let (release, released) = mpsc::channel();
        let server = thread::spawn(move || serve(device, &tell, &released));
        let opened = std::fs::File::options().read(true).write(true).open(&path);
        // SAFETY: the string lives during the call.
        unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
        let file = File::from_fd(path, FileFlags::default(), opened?.into());
        Ok(StallingFile { file, held, release, server })
    }

    /// Waits until a call on the file is held.
    pub fn wait_held(&self) {
        self.held.recv().expect("the server lives as long as the file");
    }

    /// Releases the call that is held, or the next one.
    pub fn release(&self) {
        self.release.send(()).expect("the server lives as long as the file");
    }

    /// Closes the file, and waits until its server has ended. All other descriptors of it are
    /// closed.
    pub fn close(self) {
        drop((self.file, self.release));
        self.server.join().expect("the server does not panic");
    }
}

/// Serves until the file system ends. When the test can release nothing any more, nothing is held.
fn serve(mut device: std::fs::File, held: &Sender<()>, released: &Receiver<()>) {
    let mut buffer = vec![0; LARGEST];
    loop {
        let length = match device.read(&mut buffer) {
            Ok(length) => length,
            // The second: the file system ended while a request was being read.
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENODEV | libc::ECONNABORTED)) => return,
            // A request was interrupted before it was read.
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => continue,
            Err(e) => panic!("/dev/fuse: {e}"),
        };
        let request = &buffer[..length];
        let code = word(request, 4);
        if request::HELD.contains(&code) && held.send(()).is_ok() {
            let _ = released.recv();
        }
        if let Some(reply) = reply(code, request) {
            // A request that was interrupted meanwhile is unknown by now.
            let _ = device.write(&reply);
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The reply to a request, if it has one.
fn reply(code: u32, request: &[u8]) -> Option<Vec<u8>> {
    let body: Result<Vec<u8>, i32> = match code {
        request::FORGET | request::BATCH_FORGET | request::INTERRUPT => return None,
        // Version 7.31, no flags, writes of up to 128 KiB.
        request::INIT => Ok(words(&[7, 31, 0, 0, 0, 1 << 17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
        request::GETATTR => Ok(attributes()),
        request::OPEN => Ok(words(&[0; 4])),
        request::READ => Ok(vec![7; word(request, IN_HEADER + 16) as usize]),
        request::WRITE => Ok(words(&[word(request, IN_HEADER + 16), 0])),
        request::RELEASE | request::FSYNC | request::FLUSH | request::FALLOCATE => Ok(Vec::new()),
        _ => Err(-libc::ENOSYS),
    };
    let (error, body) = match body {
        Ok(body) => (0, body),
        Err(error) => (error, Vec::new()),
    };
    let mut reply = words(&[(OUT_HEADER + body.len()) as u32, error as u32]);
    reply.extend_from_slice(&request[8..16]); // the request's number
    reply.extend_from_slice(&body);
    Some(reply)
}

/// A plain file of one block, valid for no time.
fn attributes() -> Vec<u8> {
    const TIMES: [u32; 9] = [0; 9];
    let (validity, inode, size, blocks) = ([0; 4], [1, 0], [IO_ALIGN as u32, 0], [8, 0]);
    // Mode, links, user, group, device, block size, flags.
    let rest = [libc::S_IFREG | 0o644, 1, 0, 0, 0, IO_ALIGN as u32, 0];
    words(&[&validity[..], &inode, &size, &blocks, &TIMES, &rest].concat())
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}
