//! Finds and opens the segment files of a timeline and its ancestors, and has them fetched from an
//! archive.

use std::path::PathBuf;

use forebay_aio::{Aio, File, IoBackend, OpenOptions, sync::Arc};
use forebay_format::{
    Lsn,
    timeline::{TimelineHistory, TimelineStretch},
};

use super::{config::ReaderConfig, end::EndReason, fetch::Fetch};
use crate::error::WalReadError;

/// A result, or the reason why the log ends where it should be.
pub(super) type OrEnd<T> = Result<T, EndReason>;

/// An open segment file.
#[derive(Clone)]
pub(super) struct Segment {
    pub number: u64,
    /// The timeline in its name.
    pub timeline: u32,
    pub file: File,
}

/// Finds the segments of one log.
pub(super) struct SegmentFinder {
    pub aio: Arc<Aio>,
    pub config: ReaderConfig,
    pub history: TimelineHistory,
    /// Fetches segments from an archive.
    pub fetch: Option<Arc<dyn Fetch>>,
    /// The segment that was fetched last.
    fetched: Option<String>,
}

impl SegmentFinder {
    pub fn new(aio: Arc<Aio>, config: ReaderConfig) -> SegmentFinder {
        let history = TimelineHistory::alone(config.timeline);
        SegmentFinder { aio, config, history, fetch: None, fetched: None }
    }

    /// The timelines that may have a segment, the newest first. The first segment of a timeline
    /// begins with a copy of what its parent wrote there.
    fn timelines(&self, number: u64) -> Vec<u32> {
        let size = self.config.segment_size;
        let holds = |stretch: &&TimelineStretch| {
            let ended = stretch.end.is_some_and(|end| end <= size.start(number));
            size.number(stretch.begin) <= number && !ended
        };
        let stretches = self.history.stretches().iter().rev().filter(holds);
        stretches.map(|stretch| stretch.timeline).collect()
    }

    /// Opens a segment on the newest timeline that has it, after an attempt to fetch it. If there
    /// is none, the reason names the segment of the newest timeline that may have it.
    pub fn open(
        &mut self,
        io: &mut IoBackend,
        number: u64,
        at: Lsn,
    ) -> Result<OrEnd<Segment>, WalReadError> {
        let timelines = self.timelines(number);
        for &timeline in &timelines {
            self.fetch(io, timeline, number, at)?;
            if let Some(segment) = self.open_on(timeline, number, at)? {
                return Ok(Ok(segment));
            }
        }
        let newest = timelines.first().copied().unwrap_or(self.config.timeline);
        Ok(Err(EndReason::MissingSegment(self.path_on(newest, number))))
    }

    /// Fetches a segment, if there is a [`Fetch`]. Returns whether the segment was fetched.
    fn fetch(
        &mut self,
        io: &mut IoBackend,
        timeline: u32,
        number: u64,
        at: Lsn,
    ) -> Result<bool, WalReadError> {
        let Some(fetch) = &self.fetch else { return Ok(false) };
        let name = self.config.segment_size.file_name(timeline, number);
        if self.fetched.as_ref() == Some(&name) {
            return Ok(true);
        }
        let fetched = fetch.fetch(io, &name).map_err(|source| WalReadError::Fetch {
            file: self.config.dir.join(&name),
            at,
            source,
        })?;
        if fetched {
            self.fetched = Some(name);
        }
        Ok(fetched)
    }

    /// Opens a timeline's segment, if it is in the directory.
    pub fn open_on(
        &self,
        timeline: u32,
        number: u64,
        at: Lsn,
    ) -> Result<Option<Segment>, WalReadError> {
        let path = self.path_on(timeline, number);
        let options = OpenOptions::READ.direct(self.config.direct);
        match self.aio.namespace().open(&path, &options) {
            Ok(file) => {
                self.check_length(&file, at)?;
                Ok(Some(Segment { number, timeline, file }))
            }
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(WalReadError::io("open", path, 0, at, e)),
        }
    }

    /// Fails if a segment has the wrong length: a segment gets its name when it has its full
    /// length.
    fn check_length(&self, file: &File, at: Lsn) -> Result<(), WalReadError> {
        let expected = self.config.segment_size.bytes();
        let found = self.aio.namespace().file_len(file);
        let found =
            found.map_err(|e| WalReadError::io("examine", file.path().to_owned(), 0, at, e))?;
        if found == expected {
            return Ok(());
        }
        Err(WalReadError::Length { file: file.path().to_owned(), expected, found, at })
    }

    /// Path of a segment of the timeline that is read.
    pub fn path(&self, number: u64) -> PathBuf {
        self.path_on(self.config.timeline, number)
    }

    /// Path of a timeline's segment.
    pub fn path_on(&self, timeline: u32, number: u64) -> PathBuf {
        self.config.dir.join(self.config.segment_size.file_name(timeline, number))
    }

    /// The existing segments behind `number` that belong to this log, with their timelines, in
    /// order. Fetches the first one if it can.
    pub fn later_than(
        &mut self,
        io: &mut IoBackend,
        number: u64,
    ) -> Result<Vec<(u64, u32)>, WalReadError> {
        let size = self.config.segment_size;
        for timeline in self.timelines(number + 1) {
            if self.fetch(io, timeline, number + 1, size.start(number + 1))? {
                break;
            }
        }
        let dir = &self.config.dir;
        let entries = self.aio.namespace().list(dir);
        let entries =
            entries.map_err(|e| WalReadError::io("list", dir.clone(), 0, size.start(number), e))?;
        let mut later: Vec<(u64, u32)> = entries
            .iter()
            .filter_map(|entry| size.parse_file_name(entry.name.to_str()?))
            .filter(|&(timeline, other)| other > number && self.history.contains(timeline))
            // What a timeline has behind the point where this log left it belongs to another log.
            .filter(|&(timeline, other)| {
                self.history.switch_point(timeline).is_none_or(|left| size.start(other) < left)
            })
            .map(|(timeline, other)| (other, timeline))
            .collect();
        later.sort_unstable();
        Ok(later)
    }
}
