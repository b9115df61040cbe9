//! [`Bucket`]: a bucket of an object store, and the waiting for its requests.

use std::error::Error;
use std::future::Future;
use std::pin::pin;

use forebay_aio::sync::{Arc, Duration};
use futures_util::future::{self, Either};
use object_store::Error as RemoteError;
use object_store::path::Path;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use super::connect::{self, Location, Objects, reason};
use crate::error::{ArchiveError, Result};
use crate::pipe::Buffers;

/// Threads of the runtime.
const THREADS: usize = 2;

/// A bucket (or container) of an object store, or a prefix in one.
pub struct Bucket {
    /// None: it is being dropped.
    runtime: Option<Runtime>,
    pub(super) store: Arc<dyn Objects>,
    pub(super) location: Location,
    /// How long a request may make no progress. It is retried for [`connect::TURNS`] times as long.
    pub(super) timeout: Duration,
    /// Ends the requests that are waited for.
    pub(super) interrupted: Notify,
    pub(super) buffers: Buffers,
}

impl Bucket {
    /// The archive at `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`. No
    /// request is made yet. Endpoint and credentials come from `variables`, which are named as the
    /// environment variables `AWS_...`, `GOOGLE_...`, `AZURE_...`.
    pub fn open(
        location: &str,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Bucket> {
        let refused = |reason: String| {
            ArchiveError::refused(format!("\"{location}\" can't be used: {reason}"))
        };
        let parsed = Location::parse(location).map_err(refused)?;
        let variables: Vec<(String, String)> = variables.into_iter().collect();
        let timeout = connect::timeout(&variables).map_err(refused)?;
        let store = connect::connect(&parsed, &variables, timeout).map_err(refused)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("forebay-objects")
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| refused(format!("no threads for its requests: {error}")))?;
        Ok(Bucket {
            runtime: Some(runtime),
            store,
            location: parsed,
            timeout,
            interrupted: Notify::new(),
            buffers: Buffers::new(),
        })
    }

    pub(super) fn path(&self, key: &str) -> Result<Path> {
        let path = Path::parse(format!("{}{key}", self.location.root));
        path.map_err(|error| self.failed("name", key, &error))
    }

    /// Waits for a request until it is interrupted.
    pub(super) fn wait<T>(&self, key: &str, request: impl Future<Output = T>) -> Result<T> {
        let runtime = self.runtime.as_ref().expect("a bucket has its runtime until it is dropped");
        // Created first, so that no later interruption is missed.
        let interrupted = self.interrupted.notified();
        match runtime.block_on(future::select(pin!(request), pin!(interrupted))) {
            Either::Left((done, _)) => Ok(done),
            Either::Right(_) => {
                let file = self.location.describe(key);
                Err(ArchiveError::Stopped { operation: "waiting for", file })
            }
        }
    }

    /// Waits for a request for an object that may be absent.
    pub(super) fn look<T>(
        &self,
        operation: &'static str,
        key: &str,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<Option<T>> {
        match self.wait(key, request)? {
            Ok(found) => Ok(Some(found)),
            Err(RemoteError::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed(operation, key, &error)),
        }
    }

    pub(super) fn failed(
        &self,
        operation: &'static str,
        key: &str,
        error: &dyn Error,
    ) -> ArchiveError {
        self.refused(operation, key, reason(error))
    }

    /// The store did not do what it was asked for.
    pub(super) fn refused(
        &self,
        operation: &'static str,
        key: &str,
        reason: String,
    ) -> ArchiveError {
        ArchiveError::Store { operation, file: self.location.describe(key), reason }
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        // No request is waited for. A look-up of a host name may still run, and may take long.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
