//! What the archive's commands share: the options that name an archive, opening it, and output.

use crate::terminal::tell;
use clap::Args;
use forebay_aio::sync::Arc;
use forebay_aio::{Aio, AioConfig, BackendType, IoBackend, MethodKind, PosixNamespace};
use forebay_engine::archive::resident::{self, Answer};
use forebay_engine::archive::store::codec::Compression;
use forebay_engine::archive::store::layout::LayoutKind;
use forebay_engine::archive::store::seal::Key;
use forebay_engine::archive::store::{Repository, StoreOptions};
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Which archive, and how to use it.
#[derive(Debug, Clone, Args)]
pub(crate) struct StoreArgs {
    /// The archive: a directory, or s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX,
    /// with endpoint and credentials from the environment (AWS_..., GOOGLE_..., AZURE_...)
    /// [default: $FOREBAY_ARCHIVE]
    #[arg(long, value_name = "ARCHIVE")]
    archive: Option<String>,
    /// Where its files lie: plain (one directory, as pg_archivecleanup knows it) or hashed (256
    /// directories); a new archive gets it [default: as it is, else plain; $FOREBAY_ARCHIVE_LAYOUT]
    #[arg(long, value_name = "LAYOUT")]
    layout: Option<String>,
    /// How new files are compressed: none, lz4, zstd or zstd:LEVEL [default: none;
    /// $FOREBAY_ARCHIVE_COMPRESS]
    #[arg(long, value_name = "METHOD")]
    compress: Option<String>,
    /// File with the key to encrypt and decrypt with: 32 bytes, or 64 hexadecimal digits [default:
    /// $FOREBAY_ARCHIVE_KEY]
    #[arg(long, value_name = "FILE")]
    encrypt: Option<PathBuf>,
    /// With a key: also read files that are not encrypted and manifests that are not authenticated,
    /// of an archive that was begun without a key
    #[arg(long)]
    accept_unencrypted: bool,
    /// Bypass the kernel's page cache, where the file system can
    #[arg(long)]
    pub(super) direct: bool,
}

/// An open archive, and what it is read and written with.
pub(super) struct Opened {
    pub(super) aio: Arc<Aio>,
    pub(super) backend: IoBackend,
    pub(super) repository: Repository,
}

/// The argument, or else the environment's variable.
pub(super) fn given(argument: Option<&str>, variable: &str) -> Option<String> {
    let variable = || std::env::var(variable).ok().filter(|value| !value.is_empty());
    argument.map(str::to_owned).or_else(variable)
}

impl StoreArgs {
    /// The archive's directory or URL.
    pub(super) fn location(&self) -> Result<String, String> {
        let location = given(self.archive.as_deref(), "FOREBAY_ARCHIVE");
        location
            .ok_or_else(|| "no archive was given: use --archive or set FOREBAY_ARCHIVE".to_owned())
    }

    fn key_file(&self) -> Option<PathBuf> {
        self.encrypt.clone().or_else(|| given(None, "FOREBAY_ARCHIVE_KEY").map(PathBuf::from))
    }

    /// The name under which archiverd serves the archive. A client and an archiverd with another
    /// archive or other options have different names.
    pub(super) fn identity(&self) -> Result<String, String> {
        let location = self.location()?;
        let location = match location.contains("://") {
            true => location,
            false => absolute(Path::new(&location))?.to_string_lossy().into_owned(),
        };
        let layout = given(self.layout.as_deref(), "FOREBAY_ARCHIVE_LAYOUT").unwrap_or_default();
        let compress =
            given(self.compress.as_deref(), "FOREBAY_ARCHIVE_COMPRESS").unwrap_or_default();
        let key = self.key_file().map(|file| absolute(&file)).transpose()?.unwrap_or_default();
        let accepts = if self.accept_unencrypted { "accept-unencrypted" } else { "" };
        Ok(format!("{location}\n{layout}\n{compress}\n{accepts}\n{}", key.display()))
    }

