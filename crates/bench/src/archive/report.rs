//! The figures of `forebay bench archive`.

use serde::Serialize;

use super::files::SEGMENT;
use super::store::{MarksSample, Time};
use crate::stats::Spread;
use crate::table::TextTable;

/// A run that stores segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreSample {
    pub(super) time: Time,
    /// Bytes a second that the device stores: the mean of fio's rates before and after the run.
    pub(super) device: Option<f64>,
}

/// Marks, and a module that stores nothing.
#[derive(Serialize)]
pub(super) struct MarksRow {
    files: u64,
    /// Until all files are archived and durably marked.
    seconds: Spread,
    /// Until the first files are.
    first_seconds: Spread,
    cpu_seconds: Spread,
}

impl MarksRow {
    pub(super) fn of(files: u64, samples: &[MarksSample]) -> MarksRow {
        let each = |value: fn(&MarksSample) -> f64| Spread::of(samples.iter().map(value));
        MarksRow {
            files,
            seconds: each(|s| s.all),
            first_seconds: each(|s| s.first),
            cpu_seconds: each(|s| s.cpu),
        }
    }
}

/// Segments that are stored.
#[derive(Serialize)]
pub(super) struct StoreRow {
    /// Read and written without the kernel's cache.
    direct: bool,
    /// Segments at a time.
    transfers: usize,
    bytes_per_second: Spread,
    /// Of the device's rate beside the run.
    part_of_device: Option<Spread>,
    cpu_seconds_per_gb: Spread,
}

impl StoreRow {
    pub(super) fn of(
        (direct, transfers): (bool, usize),
        segments: u64,
        samples: &[StoreSample],
    ) -> StoreRow {
        let bytes = (segments * SEGMENT.bytes()) as f64;
        let parts = samples.iter().filter_map(|s| Some(bytes / s.time.seconds / s.device?));
        StoreRow {
            direct,
            transfers,
            bytes_per_second: Spread::of(samples.iter().map(|s| bytes / s.time.seconds)),
            part_of_device: Spread::of_some(parts),
            cpu_seconds_per_gb: Spread::of(samples.iter().map(|s| s.time.cpu / (bytes / 1e9))),
        }
    }
}

/// All figures; the JSON object's fields.
#[derive(Serialize)]
pub(super) struct Figures {
    pub(super) io_method: &'static str,
    pub(super) marks: Vec<MarksRow>,
    /// The object store that stored the segments; None: a directory.
    pub(super) archive: Option<String>,
    pub(super) device_bytes_per_second: Option<Spread>,
    pub(super) stores: Vec<StoreRow>,
    pub(super) notes: Vec<String>,
}

impl Figures {
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if !self.marks.is_empty() {
            text += "Files marked at a start, and a module that only says yes \
                     (medians of seconds, smallest and largest):\n";
            let mut table =
                TextTable::new(["files", "all noted durably", "the first", "processor"]);
            for row in &self.marks {
                let cells = [row.seconds, row.first_seconds, row.cpu_seconds].map(Spread::text);
                table.row([row.files.to_string()].into_iter().chain(cells));
            }
            text += &table.text();
        }
        if !self.stores.is_empty() {
            text += &self.stores_text();
        }
        self.notes.iter().for_each(|note| text += &format!("{note}\n"));
        text
    }

    fn stores_text(&self) -> String {
        let in_directory = || "in a directory".to_owned();
        let place = self.archive.as_ref().map_or_else(in_directory, |url| format!("at {url}"));
        let heading = format!("Segments of 16 MB stored {place}, method {}:\n", self.io_method);
        let mut table = TextTable::new(["way", "MB/s", "part of the device's", "CPU s/GB"]);
        if let Some(device) = self.device_bytes_per_second {
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
        heading + &table.text()
    }
}
