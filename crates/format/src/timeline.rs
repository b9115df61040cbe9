//! Timelines and their history files: which part of a log is on which timeline.
//!
//! A cluster that is recovered to a point in the past continues there on a new timeline, with its
//! own segment files. The file `TTTTTTTT.history` states where the timeline branched off. It has a
//! line for each ancestor, the oldest first:
//!
//! ```text
//!   parent, decimal <tab> switch point, X/X <tab> reason
//! ```
//!
//! ```text
//!   timeline 1  ------------------+------------->  (lost)
//!                                 | 0/3000000
//!   timeline 2                    +----------+-->  (lost)
//!                                            | 0/5000000
//!   timeline 3                               +------->        3.history:  1  0/3000000
//!                                                                         2  0/5000000
//! ```
//!
//! Empty lines, lines that begin with `#`, and the text behind the switch point are ignored.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fmt::Write as _;

use crate::{ids::TimelineId, lsn::Lsn};

/// Name of a timeline's history file. Timeline 1 has none.
pub fn history_file_name(timeline: TimelineId) -> String {
    format!("{timeline:08X}.history")
}

/// The timeline whose history file has a name.
pub fn parse_history_file_name(name: &str) -> Option<TimelineId> {
    let digits = name.strip_suffix(".history")?;
    let shaped = digits.len() == 8
        && digits.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b));
    shaped.then(|| TimelineId::from_str_radix(digits, 16).ok()).flatten()
}

/// A part of the log that is on one timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineStretch {
    /// The timeline.
    pub timeline: TimelineId,
    /// Where it begins; 0 for the first.
    pub begin: Lsn,
    /// Where the next one begins; `None` for the last.
    pub end: Option<Lsn>,
}

/// A timeline and its ancestors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineHistory {
    /// The oldest first; never empty.
    stretches: Vec<TimelineStretch>,
}

/// Why a history file is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// A line is not an entry.
    #[error("syntax error in history file, line {line}: \"{text}\"")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// The line.
        text: String,
    },
    /// Timelines or switch points do not ascend.
    #[error(
        "invalid data in history file, line {line}: \
         timeline IDs and switch points must be in increasing sequence"
    )]
    Order {
        /// Counted from 1.
        line: usize,
    },
    /// An ancestor is not older than the timeline itself.
    #[error("invalid data in history file: timeline IDs must be less than child timeline's ID {0}")]
    NotAnAncestor(TimelineId),
}

impl TimelineHistory {
    /// A timeline without ancestors.
    pub fn alone(timeline: TimelineId) -> TimelineHistory {
        TimelineHistory {
            stretches: vec![TimelineStretch { timeline, begin: Lsn::INVALID, end: None }],
        }
    }

    /// Parses the history file of `timeline`.
    pub fn parse(timeline: TimelineId, text: &str) -> Result<TimelineHistory, HistoryError> {
        let mut stretches: Vec<TimelineStretch> = Vec::new();
        let mut begin = Lsn::INVALID;
        for (number, line) in (1..).zip(text.lines()) {
            let entry = line.trim_start();
            if entry.is_empty() || entry.starts_with('#') {
                continue;
            }
            let syntax = || HistoryError::Syntax { line: number, text: line.to_owned() };
            let (parent, end) = parse_entry(entry).ok_or_else(syntax)?;
            if stretches.last().is_some_and(|last| last.timeline >= parent) || end < begin {
                return Err(HistoryError::Order { line: number });
            }
            stretches.push(TimelineStretch { timeline: parent, begin, end: Some(end) });
            begin = end;
        }
        if stretches.last().is_some_and(|last| last.timeline >= timeline) {
            return Err(HistoryError::NotAnAncestor(timeline));
        }
        stretches.push(TimelineStretch { timeline, begin, end: None });
        Ok(TimelineHistory { stretches })
    }

    /// The history file's text, with `reason` for the last switch. Earlier reasons are not kept.
    pub fn to_text(&self, reason: &str) -> String {
        let mut out = String::new();
        let ends =
            self.stretches.iter().filter_map(|stretch| Some((stretch.timeline, stretch.end?)));
        let count = self.stretches.len().saturating_sub(1);
        for (n, (timeline, end)) in ends.enumerate() {
            let why = if n + 1 == count { reason } else { "" };
            writeln!(out, "{timeline}\t{end}\t{why}").expect("writing to a String succeeds");
        }
        out
    }

    /// The timeline itself.
    pub fn timeline(&self) -> TimelineId {
        self.stretches.last().expect("a history is never empty").timeline
    }

    /// The stretches, the oldest first.
    pub fn stretches(&self) -> &[TimelineStretch] {
        &self.stretches
    }

    /// Whether it is the timeline itself or an ancestor.
    pub fn contains(&self, timeline: TimelineId) -> bool {
        self.stretches.iter().any(|stretch| stretch.timeline == timeline)
    }

    /// The timeline on which the byte at `lsn` was written.
    pub fn at(&self, lsn: Lsn) -> TimelineId {
        let holds = |stretch: &&TimelineStretch| stretch.begin <= lsn;
        let found = self.stretches.iter().rev().find(holds);
        found.expect("the first stretch begins at 0").timeline
    }

