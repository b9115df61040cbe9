//! The values of the whole server: defaults, then the files, then the command line.

use super::file;
use super::key::{Any, Key, Lookup, key};
use super::table::{self, Context, Setting, TABLE};
use super::text;
use super::value::Value;
use crate::log::described;
use forebay_sql::SqlError;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Built in.
    Default,
    /// A configuration file.
    File {
        /// Its path.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// `-c` and its relatives.
    CommandLine,
    /// The server reports it.
    Override,
}

impl Source {
    /// PostgreSQL's word (pg_settings.source).
    pub fn word(&self) -> &'static str {
        match self {
            Source::Default => "default",
            Source::File { .. } => "configuration file",
            Source::CommandLine => "command line",
            Source::Override => "override",
        }
    }
}

/// Why settings can't be used: lines for the log, the last of which is the reason to stop.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines.join("\n"))]
pub struct ConfigError {
    /// One line for each error, and the reason to stop.
    pub lines: Vec<String>,
}

/// What a reload did.
#[derive(Debug, Default)]
pub struct Reloaded {
    /// Names of the settings that changed, and their new values as SHOW prints them.
    pub changed: Vec<(&'static str, String)>,
    /// Names of the settings whose change needs a restart.
    pub refused: Vec<&'static str>,
}

/// Values of every setting, as a session finds them when it starts.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    values: Vec<(Value, Source)>,
}

impl Default for ServerSettings {
    fn default() -> Self {
        let boot = |s: &Setting| text::parse(s, s.boot).expect("every default is valid");
        ServerSettings { values: TABLE.iter().map(|s| (boot(s), Source::Default)).collect() }
    }
}

impl ServerSettings {
    /// Reads postgresql.conf and postgresql.auto.conf in the data directory, if they exist, and
    /// puts the command line's assignments on top.
    pub fn load(
        data_dir: &Path,
        command_line: &[(String, String)],
    ) -> Result<ServerSettings, ConfigError> {
        let mut settings = ServerSettings::default();
        for name in ["postgresql.conf", "postgresql.auto.conf"] {
            let path = data_dir.join(name);
            if path.exists() {
                settings.read_file(&path)?;
            }
        }
        for (name, text) in command_line {
            settings
                .assign(name, text, Source::CommandLine)
                .map_err(|e| ConfigError { lines: vec![described(&e, "")] })?;
        }
        // Like the other files it is in the data directory, unless the setting names a place.
        let hba = match settings.text(key!("hba_file")) {
            "" => data_dir.join("pg_hba.conf"),
            given => data_dir.join(given),
        };
        settings.tell(key!("hba_file"), hba.display().to_string());
        settings.tell(key!("data_directory"), data_dir.display().to_string());
        settings.tell(key!("config_file"), data_dir.join("postgresql.conf").display().to_string());
        Ok(settings)
    }

    fn read_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let mut lines = Vec::new();
        match file::read(path) {
            Ok(assignments) => {
                for a in assignments {
                    let source = Source::File { path: a.file.clone(), line: a.line };
                    if let Err(e) = self.assign(&a.name, &a.value, source) {
                        let place = format!(" in file \"{}\" line {}", a.file.display(), a.line);
                        lines.push(described(&e, &place));
                    }
                }
            }
            Err(message) => lines.push(message),
        }
        if lines.is_empty() {
            return Ok(());
        }
        lines.push(format!("configuration file \"{}\" contains errors", path.display()));
        Err(ConfigError { lines })
    }

    fn assign(&mut self, name: &str, text: &str, source: Source) -> Result<(), SqlError> {
        let (index, setting) = table::find(name)?;
        if setting.context == Context::Internal {
            return Err(SqlError::new(
                "55P02",
                format!("parameter \"{}\" cannot be changed", setting.name),
            ));
        }
        self.values[index] = (text::parse(setting, text)?, source);
        Ok(())
    }

    /// Sets what the server tells of itself, whatever the context.
    pub fn tell(&mut self, key: Key<Any>, text: impl Display) {
        let value = text::parse(key.setting(), &text.to_string());
        let value = value.expect("the server tells valid values of itself");
        self.values[key.index] = (value, Source::Override);
    }

    /// Takes over from newly read settings what may change while the server runs.
    pub fn reload(&mut self, new: ServerSettings) -> Reloaded {
        let mut reloaded = Reloaded::default();
        for (setting, (slot, (value, source))) in
            TABLE.iter().zip(self.values.iter_mut().zip(new.values))
        {
            if slot.1 == Source::Override {
                continue;
            }
            if slot.0 == value {
                // The source may have changed: `is_set` depends on it.
                slot.1 = source;
                continue;
            }
            match setting.context {
                Context::Internal => {}
                Context::Postmaster => reloaded.refused.push(setting.name),
                Context::Sighup | Context::Superuser | Context::User => {
                    reloaded.changed.push((setting.name, text::show(&value, setting)));
                    *slot = (value, source);
                }
            }
        }
        reloaded
    }

    /// Where the value at this index of the table comes from.
    pub(super) fn source(&self, index: usize) -> &Source {
        &self.values[index].1
    }

    /// Whether someone has set it: a file or the command line.
    pub fn is_set(&self, key: Key<Any>) -> bool {
        self.values[key.index].1 != Source::Default
    }
}

