//! The statements of a random session.

use forebay_testkit::Dice;

/// A message to the server.
#[derive(Debug)]
pub enum Message {
    Query(String),
    /// Of the unnamed statement.
    Parse(String),
    /// The unnamed statement to a portal.
    Bind(&'static str),
    Describe(&'static str),
    /// A portal, for so many rows.
    Execute(&'static str, u32),
    Close(&'static str),
    Sync,
}

/// A random session.
pub struct Script {
    dice: Dice,
    /// Savepoints of the transaction that may be open.
    savepoints: Vec<String>,
}

const DIRECTIONS: &[&str] = &[
    "next",
    "prior",
    "first",
    "last",
    "absolute 0",
    "absolute 2",
    "absolute 5",
    "absolute -1",
    "absolute -3",
    "relative 0",
    "relative 2",
    "relative -1",
    "relative -2",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "-2",
    "all",
    "forward",
    "forward 2",
    "forward -1",
    "forward all",
    "backward",
    "backward 2",
    "backward -2",
    "backward all",
];
const QUERIES: &[&str] = &[
    "select * from r",
    "table r",
    "select id, n from r where n = 2",
    "select id from r order by n, id",
    "select id, s from r order by id desc limit 4",
    "select id from r offset 2",
    "select count(*), sum(n) from r",
    "select n, count(*) from r group by n order by n",
    "select id from r for update",
    "select id, n from r where id > 3 for share",
    "select 12 / n from r",
    "select 12 / (id - 3) from r",
    "select id, 6 / n from r order by id",
    "select x from generate_series(1, 7) x",
    "values (1), (2), (3)",
    "select 1",
];
const WHERE: &[&str] = &[
    "",
    "where id = 2",
    "where id = 7",
    "where n = 1",
    "where id % 3 = 1",
    "where id < 5",
    "where current of c1",
    "where current of c2",
    "where current of p1",
    "where 10 / (id - 4) > 0",
];
const RETURNING: &[&str] = &["", "", "returning id", "returning *", "returning 6 / n"];
const UPDATES: &[&str] = &["n = n + 1", "s = 'updated'", "n = 3", "id = id + 100", "n = 6 / n"];
const INSERTS: &[&str] = &[
    "insert into r values (20, 1, 'new')",
    "insert into r (id) values (50), (51)",
    "insert into r select id + 30, n, 'copy' from r where id < 4",
    "insert into r (n, s, id) select '7', 'unknown', '60'",
];
const OTHERS: &[&str] = &[
    "select nosuch from r",
    "select * from nosuch",
    "selec",
    "select 1 / (n - n) from r",
    "insert into r values ('x')",
    "select id, n, s from r order by id, n, s",
    "select id, n from r",
    "select count(*) from r",
    "select name, statement, is_holdable, is_scrollable from pg_cursors order by name, statement",
    "show transaction_isolation",
    "show transaction_read_only",
    "show work_mem",
    "set local work_mem = '128kB'",
    "set work_mem = '256kB'",
    "set transaction read only",
    "set transaction isolation level repeatable read",
    "reset work_mem",
    "truncate r",
    "lock r",
    "close all",
    "close c1",
    "close c2",
    "discard temp",
    "create temp table t (a int) on commit drop",
    "create temp table t (a int) on commit delete rows",
    "insert into t values (1), (2)",
    "select * from t",
    "declare c2 cursor for select * from t",
    "drop table t",
    "drop table r",
];
const BEGIN: &[&str] =
    &["begin", "begin", "begin", "begin isolation level repeatable read", "begin read only"];
const END: &[&str] =
    &["commit", "commit", "rollback", "end", "commit and chain", "rollback and chain"];
const CURSORS: &[&str] = &["c1", "c1", "c2", "c2", "p1"];
const PORTALS: [&str; 3] = ["p1", "p2", "c1"];

impl Script {
    pub fn new(seed: u64) -> Script {
        Script { dice: Dice::new(seed), savepoints: Vec::new() }
    }

    /// Makes the table anew.
    pub fn set_up(&mut self) -> Vec<Message> {
        let rows = self.dice.below(13);
        vec![Message::Query(format!(
            "create table r (id int, n int, s text); \
             insert into r select x, x % 4, 'row ' || x from generate_series(1, {rows}) x"
        ))]
    }

    /// Leaves nothing behind.
    pub fn clean_up() -> Vec<Message> {
        let words = ["rollback", "close all", "discard temp", "drop table if exists r"];
        words.map(|sql| Message::Query(sql.to_owned())).into()
    }

    /// The next messages, in a transaction of this status.
    pub fn next(&mut self, status: char) -> Vec<Message> {
        if status == 'I' {
            self.savepoints.clear();
        }
        let sql = self.statement(status);
        if let Some(name) = sql.strip_prefix("savepoint ") {
            self.savepoints.push(name.to_owned());
        }
        if !self.dice.chance(220) {
            return vec![Message::Query(sql)];
        }
        let portal = PORTALS[self.dice.index(PORTALS.len())];
        let rows = self.dice.below(4) as u32;
        let mut messages = match self.dice.below(10) {
            // PostgreSQL warns of portals that were made in a failed transaction.
            0..6 if status == 'E' => return vec![Message::Query(sql)],
            0..4 => vec![Message::Parse(sql), Message::Bind(portal), Message::Describe(portal)],
            4 | 5 => vec![Message::Parse(sql), Message::Bind(portal)],
            6 | 7 => Vec::new(),
            8 => vec![Message::Describe(portal)],
            _ => vec![Message::Close(portal)],
        };
        if matches!(messages.last(), None | Some(Message::Describe(_))) {
            messages.push(Message::Execute(portal, rows));
        }
        messages.push(Message::Sync);
        messages
    }

    fn statement(&mut self, status: char) -> String {
        match (status, self.dice.below(10)) {
            ('E', 0..6) if !self.savepoints.is_empty() => return self.at_savepoint("rollback to"),
            ('E', 0..8) => return "rollback".to_owned(),
            ('I', 0..6) => return self.dice.pick(BEGIN).to_owned(),
            _ => {}
        }
        let dice = &mut self.dice;
        match dice.below(100) {
            0..3 => dice.pick(BEGIN).to_owned(),
            3..8 => dice.pick(END).to_owned(),
            8..16 => format!("savepoint {}", dice.pick(&["a", "b"])),
            16..20 => self.at_savepoint("release"),
            20..28 => self.at_savepoint("rollback to"),
            28..42 => {
                let scroll = dice.pick(&["", "", "scroll", "scroll", "no scroll"]);
                let hold = dice.pick(&["", "", "", "with hold", "without hold"]);
                let (name, query) = (dice.pick(&["c1", "c2"]), dice.pick(QUERIES));
                format!("declare {name} {scroll} cursor {hold} for {query}")
            }
            42..62 => {
                let command = dice.pick(&["fetch", "fetch", "fetch", "move"]);
                format!("{command} {} from {}", dice.pick(DIRECTIONS), dice.pick(CURSORS))
            }
            62..69 => format!("{} {}", dice.pick(INSERTS), dice.pick(RETURNING)),
            69..77 => {
                let (set, condition) = (dice.pick(UPDATES), dice.pick(WHERE));
                format!("update r set {set} {condition} {}", dice.pick(RETURNING))
            }
            77..82 => format!("delete from r {} {}", dice.pick(WHERE), dice.pick(RETURNING)),
            82..97 => dice.pick(OTHERS).to_owned(),
            _ => format!("{}; {}", self.statement('T'), self.statement('T')),
        }
    }

    /// A statement about a savepoint, which may be one that is open.
    fn at_savepoint(&mut self, what: &str) -> String {
        let open = self.savepoints.len().min(3);
        match open > 0 && self.dice.chance(850) {
            true => {
                let back = self.dice.index(open) + 1;
                format!("{what} {}", self.savepoints[self.savepoints.len() - back])
            }
            false => format!("{what} {}", self.dice.pick(&["a", "b"])),
        }
    }
}
