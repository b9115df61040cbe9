//! Recording which pages backends pin, in which order, for `forebay bench replacement`.
//!
//! It is a tool for developers. The trace goes into a sink that whoever makes the pool has opened,
//! past `aio`: the sink is no file of the data directory, and a reference is recorded where a
//! backend may have I/O staged. Writing blocks the backend, so a traced pool is slow.

use super::trace_format::{Encoder, MAGIC, PageReference};
use forebay_aio::sync::Mutex;
use std::io::Write;

/// References are written to the sink when so many bytes have been collected.
const BUFFER: usize = 64 << 10;

/// A trace that is being recorded. [`super::TraceReader`] reads it.
pub struct PageTrace(Mutex<Recording>);

struct Recording {
    /// None after an error.
    sink: Option<Box<dyn Write + Send>>,
    encoder: Encoder,
    buffer: Vec<u8>,
}

impl PageTrace {
    /// Begins a trace. The end of the trace is written when it is dropped or flushed.
    pub fn new(sink: Box<dyn Write + Send>) -> PageTrace {
        let buffer = MAGIC.to_vec();
        PageTrace(Mutex::new(Recording { sink: Some(sink), encoder: Encoder::default(), buffer }))
    }

    pub(super) fn record(&self, reference: &PageReference) {
        let mut recording = self.0.lock();
        let Recording { sink: Some(_), encoder, buffer } = &mut *recording else { return };
        encoder.encode(reference, buffer);
        if buffer.len() >= BUFFER {
            recording.write();
        }
    }

    /// Writes out what has been recorded.
    pub fn flush(&self) {
        self.0.lock().write();
    }
}

impl Recording {
    /// Writes the buffer. After an error, nothing more is recorded.
    fn write(&mut self) {
        let Some(sink) = &mut self.sink else { return };
        if let Err(error) = sink.write_all(&self.buffer).and_then(|()| sink.flush()) {
            tracing::warn!(
                "could not write the trace of page references, which ends here: {error}"
            );
            self.sink = None;
        }
        self.buffer.clear();
    }
}

impl Drop for PageTrace {
    fn drop(&mut self) {
        self.flush();
    }
}

impl std::fmt::Debug for PageTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageTrace").finish_non_exhaustive()
    }
}
