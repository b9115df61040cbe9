//! All clients of a life: what each does next, and what the model expects of it.

use std::collections::BTreeSet;

use forebay_aio::sync::{Arc, Duration};
use forebay_engine::{
    Engine, EngineError, Isolation, ItemPointer, LockMode, LockStrength, RowBatch, RowOutcome,
    RowWait,
};
use forebay_testkit::Dice;

use super::client::{Client, Open, Seen, Statement, TABLE, decoded, with_values};
use super::committed::Committed;

/// Sessions that change rows.
const CLIENTS: usize = 4;
/// Rows beyond which none are inserted: few rows meet more often.
const MOST_ROWS: usize = 30;
/// Deepest nesting of subtransactions.
const DEEPEST: usize = 3;

/// Why a step has ended early.
enum Stop {
    /// The engine contradicts the model.
    Wrong(String),
    /// A call failed.
    Failed(EngineError),
}

impl From<EngineError> for Stop {
    fn from(error: EngineError) -> Stop {
        Stop::Failed(error)
    }
}

/// What a client does to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Update,
    Delete,
    Lock(LockStrength),
}

impl Action {
    /// A random one. `deletes`: mostly a deletion.
    fn random(dice: &mut Dice, deletes: bool) -> Action {
        use LockStrength::{Exclusive, KeyShare, NoKeyExclusive, Share};
        match dice.below(10) {
            0..6 if deletes => Action::Delete,
            0..5 => Action::Update,
            5 => Action::Delete,
            _ => Action::Lock(*dice.pick(&[&KeyShare, &Share, &NoKeyExclusive, &Exclusive])),
        }
    }

    /// How it holds the row.
    fn strength(self) -> LockStrength {
        match self {
            Action::Update => LockStrength::NoKeyExclusive,
            Action::Delete => LockStrength::Exclusive,
            Action::Lock(strength) => strength,
        }
    }
}

/// What the model expects of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Done,
    /// Another transaction has changed the row: this is its version now.
    Changed(i64),
    Gone,
    /// Another transaction holds it.
    Held,
    /// 40001
    Conflict,
}

/// All clients, and what is committed.
#[derive(Debug)]
pub(super) struct Clients {
    clients: Vec<Client>,
    pub(super) committed: Committed,
    dice: Dice,
    /// Whether most changes are deletions, so that pages become empty.
    deletes: bool,
    /// Whether calls may fail at any time.
    pub(super) faulty: bool,
    /// Whether the life is over: a commit failed, or an abort.
    pub(super) over: bool,
    /// The first contradiction.
    pub(super) wrong: Option<String>,
}

impl Clients {
    pub(super) fn new(
        engine: &Arc<Engine>,
        committed: Committed,
        mut dice: Dice,
        faulty: bool,
    ) -> Result<Clients, EngineError> {
        let client = |_| -> Result<Client, EngineError> {
            let mut session = engine.session()?;
            // Nothing should wait. If something does, it is reported.
            session.settings_mut().lock_timeout = Duration::from_secs(20);
            Ok(Client { session, open: None })
        };
        let clients = (0..CLIENTS).map(client).collect::<Result<_, _>>()?;
        let deletes = dice.chance(200);
        Ok(Clients { clients, committed, dice, deletes, faulty, over: false, wrong: None })
    }

    /// Ends all sessions, which aborts their transactions.
    pub(super) fn leave(&mut self) {
        self.clients.clear();
    }

    /// Whether no transaction is open.
    pub(super) fn are_idle(&self) -> bool {
        self.clients.iter().all(|client| client.open.is_none())
    }

    /// One client does something. `off`: tells whether the disk is off, so that calls fail.
    pub(super) fn step(&mut self, off: impl Fn() -> bool) {
        if !self.clients.is_empty() {
            let who = self.dice.index(self.clients.len());
            self.run(who, off, Clients::act);
        }
    }

    /// All transactions end.
    pub(super) fn rest(&mut self, off: impl Fn() -> bool) {
        for who in 0..self.clients.len() {
            if self.clients[who].open.is_some() {
                self.run(who, &off, Clients::commit);
            }
        }
    }

