//! Listening: TCP on loopback, and Unix sockets with PostgreSQL's lock file beside them.

use crate::log::reason;
use crate::wire::stream::Stream;
use forebay_aio::sync::{SystemTime, UNIX_EPOCH};
use rustix::process::{Pid, getppid, test_kill_process};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Why the server can't start: lines for the log, each with its kind.
#[derive(Debug)]
pub struct StartError {
    /// Kind and text.
    pub lines: Vec<(&'static str, String)>,
}

impl From<String> for StartError {
    fn from(message: String) -> StartError {
        StartError { lines: vec![("FATAL", message)] }
    }
}

impl StartError {
    fn new(message: String, hint: &str) -> StartError {
        StartError { lines: vec![("FATAL", message), ("HINT", hint.to_owned())] }
    }
}

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// Unix; its file and its lock file are removed with it.
    Unix(UnixListener, SocketFile),
}

impl Listener {
    /// Accepts a waiting connection; fails if there is none any more.
    pub fn accept(&self) -> io::Result<Stream> {
        Ok(match self {
            Listener::Tcp(l) => Stream::Tcp(l.accept()?.0),
            Listener::Unix(l, _) => Stream::Unix(l.accept()?.0),
        })
    }

    /// For poll.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(l) => l.as_fd(),
            Listener::Unix(l, _) => l.as_fd(),
        }
    }

    /// As PostgreSQL's log describes it.
    pub fn describe(&self) -> String {
        match self {
            Listener::Tcp(l) => match l.local_addr() {
                Ok(SocketAddr::V4(a)) => format!("IPv4 address \"{}\", port {}", a.ip(), a.port()),
                Ok(SocketAddr::V6(a)) => format!("IPv6 address \"{}\", port {}", a.ip(), a.port()),
                Err(_) => "an address".to_owned(),
            },
            Listener::Unix(_, file) => format!("Unix socket \"{}\"", file.socket.display()),
        }
    }
}

/// Binds the addresses of `listen_addresses`. Only loopback ones are accepted: there is no
/// authentication.
pub fn tcp(addresses: &str, port: u16) -> Result<Vec<Listener>, StartError> {
    let mut listeners = Vec::new();
    for address in addresses.split(',').map(str::trim).filter(|a| !a.is_empty()) {
        let (ips, optional): (Vec<IpAddr>, bool) = match address {
            "localhost" => (vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()], true),
            other => match other.parse::<IpAddr>() {
                Ok(ip) if ip.is_loopback() => (vec![ip], false),
                _ => {
                    return Err(StartError::new(
                        format!("cannot listen on \"{other}\""),
                        "Connections are trusted, so only loopback addresses are accepted in \
                         listen_addresses.",
                    ));
                }
            },
        };
        for ip in ips {
            match TcpListener::bind((ip, port)).and_then(|l| l.set_nonblocking(true).map(|()| l)) {
                Ok(l) => listeners.push(Listener::Tcp(l)),
                // A host may be without IPv6.
                Err(e) if optional && ip.is_ipv6() && e.kind() != io::ErrorKind::AddrInUse => {}
                Err(e) => return Err(bind_error(ip, port, &e)),
            }
        }
    }
    Ok(listeners)
}

fn bind_error(ip: IpAddr, port: u16, e: &io::Error) -> StartError {
    let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
    let mut lines =
        vec![("LOG", format!("could not bind {family} address \"{ip}\": {}", reason(e)))];
    if e.kind() == io::ErrorKind::AddrInUse {
        let hint = format!(
            "Is another server already running on port {port}? Choose another with -p PORT."
        );
        lines.push(("HINT", hint));
    }
    lines.push(("FATAL", format!("could not listen on port {port}")));
    StartError { lines }
}

/// Makes the Unix sockets of `unix_socket_directories`.
pub fn unix(directories: &str, port: u16, data_dir: &Path) -> Result<Vec<Listener>, StartError> {
    directories
        .split(',')
        .map(str::trim)
        .filter(|d| !d.is_empty())
        .map(|directory| unix_in(Path::new(directory), port, data_dir))
        .collect()
}

