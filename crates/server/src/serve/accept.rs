//! Taking connections, also while the system has no descriptor or no memory for one.

use crate::log;
use crate::wire::stream::Stream;
use forebay_aio::sync::{Duration, Instant};
use std::io;

/// How long the listeners are left alone after a failure: what is short must be given back first.
const REST: Duration = Duration::from_millis(100);

/// What became of the last attempts to take a connection.
#[derive(Debug, Default)]
pub(super) struct Acceptor {
    /// Until when the listeners are left alone.
    rests_until: Option<Instant>,
    /// Failures in a row.
    failures: u64,
    /// The last one's error number.
    last: Option<i32>,
}

impl Acceptor {
    /// How long the listeners must be left alone, if they must.
    pub(super) fn rest(&mut self, now: Instant) -> Option<Duration> {
        let left = self.rests_until?.saturating_duration_since(now);
        if left.is_zero() {
            self.rests_until = None;
            return None;
        }
        Some(left)
    }

    /// Takes what accept returned. A row of failures for one reason is logged once.
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
            // The client has gone while it waited.
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