    /// A client does something, unless the life is over.
    fn run(
        &mut self,
        who: usize,
        off: impl Fn() -> bool,
        what: impl FnOnce(&mut Clients, usize) -> Result<(), Stop>,
    ) {
        if self.over || self.wrong.is_some() {
            return;
        }
        let result = what(self, who);
        self.clients[who].note_snapshot(&self.committed);
        match result {
            Ok(()) => {}
            Err(Stop::Wrong(what)) => self.wrong = Some(format!("client {who}: {what}")),
            Err(Stop::Failed(_)) if self.faulty || off() => {
                self.over |= self.give_up(who).is_err();
            }
            Err(Stop::Failed(error)) => {
                self.wrong = Some(format!("client {who}: {error} ({})", error.sqlstate()));
            }
        }
    }

    /// Aborts a client's transaction.
    fn give_up(&mut self, who: usize) -> Result<(), EngineError> {
        let client = &mut self.clients[who];
        client.open = None;
        client.session.abort()
    }

    fn act(&mut self, who: usize) -> Result<(), Stop> {
        let Some(open) = &self.clients[who].open else { return self.begin(who) };
        let depth = open.levels.len() - 1;
        if open.statement.is_some() {
            return match self.dice.below(10) {
                0..7 => self.change(who),
                _ => self.end_statement(who),
            };
        }
        match self.dice.below(100) {
            0..18 => self.commit(who),
            18..24 => Ok(self.give_up(who)?),
            24..36 if depth < DEEPEST => self.begin_sub(who),
            36..46 if depth > 0 => self.end_sub(who),
            46..58 => self.insert(who),
            _ => self.read(who),
        }
    }

