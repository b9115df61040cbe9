//! What the I/O runs gave, for people and for programs.

use forebay_aio::DirectAlignment;
use forebay_format::BLOCK_SIZE;

use super::align::AlignmentRow;
use super::flow::Sample;
use super::json::Json;
use super::measure::Spread;
use super::plan::{Case, IoBench, IoTable, MethodChoice, Operation, Pattern};
use super::table::{TextTable, short};

/// A method, and why it can't be used, if so.
#[derive(Clone, Debug)]
pub struct MethodAvailability {
    /// Which.
    pub method: MethodChoice,
    /// The reason against it.
    pub refusal: Option<String>,
}

/// One run's figures over all rounds.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// Which run.
    pub case: Case,
    /// Bytes a second.
    pub bytes_per_second: Spread,
    /// I/Os a second.
    pub ios_per_second: Spread,
    /// Processor time, user and system, for 10^9 bytes.
    pub cpu_seconds_per_gb: Spread,
}

impl CaseResult {
    pub(super) fn of(case: Case, samples: &[Sample]) -> CaseResult {
        let each = |value: fn(&Sample) -> f64| Spread::of(samples.iter().map(value).collect());
        CaseResult {
            case,
            bytes_per_second: each(|s| s.bytes as f64 / s.seconds),
            ios_per_second: each(|s| s.ios as f64 / s.seconds),
            cpu_seconds_per_gb: each(|s| s.cpu_seconds / (s.bytes as f64 / 1e9)),
        }
    }
}

/// The figures.
#[derive(Clone, Debug)]
pub struct IoReport {
    /// What was measured.
    pub bench: IoBench,
    /// The file system's name.
    pub filesystem: String,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// What direct I/O wants, or why it can't be had.
    pub direct: Result<DirectAlignment, String>,
    /// The methods that were tried.
    pub methods: Vec<MethodAvailability>,
    /// The runs.
    pub results: Vec<CaseResult>,
    /// Memory that is not aligned.
    pub alignment: Vec<AlignmentRow>,
}

impl IoReport {
    /// For people.
    pub fn text(&self) -> String {
        let mut text = self.heading();
        for table in IoTable::ALL {
            let rows: Vec<&CaseResult> =
                self.results.iter().filter(|row| row.case.table == table).collect();
            if !rows.is_empty() {
                text += &format!("\n{}\n\n{}", table.title(), case_table(&rows));
            }
        }
        if !self.alignment.is_empty() {
            text += &format!(
                "\n{}\n\n{}",
                IoTable::Alignment.title(),
                alignment_table(&self.alignment)
            );
        }
        text
    }

    fn heading(&self) -> String {
        let mut text = format!(
            "I/O in \"{}\" (file system {}), a file of {} MB, blocks of {BLOCK_SIZE} bytes; medians of {} rounds of {} s,\n\
             smallest and largest in brackets; MB and GB are 10^6 and 10^9 bytes; processor time is user and system.\n",
            self.bench.path.display(),
            self.filesystem,
            self.file_bytes / 1_000_000,
            self.bench.rounds,
            self.bench.run_time.as_secs_f64(),
        );
        match &self.direct {
            Ok(wants) => {
                text += &format!(
                    "Direct I/O wants memory aligned to {} bytes, offsets to {}.\n",
                    wants.memory, wants.offset
                );
                text +=
                    &wants.note.as_ref().map_or(String::new(), |note| format!("Note: {note}.\n"));
            }
            Err(refusal) => text += &format!("No direct I/O: {refusal}.\n"),
        }
        for said in &self.methods {
            if let Some(refusal) = &said.refusal {
                text += &format!("No {}: {refusal}.\n", said.method.name());
            }
        }
        text
    }

