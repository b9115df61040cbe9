//! Events of the main thread: signals, and the engine's start and stop. A pipe that it polls wakes
//! it.

use forebay_aio::sync::Mutex;
use forebay_engine::Engine;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// How a server is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stop {
    /// When the last session has left.
    Smart,
    /// Sessions are ended.
    Fast,
    /// Nothing is written any more.
    Immediate,
}

/// Something the main thread has to know.
#[derive(Debug)]
pub(super) enum Event {
    /// The engine is open, or could not be opened.
    Opened(Result<Arc<Engine>, NotOpen>),
    /// A signal to stop.
    Stop(Stop),
    /// The engine has stopped, or could not be stopped.
    Stopped(Result<(), String>),
    /// SIGHUP.
    Reload,
    /// A connection has ended.
    Left,
}

/// Why the engine is not open.
#[derive(Debug)]
pub(super) enum NotOpen {
    /// Recovery has stopped at its target, as it was told to.
    AtTarget(String),
    /// A stop has ended the recovery.
    Stopped,
    /// It failed.
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

    /// Makes a sender.
    pub(super) fn sender(&self) -> Sender {
        Sender(Arc::clone(&self.queue))
    }

    /// Takes the events that have come since the last call.
    pub(super) fn take(&self) -> Vec<Event> {
        let mut bytes = [0; 256];
        while matches!((&self.woken).read(&mut bytes), Ok(n) if n > 0) {}
        std::mem::take(&mut *self.queue.events.lock())
    }

    /// A descriptor that is readable when there are events.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }
}
