//! Faults other than crashes, at random or at one chosen call, and how often each class has fired.

use std::collections::BTreeMap;
use std::fmt;

use forebay_aio::Errno;

use forebay_testkit::Dice;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultClass {
    /// The power fails.
    Crash,
    /// The process is killed. The system keeps what it has.
    Kill,
    /// A write that was not synced is gone after a crash.
    LostUnsynced,
    /// A part of an unsynced write is there after a crash.
    TornWrite,
    /// A write that was in flight when the power failed reached the medium.
    InFlightKept,
    /// A new length is gone after a crash.
    LostLength,
    /// A new name, a renaming or a removal is gone after a crash.
    LostName,
    /// A read fails with EIO.
    ReadError,
    /// A write fails with EIO, with nothing or a part done.
    WriteError,
    /// There is no space for a file to grow.
    NoSpace,
    /// A transfer is short.
    Short,
    /// A call is interrupted before it has done anything.
    Interrupted,
    /// A sync fails, and the changes never become durable.
    FailedSync,
    /// A sync fails although everything is durable.
    FalseAlarm,
    /// A call on names fails.
    NameError,
    /// A write is acknowledged and never made.
    LostWrite,
    /// A write is acknowledged and made elsewhere.
    Misdirected,
    /// Bytes on the medium change without a write.
    Rot,
}

impl fmt::Display for FaultClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FaultClass::Crash => "crash",
            FaultClass::Kill => "kill",
            FaultClass::LostUnsynced => "unsynced write lost",
            FaultClass::TornWrite => "unsynced write torn",
            FaultClass::InFlightKept => "write in flight kept",
            FaultClass::LostLength => "length lost",
            FaultClass::LostName => "name lost",
            FaultClass::ReadError => "read error",
            FaultClass::WriteError => "write error",
            FaultClass::NoSpace => "no space",
            FaultClass::Short => "short transfer",
            FaultClass::Interrupted => "interrupted call",
            FaultClass::FailedSync => "failed sync",
            FaultClass::FalseAlarm => "sync failing falsely",
            FaultClass::NameError => "error of a call on names",
            FaultClass::LostWrite => "write lost after its sync",
            FaultClass::Misdirected => "misdirected write",
            FaultClass::Rot => "rot",
        })
    }
}

/// How likely each class is, in thousandths of the calls that it can strike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultRates {
    /// [`FaultClass::ReadError`].
    pub read_error: u32,
    /// [`FaultClass::WriteError`].
    pub write_error: u32,
    /// [`FaultClass::NoSpace`].
    pub no_space: u32,
    /// [`FaultClass::Short`].
    pub short: u32,
    /// [`FaultClass::Interrupted`].
    pub interrupted: u32,
    /// [`FaultClass::FailedSync`].
    pub failed_sync: u32,
    /// [`FaultClass::FalseAlarm`].
    pub false_alarm: u32,
    /// [`FaultClass::NameError`].
    pub name_error: u32,
    /// [`FaultClass::LostWrite`], of the files of relations.
    pub lost_write: u32,
    /// [`FaultClass::LostWrite`], of pg_xact and pg_control.
    pub lost_bookkeeping: u32,
    /// [`FaultClass::Misdirected`], among the files of relations.
    pub misdirected: u32,
}

/// What a file is. It decides which faults can strike its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A table's file, whose pages have checksums.
    Relation,
    /// A file of pg_xact, or pg_control.
    Bookkeeping,
    /// A file of the log, or another one.
    Other,
}

/// What a call does. It decides which faults can strike it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// A file is synced.
    Sync,
    /// A directory is synced.
    SyncNames,
    /// A file's length or allocation changes.
    Resize,
    /// A name is looked up: open, stat, list.
    Look,
    /// A name is created, moved or removed.
    Rename,
}

/// How the chosen call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// EIO. A failed write may be done in part; a failed sync drops its changes.
    Error,
    /// ENOSPC, from any call.
    NoSpace,
    /// EINTR, from reads, writes and syncs of files.
    Interrupted,
    /// A short transfer.
    Short,
    /// A sync that fails although everything is durable.
    FalseAlarm,
}

impl Failure {
    /// All of them.
    pub const ALL: [Failure; 5] = [
        Failure::Error,
        Failure::NoSpace,
        Failure::Interrupted,
        Failure::Short,
        Failure::FalseAlarm,
    ];

    /// The fault that strikes a call of this kind, if any.
    pub(crate) fn on(self, kind: CallKind) -> Option<Strike> {
        use CallKind::*;
        Some(match (self, kind) {
            (Failure::Error, Read) => Strike::Refuse(FaultClass::ReadError, Errno::IO),
            (Failure::Error, Write) => Strike::Part(FaultClass::WriteError, Some(Errno::IO)),
            (Failure::Error, Sync) => Strike::Forget,
            (Failure::Error, _) => Strike::Refuse(FaultClass::NameError, Errno::IO),
            (Failure::NoSpace, Read | Look) => return None,
            (Failure::NoSpace, Write) => Strike::Part(FaultClass::NoSpace, Some(Errno::NOSPC)),
            (Failure::NoSpace, Sync) => Strike::Forget,
            (Failure::NoSpace, _) => Strike::Refuse(FaultClass::NoSpace, Errno::NOSPC),
            (Failure::Interrupted, Read | Write | Sync) => {
                Strike::Refuse(FaultClass::Interrupted, Errno::INTR)
            }
            (Failure::Short, Read | Write) => Strike::Part(FaultClass::Short, None),
            (Failure::FalseAlarm, Sync) => Strike::Alarm,
            (Failure::Interrupted | Failure::Short | Failure::FalseAlarm, _) => return None,
        })
    }
}