    /// For programs.
    pub fn json(&self) -> String {
        let direct = match &self.direct {
            Ok(wants) => vec![
                ("memory_alignment", Json::Int(wants.memory as u64)),
                ("offset_alignment", Json::Int(wants.offset as u64)),
                ("refusal", Json::Null),
                ("note", Json::maybe(wants.note.clone(), Json::Text)),
            ],
            Err(refusal) => vec![
                ("memory_alignment", Json::Null),
                ("offset_alignment", Json::Null),
                ("refusal", Json::text(refusal)),
                ("note", Json::Null),
            ],
        };
        let methods = self.methods.iter().map(|said| {
            Json::Object(vec![
                ("method", Json::text(said.method.name())),
                ("refusal", Json::maybe(said.refusal.clone(), Json::Text)),
            ])
        });
        Json::Object(vec![
            ("bench", Json::text("io")),
            ("version", Json::Int(1)),
            ("path", Json::text(self.bench.path.display().to_string())),
            ("filesystem", Json::text(&self.filesystem)),
            ("file_bytes", Json::Int(self.file_bytes)),
            ("block_bytes", Json::Int(BLOCK_SIZE as u64)),
            ("rounds", Json::Int(self.bench.rounds as u64)),
            ("run_seconds", Json::Number(self.bench.run_time.as_secs_f64())),
            ("direct", Json::Object(direct)),
            ("methods", Json::list(methods)),
            ("results", Json::list(self.results.iter().map(case_json))),
            ("alignment", Json::list(self.alignment.iter().map(alignment_json))),
        ])
        .to_string()
    }
}

fn mode(direct: bool) -> &'static str {
    if direct { "direct" } else { "buffered" }
}

fn case_table(rows: &[&CaseResult]) -> String {
    let with_checksums = rows.iter().any(|row| row.case.checksums);
    let mut heading = vec!["method", "mode", "blocks", "depth"];
    heading.extend(with_checksums.then_some("checksums"));
    heading.extend(["MB/s", "I/Os a second", "CPU s/GB"]);
    let mut table = TextTable::new(heading);
    for row in rows {
        let case = &row.case;
        let mut cells = vec![case.method.name().to_owned(), mode(case.direct).to_owned()];
        cells.extend([case.combine.to_string(), case.depth.to_string()]);
        cells.extend(with_checksums.then(|| if case.checksums { "on" } else { "off" }.to_owned()));
        cells.push(row.bytes_per_second.per(1e6).text());
        cells.push(format!("{:.0}", row.ios_per_second.median));
        cells.push(short(row.cpu_seconds_per_gb.median));
        table.row(cells);
    }
    table.text()
}

fn alignment_table(rows: &[AlignmentRow]) -> String {
    let mut table = TextTable::new([
        "offset",
        "cached, GB/s of CPU time",
        "direct, MB/s",
        "one checksum, GB/s of CPU time",
    ]);
    for row in rows {
        let direct = match (&row.direct, &row.refusal) {
            (Some(rate), _) => rate.per(1e6).text(),
            (None, Some(refusal)) => format!("refused: {refusal}"),
            (None, None) => String::new(),
        };
        let offset =
            if row.offset == 2 << 20 { "2 MiB".to_owned() } else { row.offset.to_string() };
        table.row([offset, row.buffered.per(1e9).text(), direct, row.checksum.per(1e9).text()]);
    }
    table.text()
}

fn case_json(row: &CaseResult) -> Json {
    let case = &row.case;
    let operation = match case.operation {
        Operation::Read => "read",
        Operation::Write => "write",
    };
    let pattern = match case.pattern {
        Pattern::Sequential => "sequential",
        Pattern::Random => "random",
    };
    Json::Object(vec![
        ("table", Json::text(case.table.name())),
        ("operation", Json::text(operation)),
        ("pattern", Json::text(pattern)),
        ("method", Json::text(case.method.name())),
        ("direct", Json::Bool(case.direct)),
        ("blocks", Json::Int(u64::from(case.combine))),
        ("depth", Json::Int(u64::from(case.depth))),
        ("checksums", Json::Bool(case.checksums)),
        ("bytes_per_second", row.bytes_per_second.json()),
        ("ios_per_second", row.ios_per_second.json()),
        ("cpu_seconds_per_gb", row.cpu_seconds_per_gb.json()),
    ])
}

fn alignment_json(row: &AlignmentRow) -> Json {
    Json::Object(vec![
        ("offset", Json::Int(row.offset as u64)),
        ("buffered_bytes_per_cpu_second", row.buffered.json()),
        ("direct_bytes_per_second", Json::maybe(row.direct, Spread::json)),
        ("direct_refusal", Json::maybe(row.refusal.clone(), Json::Text)),
        ("checksum_bytes_per_cpu_second", row.checksum.json()),
    ])
}
