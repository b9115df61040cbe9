//! Faults that the disk makes on its own, by chance, beside the crash; and how often each class has fired.

use std::collections::BTreeMap;
use std::fmt;

use crate::dice::Dice;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultClass {
    /// The power fails.
    Crash,
    /// A read fails with EIO.
    ReadError,
    /// A write fails with EIO, with nothing or a part done.
    WriteError,
    /// There is no space: a file can't grow.
    NoSpace,
    /// A transfer stops short.
    Short,
    /// A sync fails, and what it was to make durable never will be.
    FailedSync,
}

impl fmt::Display for FaultClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FaultClass::Crash => "crash",
            FaultClass::ReadError => "read error",
            FaultClass::WriteError => "write error",
            FaultClass::NoSpace => "no space",
            FaultClass::Short => "short transfer",
            FaultClass::FailedSync => "failed sync",
        })
    }
}

/// How likely each class is, in thousandths of the calls that it may strike.
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
    /// [`FaultClass::FailedSync`].
    pub failed_sync: u32,
}

/// The faults of one disk.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    pub rates: FaultRates,
    pub dice: Dice,
    fired: BTreeMap<FaultClass, u64>,
}

impl Faults {
    pub fn new(seed: u64) -> Faults {
        Faults { rates: FaultRates::default(), dice: Dice::new(seed), fired: BTreeMap::new() }
    }

    /// Whether a fault of this class strikes now.
    pub fn strikes(&mut self, class: FaultClass) -> bool {
        let share = match class {
            FaultClass::Crash => 0,
            FaultClass::ReadError => self.rates.read_error,
            FaultClass::WriteError => self.rates.write_error,
            FaultClass::NoSpace => self.rates.no_space,
            FaultClass::Short => self.rates.short,
            FaultClass::FailedSync => self.rates.failed_sync,
        };
        let strikes = self.dice.chance(share);
        if strikes {
            self.count(class);
        }
        strikes
    }

    pub fn count(&mut self, class: FaultClass) {
        *self.fired.entry(class).or_default() += 1;
    }

    pub fn fired(&self) -> BTreeMap<FaultClass, u64> {
        self.fired.clone()
    }
}