    fn begin(&mut self, who: usize) -> Result<(), Stop> {
        let Client { session, open } = &mut self.clients[who];
        let repeatable = self.dice.chance(400);
        let level = if repeatable { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
        session.begin()?;
        *open = Some(Open::new(level));
        Ok(session.set_isolation(level)?)
    }

    fn begin_sub(&mut self, who: usize) -> Result<(), Stop> {
        let Client { session, open } = &mut self.clients[who];
        session.begin_subtransaction()?;
        open.as_mut().expect("a transaction").levels.push(Default::default());
        Ok(())
    }

    fn end_sub(&mut self, who: usize) -> Result<(), Stop> {
        let commit = self.dice.chance(500);
        let Client { session, open } = &mut self.clients[who];
        let open = open.as_mut().expect("a transaction");
        match commit {
            true => session.commit_subtransaction()?,
            false => session.abort_subtransaction()?,
        }
        let ended = open.levels.pop().expect("a subtransaction");
        if commit {
            open.innermost().take_over(ended);
        }
        Ok(())
    }

    /// Commits, and waits for that to be durable or not.
    fn commit(&mut self, who: usize) -> Result<(), Stop> {
        let waits = self.dice.chance(700);
        let Client { session, open } = &mut self.clients[who];
        let changes = open.take().expect("a transaction").changes();
        session.settings_mut().synchronous_commit = waits;
        let result = session.commit();
        if changes.is_empty() {
            return Ok(result?);
        }
        self.committed.commit(changes);
        match result {
            Ok(()) if waits => self.committed.durable(self.committed.commits()),
            Ok(()) => {}
            Err(error) => {
                // Whether it is there is not known before the next life.
                self.over = true;
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn insert(&mut self, who: usize) -> Result<(), Stop> {
        let Clients { clients, committed, dice, .. } = self;
        let Client { session, open } = &mut clients[who];
        let open = open.as_mut().expect("a transaction");
        if open.view(committed).len() >= MOST_ROWS {
            return Ok(());
        }
        session.start_command()?;
        let table = session.open_table(None, TABLE, LockMode::RowExclusive)?;
        let mut batch = RowBatch::new(&table);
        let single = dice.chance(300);
        for _ in 0..1 + dice.below(if single { 2 } else { 8 }) {
            let (id, version) = (committed.fresh(), committed.fresh());
            with_values(id, version, |values| match single {
                true => session.insert_row(&table, values).map(drop),
                false => batch.push(values),
            })?;
            open.innermost().changes.insert(id, Some(version));
        }
        session.insert_batch(&table, &mut batch)?;
        session.end_command();
        Ok(())
    }

    /// Begins a statement that reads the whole table.
    fn read(&mut self, who: usize) -> Result<(), Stop> {
        let session = &mut self.clients[who].session;
        session.start_command()?;
        let table = session.open_table(None, TABLE, LockMode::RowExclusive)?;
        let mut scan = session.scan(&table)?;
        let mut seen = Vec::new();
        while let Some(row) = scan.next(session)? {
            let place = row.place();
            let (id, version) = decoded(row)?.map_err(Stop::Wrong)?;
            seen.push(Seen { id, version, place });
        }
        drop(scan);
        self.clients[who].note_snapshot(&self.committed);
        let open = self.clients[who].open.as_mut().expect("a transaction");
        let mut rows: Vec<(i64, i64)> = seen.iter().map(|row| (row.id, row.version)).collect();
        rows.sort_unstable();
        let expected: Vec<(i64, i64)> = open.view(&self.committed).into_iter().collect();
        if rows != expected {
            return Err(Stop::Wrong(format!("sees {rows:?} instead of {expected:?}")));
        }
        open.statement = Some(Statement { table, seen, changed: BTreeSet::new() });
        Ok(())
    }

    fn end_statement(&mut self, who: usize) -> Result<(), Stop> {
        let Client { session, open } = &mut self.clients[who];
        session.end_command();
        open.as_mut().expect("a transaction").statement = None;
        Ok(())
    }

    /// What may become of an action on a row, as the statement of a client has seen it.
    ///
    /// The lock of a key follows the row from version to version, and is done even if others have
    /// changed the row. But an update by one who had locked the row for update counts as one of the
    /// key. The model does not know that, so it allows both.
    fn expected(&self, who: usize, seen: Seen, action: Action) -> Vec<Expected> {
        use Expected::{Changed, Conflict, Done, Gone, Held};
        let open = self.clients[who].open.as_ref().expect("a transaction");
        if open.statement.as_ref().is_some_and(|statement| statement.changed.contains(&seen.id)) {
            return match action {
                Action::Lock(LockStrength::KeyShare) => vec![Gone, Done],
                _ => vec![Gone],
            };
        }
        let strength = action.strength();
        let repeatable = open.isolation == Isolation::RepeatableRead;
        let others = self.clients.iter().enumerate().filter(|(other, _)| *other != who);
        let mut others = others.filter_map(|(_, client)| client.open.as_ref());
        let held = others.any(|other| other.conflicts(seen.id, strength));
        let newest = open.newest(&self.committed, seen.id);
        let changed = newest != Some(seen.version);
        let follows = changed && newest.is_some() && strength == LockStrength::KeyShare;
        let mut expected = match newest {
            _ if changed && repeatable => vec![Conflict],
            _ if held => vec![Held],
            Some(_) if !changed => vec![Done],
            Some(version) => vec![Changed(version)],
            None => vec![Gone],
        };
        if follows {
            expected.insert(0, if held { Held } else { Done });
        }
        expected
    }

    /// The statement of a client changes or locks one of the rows that it has seen.
    fn change(&mut self, who: usize) -> Result<(), Stop> {
        let action = Action::random(&mut self.dice, self.deletes);
        let nowait = self.dice.chance(300);
        let open = self.clients[who].open.as_ref().expect("a transaction");
        let statement = open.statement.as_ref().expect("a statement");
        if statement.seen.is_empty() {
            return Ok(());
        }
        let seen = statement.seen[self.dice.index(statement.seen.len())];
        let expected = self.expected(who, seen, action);
        let (asked, wait) = match action {
            // The only thread must not wait.
            _ if expected.contains(&Expected::Held) => {
                (Action::Lock(action.strength()), RowWait::NoWait)
            }
            Action::Lock(_) if nowait => (action, RowWait::NoWait),
            _ => (action, RowWait::Wait),
        };
        let (result, version) = self.call(who, seen.place, seen.id, asked, wait);
        let (came, place) = match result {
            Err(error) if error.sqlstate() == "40001" => (Expected::Conflict, seen.place),
            Err(error) => return Err(error.into()),
            Ok(RowOutcome::Done(place)) => (Expected::Done, place),
            Ok(RowOutcome::Gone) => (Expected::Gone, seen.place),
            Ok(RowOutcome::Held) => (Expected::Held, seen.place),
            Ok(RowOutcome::Changed(row)) => {
                let (id, version) = decoded(row.view())?.map_err(Stop::Wrong)?;
                let version = if id == seen.id { version } else { -id };
                (Expected::Changed(version), row.place())
            }
        };
        if !expected.contains(&came) {
            let Seen { id, version, place } = seen;
            return Err(Stop::Wrong(format!(
                "{action:?} of row {id}, version {version} at {place}: \
                 {came:?} instead of {expected:?}"
            )));
        }
        match came {
            Expected::Done => {
                self.hold(who, seen.id, action);
                self.changed(who, seen.id, action, version);
            }
            Expected::Changed(_) => {
                self.hold(who, seen.id, action);
                self.try_again(who, seen.id, place, action)?;
            }
            Expected::Conflict => self.roll_back(who)?,
            Expected::Gone | Expected::Held => {}
        }
        Ok(())
    }

    /// Notes that a transaction holds a row.
    fn hold(&mut self, who: usize, id: i64, action: Action) {
        let open = self.clients[who].open.as_mut().expect("a transaction");
        open.innermost().hold(id, action.strength());
    }

    /// Calls the engine. Returns the version that an update writes, too.
    fn call(
        &mut self,
        who: usize,
        place: ItemPointer,
        id: i64,
        action: Action,
        wait: RowWait,
    ) -> (Result<RowOutcome, EngineError>, i64) {
        let version = self.committed.fresh();
        let Client { session, open } = &mut self.clients[who];
        let statement = open.as_ref().and_then(|open| open.statement.as_ref());
        let table = &statement.expect("a statement").table;
        let result = match action {
            Action::Update => {
                with_values(id, version, |values| session.update_row(table, place, values))
            }
            Action::Delete => session.delete_row(table, place),
            Action::Lock(strength) => session.lock_row(table, place, strength, wait),
        };
        (result, version)
    }

    /// Notes what an action has changed.
    fn changed(&mut self, who: usize, id: i64, action: Action, version: i64) {
        let open = self.clients[who].open.as_mut().expect("a transaction");
        let new = match action {
            Action::Update => Some(version),
            Action::Delete => None,
            Action::Lock(_) => return,
        };
        open.innermost().changes.insert(id, new);
        open.statement.as_mut().expect("a statement").changed.insert(id);
    }

    /// A row that was changed by another is locked at its newest place. The action is done there,
    /// or the row no longer fits the statement's condition.
    fn try_again(
        &mut self,
        who: usize,
        id: i64,
        place: ItemPointer,
        action: Action,
    ) -> Result<(), Stop> {
        if matches!(action, Action::Lock(_)) || self.dice.chance(300) {
            return Ok(());
        }
        let (result, version) = self.call(who, place, id, action, RowWait::Wait);
        match result? {
            RowOutcome::Done(_) => self.changed(who, id, action, version),
            other => {
                return Err(Stop::Wrong(format!("{other:?} of row {id}, which it has locked")));
            }
        }
        Ok(())
    }

    /// After 40001: rolls back to the last savepoint, or everything.
    fn roll_back(&mut self, who: usize) -> Result<(), Stop> {
        let Client { session, open } = &mut self.clients[who];
        let levels = open.as_ref().map_or(0, |open| open.levels.len());
        if levels < 2 || self.dice.chance(300) {
            return Ok(self.give_up(who)?);
        }
        session.abort_subtransaction()?;
        let open = open.as_mut().expect("a transaction");
        open.levels.pop();
        open.statement = None;
        Ok(())
    }
}
