//! Ports for the servers of tests.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// A TCP port on which nobody listens. No two calls return the same one, and it is below the ports
/// that the system assigns (from 32768 on), so that no other program gets it meanwhile.
pub fn free_port() -> u16 {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    static ASKED: AtomicU32 = AtomicU32::new(0);
    // Processes that run side by side begin at different ports.
    let begin = std::process::id().wrapping_mul(101);
    for _ in 0..COUNT {
        let port = FIRST + begin.wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed)) % COUNT;
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port as u16)) {
            return listener.local_addr().expect("a bound listener has an address").port();
        }
    }
    panic!("no port is free");
}
