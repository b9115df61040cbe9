//! Shuttle's locks and condition variables with parking_lot's interface: no poisoning, and a
//! condition variable that borrows the guard.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

use shuttle::sync as inner;

use super::{Duration, Instant};

pub use shuttle::sync::atomic;

/// Threads.
pub mod thread {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    pub use shuttle::thread::{Result, Thread, ThreadId, current, park, scope, yield_now};

    /// A thread that can be joined. Shuttle's own can't tell whether it has finished.
    #[derive(Debug)]
    pub struct JoinHandle<T> {
        inner: shuttle::thread::JoinHandle<T>,
        finished: Arc<AtomicBool>,
    }

    impl<T> JoinHandle<T> {
        /// Waits for its end.
        pub fn join(self) -> Result<T> {
            self.inner.join()
        }

        /// The thread.
        pub fn thread(&self) -> &Thread {
            self.inner.thread()
        }

        /// Whether it has finished.
        pub fn is_finished(&self) -> bool {
            self.finished.load(SeqCst)
        }
    }

    /// How to start a thread.
    #[derive(Debug, Default)]
    pub struct Builder {
        name: Option<String>,
    }

    impl Builder {
        /// Without a name.
        pub fn new() -> Builder {
            Builder::default()
        }

        /// With a name.
        pub fn name(self, name: String) -> Builder {
            Builder { name: Some(name) }
        }

        /// Starts it.
        pub fn spawn<F, T>(self, f: F) -> std::io::Result<JoinHandle<T>>
        where
            F: FnOnce() -> T + Send + 'static,
            T: Send + 'static,
        {
            let finished = Arc::new(AtomicBool::new(false));
            let end = Finished(Arc::clone(&finished));
            let mut builder = shuttle::thread::Builder::new();
            if let Some(name) = self.name {
                builder = builder.name(name);
            }
            let inner = builder.spawn(move || {
                let _end = end;
                f()
            })?;
            Ok(JoinHandle { inner, finished })
        }
    }

    impl Builder {
        /// Starts it within a scope.
        pub fn spawn_scoped<'scope, F, T>(
            self,
            scope: &'scope shuttle::thread::Scope<'scope, '_>,
            f: F,
        ) -> std::io::Result<shuttle::thread::ScopedJoinHandle<'scope, T>>
        where
            F: FnOnce() -> T + Send + 'scope,
            T: Send + 'scope,
        {
            Ok(scope.spawn(f))
        }
    }

    /// Starts a thread without a name.
    pub fn spawn<F, T>(f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        Builder::new().spawn(f).expect("a checked thread is no resource of the system's")
    }

    struct Finished(Arc<AtomicBool>);

    impl Drop for Finished {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
}

/// A mutual exclusion lock.
#[derive(Debug, Default)]
pub struct Mutex<T>(inner::Mutex<T>);

/// What [`Mutex::lock`] returns. Empty only inside of [`Condvar::wait`].
#[derive(Debug)]
pub struct MutexGuard<'a, T>(Option<inner::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(inner::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(MutexGuard(Some(guard))),
            Err(inner::TryLockError::Poisoned(e)) => Some(MutexGuard(Some(e.into_inner()))),
            Err(inner::TryLockError::WouldBlock) => None,
        }
    }

    /// A mutable reference to the value.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

const BORROWED: &str = "a guard is empty only inside of Condvar::wait";

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_deref().expect(BORROWED)
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_deref_mut().expect(BORROWED)
    }
}

/// A condition variable.
#[derive(Debug)]
pub struct Condvar(inner::Condvar);

/// Whether a timed wait timed out. It never does in a checked build, which has no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(());

impl WaitTimeoutResult {
    /// Whether it timed out.
    pub fn timed_out(&self) -> bool {
        false
    }
}

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl Condvar {
    /// A condition variable.
    pub const fn new() -> Condvar {
        Condvar(inner::Condvar::new())
    }

    /// Releases the lock, waits for a notification, and takes the lock again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().expect(BORROWED);
        guard.0 = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
    }

    /// As [`Condvar::wait`].
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _time: Duration) -> WaitTimeoutResult {
        self.wait(guard);
        WaitTimeoutResult(())
    }

    /// As [`Condvar::wait`].
    pub fn wait_until<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        _until: Instant,
    ) -> WaitTimeoutResult {
        self.wait(guard);
        WaitTimeoutResult(())
    }

    /// Wakes one.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A lock for many readers or one writer.
#[derive(Debug, Default)]
pub struct RwLock<T>(inner::RwLock<T>);

/// What [`RwLock::read`] returns.
pub type RwLockReadGuard<'a, T> = inner::RwLockReadGuard<'a, T>;
/// What [`RwLock::write`] returns.
pub type RwLockWriteGuard<'a, T> = inner::RwLockWriteGuard<'a, T>;

impl<T> RwLock<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(inner::RwLock::new(value))
    }

    /// Waits until there is no writer.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is no reader and no writer.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A mutable reference to the value.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}
