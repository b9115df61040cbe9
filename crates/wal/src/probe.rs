//! Measures which sync method is the fastest on a disk (`wal_sync_method = auto`).
//!
//! The speed of a log depends on how soon one block is durable, and on how many are per second with
//! several writes in flight. So each method writes blocks to a file beside the log, opened as
//! segments are: one at a time, and eight at a time. Eight at a time are eight writes in flight,
//! with `fsync` and `fdatasync` followed by one sync, as in a flush of several commits.
//!
//! The methods take turns, so that a disk whose speed changes affects all of them. The geometric
//! mean of the two rates decides. A method other than PostgreSQL's default, `fdatasync`, must be
//! faster by a tenth.
//!
//! A [`Choice`] can be stored as a text for later starts, with the conditions that it holds for.

use std::path::Path;

use forebay_aio::sync::{Arc, Duration, Instant};
use forebay_aio::{
    Aio, AioError, AlignedBuf, File, Io, IoBackend, IoMemory, OpenOptions, Region, Target,
};

use crate::config::SyncMethod;
use crate::position::WAL_BLOCK;
use crate::segments::TEMPORARY;

/// Writes in flight.
const SEVERAL: usize = 8;
/// Blocks of the file.
const BLOCKS: u64 = 128;
/// How long a turn of a method takes.
const TURN: Duration = Duration::from_millis(50);
/// Turns of each method.
const TURNS: u32 = 2;
/// Fewest rounds of a turn, however slow the disk is.
const MIN_ROUNDS: u64 = 3;
/// How many times faster than the default another method must be.
const MARGIN: f64 = 1.1;

const BLOCK: usize = WAL_BLOCK as usize;

/// The measured speed of a method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Blocks per second made durable, one write at a time.
    pub one: f64,
    /// Blocks per second made durable, eight writes at a time.
    pub several: f64,
}

impl Rates {
    fn score(self) -> f64 {
        (self.one * self.several).sqrt()
    }
}

/// A method, and its speed or why it failed.
pub type Measured = (SyncMethod, Result<Rates, String>);

/// The conditions that a choice holds for. With others, another method may be faster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conditions {
    /// Whether the log is written with direct I/O (`io_direct` has `wal`).
    pub direct: bool,
    /// Name of the I/O method.
    pub io_method: String,
}

/// The chosen method, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The method.
    pub method: SyncMethod,
    /// The conditions that it holds for.
    pub conditions: Conditions,
    /// The measurements, in the order of [`SyncMethod::NAMES`].
    pub measured: Vec<Measured>,
}

/// Measures the methods on the disk of `dir`, the log's directory, and chooses one. Takes about a
/// second, and leaves no file behind.
///
/// # Errors
/// If the file cannot be made, or no method works.
pub fn probe(
    aio: &Arc<Aio>,
    io: &mut IoBackend,
    dir: &Path,
    direct: bool,
) -> Result<Choice, AioError> {
    let path = dir.join(format!("{TEMPORARY}{}.probe", std::process::id()));
    let measured = measure(aio, io, &path, direct);
    // If this fails, the next start removes the file.
    let removed = aio.namespace().unlink(&path);
    let (measured, failure) = measured?;
    removed?;
    let conditions = Conditions { direct, io_method: aio.method_name().to_owned() };
    match (choose(&measured), failure) {
        (Some(method), _) => Ok(Choice { method, conditions, measured }),
        (None, Some(failure)) => Err(failure),
        (None, None) => unreachable!("a method has rates or a failure"),
    }
}

/// Measures each method. Also returns the first failure, if there was one.
fn measure(
    aio: &Arc<Aio>,
    io: &mut IoBackend,
    path: &Path,
    direct: bool,
) -> Result<(Vec<Measured>, Option<AioError>), AioError> {
    let memory = prepare_file(aio, io, path)?;
    let mut trials: Vec<Trial> =
        SyncMethod::NAMES.iter().map(|(_, method)| Trial::new(*method)).collect();
    for _ in 0..TURNS {
        for trial in trials.iter_mut().filter(|trial| trial.failure.is_none()) {
            if let Err(failure) = trial.turn(aio, io, path, direct, &memory) {
                trial.failure = Some(failure);
            }
        }
    }
    let measured = trials.iter().map(|trial| (trial.method, trial.rates())).collect();
    Ok((measured, trials.into_iter().find_map(|trial| trial.failure)))
}

