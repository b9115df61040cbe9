//! A trace in memory: pages have numbers without gaps.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use forebay_aio::{Aio, AioConfig, BackendType, MethodKind, PosixNamespace};
use forebay_storage::{AccessKind, Manner, TraceReader};

use super::policies::Reference;
use crate::error::BenchError;

/// References to replay.
pub(super) struct Trace {
    pub(super) name: String,
    pub(super) references: Vec<Reference>,
    /// Pages have numbers below this.
    pub(super) pages: usize,
    /// The references before this one warm the pool up, and do not count.
    pub(super) begin: usize,
}

/// Most references of a recorded trace; their positions fit into 32 bits.
const MOST_REFERENCES: usize = 1 << 30;

impl Trace {
    /// Reads a recorded trace. A prefetch is left out: the page's use follows it.
    pub(super) fn read(path: &Path) -> Result<Trace, BenchError> {
        let aio =
            Aio::new(Arc::new(PosixNamespace::new()), MethodKind::Sync, AioConfig::default())?;
        let bytes = aio.backend(BackendType::Client)?.read_file(path)?;
        let name = path.file_stem().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        Trace::decode(name, &bytes).map_err(|reason| BenchError::Path {
            path: path.to_path_buf(),
            reason: format!("is not a usable trace: {reason}"),
        })
    }

    fn decode(name: String, bytes: &[u8]) -> Result<Trace, String> {
        let mut numbers = HashMap::new();
        let mut references = Vec::new();
        let reader = TraceReader::new(bytes).map_err(|error| error.to_string())?;
        for read in reader {
            let read = read.map_err(|error| error.to_string())?;
            if read.manner == Manner::Prefetch {
                continue;
            }
            let next = numbers.len() as u32;
            let page = *numbers.entry(read.page).or_insert(next);
            let backend = u16::try_from(read.backend).unwrap_or(u16::MAX);
            references.push(Reference { page, backend, access: read.access });
            if references.len() > MOST_REFERENCES {
                return Err("it has too many references".to_owned());
            }
        }
        if references.is_empty() {
            return Err("it has no references".to_owned());
        }
        Ok(Trace { name, references, pages: numbers.len(), begin: 0 })
    }

    /// Whether there are both bulk accesses and others among the references that count.
    pub(super) fn is_mixed(&self) -> bool {
        let counted = &self.references[self.begin..];
        let normal = |r: &Reference| r.access == AccessKind::Normal;
        counted.iter().any(normal) && !counted.iter().all(normal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_trace_is_refused() {
        for (bytes, reason) in [
            (&b"PG"[..], "failed to fill whole buffer"),
            (b"PGDMP-01....", "it is not a trace"),
            (b"FBTRACE\x01", "it has no references"),
            (b"FBTRACE\x01\x40\x07\x00", "a fork is not known"),
        ] {
            let error = Trace::decode(String::new(), bytes).err().expect("refused");
            assert!(error.contains(reason), "{error}");
        }
    }
}
