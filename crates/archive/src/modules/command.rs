//! archive_command: runs a command for each file.
//!
//! Nothing here can tell whether the command stores durably and replaces nothing. The file's header
//! is checked before the command runs.

use std::path::{Path, PathBuf};

use forebay_aio::{AioError, Errno, IoBackend};

use crate::error::ArchiveError;
use crate::module::{ArchiveModule, Archived};
use crate::shell::{Shell, substitute};
use crate::source::Source;

/// Runs a command for each file: `%p` is its path relative to the data directory, `%f` its name.
#[derive(Debug)]
pub struct Command {
    command: String,
    data_dir: PathBuf,
    shell: Shell,
}

impl Command {
    /// Runs `command` (archive_command; empty: not set) in the data directory.
    pub fn new(command: impl Into<String>, data_dir: &Path) -> Command {
        Command {
            command: command.into(),
            data_dir: data_dir.to_path_buf(),
            shell: Shell::new(data_dir),
        }
    }

    /// The command for a file.
    fn build(&self, file: &Source) -> Result<String, ArchiveError> {
        let path = file.path().strip_prefix(&self.data_dir).unwrap_or(file.path());
        let (path, name) = (path.to_string_lossy(), file.name().as_str());
        Ok(substitute(&self.command, "archive_command", &[('p', &path), ('f', name)])?)
    }
}

impl ArchiveModule for Command {
    fn name(&self) -> &'static str {
        "archive_command"
    }

    fn check_configured(&self) -> Result<(), String> {
        if self.command.is_empty() {
            Err("\"archive_command\" is not set.".to_owned())
        } else {
            Ok(())
        }
    }

    fn archive(&self, io: &mut IoBackend, file: &mut Source) -> Result<Archived, ArchiveError> {
        let command = self.build(file)?;
        file.check_first_piece(io)?;
        tracing::debug!("executing archive command \"{command}\"");
        let ended = self.shell.run(&command).map_err(|e| {
            let errno = Errno(e.raw_os_error().unwrap_or(Errno::IO.0));
            if errno == Errno::CANCELED {
                return ArchiveError::stopped(file.path());
            }
            let action = "run the archive command for file";
            ArchiveError::io("archive", file.path())(AioError::os(action, file.path(), errno))
        })?;
        if !ended.is_success() {
            // A stop killed it, so it is no failure of the command.
            file.check_stop()?;
            return Err(ArchiveError::Command { ended, command });
        }
        Ok(Archived::Stored)
    }

    /// A command may rely on running alone, as PostgreSQL runs it.
    fn works_alone(&self) -> bool {
        true
    }

    fn interrupt(&self) {
        self.shell.stop();
    }
}