/// Makes the file, durable and without holes. Returns blocks to write to it, which are not zeros,
/// because some disks handle zeros faster.
fn prepare_file(aio: &Arc<Aio>, io: &mut IoBackend, path: &Path) -> Result<Arc<Region>, AioError> {
    let file = aio.namespace().open(path, &OpenOptions::READ_WRITE.create().truncate())?;
    let mut blocks = AlignedBuf::zeroed(BLOCKS as usize * BLOCK)?;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for word in blocks.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    io.write_all_at(&file, 0, &blocks)?;
    io.fsync(&file)?;
    let region = Region::new(SEVERAL * BLOCK)?;
    let memory = IoMemory::new(Arc::clone(&region), 0, SEVERAL * BLOCK);
    io.run(Io::read(file.clone(), 0, memory, target()))?;
    aio.namespace().forget_cached(&file)?;
    Ok(region)
}

fn target() -> Target {
    Target::Other("probe of wal_sync_method".into())
}

/// The measurement of one method.
struct Trial {
    method: SyncMethod,
    /// Blocks and time: one at a time, and several.
    spent: [(u64, Duration); 2],
    failure: Option<AioError>,
}

impl Trial {
    fn new(method: SyncMethod) -> Trial {
        Trial { method, spent: [(0, Duration::ZERO); 2], failure: None }
    }

    /// Writes for the time of a turn, one block at a time and then several.
    fn turn(
        &mut self,
        aio: &Arc<Aio>,
        io: &mut IoBackend,
        path: &Path,
        direct: bool,
        memory: &Arc<Region>,
    ) -> Result<(), AioError> {
        let file = aio.namespace().open(path, &self.method.open_options().direct(direct))?;
        for (depth, spent) in [1, SEVERAL].into_iter().zip(&mut self.spent) {
            let began = Instant::now();
            let mut rounds = 0;
            while rounds < MIN_ROUNDS || began.elapsed() < TURN {
                round(io, &file, self.method, rounds, depth, memory)?;
                rounds += 1;
            }
            spent.0 += rounds * depth as u64;
            spent.1 += began.elapsed();
        }
        Ok(())
    }

    fn rates(&self) -> Result<Rates, String> {
        let rate = |(blocks, time): (u64, Duration)| blocks as f64 / time.as_secs_f64().max(1e-9);
        match &self.failure {
            Some(failure) => Err(failure.to_string()),
            None => Ok(Rates { one: rate(self.spent[0]), several: rate(self.spent[1]) }),
        }
    }
}

/// Makes `depth` blocks durable. No write is in flight when it returns.
fn round(
    io: &mut IoBackend,
    file: &File,
    method: SyncMethod,
    number: u64,
    depth: usize,
    memory: &Arc<Region>,
) -> Result<(), AioError> {
    let first = number * depth as u64;
    // Separate writes, which are not combined.
    let writes: Vec<_> = (0..depth)
        .map(|n| {
            let memory = IoMemory::new(Arc::clone(memory), n * BLOCK, BLOCK);
            io.start(Io::write(
                file.clone(),
                (first + n as u64) % BLOCKS * WAL_BLOCK,
                memory,
                target(),
            ))
        })
        .collect();
    let mut done = Ok(());
    for write in writes {
        done = done.and(io.wait(write).check().map(drop));
    }
    done?;
    match method.sync_op() {
        Some(op) => io.run(Io::new(file.clone(), op, target())).map(drop),
        None => Ok(()),
    }
}

/// The fastest method, or `None` if none works.
pub fn choose(measured: &[Measured]) -> Option<SyncMethod> {
    let scores =
        measured.iter().filter_map(|(method, rates)| Some((*method, rates.as_ref().ok()?.score())));
    let default = scores.clone().find(|(method, _)| *method == SyncMethod::Fdatasync);
    // Of equals, the first.
    let best = scores.reduce(|best, next| if next.1 > best.1 { next } else { best });
    match (default, best) {
        (Some((default, score)), Some((_, best))) if best < score * MARGIN => Some(default),
        (_, best) => best.map(|(method, _)| method),
    }
}

impl Choice {
    /// The reason for the choice, as a sentence for the server's log.
    pub fn reason(&self) -> String {
        let each: Vec<String> = self
            .measured
            .iter()
            .map(|(method, rates)| match rates {
                Ok(Rates { one, several }) => {
                    format!("{} {one:.0} and {several:.0}", method.name())
                }
                Err(failure) => format!("{} failed ({failure})", method.name()),
            })
            .collect();
        format!(
            "{} is the best here: blocks made durable in a second, \
             by one write at a time and by {SEVERAL}: {}",
            self.method.name(),
            each.join(", ")
        )
    }

