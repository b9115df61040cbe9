//! Checks a cluster, with several threads.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_access::check::{
    HeapCheck, Orphans, PageKind, Transactions, check_page, check_visibility_map,
};
use forebay_aio::sync::{Mutex, thread};
use forebay_aio::{Aio, AlignedBuf, BackendType, IoBackend, OpenOptions};
use forebay_format::checksum::page_checksum;
use forebay_format::control;
use forebay_format::page::stored_checksum;
use forebay_format::visibility_map as vm;
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, Page, PageBytes, RELSEG_BLOCKS};

use super::arrange::{Work, arranged, once_more};
use super::catalogs::{Finder, Relation};
use super::cluster::{Cluster, file_of};
use super::files::Piece;
use super::groups::{Findings, Part};
use super::options::{CheckCounts, CheckObserver, CheckOptions, NotChecked, RelationKind};
use super::reader::Reader;
use super::status::{StatusReader, check_files};
use super::toast::{Pass, pairs};
use crate::error::EngineError;
use crate::io;

/// Backends of a thread: to read pieces, status files and visibility maps.
const BACKENDS: usize = 3;

/// Checks a cluster that no server has open. What is wrong with its data is told and counted, and
/// is no error.
pub fn check(
    dir: &Path,
    options: &CheckOptions,
    observer: &mut dyn CheckObserver,
) -> Result<CheckCounts, EngineError> {
    let aio = io::standalone(options.io_method, (jobs_of(options) + 1) * BACKENDS)?;
    check_on(dir, options, observer, &aio)
}

/// The same through `aio`, whatever `options.io_method` says. It needs three backends for each
/// thread, and three more.
pub fn check_on(
    dir: &Path,
    options: &CheckOptions,
    observer: &mut dyn CheckObserver,
    aio: &Arc<Aio>,
) -> Result<CheckCounts, EngineError> {
    let jobs = jobs_of(options);
    let mut io = backend(aio)?;
    let cluster = Cluster::lock(&mut io, dir, options.crashed)?;
    let direct = options.direct.unwrap_or_else(|| can_read_direct(&mut io, dir));

    let mut counts = CheckCounts::default();
    let mut files = Vec::new();
    let mut say = |path: &Path, what: &str| files.push((path.to_owned(), what.to_owned()));
    let mut status = StatusReader::new(backend(aio)?, dir);
    if cluster.shut_down {
        check_files(&mut status, &cluster.counters, &mut say)?;
    }
    let mut transactions = Transactions::new(cluster.counters, &mut status);
    let found = Finder {
        cluster: &cluster,
        io: &mut io,
        transactions: &mut transactions,
        names: &options.relations,
        counts: &mut counts,
        say: &mut say,
    }
    .find();
    let Work { pieces, rounds, passes } = match &found {
        Ok(found) => {
            let pairs = if cluster.shut_down { pairs(found) } else { Vec::new() };
            let toasts = found.iter().filter(|relation| relation.is_toast).count();
            (pairs.len()..toasts).for_each(|_| counts.skip(NotChecked::ToastValues));
            arranged(found, &pairs, &**aio.namespace(), options.memory, &mut say)
        }
        Err(_) => Work::default(),
    };
    let mut told = Told { observer, counts, total: 0, unread: false };
    // They may say why the relations were not found.
    told.tell_files(files);
    told.counts.relations = found?.len() as u64;
    let shared = Shared {
        cluster: &cluster,
        direct,
        combine: options.io_combine_limit.clamp(1, CheckOptions::MAX_COMBINE),
        pieces: Mutex::default(),
        told: Mutex::new(told),
    };
    shared.run(aio, jobs, pieces)?;
    for round in rounds {
        let mut findings = Vec::new();
        round.end(&mut findings);
        shared.told.lock().tell(findings, 0);
    }
    shared.end_passes(aio, jobs, passes)?;
    let counts = shared.told.into_inner().counts;
    cluster.confirm(&mut io)?;
    Ok(counts)
}

fn jobs_of(options: &CheckOptions) -> usize {
    options.jobs.clamp(1, CheckOptions::MAX_JOBS)
}

