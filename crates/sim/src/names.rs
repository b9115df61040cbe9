//! Names: the tree as everybody sees it, the tree as the medium has it, and the changes in between, directory by directory.
//!
//! A directory is known by a number, as a file is: what is in it goes along when it is renamed, and is durable, or not, by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::survival::Survival;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    /// A directory, by its number.
    Directory(u64),
    /// A file, by its number.
    File(u64),
}

impl Node {
    pub fn is_directory(self) -> bool {
        matches!(self, Node::Directory(_))
    }
}

/// The directory that is always there.
const ROOT: u64 = 0;

/// A name in a directory.
type Place = (u64, OsString);

/// A change of names.
#[derive(Clone, Debug)]
enum Change {
    Add(Place, Node),
    Remove(Place),
    Rename(Place, Place),
}

impl Change {
    /// The directory whose sync makes it durable.
    fn directory(&self) -> u64 {
        let (Change::Add((dir, _), _) | Change::Remove((dir, _)) | Change::Rename(_, (dir, _))) = self;
        *dir
    }

    fn apply(&self, tree: &mut Tree) {
        match self {
            Change::Add(place, node) => tree.insert(place, *node),
            Change::Remove(place) => {
                tree.remove(place);
            }
            // A name that a crash has lost can't be moved.
            Change::Rename(from, to) => {
                if let Some(node) = tree.remove(from) {
                    tree.insert(to, node);
                }
            }
        }
    }
}

/// What is in each directory. There are directories that nothing leads to: those that were removed, or whose names are lost.
#[derive(Clone, Debug, Default)]
struct Tree(BTreeMap<u64, BTreeMap<OsString, Node>>);

impl Tree {
    fn insert(&mut self, (dir, name): &Place, node: Node) {
        self.0.entry(*dir).or_default().insert(name.clone(), node);
    }

    fn remove(&mut self, (dir, name): &Place) -> Option<Node> {
        self.0.get_mut(dir)?.remove(name)
    }

    fn get(&self, dir: u64, name: &OsStr) -> Option<Node> {
        self.0.get(&dir)?.get(name).copied()
    }

    /// All that the root leads to, in the order of names, each directory before what is in it.
    fn walk(&self, dir: u64, path: &Path, found: &mut Vec<(PathBuf, Node)>) {
        for (name, node) in self.0.get(&dir).into_iter().flatten() {
            let path = path.join(name);
            found.push((path.clone(), *node));
            if let Node::Directory(inner) = node {
                self.walk(*inner, &path, found);
            }
        }
    }
}

/// All names.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    root: PathBuf,
    live: Tree,
    durable: Tree,
    unsynced: Vec<Change>,
    next: u64,
}

impl Names {
    /// Only the directory `root`, which is durable.
    pub fn new(root: &Path) -> Names {
        let (live, durable) = (Tree::default(), Tree::default());
        Names { root: root.to_owned(), live, durable, unsynced: Vec::new(), next: ROOT + 1 }
    }

    pub fn get(&self, path: &Path) -> Option<Node> {
        let mut node = Node::Directory(ROOT);
        for name in path.strip_prefix(&self.root).ok()?.iter() {
            let Node::Directory(dir) = node else { return None };
            node = self.live.get(dir, name)?;
        }
        Some(node)
    }

    /// The directory that a name is in, if there is one.
    fn place(&self, path: &Path) -> Option<Place> {
        match self.get(path.parent()?)? {
            Node::Directory(dir) => Some((dir, path.file_name()?.to_owned())),
            Node::File(_) => None,
        }
    }

    /// Whether a name can be in that directory.
    pub fn has_parent(&self, path: &Path) -> bool {
        self.place(path).is_some()
    }

    pub fn add_file(&mut self, path: &Path, file: u64) {
        if let Some(place) = self.place(path) {
            self.change(Change::Add(place, Node::File(file)));
        }
    }

    pub fn add_directory(&mut self, path: &Path) {
        if let Some(place) = self.place(path) {
            let number = self.next;
            self.next += 1;
            self.change(Change::Add(place, Node::Directory(number)));
        }
    }

    pub fn remove(&mut self, path: &Path) {
        if let Some(place) = self.place(path) {
            self.change(Change::Remove(place));
        }
    }

    /// A file or a directory, with all that is in it, gets another name; what had it before has none.
    pub fn rename(&mut self, from: &Path, to: &Path) {
        if let (Some(from), Some(to)) = (self.place(from), self.place(to)) {
            self.change(Change::Rename(from, to));
        }
    }

    /// The names in a directory.
    pub fn children(&self, dir: &Path) -> Vec<(OsString, Node)> {
        let Some(Node::Directory(dir)) = self.get(dir) else { return Vec::new() };
        let inside = self.live.0.get(&dir).into_iter().flatten();
        inside.map(|(name, node)| (name.clone(), *node)).collect()
    }

    /// All names, in order.
    pub fn all(&self) -> Vec<(PathBuf, Node)> {
        let mut found = vec![(self.root.clone(), Node::Directory(ROOT))];
        self.live.walk(ROOT, &self.root, &mut found);
        found
    }

    /// How many names a file has.
    pub fn links(&self, file: u64) -> u64 {
        let names = self.live.0.values().flat_map(BTreeMap::values);
        names.filter(|node| **node == Node::File(file)).count() as u64
    }

