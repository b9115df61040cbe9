//! moto, an S3 server, and direct requests to it.
//!
//! `cargo xtask test` installs it into target/tools/moto. It checks no signatures and no checksums.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// It ends with its standard input, when this process ends.
struct Moto {
    port: u16,
    _child: Child,
}

static MOTO: OnceLock<Option<Moto>> = OnceLock::new();
static BUCKETS: AtomicU32 = AtomicU32::new(0);

/// Its port; None if it is not installed.
pub fn port() -> Option<u16> {
    MOTO.get_or_init(start).as_ref().map(|moto| moto.port)
}

fn start() -> Option<Moto> {
    let given = std::env::var_os("FOREBAY_MOTO").map(Into::into);
    let python = given
        .unwrap_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("../tools/moto/bin/python"));
    if !python.exists() {
        return None;
    }
    let mut moto = Command::new(python);
    moto.arg("-c").arg(include_str!("moto.py")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = moto.spawn().expect("moto starts");
    let mut line = String::new();
    let output = child.stdout.take().expect("it is piped");
    BufReader::new(output).read_line(&mut line).expect("it says something");
    let port = line.trim().parse().unwrap_or_else(|_| panic!("moto says no port, but \"{line}\""));
    Some(Moto { port, _child: child })
}

/// Creates a bucket. Returns its name.
pub fn make_bucket(port: u16) -> String {
    let bucket =
        format!("bucket-{}-{}", std::process::id(), BUCKETS.fetch_add(1, Ordering::Relaxed));
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
