//! An archive in an object store: S3 and what speaks its language, Google Cloud Storage, Azure Blob
//! Storage.
//!
//! | Module | What |
//! |---|---|
//! | `connect` | a URL and the variables of the environment: which store, with which credentials |
//! | `patient` | requests that make no progress end; answers that are none are noticed |
//! | `put` | an object stored, unless its name is taken |
//! | `get` | an object read |
//!
//! How stores differ from directories:
//!
//! - An object appears whole, or not at all: there are no temporary names, and nothing is left of
//!   what was interrupted. Each is stored by one request that says "only if there is none"
//!   (`If-None-Match: *` and its like), with a checksum where the store takes one; never in several
//!   parts, whose completion would replace what is there. So a stored file is held in memory until
//!   it is stored.
//! - What can be seen is durable: there is nothing to sync.
//! - An answer may be lost, and may lie. Whatever is answered, the store is asked afterwards what
//!   it has under the name; what is not surely ours counts as somebody else's, and is compared by
//!   who asked for it. So an attempt of which nobody knows whether it arrived ends as "identical"
//!   where it did.
//! - Absence is what the store says with "not found" for the very object, or by a list without it;
//!   everything else is an error.
//!
//! Requests run on a runtime of the depot's own, with two threads; who calls waits for them.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod connect;
mod get;
mod patient;
mod put;

use std::error::Error;
use std::future::Future;
use std::pin::pin;

use forebay_aio::Backend;
use forebay_aio::sync::{Arc, Duration};
use futures_util::future::{self, Either};
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{Error as RemoteError, ObjectMeta, ObjectStore, ObjectStoreExt};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use super::StoreError;
use super::depot::{Depot, Download, Object, Upload};
use crate::error::Result;
use crate::pipe::Buffers;
use connect::Location;

/// Threads that do the requests' input and output.
const THREADS: usize = 2;

/// Objects removed by one request, where the store can.
const REMOVALS: usize = 500;

/// What a store must be able to do.
trait Objects: ObjectStore + PaginatedListStore {}

impl<T: ObjectStore + PaginatedListStore> Objects for T {}

/// A bucket (or container) of an object store, or a part of one.
pub struct Bucket {
    /// None: it is being dropped.
    runtime: Option<Runtime>,
    store: Arc<dyn Objects>,
    location: Location,
    /// How long a request may make no progress, and how long it is tried again.
    patience: Duration,
    /// Ends what is under way.
    interrupted: Notify,
    buffers: Buffers,
}

impl Bucket {
    /// The archive at `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`; no
    /// request is made yet. Endpoints and credentials come from `variables`, which are called as
    /// those of the environment: `AWS_...`, `GOOGLE_...`, `AZURE_...`.
    pub fn open(
        location: &str,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Bucket> {
        let refused =
            |reason: String| StoreError::Option(format!("\"{location}\" can't be used: {reason}"));
        let parsed = Location::parse(location).map_err(refused)?;
        let variables: Vec<(String, String)> = variables.into_iter().collect();
        let patience = connect::patience(&variables).map_err(refused)?;
        let store = connect::connect(&parsed, &variables, patience).map_err(refused)?;
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
            patience,
            interrupted: Notify::new(),
            buffers: Buffers::new(),
        })
    }

    fn path(&self, key: &str) -> Result<Path> {
        let path = Path::parse(format!("{}{key}", self.location.root));
        path.map_err(|error| self.failed("name", key, &error))
    }

    /// Waits for a request, unless it is interrupted.
    fn wait<T>(&self, key: &str, request: impl Future<Output = T>) -> Result<T> {
        let stopped = || StoreError::Stopped { file: self.describe(key) };
        let Some(runtime) = &self.runtime else { return Err(stopped().into()) };
        // Made before anything is waited for: from here on no interruption is missed.
        let interrupted = self.interrupted.notified();
        match runtime.block_on(future::select(pin!(request), pin!(interrupted))) {
            Either::Left((done, _)) => Ok(done),
            Either::Right(_) => Err(stopped().into()),
        }
    }

    /// The same, of a request for something that may not be there.
    fn look<T>(
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

    fn failed(&self, operation: &'static str, key: &str, error: &dyn Error) -> crate::ArchiveError {
        StoreError::Place { operation, file: self.describe(key), reason: reason(error) }.into()
    }

    /// The key of an object, if it is below this place.
    fn object(&self, meta: &ObjectMeta) -> Option<Object> {
        let key = meta.location.as_ref().strip_prefix(&self.location.root)?;
        Some(Object { key: key.to_owned(), size: meta.size })
    }

    /// All objects whose names begin so.
    async fn beginning(&self, prefix: &str) -> object_store::Result<Vec<ObjectMeta>> {
        let (mut found, mut page_token) = (Vec::new(), None);
        loop {
            let options =
                PaginatedListOptions { page_token: page_token.take(), ..Default::default() };
            let page = self.store.list_paginated(Some(prefix), options).await?;
            found.extend(page.result.objects);
            page_token = page.page_token.filter(|token| !token.is_empty());
            if page_token.is_none() {
                return Ok(found);
            }
        }
    }
}

