//! The plan: rules in order, what each does, what has fired, and what is held.
//!
//! Each rule counts the calls that match it, whether or not an earlier rule struck them. A call
//! waits at every rule that holds it, and the first rule that fires with an [`Effect`] decides what
//! becomes of it; all that is decided when the call arrives.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use super::call::{Call, OPS, Ops};
use crate::error::Errno;
use crate::sync::{Arc, Condvar, Duration, Instant, Mutex};
use crate::table::HandleTable;

/// How long a test may hold an I/O, or wait for one to be held, before it is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It fails, without anything being done.
    Fail(Errno),
    /// It transfers at most so many bytes, and says so. Of a direct file whole blocks move, and as
    /// many bytes are told.
    AtMost(usize),
    /// It transfers so many bytes fewer than it was asked for.
    ShortBy(usize),
    /// It transfers a part, cut at a place that the seed chooses (between blocks, where the file is
    /// direct).
    Cut,
    /// So many bytes are done, and then it fails.
    FailAfter(usize, Errno),
    /// The thread that executes it panics.
    Panic,
}

impl Effect {
    /// For transfers only.
    fn is_short(self) -> bool {
        matches!(self, Effect::AtMost(_) | Effect::ShortBy(_) | Effect::Cut)
    }

    fn class(self) -> String {
        match self {
            Effect::Fail(errno) => errno.to_string(),
            Effect::FailAfter(_, errno) => format!("{errno} after a part"),
            Effect::AtMost(_) | Effect::ShortBy(_) | Effect::Cut => "short".to_owned(),
            Effect::Panic => "panic".to_owned(),
        }
    }
}

type When = Box<dyn Fn(&Call) -> bool + Send + Sync>;

/// Which calls a rule is about, and which of those it strikes: all, unless it says otherwise.
pub struct Rule {
    ops: Ops,
    path: Option<String>,
    bytes: Option<Range<u64>>,
    when: Option<When>,
    skip: u64,
    times: u64,
    chance: Option<f64>,
}

impl Rule {
    /// Calls of these operations.
    pub fn on(ops: Ops) -> Rule {
        Rule { ops, path: None, bytes: None, when: None, skip: 0, times: u64::MAX, chance: None }
    }

    /// Only on files and directories whose path has `part` in it.
    pub fn path(self, part: impl Into<String>) -> Rule {
        Rule { path: Some(part.into()), ..self }
    }

    /// Only calls that concern any of these bytes of a file.
    pub fn bytes(self, bytes: Range<u64>) -> Rule {
        Rule { bytes: Some(bytes), ..self }
    }

    /// Only calls that `when` says yes to. It must not call the plan.
    pub fn when(self, when: impl Fn(&Call) -> bool + Send + Sync + 'static) -> Rule {
        Rule { when: Some(Box::new(when)), ..self }
    }

    /// The first `n` calls that match pass.
    pub fn skip(self, n: u64) -> Rule {
        Rule { skip: n, ..self }
    }

    /// At most `n` calls are struck.
    pub fn times(self, n: u64) -> Rule {
        Rule { times: n, ..self }
    }

    /// Only the call after the first `n` that match is struck.
    pub fn nth(self, n: u64) -> Rule {
        self.skip(n).times(1)
    }

    /// A call is struck with this probability. The seed, the file's name, the place in it and the
    /// number of attempts made there decide, so that the same work meets the same faults however
    /// its threads take turns.
    pub fn chance(self, probability: f64) -> Rule {
        Rule { chance: Some(probability), ..self }
    }

    fn matches(&self, call: &Call) -> bool {
        self.ops.contains(call.op)
            && self
                .path
                .as_ref()
                .is_none_or(|part| call.path.to_string_lossy().contains(part.as_str()))
            && self.bytes.as_ref().is_none_or(|b| {
                call.offset < b.end && b.start < call.offset.saturating_add(call.len)
            })
            && self.when.as_ref().is_none_or(|when| when(call))
    }
}

/// A rule of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultId(usize);

/// A rule with what has become of it.
struct Live {
    rule: Rule,
    /// None: it holds.
    effect: Option<Effect>,
    ended: bool,
    matched: u64,
    fired: u64,
    /// Attempts at each place, for rules with a chance.
    attempts: HashMap<u64, u32>,
    /// Calls held so far; those with a number below `let_go` may go on.
    let_go: u64,
    /// Calls held now.
    holding: usize,
}

