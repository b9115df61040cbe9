//! File descriptors: how many the server needs, how many it gets, how many are for data files.
//!
//! The server raises the soft limit as far as the settings ask for and the hard limit allows. Data
//! files get the descriptors that connections, rings and other files leave. Fewer than
//! max_files_per_process will do, but not fewer than a minimum; rings that only `io_method = auto`
//! asks for are done without first.

use crate::log;
use forebay_engine::{EngineConfig, IoMethod, descriptors_in_use, raise_descriptor_limit};

/// Descriptors of one connection: handles of its socket to read, to write, to shut it down, and to
/// send the last message.
const PER_CONNECTION: u64 = 4;

/// The least number of data files that can be open at a time, as in PostgreSQL.
const LEAST_FILES: u64 = 48;

/// Wanted descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    /// Already open.
    in_use: u64,
    /// For connections: those of all sessions, and the others.
    connections: (u64, u64),
    /// For rings, the log and other files, and how many of these are optional rings.
    others: (u64, u64),
    /// For data files.
    files: u64,
}

impl Wanted {
    fn all(&self) -> u64 {
        self.in_use + self.connections.1 + self.others.1 + self.files
    }

    fn least(&self) -> u64 {
        self.in_use + self.connections.0 + self.others.0 + LEAST_FILES
    }

    /// How many data files may be open under this limit, and whether there are descriptors for the
    /// optional rings; None if there are too few for everything else.
    fn files_under(&self, limit: u64) -> Option<(u64, bool)> {
        if limit >= self.all() {
            return Some((self.files, true));
        }
        let files = |others: u64| {
            let left = limit.checked_sub(self.in_use + self.connections.0 + others)?;
            (left >= LEAST_FILES).then_some(self.files.min(left))
        };
        let with_rings = files(self.others.1).map(|left| (left, true));
        with_rings.or_else(|| files(self.others.0).map(|left| (left, false)))
    }
}

/// Raises the limit for what the settings ask for, and lowers the number of data files to what is
/// possible. An error's message if that is too few.
pub fn make_room(config: &mut EngineConfig, beside_sessions: usize) -> Result<(), String> {
    let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let sessions = number(config.max_connections) * PER_CONNECTION;
    let wanted = Wanted {
        in_use: descriptors_in_use().unwrap_or(16),
        connections: (sessions, sessions + number(beside_sessions) * PER_CONNECTION),
        others: (number(config.least_other_descriptors()), number(config.other_descriptors())),
        files: number(config.max_files_per_process),
    };
    let limits = raise_descriptor_limit(wanted.all());
    let Some((files, rings)) = wanted.files_under(limits.descriptors) else {
        return Err(format!(
            "insufficient file descriptors available to start server process\n\
             DETAIL:  System allows {}, server needs at least {}, {} files are already open.\n\
             HINT:  Raise the limit (ulimit -n, LimitNOFILE=), or lower max_connections{}.",
            limits.descriptors,
            wanted.least(),
            wanted.in_use,
            if wanted.others.0 == wanted.others.1 && config.needs_rings() {
                " or use io_method = worker"
            } else {
                ""
            }
        ));
    };
    log::log(format!(
        "limits: {limits}; up to {} descriptors for connections, {} for I/O methods and logs, \
         {files} for data files",
        wanted.connections.1, wanted.others.1
    ));
    if files < wanted.files {
        let wanted = wanted.files;
        log::warning(format!(
            "at most {files} data files are kept open, not {wanted} (max_files_per_process)"
        ));
    }
    if !rings && config.io_method == IoMethod::Auto {
        config.io_method = IoMethod::Worker;
        log::log(format!(
            "io_method is \"worker\": the limit on descriptors (RLIMIT_NOFILE, {}) leaves too few \
             for io_uring",
            limits.descriptors
        ));
    }
    config.max_files_per_process = usize::try_from(files).unwrap_or(config.max_files_per_process);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_get_what_is_left_but_not_too_little() {
        let wanted = Wanted { in_use: 10, connections: (400, 864), others: (32, 140), files: 1000 };
        assert_eq!((wanted.least(), wanted.all()), (490, 2014));
        for (limit, files) in [
            (1 << 20, Some((1000, true))),
            (2014, Some((1000, true))),
            (2013, Some((1000, true))),
            (1024, Some((474, true))),
            (598, Some((48, true))),
            (597, Some((155, false))),
            (490, Some((48, false))),
            (489, None),
        ] {
            assert_eq!(wanted.files_under(limit), files, "{limit}");
        }
    }
}
