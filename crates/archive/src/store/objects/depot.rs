//! The [`Depot`] trait of a bucket.

use forebay_aio::IoBackend;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use object_store::{Error as RemoteError, ObjectMeta, ObjectStore, ObjectStoreExt};

use super::bucket::Bucket;
use super::download::ObjectDownload;
use super::upload::ObjectUpload;
use crate::error::Result;
use crate::store::depot::{Depot, Download, Object, Upload};

/// Objects removed by one request, if the store can.
const REMOVALS: usize = 500;

impl Bucket {
    /// The key of an object, if it belongs to this archive.
    fn object(&self, meta: &ObjectMeta) -> Option<Object> {
        let key = meta.location.as_ref().strip_prefix(&self.location.root)?;
        Some(Object { key: key.to_owned(), size: meta.size })
    }

    /// All objects whose names begin with `prefix`.
    async fn with_prefix(&self, prefix: &str) -> object_store::Result<Vec<ObjectMeta>> {
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

    fn create<'a>(&'a self, _: &mut IoBackend, key: &str) -> Result<Box<dyn Upload + 'a>> {
        Ok(Box::new(ObjectUpload::new(self, key)))
    }

    fn open<'a>(&'a self, _: &mut IoBackend, key: &str) -> Result<Option<Box<dyn Download + 'a>>> {
        let download = ObjectDownload::open(self, key)?;
        Ok(download.map(|download| Box::new(download) as Box<dyn Download + 'a>))
    }

    fn size(&self, _: &mut IoBackend, key: &str) -> Result<Option<u64>> {
        let path = self.path(key)?;
        let found = self.look("look for", key, self.store.head(&path))?;
        Ok(found.map(|meta| meta.size))
    }

    fn list(&self, _: &mut IoBackend, prefix: &str) -> Result<Vec<Object>> {
        let path = self.path(prefix)?;
        let listed =
            self.wait(prefix, self.store.list(Some(&path)).try_collect::<Vec<ObjectMeta>>())?;
        let listed = listed.map_err(|error| self.failed("list", prefix, &error))?;
        Ok(listed.iter().filter_map(|meta| self.object(meta)).collect())
    }

    fn names(&self, _: &mut IoBackend, dir: &str) -> Result<Vec<String>> {
        let path = self.path(dir)?;
        let listed = self.wait(dir, self.store.list_with_delimiter(Some(&path)))?;
        let listed = listed.map_err(|error| self.failed("list", dir, &error))?;
        let files = listed.objects.iter().map(|meta| &meta.location);
        let names = files.chain(&listed.common_prefixes).filter_map(Path::filename);
        Ok(names.map(str::to_owned).collect())
    }

    /// One listing finds all endings.
    fn find(&self, _: &mut IoBackend, base: &str, endings: &[&str]) -> Result<Option<String>> {
        let prefix = format!("{}{base}", self.location.root);
        let listed = self.wait(base, self.with_prefix(&prefix))?;
        let listed = listed.map_err(|error| self.failed("look for", base, &error))?;
        let keys: Vec<Object> = listed.iter().filter_map(|meta| self.object(meta)).collect();
        let wanted = endings.iter().map(|ending| format!("{base}{ending}"));
        Ok(wanted.into_iter().find(|wanted| keys.iter().any(|object| object.key == *wanted)))
    }

    /// A visible object is durable.
    fn make_durable(&self, io: &mut IoBackend, key: &str) -> Result<bool> {
        Ok(self.size(io, key)?.is_some())
    }

    fn remove(&self, _: &mut IoBackend, key: &str) -> Result<()> {
        let path = self.path(key)?;
        self.look("remove", key, self.store.delete(&path)).map(drop)
    }

    fn removals(&self) -> usize {
        REMOVALS
    }

    fn remove_all(&self, _: &mut IoBackend, keys: &[&str]) -> Result<()> {
        let paths = keys.iter().map(|key| self.path(key)).collect::<Result<Vec<Path>>>()?;
        let gone = self.store.delete_stream(stream::iter(paths.into_iter().map(Ok)).boxed());
        let gone = gone.filter_map(async |one| match one {
            Ok(_) | Err(RemoteError::NotFound { .. }) => None,
            Err(error) => Some(error),
        });
        let failures = self.wait("", gone.collect::<Vec<RemoteError>>())?;
        failures.first().map_or(Ok(()), |error| Err(self.failed("remove objects of", "", error)))
    }

    fn sync_removals(&self, _: &mut IoBackend, _: &[String]) -> Result<()> {
        Ok(())
    }

    /// An interrupted upload leaves nothing behind.
    fn clean(&self, _: &mut IoBackend, _: &str) -> Result<usize> {
        Ok(0)
    }

    fn check_new(&self, _: &mut IoBackend) -> Result<()> {
        self.check_exclusive()
    }

    fn interrupt(&self) {
        self.interrupted.notify_waiters();
    }
}
