//! archiverd's socket and threads.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use forebay_aio::sync::thread::{Builder, JoinHandle};
use forebay_aio::sync::{Arc, Duration, Mutex};
use forebay_aio::{Aio, BackendType, File, IoBackend, OpenOptions};

use super::client::check_peer;
use super::wire::{self, Reply, Request};
use super::work::Work;
use crate::error::{ArchiveError, Result};
use crate::source::SourceOptions;
use crate::store::Repository;

/// How long a request may take to arrive after the client has connected.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How an archiverd works.
#[derive(Debug, Clone)]
pub struct ResidentOptions {
    /// Path of its socket.
    pub socket: PathBuf,
    /// Identifies the archive and its options. Requests for another archive are refused.
    pub archive: String,
    /// Threads that store and fetch ahead; 0: nothing is done ahead.
    pub transfers: usize,
    /// How many files are fetched ahead of a recovery.
    pub prefetch: usize,
    /// Limit of their bytes in memory.
    pub prefetch_bytes: u64,
    /// How WAL files are read.
    pub source: SourceOptions,
}

/// A running archiverd. Dropping it stops it.
pub struct Server {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    socket: PathBuf,
    aio: Arc<Aio>,
    /// Locked while it runs.
    _lock: File,
}

struct Shared {
    work: Work,
    aio: Arc<Aio>,
    archive: String,
    /// Unused backends.
    backends: Mutex<Vec<IoBackend>>,
}

/// Starts an archiverd.
pub fn serve(aio: &Arc<Aio>, repository: Repository, options: ResidentOptions) -> Result<Server> {
    let lock = lock(aio, &options.socket)?;
    let listener = bind(aio, &options.socket)?;
    let ahead = (options.prefetch_bytes, options.prefetch, options.transfers > 0);
    let work = Work::new(Arc::clone(aio), repository, options.source, ahead);
    let shared =
        Shared { work, aio: Arc::clone(aio), archive: options.archive, backends: Mutex::default() };
    let mut server = Server {
        shared: Arc::new(shared),
        threads: Vec::new(),
        socket: options.socket,
        aio: Arc::clone(aio),
        _lock: lock,
    };
    for _ in 0..options.transfers {
        let mut io = aio
            .backend(BackendType::Standalone)
            .map_err(ArchiveError::io("start", &server.socket))?;
        server.spawn(move |shared| shared.work.run_tasks(&mut io))?;
    }
    server.spawn(move |shared| accept(&shared, &listener))?;
    Ok(server)
}

impl Server {
    fn spawn(&mut self, run: impl FnOnce(Arc<Shared>) + Send + 'static) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let spawned = Builder::new().name("archiverd".to_owned()).spawn(move || run(shared));
        self.threads.push(spawned.map_err(failed("start a thread for", &self.socket))?);
        Ok(())
    }

    /// Stops it. Clients whose requests are interrupted do the work themselves.
    pub fn stop(&mut self) {
        if self.threads.is_empty() {
            return;
        }
        self.shared.work.stop();
        // Wakes the thread that accepts connections.
        drop(UnixStream::connect(&self.socket));
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        if let Err(error) = self.aio.namespace().unlink(&self.socket) {
            tracing::warn!("could not remove the socket: {error}");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Locks the socket: a second archiverd would take it away from the first.
fn lock(aio: &Arc<Aio>, socket: &Path) -> Result<File> {
    let mut name = socket.as_os_str().to_owned();
    name.push(".lock");
    let path = PathBuf::from(name);
    let file = aio
        .namespace()
        .open(&path, &OpenOptions::READ_WRITE.create())
        .map_err(ArchiveError::io("create", &path))?;
    match aio.namespace().try_lock(&file).map_err(ArchiveError::io("lock", &path))? {
        true => Ok(file),
        false => {
            let (file, reason) = (socket.display().to_string(), "another archiverd uses it");
            Err(ArchiveError::Store { operation: "use socket", file, reason: reason.to_owned() })
        }
    }
}

fn bind(aio: &Arc<Aio>, socket: &Path) -> Result<UnixListener> {
    // We hold the lock, so an existing socket was left by a dead process.
    if aio.namespace().exists(socket).map_err(ArchiveError::io("look for", socket))? {
        aio.namespace().unlink(socket).map_err(ArchiveError::io("remove", socket))?;
    }
    let listener = UnixListener::bind(socket).map_err(failed("bind", socket))?;
    let ours = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::chmod(socket, ours).map_err(|e| failed("protect", socket)(e.into()))?;
    Ok(listener)
}

fn failed(operation: &'static str, socket: &Path) -> impl FnOnce(io::Error) -> ArchiveError {
    let file = socket.display().to_string();
    move |error| ArchiveError::Store { operation, file, reason: error.to_string() }
}

/// Accepts connections and starts a thread for each. They are few, since a server has only one
/// archiver.
fn accept(shared: &Arc<Shared>, listener: &UnixListener) {
    for stream in listener.incoming() {
        if shared.work.is_stopping() {
            return;
        }
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!("could not accept a connection: {error}");
                continue;
            }
        };
        let shared = Arc::clone(shared);
        let name = "archiverd client".to_owned();
        // A client without an answer does the work itself.
        let spawned = Builder::new().name(name).spawn(move || shared.talk(stream));
        if let Err(error) = spawned {
            tracing::warn!("could not start a thread: {error}");
        }
    }
}

impl Shared {
    fn talk(&self, mut stream: UnixStream) {
        if let Err(error) = self.answer(&mut stream) {
            tracing::debug!("a connection ended: {error}");
        }
    }

    fn answer(&self, stream: &mut UnixStream) -> io::Result<()> {
        check_peer(stream)?;
        stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
        let (archive, request) = wire::read_request(stream)?;
        if archive != self.archive {
            return wire::write_reply(stream, &Reply::Other);
        }
        let mut io = match self.backends.lock().pop() {
            Some(io) => io,
            None => self.aio.backend(BackendType::Standalone).map_err(io::Error::other)?,
        };
        let mut pushed = None;
        let reply = match request {
            Request::Ping => Some(Reply::Done),
            Request::Push { path } => {
                // If this file must be stored, the others are stored at the same time.
                let stored = self.work.is_stored(&path);
                if !stored {
                    self.work.look_ahead(&path);
                }
                let reply = self.work.answer_push(&mut io, &path);
                pushed = stored.then_some(path);
                reply
            }
            Request::Get { name, path } => Some(self.work.answer_get(&mut io, &name, &path)),
        };
        self.backends.lock().push(io);
        let Some(reply) = reply else { return Ok(()) };
        wire::write_reply(stream, &reply)?;
        if let Some(path) = pushed {
            self.work.look_ahead(&path);
        }
        Ok(())
    }
}
