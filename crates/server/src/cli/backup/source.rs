//! The server whose data directory is copied, over its own protocol: Forebay, or PostgreSQL 15 to
//! 18.

use crate::client::{Client, ClientError};
use crate::wire::stream::Stream;
use forebay_engine::archive::backup::{BackupSource, Stopped};
use forebay_engine::backup::RunningServer;
use forebay_engine::{EngineError, Lsn, ParseLsnError};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// How to reach a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// A name or address, or the directory of a Unix socket.
    host: String,
    port: u16,
    user: String,
    database: String,
}

impl Address {
    /// Reads words like `host=/run/postgresql port=5433 user=postgres dbname=postgres`.
    pub(super) fn parse(text: &str) -> Result<Address, EngineError> {
        let bad = |why: String| EngineError::statement("22023", why);
        let mut address = Address::at("localhost", 5432);
        for word in text.split_whitespace() {
            let (name, value) = word.split_once('=').ok_or_else(|| {
                bad(format!("\"{word}\" in the connection is not of the form NAME=VALUE"))
            })?;
            match name {
                "host" | "hostaddr" => address.host = value.to_owned(),
                "port" => {
                    address.port = value
                        .parse()
                        .map_err(|_| bad(format!("invalid port number \"{value}\"")))?;
                }
                "user" => address.user = value.to_owned(),
                "dbname" => address.database = value.to_owned(),
                _ => return Err(bad(format!("connection option \"{name}\" is not known"))),
            }
        }
        Ok(address)
    }

    /// From a lock file.
    pub(super) fn of(server: &RunningServer) -> Address {
        let host = match (server.socket_dir.as_str(), server.listen_addr.as_str()) {
            ("", "" | "*" | "0.0.0.0") => "localhost",
            ("", address) => address,
            (directory, _) => directory,
        };
        Address::at(host, server.port)
    }

    fn at(host: &str, port: u16) -> Address {
        let postgres = || "postgres".to_owned();
        Address { host: host.to_owned(), port, user: postgres(), database: postgres() }
    }

    fn stream(&self) -> Result<Stream, ClientError> {
        if self.host.starts_with('/') {
            let path = PathBuf::from(&self.host).join(format!(".s.PGSQL.{}", self.port));
            return Ok(Stream::Unix(UnixStream::connect(path)?));
        }
        Ok(Stream::Tcp(TcpStream::connect((self.host.as_str(), self.port))?))
    }
}

/// A session that lasts as long as the backup.
pub(super) struct Server {
    client: Client,
}

fn failed(address: &Address, error: &ClientError) -> EngineError {
    let message =
        format!("could not connect to server \"{}\", port {}: {error}", address.host, address.port);
    EngineError::statement("08001", message)
        .with_hint("Tell with --connection how to reach it, by a way that needs no password.")
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl Server {
    pub(super) fn connect(address: &Address) -> Result<Server, EngineError> {
        let connect = || -> Result<Client, ClientError> {
            let parameters = [
                ("user", address.user.as_str()),
                ("database", &address.database),
                ("application_name", "forebay backup"),
            ];
            Client::start(address.stream()?, &parameters)
        };
        let mut client = connect().map_err(|error| failed(address, &error))?;
        // The session is idle while files are copied, and must not be ended. A server without this
        // setting does not end it.
        for setting in ["statement_timeout", "idle_session_timeout", "lock_timeout"] {
            let _ = client.query(&format!("SET {setting} = 0"));
        }
        Ok(Server { client })
    }

    pub(super) fn as_source(&mut self) -> &mut dyn BackupSource {
        self
    }

    fn value(&mut self, sql: &str) -> Result<String, String> {
        let answer = self.client.query(sql).map_err(|error| error.to_string())?;
        answer.value().map(str::to_owned).ok_or_else(|| format!("no answer to \"{sql}\""))
    }

    pub(super) fn data_directory(&mut self) -> Result<PathBuf, EngineError> {
        let shown = self.value("SHOW data_directory");
        shown.map(PathBuf::from).map_err(|error| EngineError::statement("58P01", error))
    }

    /// Refuses a standby: its backup depends on settings of the primary.
    pub(super) fn check_primary(&mut self) -> Result<(), EngineError> {
        match self.value("SELECT pg_is_in_recovery()") {
            Ok(answer) if answer == "f" => Ok(()),
            Ok(_) => {
                Err(EngineError::statement("0A000", "the server is a standby, or in recovery")
                    .with_hint("Back up the primary."))
            }
            Err(error) => Err(EngineError::statement("08006", error)),
        }
    }
}

impl BackupSource for Server {
    fn start(&mut self, label: &str, fast: bool) -> Result<Lsn, String> {
        let lsn = self.value(&format!("SELECT pg_backup_start({}, {fast})", literal(label)))?;
        lsn.parse().map_err(|error: ParseLsnError| error.to_string())
    }

    fn stop(&mut self, wait: bool) -> Result<Stopped, String> {
        let sql = format!("SELECT lsn, labelfile FROM pg_backup_stop({wait})");
        let answer = self.client.query(&sql).map_err(|error| error.to_string())?;
        match answer.rows.iter().map(Vec::as_slice).collect::<Vec<_>>().as_slice() {
            [[Some(lsn), Some(label)]] => {
                let lsn = lsn.parse().map_err(|error: ParseLsnError| error.to_string())?;
                Ok(Stopped { lsn, label: label.clone() })
            }
            [_] => Err("it gave something else than a position and a label".to_owned()),
            rows => Err(format!("it gave {} rows", rows.len())),
        }
    }

    fn is_archiving(&mut self) -> Result<bool, String> {
        Ok(self.value("SHOW archive_mode")? != "off")
    }

    fn system_id(&mut self) -> Result<Option<u64>, String> {
        match self.client.query("SELECT system_identifier FROM pg_control_system()") {
            Ok(answer) => {
                Ok(answer.value().and_then(|text| text.parse::<i64>().ok()).map(i64::cast_unsigned))
            }
            // Forebay has no such function.
            Err(ClientError::Server(_)) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections() {
        let address =
            Address::parse("host=/run/pg port=5433 user=me dbname=d").expect("an address");
        assert_eq!((address.host.as_str(), address.port), ("/run/pg", 5433));
        assert_eq!((address.user.as_str(), address.database.as_str()), ("me", "d"));
        for bad in ["host", "port=x", "sslmode=require"] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
        let server = |socket_dir: &str, listen_addr: &str| RunningServer {
            pid: 1,
            port: 5432,
            socket_dir: socket_dir.to_owned(),
            listen_addr: listen_addr.to_owned(),
        };
        assert_eq!(Address::of(&server("/tmp", "localhost")).host, "/tmp");
        assert_eq!(Address::of(&server("", "*")).host, "localhost");
        assert_eq!(Address::of(&server("", "127.0.0.1")).host, "127.0.0.1");
    }

    #[test]
    fn literals() {
        assert_eq!(literal("it's"), "'it''s'");
    }
}
