//! [`FaultPlan`]: rules in order, their effects, what they affected, and what is held.
//!
//! The plan decides about a call when the call arrives. Each rule counts the calls that match it,
//! also those that an earlier rule affects. The first matching rule that holds makes the call wait,
//! and the first that has an [`Effect`] decides its result.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use super::call::{Call, OPS, Ops};
use crate::error::Errno;
use crate::sync::{Arc, Condvar, Duration, Instant, Mutex};
use crate::table::HandleTable;

/// How long a test may hold an I/O, or wait for one to be held.
const PATIENCE: Duration = Duration::from_secs(60);

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It fails and does nothing.
    Fail(Errno),
    /// It transfers at most this many bytes. A direct file transfers whole blocks, and reports this
    /// many bytes.
    AtMost(usize),
    /// It transfers this many bytes fewer than it was asked for.
    ShortBy(usize),
    /// It transfers a part that the seed chooses; of a direct file, whole blocks.
    Cut,
    /// It transfers this many bytes and then fails.
    FailAfter(usize, Errno),
    /// The thread that executes it panics.
    Panic,
}

impl Effect {
    /// Whether it is for transfers only.
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

/// Which calls a rule affects. Without further conditions it affects all calls of its operations.
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
    /// A rule for these operations.
    pub fn on(ops: Ops) -> Rule {
        Rule { ops, path: None, bytes: None, when: None, skip: 0, times: u64::MAX, chance: None }
    }

    /// Only on files and directories whose path contains `part`.
    pub fn path(self, part: impl Into<String>) -> Rule {
        Rule { path: Some(part.into()), ..self }
    }

    /// Only calls that concern any of these bytes of a file.
    pub fn bytes(self, bytes: Range<u64>) -> Rule {
        Rule { bytes: Some(bytes), ..self }
    }

    /// Only calls for which `when` returns true. It must not call the plan.
    pub fn when(self, when: impl Fn(&Call) -> bool + Send + Sync + 'static) -> Rule {
        Rule { when: Some(Box::new(when)), ..self }
    }

    /// The first `n` matching calls pass.
    pub fn skip(self, n: u64) -> Rule {
        Rule { skip: n, ..self }
    }

    /// At most `n` calls are affected.
    pub fn times(self, n: u64) -> Rule {
        Rule { times: n, ..self }
    }

    /// Only the call after the first `n` matching calls.
    pub fn nth(self, n: u64) -> Rule {
        self.skip(n).times(1)
    }

    /// A call is affected with this probability. It depends on the seed, the file's name, the
    /// offset, and the number of attempts there. So the same work meets the same faults however its
    /// threads interleave.
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

/// A rule and its counts.
struct RuleState {
    rule: Rule,
    /// None: the rule holds calls.
    effect: Option<Effect>,
    ended: bool,
    matched: u64,
    fired: u64,
    /// Attempts by place, for rules with a probability.
    attempts: HashMap<u64, u32>,
    /// Held calls with a number below this one may continue.
    let_go: u64,
    /// How many calls are held now.
    holding: usize,
}

impl RuleState {
    /// Counts a matching call; returns whether it is affected.
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

/// What the plan decided about a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verdict {
    hold: Option<Ticket>,
    pub(super) effect: Option<Effect>,
    pub(super) salt: u64,
}

impl Verdict {
    pub(super) fn is_pass(&self) -> bool {
        self.hold.is_none() && self.effect.is_none()
    }
}

/// The handle whose sleepers the release of a ticket wakes.
struct Wake {
    ticket: Ticket,
    table: Arc<HandleTable>,
    index: u32,
}

#[derive(Default)]
struct PlanState {
    rules: Vec<RuleState>,
    calls: [u64; OPS],
    classes: BTreeMap<String, u64>,
    wakes: Vec<Wake>,
    recording: bool,
    trace: Vec<Call>,
    struck: Vec<(Call, Effect)>,
}

impl PlanState {
    fn may_go(&self, ticket: Ticket) -> bool {
        let rule = &self.rules[ticket.rule];
        rule.ended || ticket.number < rule.let_go
    }
}

/// Which calls fail, come short, panic or are held.
pub struct FaultPlan {
    seed: u64,
    state: Mutex<PlanState>,
    changed: Condvar,
}

impl FaultPlan {
    /// A plan without rules.
    pub fn new() -> Arc<FaultPlan> {
        FaultPlan::seeded(0)
    }

    /// A plan whose probabilities `seed` decides.
    pub fn seeded(seed: u64) -> Arc<FaultPlan> {
        Arc::new(FaultPlan { seed, state: Mutex::default(), changed: Condvar::new() })
    }

    /// Adds a rule after the others.
    pub fn add(&self, rule: Rule, effect: Effect) -> FaultId {
        assert!(
            !effect.is_short() || Ops::TRANSFERS.contains(rule.ops),
            "only reads and writes can be short, not {:?}",
            rule.ops
        );
        self.enter(rule, Some(effect))
    }

