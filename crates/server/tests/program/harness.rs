//! A server under test.

use forebay_server::client::{Client, ClientError};
use forebay_server::wire::stream::Stream;
use forebay_testkit::free_port;
use forebay_testkit::process::{Child, serve, under};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// Runs the program to its end.
pub fn forebay(words: &[&str]) -> Output {
    Command::new(PROGRAM).args(words).output().expect("forebay runs")
}

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    pub port: u16,
    pub folder: Arc<TempDir>,
}

impl Server {
    /// A server on a new directory.
    pub fn new() -> Server {
        Server::with(&[])
    }

    /// A server on a new directory, with settings.
    pub fn with(settings: &[&str]) -> Server {
        Server::on(Arc::new(tempfile::tempdir().expect("a folder")), settings)
    }

    /// A server on a folder's data directory.
    pub fn on(folder: Arc<TempDir>, settings: &[&str]) -> Server {
        Server::limited(folder, None, settings)
    }

    /// A server under a resource limit: `ulimit`'s arguments.
    pub fn limited(folder: Arc<TempDir>, ulimit: Option<&str>, settings: &[&str]) -> Server {
        let server = Server::spawned(folder, ulimit, settings);
        server.child.wait_until_ready();
        server
    }

    /// A server that may not be ready yet.
    pub fn starting(folder: Arc<TempDir>, settings: &[&str]) -> Server {
        Server::spawned(folder, None, settings)
    }

    /// A server under another program, with no settings but these.
    pub fn under(folder: Arc<TempDir>, words: &[&str], settings: &[&str]) -> Server {
        let port = free_port();
        let server = serve(PROGRAM, &folder.path().join("data"), port, folder.path(), settings);
        let child =
            Child::spawn(&mut if words.is_empty() { server } else { under(words, &server) });
        child.wait_until_ready();
        Server { child, port, folder }
    }

    /// A server on a new directory with few settings on the command line, so that those of its
    /// file count.
    pub fn by_its_file() -> Server {
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        let (port, data) = (free_port(), folder.path().join("data"));
        let mut server = serve(PROGRAM, &data, port, folder.path(), &["io_method=sync"]);
        let server = Server { child: Child::spawn(&mut server), port, folder };
        server.child.wait_until_ready();
        server
    }

    fn spawned(folder: Arc<TempDir>, ulimit: Option<&str>, settings: &[&str]) -> Server {
        let port = free_port();
        let child = spawn(&folder, &folder.path().join("data"), port, ulimit, settings);
        Server { child, port, folder }
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        self.child.printed()
    }

    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Waits until a line of the log holds `text`, and returns it.
    pub fn wait_for_log(&self, text: &str) -> String {
        self.child.wait_for_line(text).unwrap_or_else(|log| panic!("no line has {text:?}:\n{log}"))
    }

    pub fn client(&self) -> Client {
        self.connect(&[("user", "postgres")]).expect("connects")
    }

    pub fn unix_client(&self) -> Client {
        Client::unix(self.folder.path(), self.port).expect("connects")
    }

    /// Connects with these startup parameters.
    pub fn connect(&self, parameters: &[(&str, &str)]) -> Result<Client, ClientError> {
        Client::start(self.socket(), parameters)
    }

    /// A connected socket. A read without data for five minutes fails, so that no test hangs.
    pub fn socket(&self) -> Stream {
        let stream = Stream::Tcp(TcpStream::connect(("127.0.0.1", self.port)).expect("connects"));
        stream.set_read_timeout(Some(Duration::from_secs(300))).expect("is a socket");
        stream
    }

    /// The single value a query gives, from a session of its own.
    pub fn value(&self, sql: &str) -> String {
        value(&mut self.client(), sql)
    }

    pub fn signal(&self, name: &str) {
        self.child.signal(name);
    }

    /// The server's number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the process has ended.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait()
    }

    /// Stops cleanly and gives the folder back.
    pub fn stop(mut self) -> Arc<TempDir> {
        self.child.stop(&self.pid().to_string());
        Arc::clone(&self.folder)
    }

    /// `kill -9`; gives the folder back.
    pub fn kill(mut self) -> Arc<TempDir> {
        self.child.kill(&self.pid().to_string());
        Arc::clone(&self.folder)
    }
}

/// A server that is expected not to start: its exit status and log.
pub fn refused(data: &Path, port: u16, settings: &[&str]) -> (ExitStatus, String) {
    refused_under(data, port, None, settings)
}

/// A server that is expected not to start under a resource limit.
pub fn refused_under(
    data: &Path,
    port: u16,
    ulimit: Option<&str>,
    settings: &[&str],
) -> (ExitStatus, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = spawn(&folder, data, port, ulimit, settings);
    let log = child.wait_for_refusal();
    (child.wait(), log)
}

/// A server under another program that is expected not to start: its log.
pub fn refused_by(words: &[&str], data: &Path, settings: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let server = serve(PROGRAM, data, free_port(), folder.path(), settings);
    Child::spawn(&mut under(words, &server)).wait_for_refusal()
}

fn spawn(
    folder: &TempDir,
    data: &Path,
    port: u16,
    ulimit: Option<&str>,
    settings: &[&str],
) -> Child {
    let small = ["shared_buffers=4MB", "io_method=sync", "io_direct="];
    let settings = [&small[..], settings].concat();
    let mut server = serve(PROGRAM, data, port, folder.path(), &settings);
    if let Some(limit) = ulimit {
        server = under(&["sh", "-c", &format!("ulimit {limit} && exec \"$0\" \"$@\"")], &server);
    }
    Child::spawn(&mut server)
}

/// A file system of its own at a directory.
pub struct Mount {
    pub path: PathBuf,
}

impl Mount {
    /// None without the right to mount.
    pub fn new(path: &Path, kind: &str, options: &str) -> Option<Mount> {
        std::fs::create_dir_all(path).expect("made");
        let mut mount = Command::new("mount");
        let mount = mount.args(["-t", kind, "-o", options, kind]).arg(path).output();
        mount.is_ok_and(|m| m.status.success()).then(|| Mount { path: path.to_owned() })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

/// The single value a query gives.
pub fn value(client: &mut Client, sql: &str) -> String {
    let answer = client.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    answer.value().unwrap_or_else(|| panic!("{sql}: {answer:?}")).to_owned()
}

/// The SQLSTATE and message of a query that must fail.
pub fn failure(client: &mut Client, sql: &str) -> (String, String) {
    match client.query(sql) {
        Err(ClientError::Server(fields)) => {
            (fields.get(b'C').to_owned(), fields.get(b'M').to_owned())
        }
        other => panic!("{sql} should fail: {other:?}"),
    }
}
