//! moto, an S3 server, and direct requests to it. It checks no signatures and no checksums.
//!
//! `cargo xtask moto` installs it into target/tools/moto.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::process::Child;

/// A running server, killed when dropped. It also ends with its standard input, when this process
/// ends.
pub struct Moto {
    _child: Child,
    /// The TCP port on loopback.
    pub port: u16,
}

impl Moto {
    /// Starts a server with the Python that has moto.
    ///
    /// # Errors
    /// What it has printed instead of its port.
    pub fn start(python: &Path) -> Result<Moto, String> {
        let mut moto = Command::new(python);
        // Given as text: a script named moto would hide the package.
        moto.arg("-c").arg(include_str!("moto.py")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = Child::spawn(&mut moto);
        let port = child.wait_until(|lines| lines.iter().find_map(|line| line.trim().parse().ok()));
        Ok(Moto { port: port?, _child: child })
    }
}

/// The port of the server that all tests of a program share; `None` after saying that `test` was
/// skipped.
pub fn shared(test: &str) -> Option<u16> {
    static SHARED: OnceLock<Option<Moto>> = OnceLock::new();
    let start = || {
        let tools = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/moto/bin/python");
        let python = std::env::var_os("FOREBAY_MOTO").map_or_else(|| tools.into(), PathBuf::from);
        python.exists().then(|| Moto::start(&python).unwrap_or_else(|said| panic!("moto: {said}")))
    };
    let moto = SHARED.get_or_init(start).as_ref();
    if moto.is_none() {
        println!("skipped: {test} needs moto, which cargo xtask test installs");
    }
    moto.map(|moto| moto.port)
}

/// Creates a bucket of a new name. Returns the name.
pub fn make_bucket(port: u16) -> String {
    static BUCKETS: AtomicU32 = AtomicU32::new(0);
    let number = BUCKETS.fetch_add(1, Ordering::Relaxed);
    let bucket = format!("bucket-{}-{number}", std::process::id());
    let (status, body) = request(port, "PUT", &format!("/{bucket}"), b"");
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    bucket
}

/// Makes a request. Returns the status and the body of the answer.
pub fn request(port: u16, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let length = body.len();
    let credential = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request";
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\
         Authorization: {credential}, SignedHeaders=host, Signature=none\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("it listens");
    stream.write_all(body).expect("it listens");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").expect("it has a head") + 4;
    let status = String::from_utf8_lossy(&answer[9..12]).parse().expect("it has a status");
    (status, answer.split_off(end))
}
