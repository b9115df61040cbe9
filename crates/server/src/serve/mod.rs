//! `forebay serve`: from an empty or existing directory to a server, and back.
//!
//! - `sockets`: listening
//! - `accept`: accepting connections, also when descriptors run out
//! - `descriptors`: dividing up the file descriptors
//! - `events`: signals and the engine's start and stop, as events of the main thread
//!
//! The main thread waits for connections and events. Each connection gets a thread. The engine is
//! opened on a thread of its own, so that clients that connect during a recovery get an answer, and
//! a signal can stop the recovery.

mod accept;
mod descriptors;
mod events;
mod sockets;

use crate::hba::Hba;
use crate::log;
use crate::session;
use crate::settings::{
    ConfigError, Lookup, ServerSettings, archive_settings, autovacuum_settings, engine_config,
    io_settings, key, pool_size, session_settings, writing_settings,
};
use crate::shared::{Phase, Shared};
use crate::wire::backend;
use crate::wire::stream::Stream;
use accept::Acceptor;
use events::{Event, Events, NotOpen, Stop};
use forebay_aio::sync::{Duration, Instant, thread};
use forebay_engine::{Engine, EngineError, InitOptions, PageTrace, RecoveryStop, ShutdownMode};
use forebay_sql::{Encoding, Severity, SqlError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sockets::{Listener, StartError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where data are when -D does not say. PGDATA is not consulted: where PostgreSQL is installed too,
/// it names PostgreSQL's own directory, which must not be opened by mistake.
pub const DEFAULT_DIR: &str = "./forebay-data";

/// How long a fast stop waits for sessions before it shuts their sockets.
const PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of a session's stack: room for deeply nested expressions.
const STACK: usize = 8 << 20;

/// Options of `forebay serve`.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The data directory; it is made if it does not exist.
    pub data_dir: PathBuf,
    /// Settings of the command line, in order.
    pub settings: Vec<(String, String)>,
}

/// Runs a server to its end; the process's exit code.
pub fn serve(options: &ServeOptions) -> u8 {
    start(options).unwrap_or_else(|error| {
        error.lines.iter().for_each(|(kind, line)| log::line(kind, None, line));
        1
    })
}

fn start(options: &ServeOptions) -> Result<u8, StartError> {
    if rustix::process::geteuid().is_root() {
        log::warning("running as root: anyone who can connect acts with root's access to files");
    }
    prepare_directory(&options.data_dir)?;
    // Lock files name the directory, and other programs read them: a relative path would be
    // useless there.
    let data_dir = options.data_dir.canonicalize().unwrap_or_else(|_| options.data_dir.clone());
    let settings = ServerSettings::load(&data_dir, &options.settings)?;
    let hba = Hba::read(Path::new(settings.text(key!("hba_file"))))?;
    let events = Events::new().map_err(|e| format!("could not install signal handlers: {e}"))?;
    log::log(format!(
        "starting Forebay {} on {}-{}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH,
        std::env::consts::OS
    ));
    let listeners = listen(&settings, &data_dir)?;
    let mut server = Server {
        options: options.clone(),
        data_dir,
        shared: Arc::new(Shared::new(settings, hba)),
        stop: None,
        recovery_stop: RecoveryStop::default(),
        acceptor: Acceptor::default(),
    };
    server.run(&listeners, &events)
}

impl From<ConfigError> for StartError {
    fn from(ConfigError { mut lines }: ConfigError) -> StartError {
        let last = lines.pop().map(|line| ("FATAL", line));
        StartError { lines: lines.into_iter().map(|line| ("LOG", line)).chain(last).collect() }
    }
}

fn listen(settings: &ServerSettings, data_dir: &Path) -> Result<Vec<Listener>, StartError> {
    let port = settings.count(key!("port"));
    let mut listeners = sockets::tcp(settings.text(key!("listen_addresses")), port)?;
    let directories = settings.text(key!("unix_socket_directories"));
    listeners.extend(sockets::unix(directories, port, data_dir)?);
    if listeners.is_empty() {
        return Err("no socket created for listening".to_owned().into());
    }
    for listener in &listeners {
        log::log(format!("listening on {}", listener.describe()));
    }
    Ok(listeners)
}

/// Makes a data directory if there is none, or if it is empty.
fn prepare_directory(dir: &Path) -> Result<(), String> {
    let empty = match std::fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_none(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => true,
        Err(e) => {
            return Err(format!(
                "could not access directory \"{}\": {}",
                dir.display(),
                log::reason(&e)
            ));
        }
    };
    if empty {
        log::log(format!("creating a new data directory in \"{}\"", dir.display()));
        return init(dir, &InitOptions::default());
    }
    if dir.join("PG_VERSION").is_file() {
        return Ok(());
    }
    Err(format!(
        "\"{}\" is not a data directory: it is not empty and has no file PG_VERSION\n\
         HINT:  Name another one with -D.",
        dir.display()
    ))
}

/// Makes a data directory.
pub fn init(dir: &Path, options: &InitOptions) -> Result<(), String> {
    Engine::init(dir, options).map_err(describe)
}

fn describe(e: EngineError) -> String {
    log::described(&e.into(), "")
}

fn not_open(e: EngineError) -> NotOpen {
    match e {
        EngineError::StoppedAtTarget { .. } => NotOpen::AtTarget(describe(e)),
        EngineError::ShuttingDown => NotOpen::Stopped,
        _ => NotOpen::Failed(describe(e)),
    }
}

struct Server {
    options: ServeOptions,
    data_dir: PathBuf,
    shared: Arc<Shared>,
    stop: Option<Stop>,
    /// Ends a recovery at a stop.
    recovery_stop: RecoveryStop,
    acceptor: Acceptor,
}

/// Creates the file of a trace of page references; None without a path. An existing file is never
/// overwritten. It is no file of the data directory, and `aio`, below which the traced pool reads,
/// is not open yet.
fn buffer_trace(path: &str) -> Result<Option<Arc<PageTrace>>, String> {
    if path.is_empty() {
        return Ok(None);
    }
    let created = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let file = created.map_err(|e| format!("could not create file \"{path}\": {e}"))?;
    Ok(Some(Arc::new(PageTrace::new(Box::new(file)))))
}

impl Server {
    fn run(&mut self, listeners: &[Listener], events: &Events) -> Result<u8, StartError> {
        let mut config = engine_config(&self.shared.settings());
        let beside_sessions = connections_at_most(config.max_connections) - config.max_connections;
        descriptors::make_room(&mut config, beside_sessions)?;
        config.buffer_trace =
            buffer_trace(self.shared.settings().text(key!("debug_buffer_trace")))?;
        let trace = config.buffer_trace.clone();
        let registry = Arc::clone(&self.shared.registry);
        let timer = thread::Builder::new().name("timer".to_owned());
        let watch = timer
            .spawn(move || registry.watch())
            .map_err(|e| format!("could not start the timer's thread: {e}"))?;
        config.port = self.shared.settings().count(key!("port"));
        config.socket_dir = self.shared.settings().text(key!("unix_socket_directories")).to_owned();
        config.listen_addr = self.shared.settings().text(key!("listen_addresses")).to_owned();
        config.recovery_stop = self.recovery_stop.clone();
        let (dir, sender) = (self.data_dir.clone(), events.sender());
        thread::spawn(move || {
            let opened =
                catch_unwind(AssertUnwindSafe(|| Engine::open(&dir, config).map_err(not_open)));
            let panicked = || NotOpen::Failed("the data directory could not be opened".to_owned());
            let opened = opened.unwrap_or_else(|_| Err(panicked()));
            sender.send(Event::Opened(opened));
        });
        let code = self.main_loop(listeners, events);
        trace.inspect(|trace| trace.flush());
        self.shared.registry.stop();
        // The timer ends at once; a panic in it has been logged.
        let _ = watch.join();
        Ok(code)
    }

    fn main_loop(&mut self, listeners: &[Listener], events: &Events) -> u8 {
        loop {
            for event in events.take() {
                if let Some(code) = self.handle(event) {
                    return code;
                }
            }
            match (self.stop, self.shared.phase()) {
                (Some(Stop::Immediate), Phase::Starting | Phase::Running(_)) => {
                    return self.stop_at_once();
                }
                (Some(Stop::Fast), Phase::Running(engine)) => self.stop_fast(&engine, events),
                (Some(Stop::Smart), Phase::Running(engine)) if self.shared.registry.is_empty() => {
                    self.stop_fast(&engine, events);
                }
                // Waits for events: of a recovery that was told to end, of a fast stop, of
                // sessions that leave.
                _ => {}
            }
            self.wait(listeners, events);
        }
    }

    /// Handles an event. Some: the server ends, with this exit code.
    fn handle(&mut self, event: Event) -> Option<u8> {
        let failed = |message: &str| {
            log::line("FATAL", None, message);
            Some(1)
        };
        match event {
            Event::Opened(Ok(engine)) => self.opened(engine),
            Event::Opened(Err(NotOpen::AtTarget(message))) => {
                log::log(message);
                log::log("shutdown at recovery target");
                return Some(0);
            }
            Event::Opened(Err(NotOpen::Failed(message))) => return failed(&message),
            Event::Opened(Err(NotOpen::Stopped)) | Event::Stopped(Ok(())) => {
                log::log("database system is shut down");
                // The exit code of an immediate stop tells that less was done than by a fast one.
                return Some(u8::from(self.stop == Some(Stop::Immediate)));
            }
            Event::Stopped(Err(message)) => return failed(&message),
            Event::Stop(stop) => self.request_stop(stop),
            Event::Reload => self.reload(),
            Event::Left => {}
        }
        None
    }

    fn opened(&mut self, engine: Arc<Engine>) {
        let mut settings = (*self.shared.settings()).clone();
        settings.tell(key!("data_checksums"), engine.data_checksums());
        settings.tell(key!("wal_segment_size"), format_args!("{}B", engine.wal_segment_size()));
        let huge = if engine.uses_huge_pages() { "on" } else { "off" };
        settings.tell(key!("huge_pages_status"), huge);
        settings.tell(key!("io_method_status"), engine.io_method_name());
        settings.tell(key!("io_direct_status"), engine.io_direct());
        if settings.text(key!("wal_sync_method")) == "auto" {
            settings.tell(key!("wal_sync_method"), engine.wal_sync_method_name());
        }
        change_running(&engine, &settings);
        self.shared.set_settings(settings);
        self.shared.set_phase(Phase::Running(engine));
        if self.stop.is_none() {
            log::log("database system is ready to accept connections");
        }
    }

    fn request_stop(&mut self, stop: Stop) {
        self.recovery_stop.ask();
        if let (Stop::Immediate, Phase::Stopping(engine)) = (stop, self.shared.phase()) {
            engine.hurry_stop();
        }
        if self.stop.is_some_and(|now| now >= stop) {
            return;
        }
        self.stop = Some(stop);
        log::log(match stop {
            Stop::Smart => "received smart shutdown request",
            Stop::Fast => "received fast shutdown request",
            Stop::Immediate => "received immediate shutdown request",
        });
    }

    /// Waits for a connection or an event.
    fn wait(&mut self, listeners: &[Listener], events: &Events) {
        let rest = self.acceptor.rest(Instant::now());
        let listeners = if rest.is_some() { &[] } else { listeners };
        let mut fds: Vec<PollFd<'_>> =
            listeners.iter().map(|l| PollFd::from_borrowed_fd(l.fd(), PollFlags::IN)).collect();
        fds.push(PollFd::from_borrowed_fd(events.fd(), PollFlags::IN));
        let limit = rest.and_then(|rest| Timespec::try_from(rest).ok());
        match poll(&mut fds, limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => log::warning(format!("could not wait for connections: {e}")),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| fd.revents().contains(PollFlags::IN)).collect();
        for (listener, _) in listeners.iter().zip(ready).filter(|(_, ready)| *ready) {
            if let Some(stream) = self.acceptor.take(listener.accept(), Instant::now()) {
                self.admit(stream, events);
            }
        }
    }

    /// Gives a connection its thread.
    fn admit(&self, stream: Stream, events: &Events) {
        if self.stop.is_some() {
            return refuse(&stream, "57P03", "the database system is shutting down");
        }
        let most = connections_at_most(self.shared.settings().count(key!("max_connections")));
        let Some(registration) =
            stream.try_clone().ok().and_then(|clone| self.shared.registry.enter(clone, most))
        else {
            return refuse(&stream, "53300", "sorry, too many clients already");
        };
        let (shared, sender) = (Arc::clone(&self.shared), events.sender());
        let spawned =
            thread::Builder::new().name("session".to_owned()).stack_size(STACK).spawn(move || {
                session::startup::serve(shared, registration, stream);
                sender.send(Event::Left);
            });
        if let Err(e) = spawned {
            log::warning(format!("could not start a thread for a connection: {e}"));
        }
    }

    /// Begins a fast stop. Its end is an event, so that signals are handled meanwhile.
    fn stop_fast(&self, engine: &Arc<Engine>, events: &Events) {
        self.shared.set_phase(Phase::Stopping(Arc::clone(engine)));
        if !self.shared.registry.is_empty() {
            log::log("aborting any active transactions");
            self.shared.registry.dismiss();
            if !self.shared.registry.wait_until_empty(PATIENCE) {
                self.shared.registry.cut();
                self.shared.registry.wait_until_empty(PATIENCE);
            }
        }
        log::log("shutting down");
        let (stopping, sender) = (Arc::clone(engine), events.sender());
        let stop = move || {
            let stopped = catch_unwind(AssertUnwindSafe(|| stopping.shutdown(ShutdownMode::Fast)));
            let stopped = stopped.map_err(|_| "the stop did not come to its end".to_owned());
            sender.send(Event::Stopped(stopped.and_then(|result| result.map_err(describe))));
        };
        let spawned = thread::Builder::new().name("stop".to_owned()).spawn(stop);
        if let Err(e) = spawned {
            // Then the main thread stops the engine itself, and handles no signals meanwhile.
            log::warning(format!("could not start a thread for the stop: {e}"));
            let stopped = engine.shutdown(ShutdownMode::Fast).map_err(describe);
            events.sender().send(Event::Stopped(stopped));
        }
    }

    fn stop_at_once(&self) -> u8 {
        if let Phase::Running(engine) = self.shared.phase() {
            self.shared.set_phase(Phase::Stopping(Arc::clone(&engine)));
            if let Err(e) = engine.shutdown(ShutdownMode::Immediate) {
                log::warning(describe(e));
            }
        }
        log::log("database system is shut down");
        1
    }

    /// Reads the configuration files again.
    fn reload(&self) {
        log::log("received SIGHUP, reloading configuration files");
        self.reload_settings();
        // As in PostgreSQL, also if the settings are refused: a record that rejects must take
        // effect.
        match Hba::read(Path::new(self.shared.settings().text(key!("hba_file")))) {
            Ok(hba) => self.shared.set_hba(hba),
            Err(message) => {
                log::log(message);
                log::log("pg_hba.conf was not reloaded");
            }
        }
    }

    fn reload_settings(&self) {
        match ServerSettings::load(&self.data_dir, &self.options.settings) {
            Err(e) => {
                e.lines.iter().for_each(|line| log::line("LOG", None, line));
                log::log("the configuration is unchanged");
            }
            Ok(new) => {
                let mut settings = (*self.shared.settings()).clone();
                let reloaded = settings.reload(new);
                if let Phase::Running(engine) = self.shared.phase() {
                    change_running(&engine, &settings);
                }
                self.shared.set_settings(settings);
                for name in reloaded.refused {
                    log::log(format!(
                        "parameter \"{name}\" cannot be changed without restarting the server"
                    ));
                }
                for (name, shown) in reloaded.changed {
                    log::log(format!("parameter \"{name}\" changed to \"{shown}\""));
                }
            }
        }
    }
}

/// Most connections: those of all sessions, and some more for cancel requests and for clients that
/// are turned away.
fn connections_at_most(max_connections: usize) -> usize {
    max_connections * 2 + 16
}

/// Hands the engine what may change while it runs.
fn change_running(engine: &Engine, settings: &ServerSettings) {
    engine.change_writing(&writing_settings(settings));
    engine.change_pool_size(pool_size(settings));
    engine.change_archiving(&archive_settings(settings));
    engine.change_autovacuum(&autovacuum_settings(settings), &session_settings(settings));
    if let Err(e) = engine.change_io(&io_settings(settings)) {
        log::warning(describe(e));
    }
}

/// Turns a connection away without starting a thread.
fn refuse(stream: &Stream, sqlstate: &'static str, message: &str) {
    let mut out = Vec::new();
    let error = SqlError::report(Severity::Fatal, sqlstate, message);
    backend::report(&mut out, &error, Encoding::Utf8);
    // The socket's buffer is empty, so this does not block. It fails if the client has gone.
    let _ = { stream }.write_all(&out);
}
