//! A proxy that passes requests on, one a connection, and at times does something else.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It is answered so, and not passed on.
    Answer(u16, &'static str),
    /// The connection is reset before the request was read whole.
    ResetInBody,
    /// It is passed on, and the answer is lost.
    LoseAnswer,
    /// It is passed on, and the answer is cut in the middle.
    CutAnswer,
    /// Nothing happens any more.
    Stall,
}

/// Faults to come: for the next request with this method whose path holds this text.
type Plan = VecDeque<(&'static str, String, Fault)>;

pub struct Proxy {
    pub port: u16,
    plan: Arc<Mutex<Plan>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    pub fn start(store: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
        let port = listener.local_addr().expect("it has an address").port();
        let plan: Arc<Mutex<Plan>> = Arc::default();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let proxy = Proxy { port, plan: Arc::clone(&plan), requests: Arc::clone(&requests) };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (plan, requests) = (Arc::clone(&plan), Arc::clone(&requests));
                // A connection that breaks is what this is about.
                std::thread::spawn(move || serve(stream, store, &plan, &requests).ok());
            }
        });
        proxy
    }

    /// The next request of that method whose path holds `path` meets this.
    pub fn plan(&self, method: &'static str, path: &str, fault: Fault) {
        self.plan.lock().unwrap().push_back((method, path.to_owned(), fault));
    }

    /// All planned faults have happened.
    pub fn is_through(&self) -> bool {
        self.plan.lock().unwrap().is_empty()
    }

    /// Requests so far of that method whose path holds this.
    pub fn count(&self, method: &str, path: &str) -> usize {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|line| line.starts_with(method) && line.contains(path)).count()
    }
}

fn serve(
    mut client: TcpStream,
    store: u16,
    plan: &Mutex<Plan>,
    requests: &Mutex<Vec<String>>,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        let mut piece = [0; 4096];
        match client.read(&mut piece)? {
            0 => return Ok(()),
            got => bytes.extend_from_slice(&piece[..got]),
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let line = text.lines().next().unwrap_or_default().to_owned();
    requests.lock().unwrap().push(line.clone());
    let fault = {
        let mut plan = plan.lock().unwrap();
        let at = plan
            .iter()
            .position(|(method, path, _)| line.starts_with(method) && line.contains(path.as_str()));
        at.and_then(|at| plan.remove(at)).map(|(_, _, fault)| fault)
    };
    if fault == Some(Fault::ResetInBody) {
        return client.shutdown(Shutdown::Both);
    }
    let length = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse::<usize>().ok())
        .unwrap_or(0);
    while bytes.len() < head + length {
        let mut piece = vec![0; 64 << 10];
        match client.read(&mut piece)? {
            0 => return Ok(()),
            got => bytes.extend_from_slice(&piece[..got]),
        }
    }
    match fault {
        Some(Fault::Answer(status, body)) => {
            let length = body.len();
            return write!(
                client,
                "HTTP/1.1 {status} Fault\r\nContent-Type: application/xml\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
        }
        Some(Fault::Stall) => {
            // Until the client gives up.
            let mut rest = [0; 1];
            client.read(&mut rest)?;
            return Ok(());
        }
        _ => {}
    }
    let answer = pass_on(store, &text, &bytes[head..])?;
    match fault {
        Some(Fault::LoseAnswer) => client.shutdown(Shutdown::Both),
        Some(Fault::CutAnswer) => client.write_all(&answer[..answer.len() * 2 / 3]),
        _ => client.write_all(&answer),
    }
}

/// The store's whole answer. It is told to close the connection afterwards, and the client is told so with it.
fn pass_on(store: u16, head: &str, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut upstream = TcpStream::connect(("127.0.0.1", store))?;
    let kept = head.trim_end().lines().filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    let head = kept.collect::<Vec<_>>().join("\r\n") + "\r\nConnection: close\r\n\r\n";
    upstream.write_all(head.as_bytes())?;
    upstream.write_all(body)?;
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer)?;
    Ok(answer)
}
