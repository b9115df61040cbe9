//! A directory of `forebay init` in PostgreSQL's first turn: what initdb does by scripts, and the
//! database of the regression tests.

use std::fs;

use forebay_testkit::peer::{Peer, Postgres};

use super::super::clusters::{run_script, run_scripts};
use super::super::forebay::{forebay, scratch};

/// The data directory.
pub const DATA: &str = "data";

/// What initdb does after its scripts: everybody may read what no script has kept secret, and
/// PL/pgSQL is there.
const FINISH: &str = "\
update pg_class
    set relacl = array[makeaclitem(0, relowner, 'SELECT', false)] || acldefault('r', relowner)
    where relkind in ('r', 'v') and relacl is null and relnamespace = 'pg_catalog'::regnamespace;

create extension plpgsql;

";
/// The last that initdb does: plans depend on the statistics, and nobody asks for the state of
/// transactions before the first one of users.
const FREEZE: &str = "analyze;\n\nvacuum freeze;\n\n";

/// Settings of the database, as PostgreSQL's driver makes them.
const SETTINGS: [&str; 6] = [
    "lc_messages to 'C'",
    "lc_monetary to 'C'",
    "lc_numeric to 'C'",
    "lc_time to 'C'",
    "bytea_output to 'hex'",
    "timezone_abbreviations to 'Default'",
];

/// Makes the directory.
pub fn prepare(peer: &Peer) {
    let folder = scratch("regress");
    let made = folder.path().join("made");
    forebay(&["init", "-D", made.to_str().expect("UTF-8"), "--no-sync"]);
    peer.adopt(&made, DATA);
    run_scripts(peer, DATA);
    for (name, text) in [("finish.sql", FINISH), ("freeze.sql", FREEZE)] {
        fs::write(peer.outside(name), text).expect("the script is written");
    }
    for database in ["template1", "postgres"] {
        run_script(peer, DATA, database, "/usr/share/postgresql/18/snowball_create.sql");
        run_script(peer, DATA, database, &peer.inside("finish.sql"));
    }
    for database in ["template0", "template1", "postgres"] {
        run_script(peer, DATA, database, &peer.inside("freeze.sql"));
    }
    let server = start(peer);
    server.query("create database regression template template1");
    for setting in SETTINGS {
        server.query(&format!("alter database regression set {setting}"));
    }
}

/// Starts PostgreSQL with the settings that the regression tests expect.
pub fn start(peer: &Peer) -> Postgres<'_> {
    peer.start(DATA, "-c fsync=off -c max_prepared_transactions=2")
}
