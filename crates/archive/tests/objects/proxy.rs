//! A proxy before an object store, that does harm by rules: to the next requests of a method whose
//! path contains a text, or ends with it if a "$" says so.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// What happens to a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It gets this answer, with these headers, and goes no further.
    Answer(u16, &'static str, &'static str),
    /// So many bytes of its body are taken; then the connection is reset.
    ResetUpload(usize),
    /// It is carried out, and the connection reset in place of an answer.
    LoseAnswer,
    /// It is carried out, and the connection ended in place of an answer.
    NoAnswer,
    /// Nothing happens.
    Stall,
    /// Of the answer's body come so many bytes; then the connection ends.
    CutAnswer(usize),
    /// The same, but the connection is reset.
    ResetAnswer(usize),
    /// Of the answer's body come so many bytes, and then nothing.
    StallAnswer(usize),
    /// The answer's body has so many bytes, and says so.
    Shorten(usize),
    /// It goes on without its condition: the store replaces what is there.
    Unconditional,
}

struct Rule {
    method: &'static str,
    path: String,
    times: usize,
    fault: Fault,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    /// Method and path of each request.
    seen: Vec<String>,
}

struct Shared {
    upstream: u16,
    state: Mutex<State>,
    bell: Condvar,
    /// moto looks whether there is an object, and then stores one: others get in between, unless
    /// changes go one by one.
    changes: Mutex<()>,
}

/// Listens until its process ends.
pub struct Proxy {
    pub port: u16,
    shared: Arc<Shared>,
}

pub const ALWAYS: usize = usize::MAX;

impl Proxy {
    pub fn new(upstream: u16) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("it has one").port();
        let shared = Arc::new(Shared {
            upstream,
            state: Mutex::default(),
            bell: Condvar::new(),
            changes: Mutex::default(),
        });
        let proxy = Proxy { port, shared: Arc::clone(&shared) };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                // A client that goes away is no concern of the others.
                std::thread::spawn(move || drop(serve(&shared, stream)));
            }
        });
        proxy
    }

    /// This happens to so many of the next requests.
    pub fn harm(&self, times: usize, method: &'static str, path: &str, fault: Fault) {
        self.shared.state.lock().unwrap().rules.push(Rule {
            method,
            path: path.to_owned(),
            times,
            fault,
        });
    }

    /// No harm is done any more.
    pub fn heal(&self) {
        self.shared.state.lock().unwrap().rules.clear();
    }

    /// How many requests there were.
    pub fn seen(&self, method: &str, path: &str) -> usize {
        let state = self.shared.state.lock().unwrap();
        state.seen.iter().filter(|seen| is(seen, method, path)).count()
    }

    /// Waits for a request.
    pub fn wait_for(&self, method: &str, path: &str) {
        let mut state = self.shared.state.lock().unwrap();
        while !state.seen.iter().any(|seen| is(seen, method, path)) {
            state = self.shared.bell.wait(state).unwrap();
        }
    }
}

fn is(request: &str, method: &str, path: &str) -> bool {
    request.split_once(' ').is_some_and(|(m, p)| m == method && matches(p, path))
}

fn matches(path: &str, wanted: &str) -> bool {
    wanted.strip_suffix('$').map_or_else(|| path.contains(wanted), |end| path.ends_with(end))
}

impl Shared {
    /// Notes a request; what is to happen to it.
    fn fault(&self, method: &str, path: &str) -> Option<Fault> {
        let mut state = self.state.lock().unwrap();
        state.seen.push(format!("{method} {path}"));
        self.bell.notify_all();
        let matching =
            |rule: &&mut Rule| rule.times > 0 && rule.method == method && matches(path, &rule.path);
        let rule = state.rules.iter_mut().find(matching)?;
        rule.times -= 1;
        Some(rule.fault.clone())
    }
}

