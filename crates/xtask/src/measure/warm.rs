//! From a restart to the hits of before: each server reads again what was in its pool, as Forebay
//! does by itself and PostgreSQL with the library pg_prewarm.
//!
//! Between the stop and the start the kernel's cache is dropped. The clock starts before the
//! server does. The load looks up preferred keys, from the moment the server answers. Before the
//! stop it is watched in the same way, for that takes part of the processors.

use std::path::Path;
use std::time::{Duration, Instant};

use super::cgroup::Group;
use super::cold::Caches;
use super::contender::{CONTENDERS, Contender, Sizes, in_turn};
use super::counters::{Blocks, Counted};
use super::keyed::Keyed;
use super::pgbench::{Length, Run, Script, whole_seconds};
use super::servers::{Running, Subject};
use super::table::{Better, Table, median, printed};
use super::ticks;
use super::warming::warm;
use crate::peers::Peer;

/// How much is measured.
pub struct Extent {
    /// Interleaved rounds.
    pub rounds: usize,
    /// Length of a run before the restart. The run after it takes three times as long.
    pub seconds: u64,
    /// The memory of each server.
    pub sizes: Sizes,
}

/// Sessions that look up.
const CLIENTS: u32 = 8;
/// How often hits are counted.
const INTERVAL: Duration = Duration::from_millis(200);
/// Seconds over which they are summed up: PostgreSQL's sessions report once a second.
const WINDOW: f64 = 1.0;
/// A run before the restart has a whole second, between its first and its last.
const SHORTEST: u64 = 3;
/// Parts of the rate of hits, and of look-ups, that count as those of before.
const HITS: f64 = 0.99;
const RATE: f64 = 0.9;

/// Blocks counted at a time, in seconds since the start.
type Sample = (f64, Blocks);

/// Measures, prints the tables, and returns them.
///
/// # Errors
/// When something can't be made or run, or the runs are too short.
pub fn run(
    root: &Path,
    peer: &Peer,
    caches: &Caches,
    extent: &Extent,
) -> Result<Vec<Table>, String> {
    if extent.seconds < SHORTEST {
        return Err(format!("warm takes --seconds {SHORTEST} or more"));
    }
    let (forebay, postgres) = (Subject::forebay(root)?, Subject::postgres(peer)?);
    let memory = extent.sizes.bytes();
    let keyed = Keyed::prepare(&postgres, &root.join("target/measure"), memory, false)?;
    let contenders = extent.sizes.contenders(&forebay, &postgres);
    for contender in &contenders[..2] {
        caches.drop()?;
        let group = Group::make(memory)?;
        keyed.load(&contender.start(&group, &[])?)?;
    }
    let (keyed, script) = (&keyed, &keyed.look_up());
    let warm = Warm { peer, caches, memory, seconds: extent.seconds, keyed, script };
    let title = "From the start of a server, seconds";
    let mut seconds = Table::against_others(title, &CONTENDERS, Better::Less);
    let mut before = Table::new("Before the restart", &CONTENDERS);
    for round in 0..extent.rounds {
        println!("round {} of {}", round + 1, extent.rounds);
        for contender in in_turn(&contenders, round) {
            warm.measure(contender, &mut seconds, &mut before)?;
        }
    }
    keyed.remove_input()?;
    forebay.remove();
    postgres.remove();
    Ok(printed(vec![seconds, before]))
}

struct Warm<'w> {
    peer: &'w Peer,
    caches: &'w Caches,
    memory: u64,
    seconds: u64,
    keyed: &'w Keyed,
    script: &'w str,
}