    fn options(&self, backend: &mut IoBackend) -> Result<StoreOptions, String> {
        let layout = |name: String| {
            LayoutKind::by_name(&name)
                .ok_or_else(|| format!("unknown layout \"{name}\": it is plain or hashed"))
        };
        let layout =
            given(self.layout.as_deref(), "FOREBAY_ARCHIVE_LAYOUT").map(layout).transpose()?;
        let compression = match given(self.compress.as_deref(), "FOREBAY_ARCHIVE_COMPRESS") {
            None => Compression::None,
            Some(name) => Compression::by_name(&name).ok_or_else(|| {
                format!(
                    "unknown compression \"{name}\": it is none, lz4, zstd or zstd:LEVEL (1 to 22)"
                )
            })?,
        };
        let key =
            self.key_file().map(|file| Key::read(backend, &file).map_err(text)).transpose()?;
        let accept_unencrypted = self.accept_unencrypted;
        Ok(StoreOptions { layout, compression, key, accept_unencrypted, direct: self.direct })
    }

    /// Opens the archive, without reading any of it.
    pub(super) fn open(&self, transfers: Transfers) -> Result<Opened, String> {
        let location = self.location()?;
        let aio = transfers.open()?;
        let mut backend = aio.backend(BackendType::Standalone).map_err(text)?;
        let options = self.options(&mut backend)?;
        let repository = Repository::open(&aio, &location, options).map_err(text)?;
        Ok(Opened { aio, backend, repository })
    }
}

/// How many files a command moves.
#[derive(Clone, Copy)]
pub(super) enum Transfers {
    /// One.
    One,
    /// Many, in several threads.
    Many,
}

impl Transfers {
    fn open(self) -> Result<Arc<Aio>, String> {
        let (max_backends, handles_per_backend) = match self {
            Transfers::One => (2, 16),
            Transfers::Many => (128, 16),
        };
        let config = AioConfig { max_backends, handles_per_backend, ..AioConfig::default() };
        // Without io_uring a transfer waits for its own I/O; several transfers run at once.
        let (method, _) = MethodKind::choose(max_backends, MethodKind::Sync);
        Aio::new(Arc::new(PosixNamespace::new()), method, config).map_err(text)
    }
}

pub(super) fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path)
        .map_err(|error| format!("could not tell where \"{}\" is: {error}", path.display()))
}

/// How to reach archiverd.
#[derive(Debug, Clone, Args)]
pub(crate) struct AskArgs {
    /// Socket of archiverd [default: forebay-archiverd.sock in the data directory;
    /// $FOREBAY_ARCHIVE_SOCKET]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Do the work here, whether an archiverd runs or not
    #[arg(long)]
    no_daemon: bool,
}

impl AskArgs {
    /// Asks archiverd, if there is one. `file` is in the data directory's pg_wal.
    pub(super) fn ask(
        &self,
        store: &StoreArgs,
        file: &Path,
        request: &resident::wire::Request,
    ) -> Result<Answer, String> {
        if self.no_daemon {
            return Ok(Answer::Nobody("--no-daemon".to_owned()));
        }
        let variable = || given(None, "FOREBAY_ARCHIVE_SOCKET").map(PathBuf::from);
        let socket = self.socket.clone().or_else(variable).unwrap_or_else(|| {
            let dir = file.parent().and_then(Path::parent).unwrap_or(Path::new(""));
            dir.join(resident::SOCKET)
        });
        Ok(resident::ask(&socket, &store.identity()?, request))
    }
}

/// A command's exit code; of a command that failed with a message it is `failed`.
pub(super) fn exit_code(command: &str, failed: u8, done: Result<u8, String>) -> u8 {
    done.unwrap_or_else(|message| {
        tell(command, "error: ", message);
        failed
    })
}

pub(super) fn text(error: impl Display) -> String {
    error.to_string()
}

/// A number of bytes for people.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] =
        [("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)];
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_for_people() {
        for (bytes, text) in
            [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 kB"), (16 << 20, "16.0 MB")]
        {
            assert_eq!(size(bytes), text);
        }
    }
}