/// The fault that strikes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strike {
    /// Nothing is done.
    Refuse(FaultClass, Errno),
    /// A transfer moves a part, and fails or reports it.
    Part(FaultClass, Option<Errno>),
    /// A sync fails, and its changes are dropped.
    Forget,
    /// A sync fails although it has done its work.
    Alarm,
    /// A write is not made.
    Lose,
    /// A write is made elsewhere.
    Misdirect,
}

impl Strike {
    fn class(self) -> FaultClass {
        match self {
            Strike::Refuse(class, _) | Strike::Part(class, _) => class,
            Strike::Forget => FaultClass::FailedSync,
            Strike::Alarm => FaultClass::FalseAlarm,
            Strike::Lose => FaultClass::LostWrite,
            Strike::Misdirect => FaultClass::Misdirected,
        }
    }
}

/// How often each class has fired.
pub type Fired = BTreeMap<FaultClass, u64>;

/// The faults of one disk.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    pub rates: FaultRates,
    pub dice: Dice,
    fired: Fired,
    /// The number of calls so far.
    calls: u64,
    /// The call that fails, and how.
    chosen: Option<(u64, Failure)>,
    /// The call that was struck.
    struck: Option<String>,
}

impl Faults {
    pub fn new(seed: u64) -> Faults {
        Faults {
            rates: FaultRates::default(),
            dice: Dice::new(seed),
            fired: Fired::new(),
            calls: 0,
            chosen: None,
            struck: None,
        }
    }

    /// Decides on the next call, which is of this kind, on `what`. `grows`: it needs space.
    pub fn next(
        &mut self,
        kind: CallKind,
        what: &dyn fmt::Debug,
        grows: bool,
        file: FileKind,
    ) -> Option<Strike> {
        let number = self.calls;
        self.calls += 1;
        let strike = match self.chosen {
            Some((at, failure)) if at == number => {
                let strike = failure.on(kind);
                if strike.is_some() {
                    self.struck = Some(format!("{failure:?} of {kind:?} of {what:?}"));
                }
                strike
            }
            _ => self.by_chance(kind, grows, file),
        };
        if let Some(strike) = strike {
            self.count(strike.class(), 1);
        }
        strike
    }

    fn by_chance(&mut self, kind: CallKind, grows: bool, file: FileKind) -> Option<Strike> {
        let rates = self.rates;
        if rates == FaultRates::default() {
            return None;
        }
        let lost = match file {
            FileKind::Relation => rates.lost_write,
            FileKind::Bookkeeping => rates.lost_bookkeeping,
            FileKind::Other => 0,
        };
        let misdirected = if file == FileKind::Relation { rates.misdirected } else { 0 };
        let mut falls = |share: u32| share > 0 && self.dice.chance(share);
        match kind {
            CallKind::Read | CallKind::Write | CallKind::Sync if falls(rates.interrupted) => {
                Failure::Interrupted.on(kind)
            }
            CallKind::Read if falls(rates.read_error) => Failure::Error.on(kind),
            CallKind::Write if falls(rates.write_error) => Failure::Error.on(kind),
            CallKind::Read | CallKind::Write if falls(rates.short) => Failure::Short.on(kind),
            CallKind::Write | CallKind::Resize if grows && falls(rates.no_space) => {
                Failure::NoSpace.on(kind)
            }
            CallKind::Write if !grows && falls(lost) => Some(Strike::Lose),
            CallKind::Write if !grows && falls(misdirected) => Some(Strike::Misdirect),
            CallKind::Sync if falls(rates.failed_sync) => Some(Strike::Forget),
            CallKind::Sync if falls(rates.false_alarm) => Some(Strike::Alarm),
            CallKind::SyncNames | CallKind::Resize | CallKind::Look | CallKind::Rename
                if falls(rates.name_error) =>
            {
                Failure::Error.on(kind)
            }
            _ => None,
        }
    }

    /// Lets call number `at` from now on fail.
    pub fn choose(&mut self, at: u64, failure: Failure) {
        self.chosen = Some((self.calls + at, failure));
    }

    /// The call that the chosen fault struck, if it struck any.
    pub fn struck(&self) -> Option<String> {
        self.struck.clone()
    }

    pub fn calls(&self) -> u64 {
        self.calls
    }

    pub fn count(&mut self, class: FaultClass, n: u64) {
        if n > 0 {
            *self.fired.entry(class).or_default() += n;
        }
    }

    pub fn fired(&self) -> Fired {
        self.fired.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_struck_as_its_kind_can_be() {
        use CallKind::*;
        for kind in [Read, Write, Sync, SyncNames, Resize, Look, Rename] {
            assert!(Failure::Error.on(kind).is_some(), "{kind:?}");
        }
        assert_eq!(Failure::Short.on(Sync), None);
        assert_eq!(Failure::FalseAlarm.on(Write), None);
        assert_eq!(Failure::Error.on(Sync), Some(Strike::Forget));
    }

    #[test]
    fn the_chosen_call_fails_and_no_other() {
        let mut faults = Faults::new(1);
        faults.choose(2, Failure::Error);
        let struck: Vec<bool> = (0..5)
            .map(|_| faults.next(CallKind::Read, &"f", false, FileKind::Other).is_some())
            .collect();
        assert_eq!(struck, [false, false, true, false, false]);
        assert_eq!(faults.fired().get(&FaultClass::ReadError), Some(&1));
        assert!(faults.struck().is_some_and(|what| what.contains("Read")));
    }
}
