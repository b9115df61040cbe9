//! Accepting connections, also when the system has no descriptor or no memory for one.

use crate::log;
use crate::wire::stream::Stream;
use forebay_aio::sync::{Duration, Instant};
use std::io;

/// How long nothing is accepted after a failure: descriptors or memory must be freed first.
const REST: Duration = Duration::from_millis(100);

/// Accepts connections, and remembers failures.
#[derive(Debug, Default)]
pub(super) struct Acceptor {
    /// Nothing is accepted until then.
    rests_until: Option<Instant>,
    /// Failures in a row.
    failures: u64,
    /// The error number of the last one.
    last: Option<i32>,
}

impl Acceptor {
    /// For how long nothing is to be accepted; None: connections are.
    pub(super) fn rest(&mut self, now: Instant) -> Option<Duration> {
        let left = self.rests_until?.saturating_duration_since(now);
        if left.is_zero() {
            self.rests_until = None;
            return None;
        }
        Some(left)
    }

    /// Handles the result of accept. Failures in a row for one reason are logged once.
    pub(super) fn take(&mut self, accepted: io::Result<Stream>, now: Instant) -> Option<Stream> {
        use io::ErrorKind as Kind;
        match accepted {
            Ok(stream) => {
                if self.failures > 0 {
                    log::log(format!(
                        "accepting connections again after {} failures",
                        self.failures
                    ));
                    *self = Acceptor::default();
                }
                Some(stream)
            }
            // The client has gone meanwhile.
            Err(e)
                if matches!(
                    e.kind(),
                    Kind::ConnectionAborted | Kind::WouldBlock | Kind::Interrupted
                ) =>
            {
                None
            }
            Err(e) => {
                if self.failures == 0 || e.raw_os_error() != self.last {
                    log::log(format!("could not accept new connection: {e}"));
                }
                self.failures += 1;
                self.last = e.raw_os_error();
                self.rests_until = Some(now + REST);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;
    use std::os::unix::net::UnixStream;

    #[test]
    fn failures_are_followed_by_a_rest_and_an_aborted_connection_is_not() {
        let (mut acceptor, now) = (Acceptor::default(), Instant::now());
        for gone in [Errno::CONNABORTED, Errno::AGAIN, Errno::INTR] {
            assert!(acceptor.take(Err(gone.into()), now).is_none());
            assert_eq!((acceptor.rest(now), acceptor.failures), (None, 0), "{gone}");
        }
        for (n, short) in
            [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM].into_iter().enumerate()
        {
            assert!(acceptor.take(Err(short.into()), now).is_none());
            assert_eq!(
                (acceptor.rest(now), acceptor.failures),
                (Some(REST), n as u64 + 1),
                "{short}"
            );
        }
        assert_eq!(acceptor.rest(now + REST / 2), Some(REST / 2));
        assert_eq!(acceptor.rest(now + REST), None);
        let (stream, _other) = UnixStream::pair().expect("a pair");
        assert!(acceptor.take(Ok(Stream::Unix(stream)), now).is_some());
        assert_eq!(acceptor.failures, 0);
    }
}
