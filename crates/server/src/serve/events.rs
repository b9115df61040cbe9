//! Signals and the engine's start-up, brought to the main thread through a pipe it can poll.

use super::Stop;
use forebay_aio::sync::Mutex;
use forebay_engine::Engine;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Something the main thread has to know.
#[derive(Debug)]
pub(super) enum Event {
    /// The engine is open, or why not.
    Opened(Result<Arc<Engine>, NotOpen>),
    /// A signal to stop.
    Stop(Stop),
    /// The engine has stopped; or what went wrong.
    Stopped(Result<(), String>),
    /// SIGHUP.
    Reload,
    /// A connection has ended.
    Left,
}

/// Why there is no engine.
#[derive(Debug)]
pub(super) enum NotOpen {
    /// Recovery has stopped where it was told to.
    AtTarget(String),
    /// Recovery was ended by a stop.
    Stopped,
    /// Something went wrong.
    Failed(String),
}

#[derive(Debug)]
struct Queue {
    events: Mutex<Vec<Event>>,
    wake: UnixStream,
}

/// Receives events.
#[derive(Debug)]
pub(super) struct Events {
    queue: Arc<Queue>,
    woken: UnixStream,
}

/// Sends events from any thread.
#[derive(Clone, Debug)]
pub(super) struct Sender(Arc<Queue>);

impl Sender {
    /// Sends an event.
    pub(super) fn send(&self, event: Event) {
        self.0.events.lock().push(event);
        // A full pipe wakes the receiver as well as one more byte would.
        let _ = (&self.0.wake).write(&[0]);
    }
}

impl Events {
    /// Starts to listen for signals.
    pub(super) fn new() -> io::Result<Events> {
        let (woken, wake) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        wake.set_nonblocking(true)?;
        let events =
            Events { queue: Arc::new(Queue { events: Mutex::new(Vec::new()), wake }), woken };
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGQUIT, SIGHUP])?;
        let sender = events.sender();
        forebay_aio::sync::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in &mut signals {
                sender.send(match signal {
                    SIGTERM => Event::Stop(Stop::Smart),
                    SIGINT => Event::Stop(Stop::Fast),
                    SIGQUIT => Event::Stop(Stop::Immediate),
                    _ => Event::Reload,
                });
            }
        })?;
        Ok(events)
    }

    /// A way to send.
    pub(super) fn sender(&self) -> Sender {
        Sender(Arc::clone(&self.queue))
    }

    /// What has come since the last call.
    pub(super) fn take(&self) -> Vec<Event> {
        let mut bytes = [0; 256];
        while matches!((&self.woken).read(&mut bytes), Ok(n) if n > 0) {}
        std::mem::take(&mut *self.queue.events.lock())
    }

    /// Readable when there is something to take.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }
}
