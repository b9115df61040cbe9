//! Rounds on one directory: start, compare, load, cut.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forebay_powercut::{Disk, Mounted, NamesRule, Rules};
use forebay_sim::{Fired, Survival};
use forebay_testkit::Dice;

use super::load::Ledger;
use super::targets::{Process, Target};

/// Rounds with one table, before the next one.
const ROUNDS_OF_A_TABLE: u32 = 8;

/// The kind of file system, and whether the server syncs.
#[derive(Clone, Copy)]
pub struct Trial {
    pub names: NamesRule,
    pub lies: bool,
    pub fsync: bool,
}

impl Trial {
    /// Whether what is acknowledged must be durable.
    fn is_honest(self) -> bool {
        self.fsync && !self.lies
    }
}

/// The result of a run.
#[derive(Default)]
pub struct Totals {
    rounds: u32,
    cuts: u32,
    in_recovery: u32,
    acknowledged: u64,
    lost: Fired,
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { rounds, cuts, in_recovery, acknowledged, lost } = self;
        write!(f, "{rounds} rounds, {cuts} cuts ({in_recovery} in recovery), ")?;
        write!(f, "{acknowledged} commits acknowledged, 0 lost")?;
        lost.iter().try_for_each(|(class, n)| write!(f, "; {class} {n}"))
    }
}

/// Runs `rounds` power cuts on a new directory, and looks at what the last one has left.
///
/// # Errors
/// What was lost or damaged, with the seed, and where the disk is that was found after the cut.
pub fn run(target: &dyn Target, trial: Trial, seed: u64, rounds: u32) -> Result<Totals, String> {
    println!("seed {seed}");
    let mut dice = Dice::new(seed);
    let quick = Rules { names: trial.names, lies: false, sync_micros: 0, write_micros: 0, seed };
    let disk = Disk::new(quick);
    let mounted = mount(&disk, target.point());
    target.init();
    mounted.unmount().expect("it is mounted");
    disk.settle();
    let mut run = Run {
        target,
        trial,
        found: disk.fork(rules(trial, &mut dice)),
        disk,
        ledger: Ledger::default(),
        totals: Totals::default(),
    };
    for round in 0..=rounds {
        let last = round == rounds;
        println!("round {round}");
        run.disk = run.found.fork(rules(trial, &mut dice));
        run.round(&mut dice, last).map_err(|problems| {
            let shown: Vec<&str> = problems.lines().take(40).collect();
            format!(
                "seed {seed}, round {round} of {rounds}; {}\n{}",
                run.save(seed, round),
                shown.join("\n")
            )
        })?;
    }
    run.totals.acknowledged = run.ledger.acknowledged;
    Ok(run.totals)
}

fn rules(trial: Trial, dice: &mut Dice) -> Rules {
    let micros = |dice: &mut Dice, of: [u64; 3]| of[dice.below(3) as usize];
    let Trial { names, lies, .. } = trial;
    let (sync_micros, write_micros) =
        (micros(dice, [100, 500, 2_000]), micros(dice, [0, 100, 1_000]));
    Rules { names, lies, sync_micros, write_micros, seed: dice.any() }
}

fn mount(disk: &Arc<Disk>, point: &Path) -> Mounted {
    Mounted::new(disk, point).unwrap_or_else(|e| panic!("mount on {}: {e}", point.display()))
}

struct Run<'a> {
    target: &'a dyn Target,
    trial: Trial,
    /// The disk as the last cut left it.
    found: Arc<Disk>,
    /// The disk that is mounted in this round.
    disk: Arc<Disk>,
    ledger: Ledger,
    totals: Totals,
}

impl Run<'_> {
    fn round(&mut self, dice: &mut Dice, last: bool) -> Result<(), String> {
        if !last && self.totals.rounds > 0 && dice.chance(300) {
            self.cut_in_recovery(dice);
        }
        let mounted = mount(&self.disk, self.target.point());
        let mut server = self.started(dice)?;
        if self.totals.rounds > 0 {
            self.ledger.verify(server.port)?;
        }
        if last || dice.chance(200) {
            server.stop().map_err(|log| format!("a clean stop: {log}"))?;
            if let Some(said) = self.target.bad_checksums() {
                return Err(format!("checksums: {said}"));
            }
            if last {
                mounted.unmount().expect("it is mounted");
                return Ok(());
            }
            server = self.started(dice)?;
        }
        if self.totals.rounds.is_multiple_of(ROUNDS_OF_A_TABLE) {
            self.ledger.new_table(server.port)?;
        }
        if !self.trial.is_honest() {
            // So the directory is complete after the cut, and losses are of later commits.
            self.disk.settle();
        }
        let (port, enough) = (server.port, 20 + dice.below(600));
        let survives = if self.trial.is_honest() { survival(dice) } else { Survival::none() };
        let (mut survival, rules) = (survives, rules(self.trial, dice));
        let disk = Arc::clone(&self.disk);
        let cut = || {
            let found = disk.cut(&mut survival, rules);
            (found, server.kill())
        };
        let loaded = self.ledger.load(port, dice, enough, cut);
        mounted.unmount().expect("it is mounted");
        let (found, _log) = loaded?;
        self.found = found;
        self.took(&survival);
        self.totals.rounds += 1;
        Ok(())
    }

    fn started(&self, dice: &mut Dice) -> Result<Process, String> {
        let server = self.target.start(dice, self.trial.fsync);
        server.ready().map_err(|log| format!("the server does not start:\n{log}"))?;
        Ok(server)
    }

    /// Starts the server and cuts the power soon after.
    fn cut_in_recovery(&mut self, dice: &mut Dice) {
        let mounted = mount(&self.disk, self.target.point());
        let server = self.target.start(dice, self.trial.fsync);
        server.ready_within(Duration::from_millis(dice.below(500)));
        let mut survival = survival(dice);
        self.found = self.disk.cut(&mut survival, rules(self.trial, dice));
        server.kill();
        mounted.unmount().expect("it is mounted");
        self.disk = self.found.fork(rules(self.trial, dice));
        self.took(&survival);
        self.totals.in_recovery += 1;
    }

    /// Counts a cut and what it has taken.
    fn took(&mut self, survival: &Survival) {
        self.totals.cuts += 1;
        for (class, n) in survival.done() {
            *self.totals.lost.entry(*class).or_default() += n;
        }
    }

    /// Saves the disk as it was found before the round that failed. Where it is.
    fn save(&self, seed: u64, round: u32) -> String {
        if !self.trial.is_honest() {
            return "as was to be expected".into();
        }
        let folder =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("powercut-{seed}-{round}"));
        match self.found.save(&folder) {
            Ok(()) => format!("what the cut has left is in {}", folder.display()),
            Err(e) => format!("what the cut has left can't be saved in {}: {e}", folder.display()),
        }
    }
}

/// Keeps nothing, everything or, mostly, a random part.
fn survival(dice: &mut Dice) -> Survival {
    match dice.below(6) {
        0 => Survival::none(),
        1 => Survival::all(),
        _ => Survival::random(dice.any()),
    }
}