/// One request of a connection, which is closed then.
fn serve(shared: &Shared, mut client: TcpStream) -> io::Result<()> {
    let (head, mut body) = read_head(&mut client)?;
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let fault = shared.fault(method, path);
    let length: usize =
        header(&head, "content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
    if let Some(Fault::ResetUpload(bytes)) = fault {
        while body.len() < bytes.min(length) && read_more(&mut client, &mut body)? {}
        return reset(client);
    }
    if matches!(fault, Some(Fault::Stall)) {
        return wait_for_end(client);
    }
    while body.len() < length && read_more(&mut client, &mut body)? {}
    if let Some(Fault::Answer(status, headers, text)) = fault {
        let length = text.len();
        let answer = format!(
            "HTTP/1.1 {status} Answer\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{text}"
        );
        return client.write_all(answer.as_bytes());
    }
    let condition = !matches!(fault, Some(Fault::Unconditional));
    let (head, answer) = shared.forward(&head, &body, condition)?;
    match fault {
        Some(Fault::LoseAnswer) => reset(client),
        Some(Fault::NoAnswer) => Ok(()),
        Some(Fault::CutAnswer(bytes)) => {
            client.write_all(head.as_bytes())?;
            client.write_all(&answer[..bytes.min(answer.len())])?;
            // What was written is to arrive before the end of it does.
            client.shutdown(Shutdown::Write)
        }
        Some(Fault::ResetAnswer(bytes)) => {
            client.write_all(head.as_bytes())?;
            client.write_all(&answer[..bytes.min(answer.len())])?;
            reset(client)
        }
        Some(Fault::StallAnswer(bytes)) => {
            client.write_all(head.as_bytes())?;
            client.write_all(&answer[..bytes.min(answer.len())])?;
            wait_for_end(client)
        }
        Some(Fault::Shorten(bytes)) => {
            let bytes = bytes.min(answer.len());
            let head = without(&head, "content-length").replacen(
                "\r\n",
                &format!("\r\nContent-Length: {bytes}\r\n"),
                1,
            );
            client.write_all(head.as_bytes())?;
            client.write_all(&answer[..bytes])
        }
        _ => {
            client.write_all(head.as_bytes())?;
            client.write_all(&answer)
        }
    }
}

impl Shared {
    /// The store's answer: head and body.
    fn forward(&self, head: &str, body: &[u8], condition: bool) -> io::Result<(String, Vec<u8>)> {
        let _one_by_one = (!head.starts_with("GET")).then(|| self.changes.lock().unwrap());
        let mut head = without(head, "connection").replacen("\r\n", "\r\nConnection: close\r\n", 1);
        if !condition {
            head = without(&head, "if-none-match");
        }
        let mut store = TcpStream::connect(("127.0.0.1", self.upstream))?;
        store.write_all(head.as_bytes())?;
        store.write_all(body)?;
        let (head, mut body) = read_head(&mut store)?;
        while read_more(&mut store, &mut body)? {}
        Ok((without(&head, "connection").replacen("\r\n", "\r\nConnection: close\r\n", 1), body))
    }
}

/// A head, and what came of the body along with it.
fn read_head(stream: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            let body = bytes.split_off(end + 4);
            return Ok((String::from_utf8_lossy(&bytes).into_owned(), body));
        }
        if !read_more(stream, &mut bytes)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<bool> {
    let mut piece = [0; 65536];
    let got = stream.read(&mut piece)?;
    bytes.extend_from_slice(&piece[..got]);
    Ok(got > 0)
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.split("\r\n").filter_map(|line| line.split_once(':'));
    lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

fn without(head: &str, name: &str) -> String {
    let keep = |line: &&str| {
        !line.split_once(':').is_some_and(|(found, _)| found.eq_ignore_ascii_case(name))
    };
    head.split("\r\n").filter(keep).collect::<Vec<_>>().join("\r\n")
}

/// Ends a connection with a reset.
fn reset(stream: TcpStream) -> io::Result<()> {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
    Ok(())
}

/// Waits until the client has had enough.
fn wait_for_end(mut stream: TcpStream) -> io::Result<()> {
    while stream.read(&mut [0; 65536])? > 0 {}
    Ok(())
}
