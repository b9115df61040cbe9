//! An archive in an object store: S3 and what speaks like it, Google's, Azure's.
//!
//! An object appears whole or not at all, and is stored under the condition that none of its name exists (If-None-Match), so
//! nothing is replaced. A request whose answer is lost is made again; if it had succeeded, the store says that the object exists,
//! and what is stored is compared: a success all the same. Stored objects are durable: there is nothing to sync.
//!
//! A store may say that an object does not exist when its whole bucket does not. So absence is believed only together with the
//! archive's own object (see `store`).
//!
//! The account is told by the usual variables of the environment: AWS_ACCESS_KEY_ID, AWS_ENDPOINT, GOOGLE_SERVICE_ACCOUNT,
//! AZURE_STORAGE_ACCOUNT_NAME and so on. The runtime that the client needs is this module's own.

use std::fmt::Display;

use bytes::Bytes;
use forebay_aio::sync::Duration;
use forebay_aio::{AlignedBuf, Backend};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path as Key;
use object_store::{
    BackoffConfig, ObjectMeta, ObjectStore, ObjectStoreExt, ObjectStoreScheme, PutMode, PutOptions,
    PutPayload, RetryConfig,
};
use tokio::runtime::{Builder, Runtime};
use url::Url;

use super::StoreError;
use super::depot::{BACKUPS, Depot, Download, Object, Upload};
use crate::error::Result;
use crate::place::Placed;

/// Threads of the runtime: they move bytes, the work is done elsewhere.
const THREADS: usize = 2;
/// For one request, that of a whole segment too.
const TIMEOUT: &str = "120s";
/// A request that fails in a way that may pass is made again, so often, for so long, after such pauses. Then whoever asked
/// is told, who tries again himself.
const RETRIES: usize = 5;
const RETRY_TIME: Duration = Duration::from_secs(180);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Bytes of a part of what is uploaded.
const PART: usize = 512 << 10;

/// A prefix in an object store.
pub struct Bucket {
    store: Box<dyn ObjectStore>,
    url: String,
    prefix: String,
    runtime: Runtime,
}

type Failure = object_store::Error;

impl Bucket {
    /// The store at "s3://BUCKET/PREFIX" and the like. Nothing is asked of it yet.
    pub fn open(location: &str) -> Result<Bucket> {
        let environment = std::env::vars().map(|(name, value)| (name.to_ascii_lowercase(), value));
        let named = ["aws_", "google_", "azure_"];
        let told = environment.filter(|(name, _)| named.iter().any(|start| name.starts_with(start)));
        let timeout = [("timeout".to_owned(), TIMEOUT.to_owned())];
        Bucket::with_options(location, timeout.into_iter().chain(told))
    }

