//! A list of pages in an order, with links by page number: every operation is immediate.

const NONE: u32 = u32::MAX;

/// A list. A page is in it at most once.
#[derive(Clone)]
pub(super) struct List {
    /// For each page, the neighbours towards the head and the tail.
    links: Vec<(u32, u32)>,
    is_in: Vec<bool>,
    head: u32,
    tail: u32,
    len: usize,
}

impl List {
    /// An empty list for pages below `pages`.
    pub(super) fn new(pages: usize) -> List {
        let (links, is_in) = (vec![(NONE, NONE); pages], vec![false; pages]);
        List { links, is_in, head: NONE, tail: NONE, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn contains(&self, page: u32) -> bool {
        self.is_in[page as usize]
    }

    /// The page that was put in first.
    pub(super) fn tail(&self) -> Option<u32> {
        some(self.tail)
    }

    /// The page that came next after this one.
    pub(super) fn newer(&self, page: u32) -> Option<u32> {
        some(self.links[page as usize].0)
    }

    /// Puts a page in at the head.
    pub(super) fn push(&mut self, page: u32) {
        assert!(!self.is_in[page as usize], "a page is in a list once");
        self.links[page as usize] = (NONE, self.head);
        match some(self.head) {
            Some(head) => self.links[head as usize].0 = page,
            None => self.tail = page,
        }
        self.head = page;
        self.is_in[page as usize] = true;
        self.len += 1;
    }

    /// Takes a page out; whether it was in.
    pub(super) fn remove(&mut self, page: u32) -> bool {
        if !std::mem::take(&mut self.is_in[page as usize]) {
            return false;
        }
        let (newer, older) = self.links[page as usize];
        match some(newer) {
            Some(newer) => self.links[newer as usize].1 = older,
            None => self.head = older,
        }
        match some(older) {
            Some(older) => self.links[older as usize].0 = newer,
            None => self.tail = newer,
        }
        self.len -= 1;
        true
    }

    /// Takes the page at the tail out.
    pub(super) fn pop(&mut self) -> Option<u32> {
        let page = self.tail()?;
        self.remove(page);
        Some(page)
    }

    /// Moves a page to the head; whether it was in.
    pub(super) fn renew(&mut self, page: u32) -> bool {
        let was_in = self.remove(page);
        if was_in {
            self.push(page);
        }
        was_in
    }
}

fn some(page: u32) -> Option<u32> {
    (page != NONE).then_some(page)
}
