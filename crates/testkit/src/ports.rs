//! Ports for the servers of tests.

use std::fs::{self, File};
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// A TCP port on which nobody listens. No two calls return the same one, in whatever test programs
/// of a user. It is below the ports that the system assigns (from 32768 on), so that no other
/// program gets it meanwhile.
pub fn free_port() -> u16 {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    static ASKED: AtomicU32 = AtomicU32::new(0);
    // Between this call and the server's start another test program must not find the port free.
    static TAKEN: Mutex<Vec<File>> = Mutex::new(Vec::new());
    // Processes that run side by side begin at different ports.
    let begin = std::process::id().wrapping_mul(101);
    let user = rustix::process::getuid().as_raw();
    let folder = std::env::temp_dir().join(format!("forebay-ports-{user}"));
    fs::create_dir_all(&folder).expect("a folder for the locks of ports");
    for _ in 0..COUNT {
        let port = FIRST + begin.wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let lock = File::create(folder.join(port.to_string())).expect("the lock of a port");
        if lock.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", port as u16)).is_ok() {
            TAKEN.lock().expect("nobody panics with it").push(lock);
            return port as u16;
        }
    }
    panic!("no port is free");
}
