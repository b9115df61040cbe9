//! Stores an object unless its name is taken.
//!
//! | The store answers | and has under the name | Outcome |
//! |---|---|---|
//! | stored | the object of this answer | stored |
//! | stored | another object | taken |
//! | stored | nothing | retried: the answer was wrong |
//! | taken, conflict, another error, nothing | an object | taken: the caller must compare |
//! | taken, conflict, another error, nothing | nothing | retried until the time is over |
//! | not allowed, no such bucket | | an error |

use forebay_aio::sync::{Duration, Instant};
use forebay_aio::{AlignedBuf, IoBackend};
use object_store::{
    Error as RemoteError, ObjectStore, ObjectStoreExt, PutMode, PutPayload, PutResult,
};
use tokio::time::sleep;

use super::bucket::Bucket;
use super::connect::{TURNS, reason};
use crate::durable_dir::{StoreOutcome, TEMPORARY};
use crate::error::Result;
use crate::pipe::{Buffers, CHUNK};
use crate::store::depot::Upload;
use crate::store::seal::random;

/// The first pause between two attempts; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A buffer that returns to its pool when it is dropped.
struct Lent {
    buf: Option<AlignedBuf>,
    len: usize,
    buffers: Buffers,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        let buf = self.buf.as_ref().and_then(|buf| buf.get(..self.len));
        buf.expect("it has its buffer until it is dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(buf) = self.buf.take() {
            self.buffers.give_back(buf);
        }
    }
}

/// An object that is collected in memory, to be sent in one request.
pub(super) struct ObjectUpload<'a> {
    bucket: &'a Bucket,
    key: String,
    parts: Vec<bytes::Bytes>,
    /// The last part, which is not full yet.
    fill: Vec<u8>,
}

impl<'a> ObjectUpload<'a> {
    pub fn new(bucket: &'a Bucket, key: &str) -> ObjectUpload<'a> {
        ObjectUpload { bucket, key: key.to_owned(), parts: Vec::new(), fill: Vec::new() }
    }

    fn complete_part(&mut self) {
        if !self.fill.is_empty() {
            self.parts.push(std::mem::take(&mut self.fill).into());
        }
    }
}

impl Upload for ObjectUpload<'_> {
    fn write(&mut self, _: &mut IoBackend, mut bytes: &[u8]) -> Result<()> {
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

    fn put(&mut self, _: &mut IoBackend, buf: AlignedBuf, len: usize) -> Result<()> {
        self.complete_part();
        let lent = Lent { buf: Some(buf), len, buffers: self.bucket.buffers.clone() };
        self.parts.push(bytes::Bytes::from_owner(lent));
        Ok(())
    }

    fn finish(mut self: Box<Self>, _: &mut IoBackend, written: Result<()>) -> Result<StoreOutcome> {
        written?;
        self.complete_part();
        let payload: PutPayload = std::mem::take(&mut self.parts).into_iter().collect();
        self.bucket.store_object(&self.key, &payload)
    }
}

/// The outcome of an attempt.
enum Attempt {
    Done(StoreOutcome),
    /// A retry may succeed. The reason of the failure.
    Again(String),
    Failed(String),
}

impl Bucket {
    /// Stores an object, unless its name is taken.
    fn store_object(&self, key: &str, payload: &PutPayload) -> Result<StoreOutcome> {
        let path = self.path(key)?;
        let outcome = self.wait(key, async {
            let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
            loop {
                match self.attempt(&path, payload).await {
                    Attempt::Done(outcome) => return Ok(outcome),
                    Attempt::Failed(reason) => return Err(reason),
                    Attempt::Again(reason) if began.elapsed() > self.timeout * TURNS => {
                        return Err(reason);
                    }
                    Attempt::Again(_) => {
                        sleep(pause).await;
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                }
            }
        })?;
        outcome.map_err(|reason| self.refused("store", key, reason))
    }

    async fn attempt(&self, path: &object_store::path::Path, payload: &PutPayload) -> Attempt {
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
            return Attempt::Failed(reason(error));
        }
        match (self.store.head(path).await, put) {
            (Ok(there), Ok(PutResult { e_tag, .. })) => {
                let ours = there.size == payload.content_length() as u64 && there.e_tag == e_tag;
                Attempt::Done(if ours { StoreOutcome::Stored } else { StoreOutcome::Exists })
            }
            (Ok(_), Err(_)) => Attempt::Done(StoreOutcome::Exists),
            (Err(RemoteError::NotFound { .. }), Ok(_)) => {
                Attempt::Again("the store says that it has it, and does not have it".to_owned())
            }
            (Err(RemoteError::NotFound { .. }), Err(error)) => Attempt::Again(reason(&error)),
            // Whether the object exists is unknown: the caller's next attempt will tell.
            (Err(_), Err(error)) | (Err(error), Ok(_)) => Attempt::Failed(reason(&error)),
        }
    }

    /// Checks, by storing a test object twice, that the store never replaces an object: a store
    /// that does not support the condition may ignore it.
    pub(super) fn check_exclusive(&self) -> Result<()> {
        let number = u64::from_le_bytes(random()?);
        let key = format!("{TEMPORARY}probe.{number:016x}");
        let (path, payload) = (self.path(&key)?, PutPayload::from_static(b"forebay probe\n"));
        self.store_object(&key, &payload)?;
        let again = self.wait(&key, self.store.put_opts(&path, payload, PutMode::Create.into()))?;
        // It is removed in any case. If that is not permitted, a verification will report it.
        if let Some(Err(error)) = self.wait(&key, self.store.delete(&path)).ok()
            && !matches!(error, RemoteError::NotFound { .. })
        {
            tracing::warn!(
                "could not remove \"{}\": {}",
                self.location.describe(&key),
                reason(&error)
            );
        }
        match again {
            Err(RemoteError::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(self.failed("store", &key, &error)),
            Ok(_) => {
                let reason = "it replaces objects, although it is told not to \
                              (\"If-None-Match: *\")";
                Err(self.refused("make an archive at", "", reason.to_owned()))
            }
        }
    }
}
