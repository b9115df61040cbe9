//! The figures of `forebay bench replacement`.

use serde::Serialize;

use super::trace::Trace;
use crate::table::{TextTable, short};

/// What a policy made of a trace.
#[derive(Serialize)]
pub(super) struct Outcome {
    pub(super) policy: &'static str,
    pub(super) hit_rate: f64,
    /// The hit rate of all but bulk accesses, where there are both.
    pub(super) normal_hit_rate: Option<f64>,
    /// How far the hit rate is below Belady's optimum.
    pub(super) below_optimum: f64,
    pub(super) steps_per_miss: f64,
    /// What a hit writes to memory that all backends share, beside the pin.
    pub(super) hit_writes: &'static str,
}

/// A trace and a size of the pool.
#[derive(Serialize)]
pub(super) struct Case {
    trace: String,
    pages: usize,
    references: usize,
    buffers: usize,
    outcomes: Vec<Outcome>,
}

impl Case {
    /// The optimum is the last outcome.
    pub(super) fn new(trace: &Trace, buffers: usize, mut outcomes: Vec<Outcome>) -> Case {
        let optimum = outcomes.last().map_or(0.0, |optimum| optimum.hit_rate);
        outcomes.iter_mut().for_each(|outcome| outcome.below_optimum = optimum - outcome.hit_rate);
        Case {
            trace: trace.name.clone(),
            pages: trace.pages,
            references: trace.references.len() - trace.begin,
            buffers,
            outcomes,
        }
    }
}

/// All figures; the JSON object's fields.
#[derive(Serialize)]
pub(super) struct Figures {
    bench: &'static str,
    version: u32,
    results: Vec<Case>,
}

impl Figures {
    pub(super) fn new(results: Vec<Case>) -> Figures {
        Figures { bench: "replacement", version: 1, results }
    }

    pub(super) fn text(&self) -> String {
        let mixed = |case: &&Case| case.outcomes.iter().any(|o| o.normal_hit_rate.is_some());
        let percent = |part: f64| format!("{:.1}", 100.0 * part);
        let mut text = "Hits of all references, percent:\n".to_owned();
        text += &self.table(|_| true, |outcome| percent(outcome.hit_rate));
        if self.results.iter().any(|case| mixed(&case)) {
            text += "\nHits of the references that are not bulk accesses, percent:\n";
            let cell =
                |outcome: &Outcome| outcome.normal_hit_rate.map_or_else(String::new, percent);
            text += &self.table(mixed, cell);
        }
        text += "\nBuffers, queue entries and ghosts looked at for a miss:\n";
        text += &self.table(|_| true, |outcome| short(outcome.steps_per_miss));
        text += "\nWhat a hit writes beside the pin: ";
        let first = self.results.first().map_or(&[][..], |case| &case.outcomes);
        let writes = first.iter().map(|outcome| match outcome.hit_writes {
            "-" => format!("{}: nothing", outcome.policy),
            writes => format!("{}: {writes}", outcome.policy),
        });
        text + &writes.collect::<Vec<_>>().join("; ") + ".\n"
    }

    fn table(&self, wanted: impl Fn(&&Case) -> bool, cell: impl Fn(&Outcome) -> String) -> String {
        let policies = self.results.first().map_or(&[][..], |case| &case.outcomes);
        let names = policies.iter().map(|outcome| outcome.policy);
        let mut table = TextTable::new(["trace", "pages", "pool"].into_iter().chain(names));
        for case in self.results.iter().filter(wanted) {
            let mut cells =
                vec![case.trace.clone(), case.pages.to_string(), case.buffers.to_string()];
            cells.extend(case.outcomes.iter().map(&cell));
            table.row(cells);
        }
        table.text()
    }
}