    /// The changes in a directory are on the medium. Whether there were any. None: there is no such directory.
    pub fn sync(&mut self, dir: &Path) -> Option<bool> {
        if !dir.starts_with(&self.root) {
            // Somebody else's.
            return Some(false);
        }
        let Some(Node::Directory(dir)) = self.get(dir) else { return None };
        let (synced, rest): (Vec<Change>, Vec<Change>) =
            self.unsynced.drain(..).partition(|change| change.directory() == dir);
        let any = !synced.is_empty();
        for change in synced {
            change.apply(&mut self.durable);
        }
        self.unsynced = rest;
        Some(any)
    }

    /// All changes are on the medium.
    pub fn sync_all(&mut self) {
        for change in self.unsynced.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// Changes that a crash might undo.
    pub fn unsynced(&self) -> usize {
        self.unsynced.len()
    }

    /// The names as a crash leaves them: of each directory's changes the first ones.
    pub fn after_crash(&self, survival: &mut Survival) -> Names {
        let mut by_directory: BTreeMap<u64, Vec<&Change>> = BTreeMap::new();
        for change in &self.unsynced {
            by_directory.entry(change.directory()).or_default().push(change);
        }
        let mut tree = self.durable.clone();
        for changes in by_directory.values() {
            for change in &changes[..survival.names(changes.len())] {
                change.apply(&mut tree);
            }
        }
        // What is in a directory that was lost is lost.
        let mut found = Vec::new();
        tree.walk(ROOT, &self.root, &mut found);
        let reached: BTreeSet<u64> = found
            .iter()
            .filter_map(|(_, node)| if let Node::Directory(dir) = node { Some(*dir) } else { None })
            .chain([ROOT])
            .collect();
        tree.0.retain(|dir, _| reached.contains(dir));
        let (root, live, durable) = (self.root.clone(), tree.clone(), tree);
        Names { root, live, durable, unsynced: Vec::new(), next: self.next }
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.live);
        self.unsynced.push(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(names: &Names) -> Vec<String> {
        names.all().iter().map(|(path, _)| path.display().to_string()).collect()
    }

    #[test]
    fn names_are_durable_after_the_sync_of_their_directory() {
        let mut names = Names::new(Path::new("/d"));
        names.add_directory(Path::new("/d/sub"));
        names.add_file(Path::new("/d/sub/a"), 1);
        assert_eq!(shown(&names.after_crash(&mut Survival::none())), ["/d"]);
        assert_eq!(names.sync(Path::new("/d/sub")), Some(true));
        assert_eq!(shown(&names.after_crash(&mut Survival::none())), ["/d"], "the directory itself is lost");
        names.sync(Path::new("/d"));
        assert_eq!(shown(&names.after_crash(&mut Survival::none())), ["/d", "/d/sub", "/d/sub/a"]);
        names.rename(Path::new("/d/sub/a"), Path::new("/d/sub/b"));
        names.remove(Path::new("/d/sub/b"));
        assert_eq!(shown(&names.after_crash(&mut Survival::none())), ["/d", "/d/sub", "/d/sub/a"]);
        assert_eq!(shown(&names.after_crash(&mut Survival::all())), ["/d", "/d/sub"]);
        let seen: std::collections::BTreeSet<usize> =
            (0..50).map(|seed| shown(&names.after_crash(&mut Survival::random(seed))).len()).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [2, 3], "never two names, and a name moves at once");
        assert_eq!(names.sync(Path::new("/d/none")), None);
    }

    #[test]
    fn a_directory_is_renamed_with_what_is_in_it_and_each_is_durable_by_itself() {
        let mut names = Names::new(Path::new("/d"));
        names.add_directory(Path::new("/d/new"));
        names.add_file(Path::new("/d/new/a"), 1);
        names.sync(Path::new("/d/new"));
        names.sync(Path::new("/d"));
        names.add_file(Path::new("/d/new/b"), 2);
        names.rename(Path::new("/d/new"), Path::new("/d/name"));
        assert_eq!(shown(&names), ["/d", "/d/name", "/d/name/a", "/d/name/b"]);
        assert_eq!(names.get(Path::new("/d/name/b")), Some(Node::File(2)));
        assert_eq!(names.get(Path::new("/d/new/b")), None);
        assert_eq!(shown(&names.after_crash(&mut Survival::none())), ["/d", "/d/new", "/d/new/a"]);
        let mut inner = names.clone();
        inner.sync(Path::new("/d/name"));
        let left = shown(&inner.after_crash(&mut Survival::none()));
        assert_eq!(left, ["/d", "/d/new", "/d/new/a", "/d/new/b"], "its contents, under its old name");
        names.sync(Path::new("/d"));
        let left = shown(&names.after_crash(&mut Survival::none()));
        assert_eq!(left, ["/d", "/d/name", "/d/name/a"], "its name, without what is new in it");
    }

    #[test]
    fn a_directory_lists_its_own() {
        let mut names = Names::new(Path::new("/d"));
        names.add_file(Path::new("/d/a"), 1);
        names.add_directory(Path::new("/d/b"));
        names.add_file(Path::new("/d/b/c"), 2);
        let inside: Vec<OsString> =
            names.children(Path::new("/d")).into_iter().map(|(name, _)| name).collect();
        assert_eq!(inside, ["a", "b"]);
        assert_eq!(names.links(2), 1);
        assert_eq!(names.get(Path::new("/d/x")), None);
        assert!(names.has_parent(Path::new("/d/b/x")) && !names.has_parent(Path::new("/d/a/x")));
    }
}