/// Whether files of the cluster can be read past the kernel's page cache. One that every cluster
/// has is read to find out, because nothing may be written.
fn can_read_direct(io: &mut IoBackend, dir: &Path) -> bool {
    let names = Arc::clone(io.aio().namespace());
    let opened = names.open(&dir.join(control::PATH), &OpenOptions::READ.direct(true));
    let Ok(file) = opened else { return false };
    AlignedBuf::zeroed(control::FILE_SIZE)
        .is_ok_and(|mut buf| io.read_exact_at(&file, 0, &mut buf).is_ok())
}

fn backend(aio: &Arc<Aio>) -> Result<IoBackend, EngineError> {
    Ok(aio.backend(BackendType::Standalone)?)
}

/// Who is told what was found.
struct Told<'o> {
    observer: &'o mut dyn CheckObserver,
    counts: CheckCounts,
    /// Pages of all pieces.
    total: u64,
    /// Something is wrong with a file, so that rows may be missing.
    unread: bool,
}

impl Told<'_> {
    fn tell_files(&mut self, files: Vec<(PathBuf, String)>) {
        for (path, what) in files {
            self.unread = true;
            self.counts.findings += 1;
            self.observer.file(&path, &what);
        }
    }

    fn tell(&mut self, findings: Findings, pages: u32) {
        for (relation, finding) in findings {
            self.counts.findings += 1;
            self.observer.found(&relation.told, &finding);
        }
        self.counts.pages += u64::from(pages);
        let bytes = |pages: u64| pages * BLOCK_SIZE as u64;
        self.observer.progress(bytes(self.counts.pages), bytes(self.total));
    }
}

/// What all threads share.
struct Shared<'a> {
    cluster: &'a Cluster,
    direct: bool,
    combine: u32,
    pieces: Mutex<std::vec::IntoIter<Piece>>,
    told: Mutex<Told<'a>>,
}