fn unix_in(directory: &Path, port: u16, data_dir: &Path) -> Result<Listener, StartError> {
    let socket = directory.join(format!(".s.PGSQL.{port}"));
    if socket.as_os_str().len() > 107 {
        return Err(StartError::new(
            format!(
                "Unix-domain socket path \"{}\" is too long (maximum 107 bytes)",
                socket.display()
            ),
            "Choose another directory with -c unix_socket_directories=DIR.",
        ));
    }
    let file = SocketFile::lock(socket, port, data_dir, directory)?;
    let failed = |e: io::Error| {
        let path = file.socket.display();
        StartError::from(format!("could not create Unix-domain socket \"{path}\": {}", reason(&e)))
    };
    // The lock file makes the name ours: a socket there is left over from a server that has ended.
    match fs::remove_file(&file.socket) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
        _ => {}
    }
    let listener = UnixListener::bind(&file.socket).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    fs::set_permissions(&file.socket, fs::Permissions::from_mode(0o777)).map_err(failed)?;
    Ok(Listener::Unix(listener, file))
}

/// A socket's path, which its lock file makes ours.
#[derive(Debug)]
pub struct SocketFile {
    socket: PathBuf,
    lock: PathBuf,
}

impl SocketFile {
    fn lock(
        socket: PathBuf,
        port: u16,
        data_dir: &Path,
        directory: &Path,
    ) -> Result<SocketFile, StartError> {
        let mut lock = socket.clone().into_os_string();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let text = format!(
            "{}\n{}\n{started}\n{port}\n{}\n",
            std::process::id(),
            data_dir.display(),
            directory.display()
        );
        // At most twice: the second time the stale file is gone.
        for _ in 0..2 {
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&lock) {
                Ok(mut file) => {
                    file.write_all(text.as_bytes()).map_err(|e| cannot(&lock, &e))?;
                    return Ok(SocketFile { socket, lock });
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    if let Some(pid) = living_owner(&lock) {
                        return Err(StartError::new(
                            format!("lock file \"{}\" already exists", lock.display()),
                            &format!(
                                "Is another server (PID {pid}) using socket file \"{}\"? \
                                 Choose another port with -p PORT.",
                                socket.display()
                            ),
                        ));
                    }
                    fs::remove_file(&lock).map_err(|e| cannot(&lock, &e))?;
                }
                Err(e) => return Err(cannot(&lock, &e)),
            }
        }
        Err(format!("could not create lock file \"{}\"", lock.display()).into())
    }
}

fn cannot(lock: &Path, e: &io::Error) -> StartError {
    format!("could not create lock file \"{}\": {}", lock.display(), reason(e)).into()
}

/// The process that holds a lock file, if it is alive and not this one, whose number it may have
/// had in an earlier life of a container.
fn living_owner(lock: &Path) -> Option<i32> {
    let text = fs::read_to_string(lock).ok()?;
    let pid: i32 = text.lines().next()?.trim().parse().ok()?;
    let own = i32::try_from(std::process::id()).ok()?;
    if pid == own || getppid().is_some_and(|p| p.as_raw_nonzero().get() == pid) {
        return None;
    }
    match test_kill_process(Pid::from_raw(pid)?) {
        Err(rustix::io::Errno::SRCH) => None,
        _ => Some(pid),
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A later server removes files that are left over.
        let _ = fs::remove_file(&self.socket);
        let _ = fs::remove_file(&self.lock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_a_living_one_respected() {
        let dir = tempfile::tempdir().expect("a directory");
        let lock = dir.path().join(".s.PGSQL.5999.lock");
        // The number of a process that has ended, which is hardly in use again by now.
        let mut child = std::process::Command::new("true").spawn().expect("runs");
        let gone = child.id();
        child.wait().expect("ends");
        fs::write(&lock, format!("{gone}\n")).expect("written");
        fs::write(dir.path().join(".s.PGSQL.5999"), "").expect("written");
        let found = unix(dir.path().to_str().expect("UTF-8"), 5999, Path::new("/data"))
            .expect("replaces it");
        assert_eq!(found.len(), 1);
        drop(found);
        assert!(!lock.exists() && !dir.path().join(".s.PGSQL.5999").exists());

        fs::write(&lock, "1\n").expect("written");
        let refused = unix(dir.path().to_str().expect("UTF-8"), 5999, Path::new("/data"))
            .expect_err("refused");
        assert!(refused.lines[0].1.ends_with("already exists"), "{refused:?}");
        assert!(refused.lines[1].1.contains("PID 1"), "{refused:?}");
    }

    #[test]
    fn only_loopback() {
        assert!(tcp("0.0.0.0", 1).is_err());
        assert!(tcp("*", 1).is_err());
        assert!(tcp("", 1).expect("nothing to do").is_empty());
    }
}
