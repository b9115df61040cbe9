//! What a workload was told: which rows must be there after a crash, which may be, and which must
//! not.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// How a requested change ended, as far as the client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Acknowledged: it stays.
    Done,
    /// Acknowledged without waiting: it is there as a whole or not at all, until a later change is
    /// [`Fate::Done`].
    Unwaited,
    /// The commit was sent and no answer came: it is there as a whole or not at all.
    Unknown,
}

/// How the data found contradicts what was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// Something acknowledged is missing.
    Lost(String),
    /// Something is there that nobody committed.
    Phantom(String),
}

impl std::fmt::Display for Contradiction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Contradiction::Lost(what) | Contradiction::Phantom(what)) = self;
        f.write_str(what)
    }
}

impl From<Contradiction> for String {
    fn from(wrong: Contradiction) -> String {
        wrong.to_string()
    }
}

use Contradiction::{Lost, Phantom};

/// One table.
#[derive(Clone, Debug)]
struct Table {
    made: Fate,
    /// Whether a drop was sent.
    dropped: Option<Fate>,
    /// Rows by transaction, each with its own range of ids.
    rows: Vec<(Range<i64>, Fate)>,
}

/// What is known of a database. Names of tables and ids of rows are never used twice.
#[derive(Clone, Debug, Default)]
pub struct Model {
    tables: BTreeMap<String, Table>,
    /// The number of facts recorded so far.
    noted: u64,
}

impl Model {
    /// A model with exactly these rows, all of them acknowledged.
    pub fn of(contents: &BTreeMap<String, Vec<i64>>) -> Model {
        let mut model = Model::default();
        for (name, ids) in contents {
            model.made(name, Fate::Done);
            ids.iter().for_each(|&id| model.inserted(name, id..id + 1, Fate::Done));
        }
        model
    }

    /// Records that a table was created.
    pub fn made(&mut self, name: &str, fate: Fate) {
        self.noted += 1;
        self.waited(fate);
        let before = self
            .tables
            .insert(name.to_owned(), Table { made: fate, dropped: None, rows: Vec::new() });
        assert!(before.is_none(), "table {name} is made once");
    }

    /// Records that a table was dropped.
    pub fn dropped(&mut self, name: &str, fate: Fate) {
        self.waited(fate);
        self.table(name).dropped = Some(fate);
    }

    /// Records that one transaction inserted rows.
    pub fn inserted(&mut self, name: &str, ids: Range<i64>, fate: Fate) {
        self.waited(fate);
        self.table(name).rows.push((ids, fate));
    }

    /// A commit that waited makes everything acknowledged before it durable.
    fn waited(&mut self, fate: Fate) {
        if fate == Fate::Done {
            let rows = self.tables.values_mut().flat_map(|table| &mut table.rows);
            rows.filter(|(_, fate)| *fate == Fate::Unwaited)
                .for_each(|(_, fate)| *fate = Fate::Done);
        }
    }

    /// The number of facts recorded: two runs of one seed know the same at the same number.
    pub fn noted(&self) -> u64 {
        self.noted
    }

    fn table(&mut self, name: &str) -> &mut Table {
        self.noted += 1;
        self.tables.get_mut(name).expect("a table of the workload")
    }

    /// The names of the tables that must be there.
    pub fn present(&self) -> Vec<String> {
        let there = |t: &Table| t.made == Fate::Done && t.dropped.is_none();
        self.tables.iter().filter(|(_, t)| there(t)).map(|(name, _)| name.clone()).collect()
    }

    /// Compares with the data found: the ids in each table that exists. Unknown fates are settled
    /// by it.
    ///
    /// # Errors
    /// The first thing that contradicts what was acknowledged.
    pub fn settle(&mut self, found: &BTreeMap<String, Vec<i64>>) -> Result<(), Contradiction> {
        if let Some(name) = found.keys().find(|name| !self.tables.contains_key(*name)) {
            return Err(Phantom(format!("a table that was never made: {name}")));
        }
        let mut gone = Vec::new();
        for (name, table) in &mut self.tables {
            match found.get(name) {
                Some(ids) => table.compare(ids).map_err(|wrong| match wrong {
                    Lost(what) => Lost(format!("table {name}: {what}")),
                    Phantom(what) => Phantom(format!("table {name}: {what}")),
                })?,
                None if table.made == Fate::Unknown || table.dropped.is_some() => {
                    gone.push(name.clone())
                }
                None => return Err(Lost(format!("table {name} is lost"))),
            }
        }
        gone.iter().for_each(|name| drop(self.tables.remove(name)));
        Ok(())
    }
}

