//! pg_hba.conf: who may connect from where.
//!
//! - `tokens`:  the file's lines as fields
//! - `address`: addresses with masks
//!
//! There is no authentication yet, so only two methods can be honoured: trust and reject. A file is
//! refused, with the line, if another method may apply to a connection that this server accepts. It
//! is also refused if a record is not understood: included files, regular expressions, host names,
//! members of roles. As in PostgreSQL the first record that matches decides, and a connection that
//! matches none is rejected.

mod address;
mod tokens;

use address::Address;
use std::net::IpAddr;
use std::path::Path;
use tokens::{Line, Token};

/// Every method that PostgreSQL 18 knows.
const METHODS: [&str; 15] = [
    "trust",
    "reject",
    "md5",
    "password",
    "scram-sha-256",
    "gss",
    "sspi",
    "ident",
    "peer",
    "pam",
    "bsd",
    "ldap",
    "cert",
    "radius",
    "oauth",
];

const HINT: &str = "There is no authentication yet: only \"trust\" and \"reject\" can be honoured \
    for local and loopback connections. If everyone on this machine may connect as a superuser, \
    write so there, or into another file that is named with -c hba_file=FILE.";

/// What a record says of the connections that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Trust,
    Reject,
}

/// The connections that a record applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Peers {
    Local,
    Tcp(Address),
}

/// Names that a field of a record lists.
#[derive(Clone, Debug)]
enum Names {
    All,
    /// These; and if so marked, databases with the name of the role.
    Of(Vec<String>, bool),
}

#[derive(Clone, Debug)]
struct Record {
    peers: Peers,
    databases: Names,
    users: Names,
    method: Method,
}

/// The records that may match a connection.
#[derive(Clone, Debug, Default)]
pub struct Hba {
    records: Vec<Record>,
}

impl Hba {
    /// Reads a file. The error tells why it can't be honoured, with a HINT.
    pub fn read(path: &Path) -> Result<Hba, String> {
        let bytes = std::fs::read(path).map_err(|e| {
            let reason = crate::log::reason(&e);
            format!(
                "could not open file \"{}\": {reason}\nHINT:  It says who may connect. \
                 Name another one with -c hba_file=FILE.",
                path.display()
            )
        })?;
        Hba::parse(&String::from_utf8_lossy(&bytes)).map_err(|(number, what)| {
            format!(
                "{what} (line {number} of configuration file \"{}\")\nHINT:  {HINT}",
                path.display()
            )
        })
    }

    fn parse(text: &str) -> Result<Hba, (usize, String)> {
        let mut hba = Hba::default();
        for line in tokens::lines(text) {
            let record = record(&line).map_err(|what| (line.number, what))?;
            hba.records.extend(record);
        }
        Ok(hba)
    }

    /// Admits a connection from this address (None: through a Unix socket), or refuses it with a
    /// message.
    pub fn admit(&self, peer: Option<IpAddr>, user: &str, database: &str) -> Result<(), String> {
        let from = |record: &Record| match (&record.peers, peer) {
            (Peers::Local, None) => true,
            (Peers::Tcp(address), Some(ip)) => ip.is_loopback() && address.contains(ip),
            _ => false,
        };
        let matches = |record: &&Record| {
            from(record)
                && record.databases.have(database, Some(user))
                && record.users.have(user, None)
        };
        let what = match self.records.iter().find(matches).map(|record| record.method) {
            Some(Method::Trust) => return Ok(()),
            Some(Method::Reject) => "pg_hba.conf rejects connection",
            None => "no pg_hba.conf entry",
        };
        let host = peer.map_or_else(|| "[local]".to_owned(), |ip| ip.to_string());
        Err(format!(
            "{what} for host \"{host}\", user \"{user}\", database \"{database}\", no encryption"
        ))
    }
}

