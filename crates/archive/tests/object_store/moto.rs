//! moto's server, from PyPI.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// A running store, ended when dropped.
pub struct Moto {
    child: Child,
    pub port: u16,
}

/// Where it is installed, or why it can't be.
fn installed() -> Result<PathBuf, String> {
    static INSTALLED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    // Tests are threads, and each wants it.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    INSTALLED.get_or_init(install).clone()
}

fn install() -> Result<PathBuf, String> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("moto");
    let server = folder.join("bin/moto_server");
    if server.exists() {
        return Ok(server);
    }
    let run = |command: &mut Command| {
        let output = command.output().map_err(|e| e.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(said) }
    };
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    run(Command::new(folder.join("bin/pip")).args(["install", "-q", "moto[s3,server]"]))?;
    Ok(server)
}

impl Moto {
    /// Starts one; None, after saying so, where it can't be had.
    pub fn start(test: &str) -> Option<Moto> {
        let server = match installed() {
            Ok(server) => server,
            Err(why) => {
                println!("skipped: {test} needs moto, and it could not be installed: {why}");
                return None;
            }
        };
        let port = free_port();
        let mut command = Command::new(server);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let moto = Moto { child: child.expect("moto starts"), port };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "moto does not listen");
            std::thread::yield_now();
        }
        Some(moto)
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
    listener.local_addr().expect("it has an address").port()
}
