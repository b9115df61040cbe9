//! The rows that each client expects. A row is changed by its owner alone, but for the hot ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use forebay_server::client::{Client, ClientError};
use forebay_testkit::Dice;

/// Clients that change rows.
pub const CLIENTS: usize = 6;
/// Rows that everyone changes.
pub const HOT: usize = 4;
/// A table of the model: fixed columns, and as many others as make rows of its size.
pub struct Table {
    pub name: &'static str,
    /// Columns of type int8, and then of type float8.
    filler: [usize; 2],
    /// Whether the last column is a text.
    pub has_text: bool,
    /// Above so many rows of its own, a client deletes more than it inserts.
    pub most: usize,
    options: &'static str,
}

/// Rows of 24, 120 and 750 bytes, without their headers, and rows with texts of up to 12,000 bytes,
/// which have a TOAST table.
pub const TABLES: [Table; 4] = [
    Table { name: "narrow", ..NARROW },
    Table { name: "middle", filler: [8, 4], options: "WITH (fillfactor = 70)", ..NARROW },
    Table { name: "wide", filler: [30, 60], ..NARROW },
    Table { name: "long", has_text: true, most: 40, ..NARROW },
];
const NARROW: Table = Table { name: "", filler: [0, 0], has_text: false, most: 200, options: "" };

/// Indexes of the tables, each by its first column. The load updates rows of `hot` in no indexed
/// column, and those of the others in all but the primary key.
pub const INDEXES: [Index; 10] = [
    Index { table: "narrow", column: "id", definition: "PRIMARY KEY (id)" },
    Index { table: "narrow", column: "n", definition: "(n)" },
    Index { table: "middle", column: "id", definition: "PRIMARY KEY (id)" },
    Index { table: "middle", column: "v", definition: "(v DESC NULLS LAST, owner)" },
    Index { table: "wide", column: "id", definition: "PRIMARY KEY (id)" },
    Index { table: "wide", column: "owner", definition: "(owner) INCLUDE (f0)" },
    Index { table: "long", column: "id", definition: "PRIMARY KEY (id)" },
    Index { table: "long", column: "n", definition: "(n, owner)" },
    Index { table: "hot", column: "id", definition: "PRIMARY KEY (id)" },
    Index { table: "marks", column: "owner", definition: "PRIMARY KEY (owner, mark)" },
];

/// An index of a table.
pub struct Index {
    pub table: &'static str,
    pub column: &'static str,
    definition: &'static str,
}

impl Index {
    fn create(&self) -> String {
        let Index { table, definition, .. } = self;
        match definition.starts_with("PRIMARY") {
            true => format!("ALTER TABLE {table} ADD {definition}"),
            false => format!("CREATE INDEX ON {table} {definition}"),
        }
    }
}

/// What changes in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    pub n: i32,
    /// In halves, which a float8 holds exactly.
    pub v: Option<i32>,
    /// From this number follows the text, where the table has one.
    pub text: u32,
}

/// The text of a number. Half of them are compressible.
pub fn text_of(number: u32) -> String {
    let mut dice = Dice::new(number.into());
    let most = if dice.chance(700) { 12_000 } else { 200 };
    let len = dice.below(most);
    let noise = dice.chance(500);
    let char = |at| b'a' + (if noise { dice.below(26) } else { at / 300 % 26 }) as u8;
    (0..len).map(char).map(char::from).collect()
}

impl Table {
    fn create(&self) -> String {
        let mut columns = "id int8, owner int4, n int4, v float8".to_owned();
        for (count, (letter, kind)) in self.filler.iter().zip([("i", "int8"), ("f", "float8")]) {
            (0..*count).for_each(|at| write!(columns, ", {letter}{at} {kind}").expect("text"));
        }
        if self.has_text {
            columns.push_str(", t text");
        }
        format!("CREATE TABLE {} ({columns}) {}", self.name, self.options)
    }

    /// A row's values, as the servers print them.
    pub fn values(&self, id: i64, owner: usize, row: Row) -> Vec<Option<String>> {
        let mut values = vec![
            Some(id.to_string()),
            Some(owner.to_string()),
            Some(row.n.to_string()),
            row.v.map(halves),
        ];
        let [whole, half] = self.filler;
        values.extend((0..whole).map(|at| Some((id * 1000 + at as i64).to_string())));
        values.extend((0..half).map(|at| Some(halves(id as i32 + at as i32))));
        values.extend(self.has_text.then(|| Some(text_of(row.text))));
        values
    }

    /// A statement that inserts these rows.
    pub fn insert(&self, owner: usize, rows: &[(i64, Row)]) -> String {
        let tuples: Vec<String> = rows
            .iter()
            .map(|(id, row)| {
                let values = self.values(*id, owner, *row);
                let mut words: Vec<String> =
                    values.into_iter().map(|v| v.unwrap_or_else(|| "NULL".to_owned())).collect();
                if let (true, Some(text)) = (self.has_text, words.last_mut()) {
                    *text = format!("'{text}'");
                }
                format!("({})", words.join(", "))
            })
            .collect();
        format!("INSERT INTO {} VALUES {}", self.name, tuples.join(", "))
    }
}

/// A number of halves.
pub fn halves(number: i32) -> String {
    (f64::from(number) / 2.0).to_string()
}

/// What a client has done to the tables.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Its rows in each table, by id.
    pub rows: [BTreeMap<i64, Row>; TABLES.len()],
    /// What it has added to the hot rows.
    pub hot: [i64; HOT],
    /// The mark of its last transaction.
    pub mark: i64,
}

/// What a client knows.
#[derive(Debug, Default)]
pub struct Owner {
    pub number: usize,
    /// After the last transaction of which the outcome is known.
    pub settled: State,
    /// After a transaction whose commit was not answered.
    pub in_doubt: Option<State>,
    next_id: i64,
}