impl Live {
    /// Counts a call that matches; is it struck?
    fn counts(&mut self, call: &Call, seed: u64, number: usize) -> bool {
        let place = hash(&(seed, number, call.op, call.path.file_name(), call.offset));
        let attempt = match self.rule.chance {
            Some(_) => self.attempts.entry(place).or_default(),
            None => &mut 0,
        };
        *attempt += 1;
        let lucky = match self.rule.chance {
            Some(p) => (hash(&(place, *attempt)) >> 11) as f64 >= p * (1u64 << 53) as f64,
            None => false,
        };
        self.matched += 1;
        self.matched > self.rule.skip && self.fired < self.rule.times && !lucky
    }
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// One held call.
#[derive(Clone, Copy, Debug)]
struct Ticket {
    rule: usize,
    number: u64,
}

/// What the plan has in mind for a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verdict {
    hold: Option<Ticket>,
    pub(super) effect: Option<Effect>,
    pub(super) salt: u64,
}

impl Verdict {
    pub(super) fn is_innocent(&self) -> bool {
        self.hold.is_none() && self.effect.is_none()
    }
}

/// A sleeper on a handle that the release of a ticket wakes.
struct Wake {
    ticket: Ticket,
    table: Arc<HandleTable>,
    index: u32,
}

#[derive(Default)]
struct State {
    rules: Vec<Live>,
    calls: [u64; OPS],
    classes: BTreeMap<String, u64>,
    wakes: Vec<Wake>,
    recording: bool,
    trace: Vec<Call>,
    struck: Vec<(Call, Effect)>,
}

impl State {
    fn may_go(&self, ticket: Ticket) -> bool {
        let live = &self.rules[ticket.rule];
        live.ended || ticket.number < live.let_go
    }
}

/// What fails, comes short or is held.
pub struct FaultPlan {
    seed: u64,
    state: Mutex<State>,
    changed: Condvar,
}

impl FaultPlan {
    /// A plan without rules.
    pub fn new() -> Arc<FaultPlan> {
        FaultPlan::seeded(0)
    }

    /// A plan whose chances are decided by `seed`.
    pub fn seeded(seed: u64) -> Arc<FaultPlan> {
        Arc::new(FaultPlan { seed, state: Mutex::default(), changed: Condvar::new() })
    }

    /// Adds a rule behind the others.
    pub fn add(&self, rule: Rule, effect: Effect) -> FaultId {
        assert!(
            !effect.is_short() || Ops::TRANSFERS.contains(rule.ops),
            "only reads and writes can be short, not {:?}",
            rule.ops
        );
        self.enter(rule, Some(effect))
    }

    /// Adds a rule that holds what it strikes until it is released, by [`Held`] or by the end of
    /// that value. What follows in the plan applies to what was held.
    ///
    /// Executed by a calling thread or a worker, the I/O keeps its thread, as a slow device would.
    /// Under a method that has the kernel execute, it is in flight and no thread is held up.
    pub fn hold(self: &Arc<Self>, rule: Rule) -> Held {
        Held { id: self.enter(rule, None), plan: Arc::clone(self) }
    }

    fn enter(&self, rule: Rule, effect: Option<Effect>) -> FaultId {
        let mut state = self.state.lock();
        state.rules.push(Live {
            rule,
            effect,
            ended: false,
            matched: 0,
            fired: 0,
            attempts: HashMap::new(),
            let_go: 0,
            holding: 0,
        });
        FaultId(state.rules.len() - 1)
    }

    /// Ends a rule; what it held goes on. Its counts stay.
    pub fn end(&self, id: FaultId) {
        self.change(|state| state.rules[id.0].ended = true);
    }

    /// Ends every rule: the disk is well again.
    pub fn mend(&self) {
        self.change(|state| state.rules.iter_mut().for_each(|live| live.ended = true));
    }

    /// Changes what is held, and wakes whoever may go on.
    fn change(&self, by: impl FnOnce(&mut State)) {
        let woken: Vec<Wake> = {
            let mut guard = self.state.lock();
            let state = &mut *guard;
            by(state);
            let wakes = std::mem::take(&mut state.wakes);
            let (woken, rest) = wakes.into_iter().partition(|wake| state.may_go(wake.ticket));
            state.wakes = rest;
            woken
        };
        self.changed.notify_all();
        for wake in woken {
            wake.table.nudge(wake.index);
        }
    }

    /// How often a rule struck.
    pub fn fired(&self, id: FaultId) -> u64 {
        self.state.lock().rules[id.0].fired
    }

    /// How many calls matched a rule while it lasted, struck or not.
    pub fn matched(&self, id: FaultId) -> u64 {
        self.state.lock().rules[id.0].matched
    }

    /// How many calls of these operations were made, struck or not.
    pub fn calls(&self, ops: Ops) -> u64 {
        let state = self.state.lock();
        ops.each().map(|bit| state.calls[bit]).sum()
    }

