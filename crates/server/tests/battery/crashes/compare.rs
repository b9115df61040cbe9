//! Pages of the same relations in two directories.

use std::fmt;
use std::fs;
use std::ops::AddAssign;
use std::path::Path;

use forebay_format::{
    BLOCK_SIZE, Lsn, Page, PageBytes, PageMut, brin, gin, gist, hash,
    nbtree::{self, Opaque},
    spgist,
};
use forebay_testkit::peer::Postgres;

/// An index or a sequence.
pub struct Relation {
    name: String,
    /// Below the data directory.
    path: String,
    method: Method,
}

/// What a relation's pages are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Btree,
    Hash,
    Gin,
    Gist,
    Spgist,
    Brin,
    /// A sequence, or an extension's index.
    Other,
}

impl Method {
    fn of(name: &str) -> Method {
        match name {
            "btree" => Method::Btree,
            "hash" => Method::Hash,
            "gin" => Method::Gin,
            "gist" => Method::Gist,
            "spgist" => Method::Spgist,
            "brin" => Method::Brin,
            _ => Method::Other,
        }
    }

    /// Sets to zero what may differ in a page.
    fn mask(self, page: &mut PageBytes, block: u32) {
        match self {
            Method::Btree => nbtree::mask(page, block),
            Method::Hash => hash::mask(page),
            Method::Gin => gin::mask(page),
            Method::Gist => gist::mask(page),
            Method::Spgist => spgist::mask(page),
            Method::Brin => brin::mask(page),
            Method::Other => mask_other(page),
        }
    }
}

/// What was compared.
#[derive(Default)]
pub struct Counts {
    relations: u64,
    pages: u64,
    incomplete_splits: u64,
    half_dead: u64,
    deleted: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.relations += other.relations;
        self.pages += other.pages;
        self.incomplete_splits += other.incomplete_splits;
        self.half_dead += other.half_dead;
        self.deleted += other.deleted;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { relations, pages, incomplete_splits, half_dead, deleted } = self;
        write!(f, "{pages} pages of {relations} indexes and sequences are the same, among them ")?;
        write!(f, "{deleted} deleted, {half_dead} half-dead, {incomplete_splits} half split")
    }
}

/// All permanent indexes and sequences of the database.
pub fn relations(server: &Postgres<'_>) -> Vec<Relation> {
    let answer = server.query(
        "SELECT c.oid::regclass, pg_relation_filepath(c.oid), coalesce(amname, '')
         FROM pg_class c LEFT JOIN pg_am a ON a.oid = relam
         WHERE relkind IN ('S', 'i') AND relpersistence = 'p'",
    );
    let relation = |line: &str| {
        let [name, path, method] = line.split('|').collect::<Vec<_>>()[..] else {
            panic!("three columns: {line}");
        };
        let method = Method::of(method);
        Relation { name: name.to_owned(), path: path.to_owned(), method }
    };
    answer.lines().map(relation).collect()
}

/// Compares all pages of all relations; their LSNs only up to `end`, as a hint that PostgreSQL sets
/// later moves a page's LSN.
///
/// # Errors
/// The first difference.
pub fn directories(
    ours: &Path,
    theirs: &Path,
    relations: &[Relation],
    end: Lsn,
) -> Result<Counts, String> {
    let mut counts = Counts { relations: relations.len() as u64, ..Counts::default() };
    for relation in relations {
        let pages = |directory: &Path| {
            let bytes = fs::read(directory.join(&relation.path)).expect("the relation has a file");
            let (pages, rest) = bytes.as_chunks::<BLOCK_SIZE>();
            assert!(rest.is_empty(), "{} has whole pages", relation.path);
            pages.to_vec()
        };
        let (ours, theirs) = (pages(ours), pages(theirs));
        let what = format!("{} ({})", relation.name, relation.path);
        if ours.len() != theirs.len() {
            let (ours, theirs) = (ours.len(), theirs.len());
            return Err(format!("{what} has {ours} pages, and {theirs} by PostgreSQL"));
        }
        for (block, (ours, theirs)) in (0..).zip(ours.iter().zip(&theirs)) {
            let lsn = Page::new(theirs).lsn();
            if lsn <= end && lsn != Page::new(ours).lsn() {
                let ours = Page::new(ours).lsn();
                return Err(format!("block {block} of {what}: LSN {ours}, {lsn} by PostgreSQL"));
            }
            same(ours, theirs, block, relation.method)
                .map_err(|difference| format!("block {block} of {what}: {difference}"))?;
            counts.add(ours, relation.method);
        }
    }
    Ok(counts)
}

impl Counts {
    fn add(&mut self, page: &PageBytes, method: Method) {
        self.pages += 1;
        let Some(opaque) = Opaque::of(Page::new(page)).ok().filter(|_| method == Method::Btree)
        else {
            return;
        };
        let count = |flag| u64::from(opaque.has(flag));
        self.incomplete_splits += count(nbtree::INCOMPLETE_SPLIT);
        self.half_dead += count(nbtree::HALF_DEAD);
        self.deleted += count(nbtree::DELETED);
    }
}

fn same(ours: &PageBytes, theirs: &PageBytes, block: u32, method: Method) -> Result<(), String> {
    let [mut ours, mut theirs] = [*ours, *theirs];
    method.mask(&mut ours, block);
    method.mask(&mut theirs, block);
    match ours.iter().zip(&theirs).position(|(a, b)| a != b) {
        Some(at) => Err(format!("byte {at} is {:#04x}, not {:#04x}", ours[at], theirs[at])),
        None => Ok(()),
    }
}

/// What may differ in a page of any other relation.
fn mask_other(page: &mut PageBytes) {
    let mut page = PageMut::new(page);
    page.set_lsn(Lsn(0));
    page.set_checksum(0);
    let (lower, upper) = (page.page().lower(), page.page().upper());
    page.0.get_mut(lower..upper).unwrap_or_default().fill(0);
}