impl Lookup for ServerSettings {
    fn at(&self, index: usize) -> &Value {
        &self.values[index].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(conf: &str, args: &[(&str, &str)]) -> Result<ServerSettings, ConfigError> {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("postgresql.conf"), conf).expect("written");
        let args: Vec<_> = args.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        ServerSettings::load(dir.path(), &args)
    }

    #[test]
    fn the_command_line_wins() {
        let s = load("port = 5433\nio_workers = 5\n", &[("port", "5434")]).expect("loads");
        let count = |key| s.count::<i64>(key);
        assert_eq!([count(key!("port")), count(key!("io_workers"))], [5434, 5]);
        assert_eq!(count(key!("max_connections")), 100);
    }

    #[test]
    fn errors_name_file_and_line_and_come_all_at_once() {
        let e = load("port = 5433\n\nshared_bufers = 1GB\nio_method = 'aio'\n", &[])
            .expect_err("refused");
        assert_eq!(e.lines.len(), 3, "{e}");
        assert!(
            e.lines[0]
                .starts_with("unrecognized configuration parameter \"shared_bufers\" in file"),
            "{e}"
        );
        assert!(e.lines[0].ends_with("line 3"), "{e}");
        assert!(e.lines[1].contains("postgresql.conf\" line 4"), "{e}");
        assert!(e.lines[2].ends_with("contains errors"), "{e}");
        // Settings that would make PostgreSQL's server safer are not ignored.
        for line in ["ssl = on", "ident_file = 'x'", "krb_server_keyfile = 'x'"] {
            let e = load(line, &[]).expect_err("refused");
            assert!(e.lines[0].starts_with("unrecognized configuration parameter"), "{e}");
        }
        let e = load("", &[("block_size", "4096")]).expect_err("refused");
        assert_eq!(e.lines, ["parameter \"block_size\" cannot be changed"]);
    }

    #[test]
    fn a_reload_takes_what_it_may() {
        let mut s = load("port = 5433\ntrack_io_timing = off\n", &[]).expect("loads");
        let set = |s: &ServerSettings| s.is_set(key!("io_workers"));
        let changed = |shown: &str| [("track_io_timing", shown.to_owned())];
        let reloaded = s.reload(load("port = 5555\ntrack_io_timing = on\n", &[]).expect("loads"));
        assert_eq!(reloaded.changed, changed("on"));
        assert_eq!(reloaded.refused, ["port"]);
        assert_eq!((s.count::<u16>(key!("port")), s.bool(key!("track_io_timing"))), (5433, true));
        let reloaded = s.reload(load("port = 5433\nio_workers = 3\n", &[]).expect("loads"));
        assert_eq!((reloaded.changed, set(&s)), (changed("off").to_vec(), true));
        s.reload(load("port = 5433\n", &[]).expect("loads"));
        assert!(!set(&s));
    }
}