impl Owner {
    /// A new row of this owner. No id is used twice.
    pub fn new_row(&mut self, dice: &mut Dice) -> (i64, Row) {
        self.next_id += 1;
        let id = self.next_id * CLIENTS as i64 + self.number as i64;
        let v = (!dice.chance(300)).then(|| dice.below(1000) as i32);
        (id, Row { n: dice.below(1000) as i32, v, text: dice.below(1 << 20) as u32 })
    }
}

/// All clients' knowledge.
pub struct Model {
    pub owners: Vec<Owner>,
    /// The tables that there are.
    pub tables: &'static [Table],
}

impl Model {
    /// With some rows of each owner in these tables, the first ones of all.
    pub fn new(dice: &mut Dice, tables: &'static [Table]) -> Model {
        let mut owners: Vec<Owner> =
            (0..CLIENTS).map(|number| Owner { number, ..Owner::default() }).collect();
        for owner in &mut owners {
            for (at, table) in tables.iter().enumerate() {
                let rows: Vec<_> = (0..table.most / 2).map(|_| owner.new_row(dice)).collect();
                owner.settled.rows[at].extend(rows);
            }
        }
        Model { owners, tables }
    }

    /// Statements that make the tables with their rows.
    pub fn creation(&self, indexed: bool) -> Vec<String> {
        let mut statements = vec![
            "CREATE TABLE hot (id int4, n int8)".to_owned(),
            format!("INSERT INTO hot SELECT g, 0 FROM generate_series(0, {}) g", HOT - 1),
            "CREATE TABLE marks (owner int4, mark int8)".to_owned(),
        ];
        for (at, table) in self.tables.iter().enumerate() {
            statements.push(table.create());
            for owner in &self.owners {
                let rows: Vec<_> = owner.settled.rows[at].iter().map(|(i, r)| (*i, *r)).collect();
                statements.push(table.insert(owner.number, &rows));
            }
        }
        statements.extend(INDEXES.iter().filter(|_| indexed).map(Index::create));
        statements
    }

    /// Compares what a server shows with what is known, and learns the outcome of transactions in
    /// doubt.
    ///
    /// # Errors
    /// The first differences.
    pub fn compare(&mut self, port: u16) -> Result<(), String> {
        let mut problems = Vec::new();
        let compared = Client::tcp(port).and_then(|mut client| {
            self.settle(&mut client, &mut problems)?;
            for at in 0..self.tables.len() {
                self.compare_table(&mut client, at, &mut problems)?;
            }
            self.compare_hot(&mut client, &mut problems)
        });
        if let Err(error) = compared {
            problems.push(format!("a query fails: {error}"));
        }
        problems.truncate(20);
        if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
    }

    /// Asks for the marks: a transaction in doubt is committed if its mark is there.
    fn settle(
        &mut self,
        client: &mut Client,
        problems: &mut Vec<String>,
    ) -> Result<(), ClientError> {
        let answer = client.query("SELECT owner, max(mark), count(*) FROM marks GROUP BY owner")?;
        let number = |text: &Option<String>| text.as_ref().and_then(|text| text.parse().ok());
        let mut marks = BTreeMap::new();
        for row in &answer.rows {
            let [owner, mark, count] = [0, 1, 2].map(|at| number(&row[at]).unwrap_or(-1_i64));
            marks.insert(owner, mark);
            if mark != count {
                problems.push(format!("owner {owner} has {count} marks up to {mark}"));
            }
        }
        for owner in &mut self.owners {
            let mark = marks.get(&(owner.number as i64)).copied().unwrap_or(0);
            match owner.in_doubt.take() {
                Some(state) if state.mark == mark => owner.settled = state,
                _ if owner.settled.mark == mark => {}
                _ => problems.push(format!(
                    "owner {}: mark {mark} where {} is expected",
                    owner.number, owner.settled.mark
                )),
            }
        }
        Ok(())
    }

    fn compare_table(
        &self,
        client: &mut Client,
        at: usize,
        problems: &mut Vec<String>,
    ) -> Result<(), ClientError> {
        let table = &self.tables[at];
        let mut expected: BTreeMap<i64, (usize, Row)> = BTreeMap::new();
        for owner in &self.owners {
            expected.extend(owner.settled.rows[at].iter().map(|(id, r)| (*id, (owner.number, *r))));
        }
        let answer = client.query(&format!("SELECT * FROM {}", table.name))?;
        for found in &answer.rows {
            let id = found[0].as_ref().and_then(|id| id.parse().ok()).unwrap_or(-1);
            match expected.remove(&id) {
                None => problems.push(format!("{}: {found:?} twice, or unexpected", table.name)),
                Some((owner, row)) => {
                    let row = table.values(id, owner, row);
                    if *found != row {
                        problems.push(format!("{}: {found:?}, not {row:?}", table.name));
                    }
                }
            }
        }
        for (id, (owner, row)) in expected {
            problems.push(format!("{}: row {id} of {owner} is lost: {row:?}", table.name));
        }
        Ok(())
    }

    fn compare_hot(
        &self,
        client: &mut Client,
        problems: &mut Vec<String>,
    ) -> Result<(), ClientError> {
        let sum = |at: usize| self.owners.iter().map(|owner| owner.settled.hot[at]).sum::<i64>();
        let expected: Vec<Vec<Option<String>>> =
            (0..HOT).map(|at| vec![Some(at.to_string()), Some(sum(at).to_string())]).collect();
        let found = client.query("SELECT id, n FROM hot ORDER BY id")?.rows;
        if found != expected {
            problems.push(format!("hot: {found:?}, not {expected:?}"));
        }
        Ok(())
    }
}
