//! What the runs gave, as tables for people and JSON for programs.

use super::super::json::Json;
use super::super::measure::Spread;
use super::super::table::TextTable;
use super::files::SEGMENT;
use super::{MarksSample, StoreSample};

/// Marks, and a module that only says yes.
#[derive(Clone, Copy, Debug)]
pub struct MarksRow {
    /// Files.
    pub files: u64,
    /// From the start until all are archived, durably noted.
    pub seconds: Spread,
    /// Until the first are.
    pub first_seconds: Spread,
    /// Processor time, user and system.
    pub cpu_seconds: Spread,
}

impl MarksRow {
    pub(super) fn of(files: u64, samples: &[MarksSample]) -> MarksRow {
        let each = |value: fn(&MarksSample) -> f64| Spread::of(samples.iter().map(value).collect());
        MarksRow {
            files,
            seconds: each(|s| s.all),
            first_seconds: each(|s| s.first),
            cpu_seconds: each(|s| s.cpu),
        }
    }
}

/// Segments that are stored.
#[derive(Clone, Copy, Debug)]
pub struct StoreRow {
    /// Read and written past the kernel's cache.
    pub direct: bool,
    /// So many at a time.
    pub transfers: usize,
    /// Bytes a second.
    pub bytes_per_second: Spread,
    /// Of the bytes that the device stores in a second, by the mean of the answers before and
    /// after.
    pub part_of_device: Option<Spread>,
    /// Processor time for 10^9 bytes, user and system.
    pub cpu_seconds_per_gb: Spread,
}

impl StoreRow {
    pub(super) fn of(
        (direct, transfers): (bool, usize),
        segments: u64,
        samples: &[StoreSample],
    ) -> StoreRow {
        let bytes = (segments * SEGMENT.bytes()) as f64;
        let each =
            |value: &dyn Fn(&StoreSample) -> f64| Spread::of(samples.iter().map(value).collect());
        let parts: Vec<f64> =
            samples.iter().filter_map(|s| Some(bytes / s.seconds / s.device?)).collect();
        StoreRow {
            direct,
            transfers,
            bytes_per_second: each(&|s| bytes / s.seconds),
            part_of_device: (!parts.is_empty()).then(|| Spread::of(parts)),
            cpu_seconds_per_gb: each(&|s| s.cpu / (bytes / 1e9)),
        }
    }
}

/// All figures.
#[derive(Clone, Debug)]
pub struct ArchiveReport {
    /// io_method.
    pub method: &'static str,
    /// Marks alone.
    pub marks: Vec<MarksRow>,
    /// Bytes a second that the device stores
    /// ([`DeviceJob::Store`](super::super::wal::DeviceJob::Store)).
    pub device: Option<Spread>,
    /// Segments stored.
    pub stores: Vec<StoreRow>,
    /// The object store in which they were stored; None: a directory.
    pub archive: Option<String>,
    /// What is to be said of them.
    pub notes: Vec<String>,
}

impl ArchiveReport {
    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if !self.marks.is_empty() {
            text += "Files marked at a start, and a module that only says yes (medians of seconds, smallest and largest):\n";
            let mut table =
                TextTable::new(["files", "all noted durably", "the first", "processor"]);
            for row in &self.marks {
                let cells = [row.seconds, row.first_seconds, row.cpu_seconds].map(Spread::text);
                table.row([row.files.to_string()].into_iter().chain(cells));
            }
            text += &table.text();
        }
        if !self.stores.is_empty() {
            let place = self
                .archive
                .as_ref()
                .map_or("in a directory".to_owned(), |url| format!("at {url}"));
            text += &format!("Segments of 16 MB stored {place}, method {}:\n", self.method);
            let mut table = TextTable::new(["way", "MB/s", "part of the device's", "CPU s/GB"]);
            if let Some(device) = self.device {
                table.row(["the device, storing".to_owned(), device.per(1e6).text()]);
            }
            for row in &self.stores {
                let part = row.part_of_device.map_or_else(|| "-".to_owned(), Spread::text);
                let way = match (&self.archive, row.direct) {
                    (Some(_), _) => "",
                    (None, true) => "direct, ",
                    (None, false) => "buffered, ",
                };
                table.row([
                    format!("{way}{} at a time", row.transfers),
                    row.bytes_per_second.per(1e6).text(),
                    part,
                    row.cpu_seconds_per_gb.text(),
                ]);
            }
            text += &table.text();
        }
        self.notes.iter().for_each(|note| text += &format!("{note}\n"));
        text
    }

    /// For programs.
    pub fn json(&self) -> String {
        let marks = self.marks.iter().map(|row| {
            Json::Object(vec![
                ("files", Json::Int(row.files)),
                ("seconds", row.seconds.json()),
                ("first_seconds", row.first_seconds.json()),
                ("cpu_seconds", row.cpu_seconds.json()),
            ])
        });
        let stores = self.stores.iter().map(|row| {
            Json::Object(vec![
                ("direct", Json::Bool(row.direct)),
                ("transfers", Json::Int(row.transfers as u64)),
                ("bytes_per_second", row.bytes_per_second.json()),
                ("part_of_device", Json::maybe(row.part_of_device, Spread::json)),
                ("cpu_seconds_per_gb", row.cpu_seconds_per_gb.json()),
            ])
        });
        let report = Json::Object(vec![
            ("io_method", Json::text(self.method)),
            ("marks", Json::list(marks)),
            ("archive", Json::maybe(self.archive.as_ref(), Json::text)),
            ("device_bytes_per_second", Json::maybe(self.device, Spread::json)),
            ("stores", Json::list(stores)),
            ("notes", Json::list(self.notes.iter().map(Json::text))),
        ]);
        report.to_string()
    }
}