    /// The same, with options in place of the environment's: "aws_endpoint", "timeout" and so on. Unknown ones are passed over.
    pub fn with_options(
        location: &str,
        options: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Bucket> {
        let unusable = |reason: String| StoreError::Option(format!("\"{location}\" can't be used: {reason}"));
        let url = Url::parse(location).map_err(|e| unusable(e.to_string()))?;
        let (store, prefix) =
            client(&url, options.into_iter().collect()).map_err(|e| unusable(e.to_string()))?;
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
        let runtime = runtime.map_err(|e| unusable(format!("its client can't be started: {e}")))?;
        let url = location.trim_end_matches('/').to_owned();
        Ok(Bucket { store, url, prefix: prefix.to_string(), runtime })
    }

    fn key(&self, key: &str) -> Key {
        match self.prefix.as_str() {
            "" => Key::from(key),
            prefix => Key::from(format!("{prefix}/{key}")),
        }
    }

    /// A key of ours.
    fn ours(&self, key: &Key) -> Option<String> {
        let rest = key.as_ref().strip_prefix(&self.prefix)?;
        Some(rest.strip_prefix('/').unwrap_or(rest).to_owned())
    }

    fn failed(&self, operation: &'static str, key: &str, reason: impl Display) -> StoreError {
        StoreError::Place { operation, file: self.describe(key), reason: reason.to_string() }
    }

    fn object(&self, meta: &ObjectMeta) -> Option<Object> {
        Some(Object { key: self.ours(&meta.location)?, size: meta.size })
    }
}

/// The client for a URL.
fn client(url: &Url, options: Vec<(String, String)>) -> Result<(Box<dyn ObjectStore>, Key), Failure> {
    let (scheme, prefix) = ObjectStoreScheme::parse(url)?;
    let retry = RetryConfig {
        backoff: BackoffConfig { init_backoff: FIRST_PAUSE, max_backoff: LONGEST_PAUSE, base: 2.0 },
        max_retries: RETRIES,
        retry_timeout: RETRY_TIME,
    };
    macro_rules! build {
        ($builder:ty) => {{
            let told = options.into_iter().fold(
                <$builder>::new().with_url(url.as_str()),
                |builder, (name, value)| match name.parse() {
                    Ok(name) => builder.with_config(name, value),
                    Err(_) => builder,
                },
            );
            Box::new(told.with_retry(retry).build()?)
        }};
    }
    let store: Box<dyn ObjectStore> = match scheme {
        ObjectStoreScheme::AmazonS3 => build!(AmazonS3Builder),
        ObjectStoreScheme::GoogleCloudStorage => build!(GoogleCloudStorageBuilder),
        ObjectStoreScheme::MicrosoftAzure => build!(MicrosoftAzureBuilder),
        other => {
            let source = format!("no archive can lie there ({other:?})").into();
            return Err(Failure::Generic { store: "archive", source });
        }
    };
    Ok((store, prefix))
}

/// What was looked for does not exist.
fn absent<T>(result: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match result {
        Err(Failure::NotFound { .. }) => Ok(None),
        other => other.map(Some),
    }
}

impl Depot for Bucket {
    fn describe(&self, key: &str) -> String {
        if key.is_empty() { self.url.clone() } else { format!("{}/{key}", self.url) }
    }

    fn create<'a>(&'a self, _: &mut Backend, key: &str) -> Result<Box<dyn Upload + 'a>> {
        Ok(Box::new(Uploading { bucket: self, key: key.to_owned(), parts: Vec::new(), fill: Vec::new() }))
    }

    fn open<'a>(&'a self, _: &mut Backend, key: &str) -> Result<Option<Box<dyn Download + 'a>>> {
        let got = absent(self.runtime.block_on(self.store.get(&self.key(key))));
        let Some(got) = got.map_err(|e| self.failed("read", key, e))? else { return Ok(None) };
        let stream = got.into_stream();
        Ok(Some(Box::new(Downloading { bucket: self, key: key.to_owned(), stream, rest: Bytes::new() })))
    }

    fn size(&self, _: &mut Backend, key: &str) -> Result<Option<u64>> {
        let found = absent(self.runtime.block_on(self.store.head(&self.key(key))));
        Ok(found.map_err(|e| self.failed("look for", key, e))?.map(|meta| meta.size))
    }

    fn list(&self, _: &mut Backend, prefix: &str) -> Result<Vec<Object>> {
        let mut found = Vec::new();
        let listing = async {
            let dir = self.key(prefix.trim_end_matches('/'));
            let mut metas = self.store.list(Some(&dir));
            while let Some(meta) = metas.next().await {
                found.extend(self.object(&meta?));
            }
            Ok(())
        };
        self.runtime.block_on(listing).map_err(|e: Failure| self.failed("list", prefix, e))?;
        found.retain(|object| !object.key.starts_with(&format!("{BACKUPS}/")));
        Ok(found)
    }

    fn names(&self, _: &mut Backend, dir: &str) -> Result<Vec<String>> {
        let dir = dir.trim_end_matches('/');
        let listed = self.runtime.block_on(self.store.list_with_delimiter(Some(&self.key(dir))));
        let listed = listed.map_err(|e| self.failed("list", dir, e))?;
        let name = |meta: &ObjectMeta| meta.location.filename().map(str::to_owned);
        Ok(listed.objects.iter().filter_map(name).collect())
    }

    /// One request, where asking for each would take several: names that begin alike follow each other.
    fn find(&self, _: &mut Backend, base: &str, endings: &[&str]) -> Result<Option<String>> {
        let (dir, name) = base.rsplit_once('/').unwrap_or(("", base));
        let before =
            self.key(base.get(..base.len().saturating_sub(1)).filter(|_| name.len() > 1).unwrap_or(base));
        let listing = async {
            let mut metas = self.store.list_with_offset(Some(&self.key(dir)), &before);
            while let Some(meta) = metas.next().await {
                let Some(object) = self.object(&meta?) else { continue };
                if endings.iter().any(|ending| object.key.strip_prefix(base) == Some(ending)) {
                    return Ok(Some(object.key));
                }
                if object.key.as_str() > base && !object.key.starts_with(base) {
                    break;
                }
            }
            Ok(None)
        };
        let found = self.runtime.block_on(listing);
        Ok(found.map_err(|e: Failure| self.failed("look for", base, e))?)
    }

    fn settle(&self, _: &mut Backend, _: &str) -> Result<bool> {
        Ok(true)
    }

    fn remove(&self, _: &mut Backend, key: &str) -> Result<()> {
        let removed = absent(self.runtime.block_on(self.store.delete(&self.key(key))));
        Ok(removed.map(drop).map_err(|e| self.failed("remove", key, e))?)
    }

    fn settle_removals(&self, _: &mut Backend, _: &[String]) -> Result<()> {
        Ok(())
    }

    /// Objects that are not whole do not exist, and there are no uploads in parts.
    fn clean(&self, _: &mut Backend, _: &str) -> Result<usize> {
        Ok(0)
    }
}

