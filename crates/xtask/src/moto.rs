//! moto, an S3 server to test and measure against. It comes from PyPI into `target/tools/moto`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::packages::{self, Needed};
use crate::run::run;
use crate::watch;

const VERSION: &str = "5.2.5";
/// How long it may take to start.
const START: Duration = Duration::from_secs(300);
/// The script that runs it.
const SERVER: &str = "crates/archive/tests/objects/moto.py";

/// Installs moto if need be, and returns the Python that has it.
///
/// # Errors
/// When it can't be had: no Python, or no package registry that answers.
pub fn prepare(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join("target/tools/moto");
    let python = folder.join("bin/python");
    let complete = folder.join(format!("complete-{VERSION}"));
    if complete.is_file() {
        return Ok(python);
    }
    packages::ensure(&[Needed { program: "python3", package: "python3" }])?;
    let environment = || run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder));
    if environment().is_err() {
        // Debian's Python has it in a package of its own.
        packages::install(&["python3-venv"])?;
        environment()?;
    }
    let package = format!("moto[s3,server]=={VERSION}");
    run(Command::new(&python).args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        &package,
    ]))?;
    fs::write(&complete, "").map_err(|e| format!("{}: {e}", complete.display()))?;
    Ok(python)
}

/// A running server with a bucket. It ends when this is dropped.
pub struct Server {
    child: Child,
    /// The address on which it listens.
    pub endpoint: String,
}

impl Server {
    /// Starts a server and makes the bucket.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(root: &Path, python: &Path, bucket: &str) -> Result<Server, String> {
        let mut moto = Command::new(python);
        // Given as text: a script named moto would hide the package.
        let script = fs::read_to_string(root.join(SERVER)).map_err(|e| format!("{SERVER}: {e}"))?;
        moto.arg("-c").arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = moto.spawn().map_err(|e| format!("{}: {e}", python.display()))?;
        let output = child.stdout.take().ok_or("moto's output is not piped")?;
        let mut server = Server { child, endpoint: String::new() };
        let text = |e: std::io::Error| format!("moto: {e}");
        let (send, said) = channel();
        thread::spawn(move || {
            let mut line = String::new();
            let mut output = BufReader::new(output);
            let read = output.read_line(&mut line).map(|_| line);
            // The receiver is gone if the start took too long; the output is read to its end all
            // the same.
            let _ = send.send(read);
            let _ = std::io::copy(&mut output, &mut std::io::sink());
        });
        let line = said
            .recv_timeout(START)
            .map_err(|e| format!("moto says no port: {e}"))?
            .map_err(text)?;
        let port = line
            .trim()
            .parse()
            .map_err(|_| format!("moto says no port, but \"{}\"", line.trim()))?;
        server.endpoint = format!("http://127.0.0.1:{port}");
        let answer = make_bucket(port, bucket).map_err(text)?;
        if !answer.contains(" 200 ") {
            return Err(format!("moto makes no bucket: {answer}"));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends with its input.
        drop(self.child.stdin.take());
        watch::wait(&mut self.child, "moto").map_or_else(|error| println!("{error}"), drop);
    }
}

/// Makes the bucket (moto asks for no signature), and returns the first line of the answer.
fn make_bucket(port: u16, bucket: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let head = format!(
        "PUT /{bucket} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
         Content-Length: 0\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned())
}
