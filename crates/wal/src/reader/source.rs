//! Pages out of segment files: read in large chunks, each header checked.

use forebay_aio::{
    Aio, AioError, AlignedBuf, Backend, File, IoContext, IoObject, IoOp, OpenOptions, sync::Arc,
};
use forebay_format::{Lsn, wal::PageHeader};

use super::{EndReason, ReaderConfig};
use crate::{error::WalReadError, position::WAL_BLOCK};

const BLOCK: usize = WAL_BLOCK as usize;
/// Bytes read at once.
const CHUNK: usize = 256 << 10;

/// A page and its header; or why there is none.
pub(super) type PageOrEnd<'a> = Result<(PageHeader, &'a [u8]), EndReason>;

/// The pages of a log.
pub(super) struct Source {
    aio: Arc<Aio>,
    config: ReaderConfig,
    /// The segment read last.
    segment: Option<(u64, File)>,
    /// Allocated with the first read.
    chunk: Option<AlignedBuf>,
    /// Address of the first page of the chunk.
    chunk_at: Lsn,
    /// Bytes of whole pages in the chunk.
    chunk_len: usize,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("config", &self.config).field("chunk_at", &self.chunk_at).finish()
    }
}

impl Source {
    pub fn new(aio: Arc<Aio>, config: ReaderConfig) -> Source {
        Source { aio, config, segment: None, chunk: None, chunk_at: Lsn(0), chunk_len: 0 }
    }

    pub fn config(&self) -> &ReaderConfig {
        &self.config
    }

    /// See [`Aio::has_bug`].
    #[inline(always)]
    pub fn has_bug(&self, bug: &str) -> bool {
        self.aio.has_bug(bug)
    }

    /// Forgets what was read: the log may have grown.
    pub fn forget(&mut self) {
        self.chunk_len = 0;
        self.segment = None;
    }

    /// The page at `at`, a page boundary.
    pub fn page(&mut self, io: &mut Backend, at: Lsn) -> Result<PageOrEnd<'_>, WalReadError> {
        if let Err(reason) = self.load(io, at)? {
            return Ok(Err(reason));
        }
        let offset = usize::try_from(at.since(self.chunk_at)).unwrap_or(usize::MAX);
        let page = self.chunk.as_deref().and_then(|chunk| chunk.get(offset..)).and_then(|c| c.get(..BLOCK));
        let Some(page) = page else { return Ok(Err(EndReason::Invalid(format!("WAL ends before {at}")))) };
        Ok(check_page(&self.config, page, at).map(|header| (header, page)))
    }

    /// Makes sure that the page at `at` is in the chunk.
    fn load(&mut self, io: &mut Backend, at: Lsn) -> Result<Result<(), EndReason>, WalReadError> {
        if at >= self.chunk_at && at.since(self.chunk_at) < self.chunk_len as u64 {
            return Ok(Ok(()));
        }
        let size = self.config.segment_size;
        let number = size.number(at);
        let enters = self.segment.as_ref().is_none_or(|(current, _)| *current != number);
        if enters {
            match self.open(number)? {
                Ok(file) => self.segment = Some((number, file)),
                Err(reason) => return Ok(Err(reason)),
            }
            // The long header tells whose segment this is, so it is looked at even by one who starts behind it.
            let first = size.start(number);
            if at != first {
                self.read_chunk(io, first, BLOCK)?;
                let chunk = self.chunk.as_deref().unwrap_or(&[]);
                let page = chunk.get(..self.chunk_len.min(BLOCK)).unwrap_or(&[]);
                if let Err(reason) = check_page(&self.config, page, first) {
                    self.forget();
                    return Ok(Err(reason));
                }
            }
        }
        let len = usize::try_from(size.bytes() - size.offset(at)).unwrap_or(CHUNK).min(CHUNK);
        self.read_chunk(io, at, len)?;
        if self.chunk_len == 0 {
            return Ok(Err(EndReason::Invalid(format!("the WAL segment ends before {at}"))));
        }
        Ok(Ok(()))
    }

    fn open(&self, number: u64) -> Result<Result<File, EndReason>, WalReadError> {
        let name = self.config.segment_size.file_name(self.config.timeline, number);
        let path = self.config.dir.join(name);
        let options = OpenOptions::READ.direct(self.config.direct);
        match self.aio.namespace().open(&path, &options) {
            Ok(file) => Ok(Ok(file)),
            Err(e) if e.is_not_found() => Ok(Err(EndReason::MissingSegment(path))),
            Err(e) => Err(WalReadError { operation: "open", file: path, offset: 0, source: Box::new(e) }),
        }
    }

    /// Reads up to `len` bytes at `at`, in the open segment; less if the file is shorter.
    fn read_chunk(&mut self, io: &mut Backend, at: Lsn, len: usize) -> Result<(), WalReadError> {
        let Some((_, file)) = &self.segment else { return Ok(()) };
        let offset = self.config.segment_size.offset(at);
        self.chunk_len = 0;
        let failed = |e: AioError| WalReadError {
            operation: "read",
            file: file.path().to_owned(),
            offset,
            source: Box::new(e),
        };
        let mut buf = match self.chunk.take() {
            Some(buf) if buf.len() == len => buf,
            _ => AlignedBuf::zeroed(len).map_err(failed)?,
        };
        let got = io.read_at(file, offset, &mut buf).map_err(failed)?;
        self.aio.stats().count(
            io.backend_type(),
            IoObject::Wal,
            IoContext::Normal,
            IoOp::Read,
            1,
            got as u64,
        );
        self.chunk = Some(buf);
        self.chunk_at = at;
        self.chunk_len = got.min(len) / BLOCK * BLOCK;
        Ok(())
    }
}

/// The header of the page at `at`, if it is that page's.
fn check_page(config: &ReaderConfig, page: &[u8], at: Lsn) -> Result<PageHeader, EndReason> {
    if page.len() == BLOCK && page.iter().take(40).all(|&byte| byte == 0) {
        return Err(EndReason::Zeros(at));
    }
    let invalid = |what: String| EndReason::Invalid(format!("{what}, at {at}"));
    let header = PageHeader::decode(page).map_err(|e| invalid(e.to_string()))?;
    let stated = header.long.map_or(0, |long| long.system_id);
    let system_id = config.system_id.unwrap_or(stated);
    header.check(at, config.segment_size, system_id).map_err(|e| invalid(e.to_string()))?;
    if header.long.is_some() && config.segment_size.offset(at) != 0 {
        return Err(invalid("long header in the middle of a WAL segment".to_owned()));
    }
    if header.timeline > config.timeline {
        return Err(invalid(format!(
            "WAL page is of timeline {}, beyond {}",
            header.timeline, config.timeline
        )));
    }
    Ok(header)
}
