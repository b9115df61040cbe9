//! Reads an object. The client resumes a download that broke off.

use bytes::{Buf, Bytes};
use forebay_aio::IoBackend;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::ObjectStoreExt;

use super::bucket::Bucket;
use crate::error::Result;
use crate::store::depot::Download;

pub(super) struct ObjectDownload<'a> {
    bucket: &'a Bucket,
    key: String,
    /// The rest of the object. None: nothing more will be read.
    stream: Option<BoxStream<'static, object_store::Result<Bytes>>>,
    /// Bytes that were received and not read yet.
    piece: Bytes,
    /// Bytes that are not received yet.
    left: u64,
}

impl<'a> ObjectDownload<'a> {
    /// Opens an object. None: there is no such object.
    pub fn open(bucket: &'a Bucket, key: &str) -> Result<Option<ObjectDownload<'a>>> {
        let path = bucket.path(key)?;
        let Some(found) = bucket.look("read", key, bucket.store.get(&path))? else {
            return Ok(None);
        };
        let (key, left) = (key.to_owned(), found.meta.size);
        let stream = Some(found.into_stream());
        Ok(Some(ObjectDownload { bucket, key, stream, piece: Bytes::new(), left }))
    }

    /// The next bytes; None at the end.
    fn next(&mut self) -> Result<Option<Bytes>> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        match self.bucket.wait(&self.key, stream.next())? {
            Some(Ok(piece)) => {
                self.left = self.left.saturating_sub(piece.len() as u64);
                Ok(Some(piece))
            }
            Some(Err(error)) => Err(self.bucket.failed("read", &self.key, &error)),
            None if self.left == 0 => Ok(None),
            None => {
                let reason = format!("{} bytes of it are missing", self.left);
                Err(self.bucket.refused("read", &self.key, reason))
            }
        }
    }
}

impl Download for ObjectDownload<'_> {
    fn read(&mut self, _: &mut IoBackend, buf: &mut [u8]) -> Result<usize> {
        while self.piece.is_empty() && !buf.is_empty() {
            match self.next()? {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let len = buf.len().min(self.piece.len());
        if let Some(buf) = buf.get_mut(..len) {
            self.piece.copy_to_slice(buf);
        }
        Ok(len)
    }

    fn close(&mut self, _: &mut IoBackend) {
        self.stream = None;
    }
}