impl Depot for Bucket {
    fn describe(&self, key: &str) -> String {
        self.location.describe(key)
    }

    fn create<'a>(&'a self, _: &mut Backend, key: &str) -> Result<Box<dyn Upload + 'a>> {
        Ok(Box::new(put::Arriving::new(self, key)))
    }

    fn open<'a>(&'a self, _: &mut Backend, key: &str) -> Result<Option<Box<dyn Download + 'a>>> {
        Ok(get::Leaving::open(self, key)?
            .map(|leaving| Box::new(leaving) as Box<dyn Download + 'a>))
    }

    fn size(&self, _: &mut Backend, key: &str) -> Result<Option<u64>> {
        let path = self.path(key)?;
        let found = self.look("look for", key, self.store.head(&path))?;
        Ok(found.map(|meta| meta.size))
    }

    fn list(&self, _: &mut Backend, prefix: &str) -> Result<Vec<Object>> {
        let path = self.path(prefix)?;
        let listed =
            self.wait(prefix, self.store.list(Some(&path)).try_collect::<Vec<ObjectMeta>>())?;
        let listed = listed.map_err(|error| self.failed("list", prefix, &error))?;
        Ok(listed.iter().filter_map(|meta| self.object(meta)).collect())
    }

    fn names(&self, _: &mut Backend, dir: &str) -> Result<Vec<String>> {
        let path = self.path(dir)?;
        let listed = self.wait(dir, self.store.list_with_delimiter(Some(&path)))?;
        let listed = listed.map_err(|error| self.failed("list", dir, &error))?;
        let files = listed.objects.iter().map(|meta| &meta.location);
        let names = files.chain(&listed.common_prefixes).filter_map(Path::filename);
        Ok(names.map(str::to_owned).collect())
    }

    /// One list tells of all endings.
    fn find(&self, _: &mut Backend, base: &str, endings: &[&str]) -> Result<Option<String>> {
        let prefix = format!("{}{base}", self.location.root);
        let listed = self.wait(base, self.beginning(&prefix))?;
        let listed = listed.map_err(|error| self.failed("look for", base, &error))?;
        let keys: Vec<Object> = listed.iter().filter_map(|meta| self.object(meta)).collect();
        let wanted = endings.iter().map(|ending| format!("{base}{ending}"));
        Ok(wanted.into_iter().find(|wanted| keys.iter().any(|object| object.key == *wanted)))
    }

    /// What can be seen is durable.
    fn settle(&self, be: &mut Backend, key: &str) -> Result<bool> {
        Ok(self.size(be, key)?.is_some())
    }

    fn remove(&self, _: &mut Backend, key: &str) -> Result<()> {
        let path = self.path(key)?;
        self.look("remove", key, self.store.delete(&path)).map(drop)
    }

    fn removals(&self) -> usize {
        REMOVALS
    }

    fn remove_all(&self, _: &mut Backend, keys: &[&str]) -> Result<()> {
        let paths = keys.iter().map(|key| self.path(key)).collect::<Result<Vec<Path>>>()?;
        let gone = self.store.delete_stream(stream::iter(paths.into_iter().map(Ok)).boxed());
        let gone = gone.filter_map(async |one| match one {
            Ok(_) | Err(RemoteError::NotFound { .. }) => None,
            Err(error) => Some(error),
        });
        let failures = self.wait("", gone.collect::<Vec<RemoteError>>())?;
        failures.first().map_or(Ok(()), |error| Err(self.failed("remove objects of", "", error)))
    }

    fn settle_removals(&self, _: &mut Backend, _: &[String]) -> Result<()> {
        Ok(())
    }

    /// Nothing is left by who was interrupted.
    fn clean(&self, _: &mut Backend, _: &str) -> Result<usize> {
        Ok(0)
    }

    fn check_new(&self, _: &mut Backend) -> Result<()> {
        self.check_exclusive()
    }

    fn interrupt(&self) {
        self.interrupted.notify_waiters();
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        // Nothing that somebody waits for is under way; a look-up of a name may be, and takes its
        // time.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// An error with its causes, as far as it does not tell them itself.
fn reason(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let more = next.to_string();
        if !text.contains(&more) {
            text += &format!(": {more}");
        }
        cause = next.source();
    }
    text
}
