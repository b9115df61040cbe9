//! The values of the whole server: defaults, then the files, then the command line.

use super::table::{self, Context, Setting, TABLE};
use super::value::{self, Value};
use super::{file, unrecognized};
use forebay_sql::SqlError;
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
    /// The server tells what is.
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

/// Why settings can't be used: lines for the log, the last one being the reason to stop.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines.join("\n"))]
pub struct ConfigError {
    /// What is wrong, a line each.
    pub lines: Vec<String>,
}

/// Values of every setting, as a session finds them when it starts.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    values: Vec<(Value, Source)>,
}

impl Default for ServerSettings {
    fn default() -> Self {
        let boot = |s: &Setting| {
            value::parse(s, s.boot).unwrap_or_else(|_| Value::Text(s.boot.to_owned()))
        };
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
                .map_err(|e| ConfigError { lines: vec![describe(&e, "")] })?;
        }
        // Like the other files it stands in the data directory, unless it is said where.
        let hba = match settings.text("hba_file") {
            "" => data_dir.join("pg_hba.conf"),
            given => data_dir.join(given),
        };
        settings.tell("hba_file", hba.display().to_string());
        settings.tell("data_directory", data_dir.display().to_string());
        settings.tell("config_file", data_dir.join("postgresql.conf").display().to_string());
        Ok(settings)
    }

    fn read_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let mut lines = Vec::new();
        match file::read(path) {
            Ok(assignments) => {
                for a in assignments {
                    let source = Source::File { path: a.file.clone(), line: a.line };
                    if let Err(e) = self.assign(&a.name, &a.value, source) {
                        lines.push(describe(
                            &e,
                            &format!(" in file \"{}\" line {}", a.file.display(), a.line),
                        ));
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
        let (index, setting) = table::index(name)
            .and_then(|i| Some((i, TABLE.get(i)?)))
            .ok_or_else(|| unrecognized(name))?;
        if setting.context == Context::Internal {
            return Err(SqlError::new(
                "55P02",
                format!("parameter \"{}\" cannot be changed", setting.name),
            ));
        }
        self.put(index, value::parse(setting, text)?, source);
        Ok(())
    }

    fn put(&mut self, index: usize, value: Value, source: Source) {
        if let Some(slot) = self.values.get_mut(index) {
            *slot = (value, source);
        }
    }

    /// Sets what the server tells of itself, whatever the context.
    pub fn tell(&mut self, name: &str, text: String) {
        if let Some((index, setting)) = table::index(name).and_then(|i| Some((i, TABLE.get(i)?))) {
            let value = value::parse(setting, &text).unwrap_or(Value::Text(text));
            self.put(index, value, Source::Override);
        }
    }

    /// Takes over from newly read settings what may change while the server runs. Returns the names
    /// that changed, and the names whose change needs a restart.
    pub fn reload(&mut self, new: ServerSettings) -> (Vec<&'static str>, Vec<&'static str>) {
        let (mut changed, mut refused) = (Vec::new(), Vec::new());
        for (setting, (slot, (value, source))) in
            TABLE.iter().zip(self.values.iter_mut().zip(new.values))
        {
            if slot.1 == Source::Override {
                continue;
            }
            if slot.0 == value {
                // Whether someone has set it may have changed all the same.
                slot.1 = source;
                continue;
            }
            match setting.context {
                Context::Internal => {}
                Context::Postmaster => refused.push(setting.name),
                _ => {
                    changed.push(setting.name);
                    *slot = (value, source);
                }
            }
        }
        (changed, refused)
    }

    pub(super) fn at(&self, index: usize) -> &(Value, Source) {
        &self.values[index]
    }

    /// A value. The name is one of the table's: anything else is a slip in this program.
    pub fn value(&self, name: &str) -> &Value {
        let index = table::index(name).unwrap_or_else(|| panic!("no setting is called {name}"));
        &self.at(index).0
    }

    /// Whether someone has set it: a file or the command line.
    pub fn is_set(&self, name: &str) -> bool {
        table::index(name).is_some_and(|index| self.at(index).1 != Source::Default)
    }

    /// A boolean's value.
    pub fn bool(&self, name: &str) -> bool {
        matches!(self.value(name), Value::Bool(true))
    }

    /// An integer's value, in its base unit.
    pub fn int(&self, name: &str) -> i64 {
        match self.value(name) {
            Value::Int(n) => *n,
            Value::Real(x) => *x as i64,
            _ => 0,
        }
    }

    /// A string's or an enumeration's value.
    pub fn text(&self, name: &str) -> &str {
        match self.value(name) {
            Value::Text(s) => s,
            _ => "",
        }
    }
}

fn describe(e: &SqlError, place: &str) -> String {
    let mut line = format!("{}{place}", e.message);
    for (word, text) in [("DETAIL", &e.detail), ("HINT", &e.hint)] {
        if let Some(text) = text {
            line.push_str(&format!("\n{word}:  {text}"));
        }
    }
    line
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
        assert_eq!((s.int("port"), s.int("io_workers"), s.int("max_connections")), (5434, 5, 100));
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
        // Nothing that would make a server of PostgreSQL's safer is passed over.
        for line in ["ssl = on", "ident_file = 'x'", "password_encryption = 'md5'"] {
            let e = load(line, &[]).expect_err("refused");
            assert!(e.lines[0].starts_with("unrecognized configuration parameter"), "{e}");
        }
        let e = load("", &[("block_size", "4096")]).expect_err("refused");
        assert_eq!(e.lines, ["parameter \"block_size\" cannot be changed"]);
    }

    #[test]
    fn a_reload_takes_what_it_may() {
        let mut s = load("port = 5433\ntrack_io_timing = off\n", &[]).expect("loads");
        let (changed, refused) =
            s.reload(load("port = 5555\ntrack_io_timing = on\n", &[]).expect("loads"));
        assert_eq!((changed, refused), (vec!["track_io_timing"], vec!["port"]));
        assert_eq!((s.int("port"), s.bool("track_io_timing")), (5433, true));
        let (changed, _) = s.reload(load("port = 5433\nio_workers = 3\n", &[]).expect("loads"));
        assert_eq!((changed, s.is_set("io_workers")), (vec!["track_io_timing"], true));
        s.reload(load("port = 5433\n", &[]).expect("loads"));
        assert!(!s.is_set("io_workers"));
    }
}