    /// Adds a rule that holds calls until [`Held`] releases them or is dropped. Later rules apply
    /// to held calls too.
    ///
    /// A held I/O that a calling thread or worker executes blocks that thread, as a slow device
    /// would. Under a method that has the kernel execute, it is in flight and blocks no thread.
    pub fn hold(self: &Arc<Self>, rule: Rule) -> Held {
        Held { id: self.enter(rule, None), plan: Arc::clone(self) }
    }

    fn enter(&self, rule: Rule, effect: Option<Effect>) -> FaultId {
        let mut state = self.state.lock();
        state.rules.push(RuleState {
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

    /// Ends a rule, and releases what it held. Its counts remain.
    pub fn end(&self, id: FaultId) {
        self.change(|state| state.rules[id.0].ended = true);
    }

    /// Ends every rule.
    pub fn mend(&self) {
        self.change(|state| state.rules.iter_mut().for_each(|rule| rule.ended = true));
    }

    /// Changes rules, and wakes the threads whose calls are released.
    fn change(&self, by: impl FnOnce(&mut PlanState)) {
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

    /// How many calls a rule affected.
    pub fn fired(&self, id: FaultId) -> u64 {
        self.state.lock().rules[id.0].fired
    }

    /// How many calls matched a rule while it lasted, affected or not.
    pub fn matched(&self, id: FaultId) -> u64 {
        self.state.lock().rules[id.0].matched
    }

    /// How many calls of these operations were made, affected or not.
    pub fn calls(&self, ops: Ops) -> u64 {
        let state = self.state.lock();
        ops.each().map(|bit| state.calls[bit]).sum()
    }

    /// How many calls were affected, by operation and kind ("write: short").
    pub fn fired_by_class(&self) -> BTreeMap<String, u64> {
        self.state.lock().classes.clone()
    }

    /// Records every call from now on, and what effects affected.
    pub fn record(&self) {
        self.state.lock().recording = true;
    }

    /// The calls recorded since the last time, in order of arrival.
    pub fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.state.lock().trace)
    }

    /// The calls that an effect affected since the last time.
    pub fn take_struck(&self) -> Vec<(Call, Effect)> {
        std::mem::take(&mut self.state.lock().struck)
    }

    /// Decides about a call.
    pub(super) fn judge(&self, call: &Call) -> Verdict {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.calls[call.op.index()] += 1;
        if state.recording {
            state.trace.push(call.clone());
        }
        let salt = hash(&(self.seed, call.path.file_name(), call.offset, call.len));
        let mut verdict = Verdict { hold: None, effect: None, salt };
        for (number, rule) in state.rules.iter_mut().enumerate() {
            if rule.ended || !rule.rule.matches(call) || !rule.counts(call, self.seed, number) {
                continue;
            }
            let class = match rule.effect {
                None if verdict.hold.is_none() => {
                    verdict.hold = Some(Ticket { rule: number, number: rule.fired });
                    rule.holding += 1;
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
            rule.fired += 1;
            *state.classes.entry(format!("{}: {class}", call.op.name())).or_default() += 1;
        }
        drop(guard);
        if verdict.hold.is_some() {
            self.changed.notify_all();
        }
        verdict
    }

    /// Whether nothing holds the call any longer.
    pub(super) fn may_go(&self, verdict: &Verdict) -> bool {
        verdict.hold.is_none_or(|ticket| self.state.lock().may_go(ticket))
    }

    /// Counts a held call that continues.
    pub(super) fn count_released(&self, verdict: &Verdict) {
        if let Some(ticket) = verdict.hold {
            self.state.lock().rules[ticket.rule].holding -= 1;
            self.changed.notify_all();
        }
    }

    /// Sleeps while the call is held.
    pub(super) fn wait_while_held(&self, verdict: &Verdict) {
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
        self.count_released(verdict);
    }

    /// Makes the release of a held call wake the sleepers on a handle.
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

/// A rule that holds calls. Dropping it releases them, so that a failing test leaves no thread
/// waiting. Declare it after the backends whose I/O it holds.
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

    /// How many calls are held now.
    pub fn count(&self) -> usize {
        self.plan.state.lock().rules[self.id.0].holding
    }

    /// Waits until `n` calls are held.
    ///
    /// # Panics
    /// It takes a minute.
    pub fn await_count(&self, n: usize) {
        let mut state = self.plan.state.lock();
        let since = Instant::now();
        while state.rules[self.id.0].holding < n {
            let now = state.rules[self.id.0].holding;
            assert!(since.elapsed() < PATIENCE, "{now} calls are held, not {n}");
            self.plan.changed.wait_for(&mut state, PATIENCE);
        }
    }

    /// Releases the `n` calls that were held longest. The rule continues to hold.
    pub fn release_oldest(&self, n: u64) {
        self.plan.change(|state| {
            let rule = &mut state.rules[self.id.0];
            rule.let_go = (rule.let_go + n).min(rule.fired);
        });
    }

    /// Releases all calls, and ends the rule.
    pub fn release(self) {
        drop(self);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.plan.end(self.id);
    }
}