/// A line's record; None if it matches no connection that this server takes.
fn record(line: &Line) -> Result<Option<Record>, String> {
    let mut fields = line.fields.iter();
    let kind = single(fields.next(), "connection type")?;
    if kind.text.starts_with("include") {
        return Err(format!("\"{}\" is not supported", kind.text));
    }
    let local = match kind.text.as_str() {
        "local" => true,
        "host" | "hostnossl" | "hostnogssenc" => false,
        // Connections are never encrypted.
        "hostssl" | "hostgssenc" => return Ok(None),
        other => return Err(format!("invalid connection type \"{other}\"")),
    };
    let databases = fields.next().ok_or("end-of-line before database specification")?;
    let users = fields.next().ok_or("end-of-line before role specification")?;
    let (databases, users) = (names(databases, true)?, names(users, false)?);
    // There is no replication.
    let here = !matches!(&databases, Names::Of(names, false) if names.is_empty());
    let peers = if local { Peers::Local } else { Peers::Tcp(address(&mut fields)?) };
    let method = single(fields.next(), "authentication method")?;
    let applies = here && !matches!(&peers, Peers::Tcp(address) if !address.has_loopback());
    if !METHODS.contains(&method.text.as_str()) {
        return Err(format!("invalid authentication method \"{}\"", method.text));
    }
    if !applies {
        return Ok(None);
    }
    let method = match method.text.as_str() {
        "trust" => Method::Trust,
        "reject" => Method::Reject,
        other => return Err(format!("authentication method \"{other}\" is not supported")),
    };
    match fields.next() {
        Some(option) => {
            let text = option.first().map_or("", |token| token.text.as_str());
            Err(format!("authentication option \"{text}\" is not supported"))
        }
        None => Ok(Some(Record { peers, databases, users, method })),
    }
}

/// A field that must be one token.
fn single<'a>(field: Option<&'a Vec<Token>>, what: &str) -> Result<&'a Token, String> {
    match field.map(Vec::as_slice) {
        Some([token]) => Ok(token),
        Some(_) => Err(format!("multiple values specified for {what}")),
        None => Err(format!("end-of-line before {what}")),
    }
}

fn unsupported(token: &Token) -> Result<(), String> {
    if !token.quoted && token.text.starts_with('@') && token.text.len() > 1 {
        return Err(format!("file \"{}\" in a record is not supported", token.text));
    }
    if token.text.starts_with('/') {
        return Err(format!("regular expression \"{}\" is not supported", token.text));
    }
    Ok(())
}

/// The names in a field for databases, or in one for users. Reads all of them, to refuse what is
/// not supported.
fn names(field: &[Token], databases: bool) -> Result<Names, String> {
    let (mut all, mut same, mut found) = (false, false, Vec::new());
    for token in field {
        unsupported(token)?;
        match token.text.as_str() {
            "all" if !token.quoted => all = true,
            "sameuser" if databases && !token.quoted => same = true,
            "samerole" | "samegroup" if databases && !token.quoted => {
                return Err(format!("\"{}\" in a record is not supported", token.text));
            }
            "replication" if databases && !token.quoted => {}
            name => match name.strip_prefix('+').filter(|_| !databases && !token.quoted) {
                Some(role) => return Err(format!("members of role \"{role}\" are not supported")),
                None => found.push(name.to_owned()),
            },
        }
    }
    Ok(if all { Names::All } else { Names::Of(found, same) })
}

impl Names {
    fn have(&self, name: &str, user: Option<&str>) -> bool {
        match self {
            Names::All => true,
            Names::Of(names, same) => {
                names.iter().any(|known| known == name) || *same && user == Some(name)
            }
        }
    }
}