    /// What struck, by operation and kind ("write: short"), and how often.
    pub fn fired_by_class(&self) -> BTreeMap<String, u64> {
        self.state.lock().classes.clone()
    }

    /// Takes down every call from now on, and what each effect struck.
    pub fn record(&self) {
        self.state.lock().recording = true;
    }

    /// The calls taken down since the last time, in order of arrival.
    pub fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.state.lock().trace)
    }

    /// The calls that an effect struck since the last time.
    pub fn take_struck(&self) -> Vec<(Call, Effect)> {
        std::mem::take(&mut self.state.lock().struck)
    }

    /// Decides what becomes of a call.
    pub(super) fn judge(&self, call: &Call) -> Verdict {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.calls[call.op.index()] += 1;
        if state.recording {
            state.trace.push(call.clone());
        }
        let salt = hash(&(self.seed, call.path.file_name(), call.offset, call.len));
        let mut verdict = Verdict { hold: None, effect: None, salt };
        for (number, live) in state.rules.iter_mut().enumerate() {
            if live.ended || !live.rule.matches(call) || !live.counts(call, self.seed, number) {
                continue;
            }
            let class = match live.effect {
                None if verdict.hold.is_none() => {
                    verdict.hold = Some(Ticket { rule: number, number: live.fired });
                    live.holding += 1;
                    "held".to_owned()
                }
                Some(effect) if verdict.effect.is_none() => {
                    verdict.effect = Some(effect);
                    if state.recording {
                        state.struck.push((call.clone(), effect));
                    }
                    effect.class()
                }
                _ => continue,
            };
            live.fired += 1;
            *state.classes.entry(format!("{}: {class}", call.op.name())).or_default() += 1;
        }
        drop(guard);
        if verdict.hold.is_some() {
            self.changed.notify_all();
        }
        verdict
    }

    /// Nothing holds it (any longer).
    pub(super) fn may_go(&self, verdict: &Verdict) -> bool {
        verdict.hold.is_none_or(|ticket| self.state.lock().may_go(ticket))
    }

    /// What was held goes on.
    pub(super) fn went(&self, verdict: &Verdict) {
        if let Some(ticket) = verdict.hold {
            self.state.lock().rules[ticket.rule].holding -= 1;
            self.changed.notify_all();
        }
    }

    /// Sleeps while the call is held.
    pub(super) fn sit_out(&self, verdict: &Verdict) {
        let Some(ticket) = verdict.hold else { return };
        let mut state = self.state.lock();
        let since = Instant::now();
        while !state.may_go(ticket) {
            self.changed.wait_for(&mut state, PATIENCE);
            if since.elapsed() > 2 * PATIENCE {
                tracing::error!("an I/O was held for {:?} and never released", since.elapsed());
                break;
            }
        }
        drop(state);
        self.went(verdict);
    }

    /// The release of what is held shall wake the sleepers on a handle.
    pub(super) fn wake_at_release(&self, verdict: &Verdict, table: &Arc<HandleTable>, index: u32) {
        let Some(ticket) = verdict.hold else { return };
        let mut state = self.state.lock();
        if !state.may_go(ticket) {
            state.wakes.push(Wake { ticket, table: Arc::clone(table), index });
        }
    }
}

impl fmt::Debug for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultPlan(seed {}, fired {:?})", self.seed, self.fired_by_class())
    }
}

/// A rule that holds calls. At its end it releases them, so that a test that fails leaves nobody
/// behind; let it be declared after the backends whose I/O it holds.
#[must_use = "what is held is released when this value goes"]
pub struct Held {
    plan: Arc<FaultPlan>,
    id: FaultId,
}

impl Held {
    /// The rule.
    pub fn id(&self) -> FaultId {
        self.id
    }

    /// Calls held now.
    pub fn count(&self) -> usize {
        self.plan.state.lock().rules[self.id.0].holding
    }

    /// Returns once `n` calls are held. Panics where that takes a minute.
    pub fn await_count(&self, n: usize) {
        let mut state = self.plan.state.lock();
        let since = Instant::now();
        while state.rules[self.id.0].holding < n {
            let now = state.rules[self.id.0].holding;
            assert!(since.elapsed() < PATIENCE, "{now} calls are held, not {n}");
            self.plan.changed.wait_for(&mut state, PATIENCE);
        }
    }

    /// Lets the `n` calls that have been held longest go; the rule goes on holding.
    pub fn release_oldest(&self, n: u64) {
        self.plan.change(|state| {
            let live = &mut state.rules[self.id.0];
            live.let_go = (live.let_go + n).min(live.fired);
        });
    }

    /// Lets everything go, and ends the rule.
    pub fn release(self) {
        drop(self);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.plan.end(self.id);
    }
}