impl Warm<'_> {
    /// Measures a server before and after its restart.
    fn measure(
        &self,
        contender: &Contender<'_>,
        seconds: &mut Table,
        before: &mut Table,
    ) -> Result<(), String> {
        let column = contender.column;
        let prewarm = if column == 0 {
            &["pg_prewarm.autoprewarm=on"][..]
        } else {
            &["shared_preload_libraries=pg_prewarm", "pg_prewarm.autoprewarm=on"]
        };
        self.caches.drop()?;
        let group = Group::make(self.memory)?;
        let server = contender.start(&group, prewarm)?;
        warm(|| self.keyed.read_all(&server))?;
        self.load(self.seconds).done(&server, self.peer)?;
        let (samples, rates) = self.watch(&server, self.seconds, Instant::now())?;
        let rate = median(whole_seconds(&rates));
        let hits = Blocks::count(&server, Counted::LookUps)?.hits_since(samples[0].1);
        let hits = hits.ok_or_else(|| format!("{} counts no blocks", contender.name()))?;
        before.add("blocks found in the pool, %", column, hits);
        before.add("look-ups a second", column, rate);
        drop((server, group));

        self.caches.drop()?;
        let group = Group::make(self.memory)?;
        let begun = Instant::now();
        let server = contender.start(&group, prewarm)?;
        let answered = begun.elapsed().as_secs_f64();
        seconds.add("until it answers", column, answered);
        let (samples, rates) = self.watch(&server, self.seconds * 3, begun)?;
        let end = begun.elapsed().as_secs_f64();
        let again = until_hits(&samples, HITS * hits).unwrap_or_else(|| never(end));
        seconds.add("until 0.99 of the hits of before", column, again);
        let again = until_rate(&rates, RATE * rate).map(|second| answered + second);
        seconds.add(
            "until 0.9 of the look-ups a second of before",
            column,
            again.unwrap_or_else(|| never(end)),
        );
        Ok(())
    }

    /// Looks up and counts hits meanwhile. Returns the samples, in seconds since `begun`, and the
    /// look-ups of each second.
    fn watch(
        &self,
        server: &Running<'_>,
        seconds: u64,
        begun: Instant,
    ) -> Result<(Vec<Sample>, Vec<f64>), String> {
        let first = Blocks::count(server, Counted::LookUps)?;
        let mut samples = vec![(begun.elapsed().as_secs_f64(), first)];
        let tick = |_| {
            let blocks = Blocks::count(server, Counted::LookUps)?;
            samples.push((begun.elapsed().as_secs_f64(), blocks));
            Ok(())
        };
        let load = self.load(seconds);
        let (rates, failed) = ticks::beside(INTERVAL, tick, || load.by_second(server, self.peer))?;
        println!("  look-ups in each second: {rates:.0?}");
        failed.map_or(Ok((samples, rates)), Err)
    }

    fn load(&self, seconds: u64) -> Run<'_> {
        Run {
            script: Script::Own(self.script),
            mode: "prepared",
            clients: CLIENTS,
            length: Length::Seconds(seconds),
        }
    }
}

/// A lower bound, where the end of the run came first.
fn never(end: f64) -> f64 {
    println!("not reached until the end of the run, after {end:.1} s");
    end
}

/// When the hits of the last second first reach a percentage, in seconds.
fn until_hits(samples: &[Sample], percentage: f64) -> Option<f64> {
    samples.iter().enumerate().find_map(|(n, (at, blocks))| {
        let (_, before) = samples[..n].iter().rfind(|(then, _)| at - then >= WINDOW)?;
        (blocks.hits_since(*before)? >= percentage).then_some(*at)
    })
}

/// After how many seconds a rate is first reached. The last second is cut off by the end.
fn until_rate(rates: &[f64], wanted: f64) -> Option<f64> {
    let whole = rates.len().saturating_sub(1);
    rates[..whole].iter().position(|rate| *rate >= wanted).map(|second| second as f64)
}

#[cfg(test)]
mod tests {
    use super::{Blocks, until_hits, until_rate};

    #[test]
    fn hits_are_reached_over_a_second() {
        let sample = |at, hit, read| (at, Blocks { hit, read });
        // The first half second has no look-up, the second one hits alone, the third misses some.
        let samples = [
            sample(1.0, 0.0, 0.0),
            sample(1.5, 0.0, 0.0),
            sample(2.0, 90.0, 10.0),
            sample(2.5, 190.0, 10.0),
            sample(3.0, 290.0, 10.0),
        ];
        assert_eq!(until_hits(&samples, 90.0), Some(2.0));
        assert_eq!(until_hits(&samples, 95.0), Some(2.5));
        assert_eq!(until_hits(&samples, 100.0), Some(3.0));
        assert_eq!(until_hits(&samples[..4], 100.0), None);
        assert_eq!(until_hits(&samples[..2], 0.0), None);
    }

    #[test]
    fn rates_are_reached_in_a_second() {
        assert_eq!(until_rate(&[10.0, 80.0, 100.0, 100.0], 90.0), Some(2.0));
        assert_eq!((until_rate(&[10.0, 95.0], 90.0), until_rate(&[], 1.0)), (None, None));
    }
}