impl Table {
    /// Settles a table that was found with these rows.
    fn compare(&mut self, found: &[i64]) -> Result<(), Contradiction> {
        if self.dropped == Some(Fate::Done) {
            return Err(Lost("is back, though it was dropped".to_owned()));
        }
        let mut left: BTreeSet<i64> = found.iter().copied().collect();
        if left.len() != found.len() {
            return Err(Phantom("a row is there twice".to_owned()));
        }
        self.dropped = None;
        self.made = Fate::Done;
        let mut kept = Vec::new();
        for (ids, fate) in self.rows.drain(..) {
            let there = ids.clone().filter(|id| left.remove(id)).count();
            let all = ids.clone().count();
            match fate {
                Fate::Done if there < all => {
                    return Err(Lost(format!(
                        "{} of the acknowledged rows {ids:?} are lost",
                        all - there
                    )));
                }
                Fate::Unknown | Fate::Unwaited if there > 0 && there < all => {
                    return Err(Lost(format!(
                        "{there} of the rows {ids:?} of one transaction are there"
                    )));
                }
                Fate::Unknown | Fate::Unwaited if there == 0 => {}
                _ => kept.push((ids, Fate::Done)),
            }
        }
        self.rows = kept;
        match left.first() {
            Some(id) => {
                Err(Phantom(format!("{} rows that nobody committed, such as {id}", left.len())))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ids: impl Iterator<Item = i64>) -> BTreeMap<String, Vec<i64>> {
        BTreeMap::from([("t".to_owned(), ids.collect())])
    }

    fn model() -> Model {
        let mut model = Model::default();
        model.made("t", Fate::Done);
        model.inserted("t", 0..10, Fate::Done);
        model.inserted("t", 10..20, Fate::Unknown);
        model
    }

    #[test]
    fn the_acknowledged_must_be_there_and_nothing_else() {
        assert_eq!(model().settle(&found(0..10)), Ok(()));
        assert_eq!(model().settle(&found(0..20)), Ok(()));
        for wrong in [
            found(1..10),
            found(0..9),
            found(0..15),
            found(0..21),
            found((0..10).chain([0])),
            BTreeMap::new(),
        ] {
            assert!(model().settle(&wrong).is_err(), "{wrong:?}");
        }
        let stranger =
            BTreeMap::from([("t".to_owned(), (0..10).collect()), ("u".to_owned(), vec![])]);
        assert!(model().settle(&stranger).is_err());
    }

    #[test]
    fn what_was_not_waited_for_stays_once_a_later_one_was() {
        let mut model = Model::default();
        model.made("t", Fate::Done);
        model.inserted("t", 0..10, Fate::Unwaited);
        assert_eq!(model.clone().settle(&found(0..0)), Ok(()));
        assert_eq!(model.clone().settle(&found(0..10)), Ok(()));
        assert!(model.clone().settle(&found(0..5)).is_err());
        model.inserted("t", 10..20, Fate::Done);
        assert!(model.clone().settle(&found(10..20)).is_err());
        assert_eq!(model.settle(&found(0..20)), Ok(()));
    }

    #[test]
    fn what_was_seen_once_stays() {
        let mut seen = model();
        seen.settle(&found(0..20)).expect("right");
        assert!(seen.settle(&found(0..10)).is_err());
        let mut unseen = model();
        unseen.settle(&found(0..10)).expect("right");
        assert!(unseen.settle(&found(0..20)).is_err());
    }

    #[test]
    fn tables_come_and_go_once() {
        let mut model = model();
        model.dropped("t", Fate::Unknown);
        assert!(model.clone().settle(&BTreeMap::new()).is_ok());
        assert!(model.clone().settle(&found(0..10)).is_ok());
        model.dropped("t", Fate::Done);
        assert!(model.clone().settle(&found(0..10)).is_err());
        assert!(model.present().is_empty());
    }
}
