//! What an archiver must survive, case by case, on real files: over every I/O method, buffered and
//! direct.
//!
//! - `bed`: a log, an archive and a disk that fails as a plan says
//! - `source`: files that are not what they should be
//! - `place`: storing: again, differently, by many at once, on a disk that fails
//! - `archiver`: marks, order, failures, stops
//! - `command`: archive_command
//! - `faults`: an archive that fails for a time, many marks
//! - `killed`: SIGKILL at every call
//!
//! Power failures are in the tests of the crate sim.

mod archiver;
mod bed;
mod command;
mod faults;
mod killed;
mod place;
mod source;
