//! An object stored, unless its name is taken.
//!
//! | The store answers | and has under the name | |
//! |---|---|---|
//! | stored | the object of this answer | stored |
//! | stored | another one | taken |
//! | stored | nothing | again: the answer was none |
//! | taken, conflict, an error, nothing at all | an object | taken: it may be ours, and is compared |
//! | the same | nothing | again, while there is time |
//! | not allowed, no such bucket | | an error |

use forebay_aio::sync::{Duration, Instant};
use forebay_aio::{AlignedBuf, Backend};
use object_store::{
    Error as RemoteError, ObjectStore, ObjectStoreExt, PutMode, PutPayload, PutResult,
};
use tokio::time::sleep;

use super::{Bucket, reason};
use crate::error::Result;
use crate::pipe::{Buffers, CHUNK};
use crate::place::{Placed, TEMPORARY};
use crate::random;
use crate::store::StoreError;
use crate::store::depot::{Depot, Upload};

/// No attempt is begun when the time of a request has passed so often.
pub(super) const TURNS: u32 = 2;
/// Between two attempts; the next one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A buffer that goes back where it came from.
struct Lent {
    buf: Option<AlignedBuf>,
    len: usize,
    buffers: Buffers,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.buf.as_ref().and_then(|buf| buf.get(..self.len)).unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(buf) = self.buf.take() {
            self.buffers.give_back(buf);
        }
    }
}

/// An object whose bytes are being collected: all of them go in one request.
pub(super) struct Arriving<'a> {
    bucket: &'a Bucket,
    key: String,
    parts: Vec<bytes::Bytes>,
    /// What has not filled a part yet.
    fill: Vec<u8>,
}

impl<'a> Arriving<'a> {
    pub fn new(bucket: &'a Bucket, key: &str) -> Arriving<'a> {
        Arriving { bucket, key: key.to_owned(), parts: Vec::new(), fill: Vec::new() }
    }

    fn complete_part(&mut self) {
        if !self.fill.is_empty() {
            self.parts.push(std::mem::take(&mut self.fill).into());
        }
    }
}

impl Upload for Arriving<'_> {
    fn write(&mut self, _: &mut Backend, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (now, later) =
                bytes.split_at(bytes.len().min(CHUNK.saturating_sub(self.fill.len())));
            self.fill.extend_from_slice(now);
            bytes = later;
            if self.fill.len() >= CHUNK {
                self.complete_part();
            }
        }
        Ok(())
    }

    fn put(&mut self, _: &mut Backend, buf: AlignedBuf, len: usize) -> Result<()> {
        self.complete_part();
        let lent = Lent { buf: Some(buf), len, buffers: self.bucket.buffers.clone() };
        self.parts.push(bytes::Bytes::from_owner(lent));
        Ok(())
    }

    fn finish(mut self: Box<Self>, _: &mut Backend, so_far: Result<()>) -> Result<Placed> {
        so_far?;
        self.complete_part();
        let payload: PutPayload = std::mem::take(&mut self.parts).into_iter().collect();
        self.bucket.store_object(&self.key, &payload)
    }
}

/// What an attempt has come to.
enum Came {
    Done(Placed),
    /// It may go better next time. Why it did not.
    Again(String),
    Failed(String),
}

impl Bucket {
    /// Stores an object, unless its name is taken.
    fn store_object(&self, key: &str, payload: &PutPayload) -> Result<Placed> {
        let path = self.path(key)?;
        let placed = self.wait(key, async {
            let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
            loop {
                match self.attempt(&path, payload).await {
                    Came::Done(placed) => return Ok(placed),
                    Came::Failed(reason) => return Err(reason),
                    Came::Again(reason) if began.elapsed() > self.patience * TURNS => {
                        return Err(reason);
                    }
                    Came::Again(_) => {
                        sleep(pause).await;
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                }
            }
        })?;
        let failed =
            |reason| StoreError::Place { operation: "store", file: self.describe(key), reason };
        Ok(placed.map_err(failed)?)
    }

    async fn attempt(&self, path: &object_store::path::Path, payload: &PutPayload) -> Came {
        let put = self.store.put_opts(path, payload.clone(), PutMode::Create.into()).await;
        if let Err(
            error @ (RemoteError::NotFound { .. }
            | RemoteError::PermissionDenied { .. }
            | RemoteError::Unauthenticated { .. }
            | RemoteError::NotImplemented { .. }
            | RemoteError::NotSupported { .. }
            | RemoteError::InvalidPath { .. }),
        ) = &put
        {
            return Came::Failed(reason(error));
        }
        match (self.store.head(path).await, put) {
            (Ok(there), Ok(PutResult { e_tag, .. })) => {
                let ours = there.size == payload.content_length() as u64 && there.e_tag == e_tag;
                Came::Done(if ours { Placed::Stored } else { Placed::Exists })
            }
            (Ok(_), Err(_)) => Came::Done(Placed::Exists),
            (Err(RemoteError::NotFound { .. }), Ok(_)) => {
                Came::Again("the store says that it has it, and does not have it".to_owned())
            }
            (Err(RemoteError::NotFound { .. }), Err(error)) => Came::Again(reason(&error)),
            // Whether it is there is unknown: that is for the next attempt of who asked.
            (Err(_), Err(error)) | (Err(error), Ok(_)) => Came::Failed(reason(&error)),
        }
    }

    /// Makes sure, with an object that goes again, that the store replaces nothing: one that does
    /// not know the condition would ignore it.
    pub(super) fn check_exclusive(&self) -> Result<()> {
        let mut number = [0; 8];
        random::fill(&mut number).map_err(|reason| StoreError::Random { reason })?;
        let key = format!("{TEMPORARY}probe.{:016x}", u64::from_le_bytes(number));
        let (path, payload) = (self.path(&key)?, PutPayload::from_static(b"forebay probe\n"));
        self.store_object(&key, &payload)?;
        let again = self.wait(&key, self.store.put_opts(&path, payload, PutMode::Create.into()))?;
        // It goes whatever came of it; where nothing may be removed it stays, and is told of by a
        // verification.
        if let Some(Err(error)) = self.wait(&key, self.store.delete(&path)).ok()
            && !matches!(error, RemoteError::NotFound { .. })
        {
            tracing::warn!("could not remove \"{}\": {}", self.describe(&key), reason(&error));
        }
        match again {
            Err(RemoteError::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(self.failed("store", &key, &error)),
            Ok(_) => {
                let reason =
                    "it replaces objects, although it is told not to (\"If-None-Match: *\")"
                        .to_owned();
                Err(StoreError::Place {
                    operation: "make an archive at",
                    file: self.describe(""),
                    reason,
                }
                .into())
            }
        }
    }
}