fn address<'a>(fields: &mut impl Iterator<Item = &'a Vec<Token>>) -> Result<Address, String> {
    let token = single(fields.next(), "IP address")?;
    if !token.quoted && ["all", "samehost", "samenet"].contains(&token.text.as_str()) {
        return Ok(match token.text.as_str() {
            "all" => Address::All,
            "samehost" => Address::SameHost,
            _ => Address::SameNet,
        });
    }
    if token.text.contains('/') {
        return Address::with_prefix(&token.text)
            .ok_or_else(|| format!("invalid IP address \"{}\"", token.text));
    }
    let Ok(ip) = token.text.parse::<IpAddr>() else {
        return Err(format!("host name \"{}\" is not supported", token.text));
    };
    let mask = single(fields.next(), "netmask specification")?;
    Address::with_mask(ip, &mask.text).ok_or_else(|| format!("invalid IP mask \"{}\"", mask.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: [&str; 3] = ["127.0.0.1", "127.8.9.10", "::1"];

    /// For a Unix socket and the three addresses: trusted, rejected, or without an entry.
    fn decisions(text: &str) -> String {
        let hba =
            Hba::parse(text).unwrap_or_else(|(line, what)| panic!("{text}: {what} at {line}"));
        let peers = LOOPBACK.map(|ip| Some(ip.parse().expect("an address")));
        let decide = |peer| match hba.admit(peer, "postgres", "postgres") {
            Ok(()) => 't',
            Err(why) if why.starts_with("pg_hba.conf rejects") => 'r',
            Err(_) => '-',
        };
        [None].into_iter().chain(peers).map(decide).collect()
    }

    #[test]
    fn the_first_record_that_matches_decides() {
        for (text, expected) in [
            ("", "----"),
            (
                "local all all trust\nhost all all 127.0.0.1/32 trust\nhost all all ::1/128 trust",
                "tt-t",
            ),
            ("local all all trust", "t---"),
            ("host all all all trust", "-ttt"),
            ("host all all 127.8.0.0/16 reject\nhost all all 0.0.0.0/0 trust", "-tr-"),
            ("host all all 127.8.0.0 255.255.0.0 trust", "--t-"),
            ("host all all samehost trust", "-t-t"),
            ("host all all samenet trust", "-ttt"),
            ("local postgres postgres trust", "t---"),
            ("local sameuser,other \"postgres\" reject", "r---"),
            ("local \"all\" all trust", "----"),
            ("local replication all trust", "----"),
            ("local all joe reject\nlocal all all trust", "t---"),
            ("local all joe trust\nlocal shop postgres trust", "----"),
            ("hostssl all all all scram-sha-256 clientcert=verify-full", "----"),
            ("host all all 10.0.0.0/8 scram-sha-256\nhost all all fe80::/10 ldap a=b", "----"),
            ("local all, \\\n other postgres trust # why not", "t---"),
        ] {
            assert_eq!(decisions(text), expected, "{text}");
        }
    }

    #[test]
    fn what_can_not_be_honoured_is_refused_with_its_line() {
        for (text, line, what) in [
            (
                "local all all scram-sha-256",
                1,
                "authentication method \"scram-sha-256\" is not supported",
            ),
            ("# x\nlocal all all trust\nlocal all all peer", 3, "authentication method \"peer\""),
            ("host all all 0.0.0.0/0 md5", 1, "authentication method \"md5\""),
            ("host all all 127.0.0.0/30 password", 1, "authentication method \"password\""),
            ("host all all ::/0 cert", 1, "authentication method \"cert\""),
            ("host all all samenet ident", 1, "authentication method \"ident\""),
            ("local all all trust map=x", 1, "authentication option \"map=x\""),
            ("local all all truts", 1, "invalid authentication method \"truts\""),
            ("lokal all all trust", 1, "invalid connection type \"lokal\""),
            ("\n\ninclude other.conf", 3, "\"include\" is not supported"),
            ("include_dir hba.d", 1, "\"include_dir\" is not supported"),
            ("local @dbs all trust", 1, "file \"@dbs\""),
            ("local /^post all trust", 1, "regular expression \"/^post\""),
            ("local shop all md5", 1, "authentication method \"md5\""),
            ("local samerole all trust", 1, "\"samerole\" in a record"),
            ("local all +staff trust", 1, "members of role \"staff\""),
            ("host all all localhost trust", 1, "host name \"localhost\""),
            ("host all all 127.0.0.1 trust", 1, "invalid IP mask \"trust\""),
            ("host all all 127.0.0.1/33 trust", 1, "invalid IP address \"127.0.0.1/33\""),
            ("host all all 127.0.0.1", 1, "end-of-line before netmask"),
            ("local all all", 1, "end-of-line before authentication method"),
            (
                "local all all trust,reject",
                1,
                "multiple values specified for authentication method",
            ),
        ] {
            let (number, said) = Hba::parse(text).expect_err(text);
            assert!(number == line && said.starts_with(what), "{text}: {said} at {number}");
        }
    }

    #[test]
    fn other_addresses_than_loopback_have_no_entry() {
        let hba = Hba::parse("host all all all trust").expect("a record");
        let said = hba
            .admit(Some("192.0.2.1".parse().expect("an address")), "joe", "shop")
            .expect_err("refused");
        assert!(
            said.starts_with("no pg_hba.conf entry for host \"192.0.2.1\", user \"joe\""),
            "{said}"
        );
    }
}
