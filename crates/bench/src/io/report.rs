//! The figures of `forebay bench io`.

use forebay_aio::{DirectAlignment, DirectRefusal};
use forebay_format::BLOCK_SIZE;
use serde::Serialize;

use super::align::{AlignmentRow, HUGE};
use super::plan::{Case, IoTable};
use crate::methods::mode;
use crate::stats::{Rates, Transfer};
use crate::table::{TextTable, short};

/// All figures; the JSON object's fields.
#[derive(Serialize)]
pub(super) struct Figures {
    pub(super) bench: &'static str,
    pub(super) version: u32,
    pub(super) path: String,
    pub(super) filesystem: String,
    pub(super) file_bytes: u64,
    pub(super) block_bytes: usize,
    pub(super) rounds: usize,
    pub(super) run_seconds: f64,
    pub(super) direct: Direct,
    pub(super) methods: Vec<MethodRow>,
    pub(super) results: Vec<CaseRow>,
    pub(super) alignment: Vec<AlignmentRow>,
}

/// What direct I/O demands, or why it is not possible.
#[derive(Default, Serialize)]
pub(super) struct Direct {
    memory_alignment: Option<usize>,
    offset_alignment: Option<usize>,
    refusal: Option<String>,
    note: Option<String>,
}

impl Direct {
    pub(super) fn of(probed: Result<DirectAlignment, DirectRefusal>) -> Direct {
        match probed {
            Ok(wants) => Direct {
                memory_alignment: Some(wants.memory),
                offset_alignment: Some(wants.offset),
                refusal: None,
                note: wants.note,
            },
            Err(refusal) => Direct { refusal: Some(refusal.to_string()), ..Direct::default() },
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if let (Some(memory), Some(offset)) = (self.memory_alignment, self.offset_alignment) {
            text += &format!(
                "Direct I/O wants memory aligned to {memory} bytes, offsets to {offset}.\n"
            );
        }
        if let Some(note) = &self.note {
            text += &format!("Note: {note}.\n");
        }
        if let Some(refusal) = &self.refusal {
            text += &format!("No direct I/O: {refusal}.\n");
        }
        text
    }
}

/// A method, and why it can't be used, if so.
#[derive(Serialize)]
pub(super) struct MethodRow {
    pub(super) method: &'static str,
    pub(super) refusal: Option<String>,
}

/// One case's figures over all rounds.
#[derive(Serialize)]
pub(super) struct CaseRow {
    #[serde(flatten)]
    case: Case,
    #[serde(flatten)]
    rates: Rates,
}

impl CaseRow {
    pub(super) fn of(case: Case, samples: &[Transfer]) -> CaseRow {
        CaseRow { case, rates: Rates::of(samples.iter().copied()) }
    }
}

impl Figures {
    pub(super) fn text(&self) -> String {
        let mut text = self.heading();
        for table in IoTable::ALL {
            let rows: Vec<&CaseRow> =
                self.results.iter().filter(|row| row.case.table == table).collect();
            if !rows.is_empty() {
                text += &format!("\n{}\n\n{}", table.title(), case_table(&rows));
            }
        }
        if !self.alignment.is_empty() {
            let table = alignment_table(&self.alignment);
            text += &format!("\n{}\n\n{table}", IoTable::Alignment.title());
        }
        text
    }

    fn heading(&self) -> String {
        let mut text = format!(
            "I/O in \"{}\" (file system {}), a file of {} MB, blocks of {BLOCK_SIZE} bytes; \
             medians of {} rounds of {} s,\n\
             smallest and largest in brackets; MB and GB are 10^6 and 10^9 bytes; \
             processor time is user and system.\n",
            self.path,
            self.filesystem,
            self.file_bytes / 1_000_000,
            self.rounds,
            self.run_seconds,
        );
        text += &self.direct.text();
        for row in &self.methods {
            if let Some(refusal) = &row.refusal {
                text += &format!("No {}: {refusal}.\n", row.method);
            }
        }
        text
    }
}

fn case_table(rows: &[&CaseRow]) -> String {
    let with_checksums = rows.iter().any(|row| row.case.checksums);
    let mut heading = vec!["method", "mode", "blocks", "depth"];
    heading.extend(with_checksums.then_some("checksums"));
    heading.extend(["MB/s", "I/Os a second", "CPU s/GB"]);
    let mut table = TextTable::new(heading);
    for CaseRow { case, rates } in rows {
        let mut cells = vec![case.method.name().to_owned(), mode(case.direct).to_owned()];
        cells.extend([case.combine.to_string(), case.depth.to_string()]);
        cells.extend(with_checksums.then(|| if case.checksums { "on" } else { "off" }.to_owned()));
        cells.extend(rates.cells());
        cells.push(short(rates.cpu_seconds_per_gb.median));
        table.row(cells);
    }
    table.text()
}

fn alignment_table(rows: &[AlignmentRow]) -> String {
    let offset = |row: &AlignmentRow| match row.offset {
        HUGE => "2 MiB".to_owned(),
        bytes => bytes.to_string(),
    };
    let direct = |row: &AlignmentRow| match (&row.direct, &row.refusal) {
        (Some(rate), _) => rate.per(1e6).text(),
        (None, Some(refusal)) => format!("refused: {refusal}"),
        (None, None) => String::new(),
    };
    let table = TextTable::of(
        rows,
        &[
            ("offset", &|row| offset(row)),
            ("cached, GB/s of CPU time", &|row| row.buffered.per(1e9).text()),
            ("direct, MB/s", &|row| direct(row)),
            ("one checksum, GB/s of CPU time", &|row| row.checksum.per(1e9).text()),
        ],
    );
    table.text()
}