    /// Where this history leaves `timeline`; `None` if it does not, or never was on it.
    pub fn switch_point(&self, timeline: TimelineId) -> Option<Lsn> {
        self.stretches.iter().find(|stretch| stretch.timeline == timeline)?.end
    }

    /// The history of a timeline that branches off from this one at `at`.
    pub fn branch(&self, timeline: TimelineId, at: Lsn) -> TimelineHistory {
        let mut stretches = self.stretches.clone();
        stretches.last_mut().expect("a history is never empty").end = Some(at);
        stretches.push(TimelineStretch { timeline, begin: at, end: None });
        TimelineHistory { stretches }
    }
}

/// Parent and switch point of a line.
fn parse_entry(line: &str) -> Option<(TimelineId, Lsn)> {
    let (timeline, rest) = line.split_once(char::is_whitespace)?;
    let point = rest.trim_start().split(char::is_whitespace).next()?;
    let timeline =
        timeline.bytes().all(|b| b.is_ascii_digit()).then(|| timeline.parse().ok()).flatten()?;
    Some((timeline, point.parse().ok()?)).filter(|&(timeline, _)| timeline != 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A file that PostgreSQL wrote.
    const TEXT: &str = "1\t0/3000000\tno recovery target specified\n\n\
        2\t0/5000148\tbefore 2026-11-21 01:02:03+00\n";

    #[test]
    fn a_history_maps_positions_to_timelines() {
        let history = TimelineHistory::parse(3, TEXT).unwrap();
        assert_eq!(history.timeline(), 3);
        assert_eq!(
            [0, 0x2ff_ffff, 0x300_0000, 0x500_0147, 0x500_0148, 9 << 32]
                .map(|at| history.at(Lsn(at))),
            [1, 1, 2, 2, 3, 3]
        );
        assert_eq!(history.switch_point(1), Some(Lsn(0x300_0000)));
        assert_eq!((history.switch_point(3), history.switch_point(7)), (None, None));
        assert!(history.contains(2) && !history.contains(4));
        assert_eq!(TimelineHistory::alone(1).at(Lsn(5)), 1);
        let two = TimelineHistory::alone(1).branch(2, Lsn(0x300_0000));
        assert_eq!(two.branch(3, Lsn(0x500_0148)), history);
    }

    #[test]
    fn names() {
        assert_eq!(history_file_name(0x1A), "0000001A.history");
        assert_eq!(parse_history_file_name("0000001A.history"), Some(0x1A));
        for bad in [
            "0000001a.history",
            "1A.history",
            "0000001A.history.ready",
            "0000001A",
            "+000001A.history",
        ] {
            assert_eq!(parse_history_file_name(bad), None, "{bad}");
        }
    }

    #[test]
    fn files_that_postgresql_accepts_are_parsed() {
        for text in ["# a comment\n1\t0/3000000\n", " 1 0/3000000 why", "1\t0/3000000\tx\r\n\t\n"] {
            let history = TimelineHistory::parse(2, text).unwrap();
            assert_eq!(history, TimelineHistory::alone(1).branch(2, Lsn(0x300_0000)), "{text:?}");
        }
        assert_eq!(TimelineHistory::parse(1, "").unwrap(), TimelineHistory::alone(1));
    }

    #[test]
    fn invalid_files_are_refused() {
        let syntax = [
            "x\n",
            "1\n",
            "1\t\n",
            "1\t0\n",
            "-1\t0/1\n",
            "+1\t0/1\n",
            "0\t0/1\n",
            "1\t0/1x\n",
            "99999999999\t0/1\n",
        ];
        for text in syntax {
            assert!(
                matches!(
                    TimelineHistory::parse(9, text),
                    Err(HistoryError::Syntax { line: 1, .. })
                ),
                "{text:?}"
            );
        }
        let order = |text| TimelineHistory::parse(9, text);
        assert_eq!(order("1\t0/10\n1\t0/20\n"), Err(HistoryError::Order { line: 2 }));
        assert_eq!(order("1\t0/20\n2\t0/10\n"), Err(HistoryError::Order { line: 2 }));
        assert_eq!(TimelineHistory::parse(2, TEXT), Err(HistoryError::NotAnAncestor(2)));
    }

    proptest! {
        #[test]
        fn text_round_trips(
            steps in proptest::collection::vec((1_u32..5, 0_u64..1 << 40), 0..6),
            reason in "[a-z ]{0,20}",
        ) {
            let mut history = TimelineHistory::alone(1);
            let (mut timeline, mut at) = (1, 0);
            for (step, distance) in steps {
                (timeline, at) = (timeline + step, at + distance);
                history = history.branch(timeline, Lsn(at));
            }
            let text = history.to_text(&reason);
            prop_assert_eq!(TimelineHistory::parse(timeline, &text).unwrap(), history);
        }

        #[test]
        fn arbitrary_text_never_panics(timeline: u32, text: String) {
            let _ = TimelineHistory::parse(timeline, &text);
            let _ = parse_history_file_name(&text);
        }
    }
}