impl Shared<'_> {
    /// Checks pieces, by several threads.
    fn run(&self, aio: &Arc<Aio>, jobs: usize, pieces: Vec<Piece>) -> Result<(), EngineError> {
        let blocks = pieces.iter().map(|piece| u64::from(piece.blocks));
        self.told.lock().total += blocks.sum::<u64>();
        *self.pieces.lock() = pieces.into_iter();
        thread::scope(|scope| {
            let others: Vec<_> = (1..jobs).map(|_| scope.spawn(|| self.work(aio))).collect();
            let own = self.work(aio);
            let ended =
                others.into_iter().map(|other| other.join().expect("a check does not panic"));
            ended.fold(own, Result::and)
        })
    }

    /// Ends passes over values out of line, and makes the ones that they leave to be made.
    fn end_passes(
        &self,
        aio: &Arc<Aio>,
        jobs: usize,
        passes: Vec<Arc<Pass>>,
    ) -> Result<(), EngineError> {
        for first in passes {
            let (mut put_off, mut orphans) = (Vec::new(), Orphans::default());
            let mut pass = Arc::clone(&first);
            loop {
                let outcome = pass.end();
                let mut told = self.told.lock();
                told.counts.toast_values += outcome.values;
                told.tell(outcome.findings, 0);
                drop(told);
                orphans.values += outcome.orphans.values;
                orphans.bytes += outcome.orphans.bytes;
                put_off.extend(outcome.put_off);
                let Some(share) = put_off.pop() else { break };
                pass = first.next(share);
                self.run(aio, jobs, once_more(&pass, &**aio.namespace()))?;
            }
            let mut told = self.told.lock();
            if orphans != Orphans::default() && !told.unread {
                told.observer.orphans(&first.pair.toast.told, orphans.values, orphans.bytes);
            }
        }
        Ok(())
    }

    /// Checks pieces until there are none.
    fn work(&self, aio: &Arc<Aio>) -> Result<(), EngineError> {
        let mut status = StatusReader::new(backend(aio)?, &self.cluster.dir);
        let mut transactions = Transactions::new(self.cluster.counters, &mut status);
        let mut maps = Maps { io: backend(aio)?, checksums: self.cluster.checksums, last: None };
        let mut next = || self.pieces.lock().next();
        let mut reader = Reader::new(backend(aio)?, self.direct, self.combine, &mut next)?;
        loop {
            let (mut files, mut findings) = (Vec::new(), Vec::new());
            let mut say = |path: &Path, what: &str| files.push((path.to_owned(), what.to_owned()));
            let read = reader.chunk(&mut say, &mut |chunk, n, bytes| {
                let block = chunk.first() + n;
                self.page(&chunk.piece, block, bytes, &mut transactions, &mut maps, &mut findings);
            })?;
            let mut told = self.told.lock();
            told.tell_files(files);
            let Some(chunk) = read else { return Ok(()) };
            told.tell(findings, chunk.blocks);
        }
    }

    fn page(
        &self,
        piece: &Piece,
        block: BlockNumber,
        bytes: &PageBytes,
        transactions: &mut Transactions<'_>,
        maps: &mut Maps,
        findings: &mut Findings,
    ) {
        let Cluster { checksums, shut_down, counters, .. } = self.cluster;
        let relation = &piece.relation;
        let is_table = matches!(relation.told.kind, RelationKind::Heap | RelationKind::Sequence);
        let mut own = Vec::new();
        let sink = &mut |finding| own.push((Arc::clone(relation), finding));
        let mut roots = None;
        match piece.fork {
            Fork::Main if is_table && *shut_down => {
                let bits = maps.bits(relation, block);
                roots = HeapCheck::new(&relation.table, *checksums, transactions)
                    .page_with_roots(block, bytes, bits, sink);
            }
            Fork::Main if is_table => HeapCheck::after_crash(&relation.table, *checksums, counters)
                .page(block, bytes, 0, sink),
            Fork::Vm if *shut_down => {
                check_visibility_map(*checksums, block, piece.heap_blocks, bytes, sink);
            }
            // What the map says of blocks is a hint, and PostgreSQL mends its inner nodes.
            Fork::Fsm if *shut_down => {
                check_page(PageKind::Map, *checksums, Fork::Fsm, block, bytes, sink);
            }
            fork => match &piece.part {
                Part::Index(ticket, number) => {
                    ticket.round.index_page(*number, *checksums, (block, bytes), sink);
                }
                _ => check_page(PageKind::Other, *checksums, fork, block, bytes, sink),
            },
        }
        if let Some(ticket) = &piece.toast {
            ticket.page(block, bytes, roots.as_deref(), own.is_empty());
        }
        if piece.repeated {
            return;
        }
        findings.append(&mut own);
        if let (Part::Table(ticket), Some(roots)) = (&piece.part, roots) {
            ticket.round.table_page(block, &roots, findings);
        }
    }
}

/// Reads visibility maps.
struct Maps {
    io: IoBackend,
    checksums: bool,
    /// The page read last: of which relation, and its number.
    last: Option<(Arc<Relation>, BlockNumber, Box<PageBytes>)>,
}

impl Maps {
    /// The bits of a table's block. A page that is not there, or damaged, has none.
    fn bits(&mut self, relation: &Arc<Relation>, block: BlockNumber) -> u8 {
        let wanted = vm::map_block(block);
        let known = self
            .last
            .as_ref()
            .is_some_and(|(of, number, _)| Arc::ptr_eq(of, relation) && *number == wanted);
        if !known {
            let page = self.read(&relation.path, wanted).unwrap_or(Box::new([0; BLOCK_SIZE]));
            self.last = Some((Arc::clone(relation), wanted, page));
        }
        self.last.as_ref().map_or(0, |(_, _, page)| vm::get(Page::new(page), block))
    }

    fn read(&mut self, relation: &Path, number: BlockNumber) -> Option<Box<PageBytes>> {
        let path = file_of(relation, Fork::Vm, number / RELSEG_BLOCKS);
        let names = Arc::clone(self.io.aio().namespace());
        let file = names.open(&path, &OpenOptions::READ).ok()?;
        let mut buf = AlignedBuf::zeroed(BLOCK_SIZE).ok()?;
        let offset = u64::from(number % RELSEG_BLOCKS) * BLOCK_SIZE as u64;
        self.io.read_exact_at(&file, offset, &mut buf).ok()?;
        let page: &PageBytes = buf.first_chunk()?;
        let whole = !self.checksums || page_checksum(page, number) == stored_checksum(page);
        whole.then(|| Box::new(*page))
    }
}