    /// The text to store for later starts.
    pub fn to_text(&self) -> String {
        let mut text = String::from(
            "# How WAL is made durable where wal_sync_method is auto, \
             as measured when the server first started so.\n\
             # Remove this file to have it measured again.\n",
        );
        let on = if self.conditions.direct { "on" } else { "off" };
        text.push_str(&format!(
            "method = {}\ndirect = {on}\nio_method = {}\n",
            self.method.name(),
            self.conditions.io_method
        ));
        text.push_str("# Blocks made durable in a second, by one write at a time and by several\n");
        for (method, rates) in &self.measured {
            let name = method.name();
            match rates {
                Ok(Rates { one, several }) => {
                    text.push_str(&format!("{name} = {one:.1} {several:.1}\n"))
                }
                Err(failure) => {
                    text.push_str(&format!("{name} = failed: {}\n", failure.replace('\n', " ")))
                }
            }
        }
        text
    }

    /// Parses a stored text; `None` if it is not valid.
    pub fn from_text(text: &str) -> Option<Choice> {
        let mut values = std::collections::BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.split_once('=')?;
            values.insert(name.trim(), value.trim());
        }
        let direct = match *values.get("direct")? {
            "on" => true,
            "off" => false,
            _ => return None,
        };
        let io_method = (*values.get("io_method")?).to_owned();
        let measured = SyncMethod::NAMES.iter().filter_map(|(name, method)| {
            let value = *values.get(name)?;
            Some((
                *method,
                parse_rates(value).ok_or_else(|| value.trim_start_matches("failed: ").to_owned()),
            ))
        });
        Some(Choice {
            method: SyncMethod::by_name(values.get("method")?)?,
            conditions: Conditions { direct, io_method },
            measured: measured.collect(),
        })
    }
}

fn parse_rates(text: &str) -> Option<Rates> {
    let (one, several) = text.split_once(' ')?;
    Some(Rates { one: one.parse().ok()?, several: several.trim().parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(one: f64, several: f64) -> Result<Rates, String> {
        Ok(Rates { one, several })
    }

    #[test]
    fn another_method_must_be_clearly_faster_than_the_default() {
        use SyncMethod::*;
        let choose = |all: [Result<Rates, String>; 4]| {
            let names = SyncMethod::NAMES.iter().map(|(_, method)| *method);
            choose(&names.zip(all).collect::<Vec<_>>())
        };
        let none = || Err("not available".to_owned());
        let a = choose([
            rates(100.0, 400.0),
            rates(105.0, 420.0),
            rates(90.0, 300.0),
            rates(104.0, 410.0),
        ]);
        assert_eq!(a, Some(Fdatasync), "5 % is noise");
        let a = choose([
            rates(100.0, 400.0),
            rates(150.0, 900.0),
            rates(90.0, 300.0),
            rates(140.0, 800.0),
        ]);
        assert_eq!(a, Some(OpenDatasync));
        let a = choose([none(), none(), rates(90.0, 300.0), rates(90.0, 300.0)]);
        assert_eq!(a, Some(Fsync), "of equals the first");
        assert_eq!(choose([none(), none(), none(), rates(1.0, 1.0)]), Some(OpenSync));
        assert_eq!(choose([none(), none(), none(), none()]), None);
    }

    #[test]
    fn a_choice_survives_its_text_form() {
        let choice = Choice {
            method: SyncMethod::OpenDatasync,
            conditions: Conditions { direct: true, io_method: "io_uring".to_owned() },
            measured: vec![
                (SyncMethod::Fdatasync, rates(1000.5, 2000.0)),
                (SyncMethod::OpenDatasync, rates(1500.0, 9000.0)),
                (
                    SyncMethod::OpenSync,
                    Err("could not open file \"x\": Invalid argument".to_owned()),
                ),
            ],
        };
        let text = choice.to_text();
        assert_eq!(Choice::from_text(&text), Some(choice.clone()));
        assert!(
            choice.reason().starts_with("open_datasync is the best here"),
            "{}",
            choice.reason()
        );
        for damaged in [
            "",
            "method = open_datasync\n",
            "\0\0\0",
            "method = x\ndirect = on\nio_method = sync\n",
        ] {
            assert_eq!(Choice::from_text(damaged), None, "{damaged:?}");
        }
        assert_eq!(Choice::from_text(&text.replace("= on", "= maybe")), None);
    }
}