struct Uploading<'a> {
    bucket: &'a Bucket,
    key: String,
    parts: Vec<Bytes>,
    fill: Vec<u8>,
}

impl Upload for Uploading<'_> {
    fn write(&mut self, _: &mut Backend, bytes: &[u8]) -> Result<()> {
        self.fill.extend_from_slice(bytes);
        if self.fill.len() >= PART {
            self.parts.push(std::mem::take(&mut self.fill).into());
        }
        Ok(())
    }

    fn put(&mut self, be: &mut Backend, buf: AlignedBuf, len: usize) -> Result<()> {
        self.write(be, buf.get(..len).unwrap_or_default())
    }

    fn finish(self: Box<Self>, _: &mut Backend, so_far: Result<()>) -> Result<Placed> {
        so_far?;
        let Uploading { bucket, key, mut parts, fill } = *self;
        parts.push(fill.into());
        let payload = PutPayload::from_iter(parts);
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let put = bucket.store.put_opts(&bucket.key(&key), payload, options);
        match bucket.runtime.block_on(put) {
            Ok(_) => Ok(Placed::Stored),
            Err(Failure::AlreadyExists { .. } | Failure::Precondition { .. }) => Ok(Placed::Exists),
            Err(e) => Err(bucket.failed("store", &key, e).into()),
        }
    }
}

struct Downloading<'a> {
    bucket: &'a Bucket,
    key: String,
    stream: BoxStream<'static, Result<Bytes, Failure>>,
    rest: Bytes,
}

impl Download for Downloading<'_> {
    fn read(&mut self, _: &mut Backend, buf: &mut [u8]) -> Result<usize> {
        while self.rest.is_empty() && !buf.is_empty() {
            match self.bucket.runtime.block_on(self.stream.next()) {
                None => return Ok(0),
                Some(got) => self.rest = got.map_err(|e| self.bucket.failed("read", &self.key, e))?,
            }
        }
        let len = self.rest.len().min(buf.len());
        let now = self.rest.split_to(len);
        if let Some(to) = buf.get_mut(..len) {
            to.copy_from_slice(&now);
        }
        Ok(len)
    }

    fn close(&mut self, _: &mut Backend) {}
}
