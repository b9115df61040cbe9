//! A proxy in front of an object store that injects faults by rules: into the next requests of a
//! method whose path contains a text, or ends with it if the text ends with "$".

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// What happens to a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The client gets this answer with these headers. The store does not get the request.
    Answer(u16, &'static str, &'static str),
    /// The connection is reset after this many bytes of its body.
    ResetUpload(usize),
    /// The store executes it. The connection is reset instead of an answer.
    LoseAnswer,
    /// The store executes it. The connection is closed instead of an answer.
    NoAnswer,
    /// It is never answered.
    Stall,
    /// The connection is closed after this many bytes of the answer's body.
    CutAnswer(usize),
    /// The connection is reset after this many bytes of the answer's body.
    ResetAnswer(usize),
    /// The answer stalls after this many bytes of its body.
    StallAnswer(usize),
    /// The answer's body is cut to this many bytes, and its header says so.
    Shorten(usize),
    /// The store gets it without its condition, and replaces the object.
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
    requests_changed: Condvar,
    /// moto checks the condition and stores the object in two steps, so changes must be serialized.
    changes: Mutex<()>,
}

/// Listens until this process ends.
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
            requests_changed: Condvar::new(),
            changes: Mutex::default(),
        });
        let proxy = Proxy { port, shared: Arc::clone(&shared) };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                // A client that disconnects does not affect the others.
                std::thread::spawn(move || drop(serve(&shared, stream)));
            }
        });
        proxy
    }

    /// Injects a fault into this many of the next requests.
    pub fn harm(&self, times: usize, method: &'static str, path: &str, fault: Fault) {
        self.shared.state.lock().unwrap().rules.push(Rule {
            method,
            path: path.to_owned(),
            times,
            fault,
        });
    }

    /// Ends all faults.
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
            state = self.shared.requests_changed.wait(state).unwrap();
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
    /// Records a request. Returns its fault.
    fn fault(&self, method: &str, path: &str) -> Option<Fault> {
        let mut state = self.state.lock().unwrap();
        state.seen.push(format!("{method} {path}"));
        self.requests_changed.notify_all();
        let matching =
            |rule: &&mut Rule| rule.times > 0 && rule.method == method && matches(path, &rule.path);
        let rule = state.rules.iter_mut().find(matching)?;
        rule.times -= 1;
        Some(rule.fault.clone())
    }
}

/// Handles the only request of a connection.
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
            "HTTP/1.1 {status} Answer\r\nConnection: close\r\nContent-Length: {length}\r\n\
             {headers}\r\n{text}"
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
            // The written bytes must arrive before the end of the connection.
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
    /// The head and the body of the store's answer.
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

/// Reads a head, and the part of the body that arrives with it.
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

/// Resets a connection.
fn reset(stream: TcpStream) -> io::Result<()> {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
    Ok(())
}

/// Waits until the client closes the connection.
fn wait_for_end(mut stream: TcpStream) -> io::Result<()> {
    while stream.read(&mut [0; 65536])? > 0 {}
    Ok(())
}
