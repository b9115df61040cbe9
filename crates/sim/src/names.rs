//! Names: the tree as calls see it, the tree on the medium, and the changes between the two,
//! directory by directory.
//!
//! Directories are known by numbers, as files are. What is in a directory moves with it when it is
//! renamed, and is durable or not independently of the directory's own name.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::survival::Survival;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// A directory, by its number.
    Directory(u64),
    /// A file, by its number.
    File(u64),
}

impl Node {
    /// Whether it is a directory.
    pub fn is_directory(self) -> bool {
        matches!(self, Node::Directory(_))
    }
}

/// The directory that is always there.
pub(crate) const ROOT: u64 = 0;

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
    /// The directory whose sync makes the change durable.
    fn directory(&self) -> u64 {
        let (Change::Add((dir, _), _) | Change::Remove((dir, _)) | Change::Rename(_, (dir, _))) =
            self;
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

/// The entries of each directory. Some directories have no name: removed ones, and those whose
/// names are lost.
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

    /// Everything below the root in the order of names, each directory before its entries.
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
pub struct Names {
    root: PathBuf,
    live: Tree,
    durable: Tree,
    /// The unsynced changes in order, each with its number.
    unsynced: Vec<(u64, Change)>,
    next_change: u64,
    next: u64,
}

impl Names {
    /// Only the directory `root`, which is durable.
    pub fn new(root: &Path) -> Names {
        let (live, durable) = (Tree::default(), Tree::default());
        let root = root.to_owned();
        Names { root, live, durable, unsynced: Vec::new(), next_change: 0, next: ROOT + 1 }
    }

    /// What a path leads to.
    pub fn get(&self, path: &Path) -> Option<Node> {
        let mut node = Node::Directory(ROOT);
        for name in path.strip_prefix(&self.root).ok()?.iter() {
            let Node::Directory(dir) = node else { return None };
            node = self.look_up(dir, name)?;
        }
        Some(node)
    }

    /// The entry of this name in a directory.
    pub fn look_up(&self, dir: u64, name: &OsStr) -> Option<Node> {
        self.live.get(dir, name)
    }

    /// Gives a file a name in a directory.
    pub fn add(&mut self, dir: u64, name: &OsStr, node: Node) {
        self.change(Change::Add((dir, name.to_owned()), node));
    }

    /// Makes a directory in another one, and returns its number.
    pub fn make_directory(&mut self, dir: u64, name: &OsStr) -> u64 {
        let number = self.next;
        self.next += 1;
        self.add(dir, name, Node::Directory(number));
        number
    }

    /// Removes a name from a directory.
    pub fn remove_from(&mut self, dir: u64, name: &OsStr) {
        self.change(Change::Remove((dir, name.to_owned())));
    }

    /// As [`Names::rename`], from directory to directory.
    pub fn move_to(&mut self, (from, old): (u64, &OsStr), (to, new): (u64, &OsStr)) {
        self.change(Change::Rename((from, old.to_owned()), (to, new.to_owned())));
    }

    /// The names in a directory, by its number.
    pub fn entries(&self, dir: u64) -> impl Iterator<Item = (&OsString, Node)> {
        self.live.0.get(&dir).into_iter().flatten().map(|(name, node)| (name, *node))
    }

    /// The directory that holds a name, if it exists.
    fn place(&self, path: &Path) -> Option<Place> {
        match self.get(path.parent()?)? {
            Node::Directory(dir) => Some((dir, path.file_name()?.to_owned())),
            Node::File(_) => None,
        }
    }

    /// Whether the directory of this path exists.
    pub fn has_parent(&self, path: &Path) -> bool {
        self.place(path).is_some()
    }

    /// Gives a file a name.
    pub fn add_file(&mut self, path: &Path, file: u64) {
        if let Some((dir, name)) = self.place(path) {
            self.add(dir, &name, Node::File(file));
        }
    }

    /// Makes a directory.
    pub fn add_directory(&mut self, path: &Path) {
        if let Some((dir, name)) = self.place(path) {
            self.make_directory(dir, &name);
        }
    }

    /// Removes a name.
    pub fn remove(&mut self, path: &Path) {
        if let Some((dir, name)) = self.place(path) {
            self.remove_from(dir, &name);
        }
    }

    /// Renames a file, or a directory with everything in it. A previous entry of the new name is
    /// replaced.
    pub fn rename(&mut self, from: &Path, to: &Path) {
        if let (Some(from), Some(to)) = (self.place(from), self.place(to)) {
            self.change(Change::Rename(from, to));
        }
    }

    /// The names in a directory.
    pub fn children(&self, dir: &Path) -> Vec<(OsString, Node)> {
        let Some(Node::Directory(dir)) = self.get(dir) else { return Vec::new() };
        self.entries(dir).map(|(name, node)| (name.clone(), node)).collect()
    }

    /// All names, in order.
    pub fn all(&self) -> Vec<(PathBuf, Node)> {
        let mut found = vec![(self.root.clone(), Node::Directory(ROOT))];
        self.live.walk(ROOT, &self.root, &mut found);
        found
    }

    /// The files that have names.
    pub fn files(&self) -> BTreeSet<u64> {
        let names = self.live.0.values().flat_map(BTreeMap::values);
        let file = |node: &Node| match node {
            Node::File(number) => Some(*number),
            Node::Directory(_) => None,
        };
        names.filter_map(file).collect()
    }

    /// How many names a file has.
    pub fn links(&self, file: u64) -> u64 {
        let names = self.live.0.values().flat_map(BTreeMap::values);
        names.filter(|node| **node == Node::File(file)).count() as u64
    }

    /// Makes the changes in a directory durable. Returns whether there were any, or none if there
    /// is no such directory.
    pub fn sync(&mut self, dir: &Path) -> Option<bool> {
        if !dir.starts_with(&self.root) {
            // In another directory.
            return Some(false);
        }
        let Some(Node::Directory(dir)) = self.get(dir) else { return None };
        Some(self.sync_until(Some(dir), self.mark()))
    }

    /// A mark between the changes so far and later ones.
    pub fn mark(&self) -> u64 {
        self.next_change
    }

    /// Makes the changes before a mark durable, in one directory or in all. Returns whether there
    /// were any.
    pub fn sync_until(&mut self, dir: Option<u64>, mark: u64) -> bool {
        let (synced, rest): (Vec<_>, Vec<_>) =
            self.unsynced.drain(..).partition(|(number, change)| {
                *number < mark && dir.is_none_or(|dir| change.directory() == dir)
            });
        self.unsynced = rest;
        for (_, change) in &synced {
            change.apply(&mut self.durable);
        }
        !synced.is_empty()
    }

    /// Makes all changes durable.
    pub fn sync_all(&mut self) {
        self.sync_until(None, self.mark());
    }

    /// The number of changes that a crash might undo.
    pub fn unsynced(&self) -> usize {
        self.unsynced.len()
    }

    /// The names as a crash leaves them: the first changes of each directory survive.
    pub fn after_crash(&self, survival: &mut Survival) -> Names {
        let mut by_directory: BTreeMap<u64, Vec<&Change>> = BTreeMap::new();
        for (_, change) in &self.unsynced {
            by_directory.entry(change.directory()).or_default().push(change);
        }
        self.left(by_directory.values(), survival)
    }

    /// As [`Names::after_crash`], on a file system with one log for all directories: the first of
    /// all changes survive.
    pub fn after_crash_in_order(&self, survival: &mut Survival) -> Names {
        self.left([&self.unsynced.iter().map(|(_, change)| change).collect()].into_iter(), survival)
    }

    /// The names with the first changes of each group.
    fn left<'c>(
        &self,
        groups: impl Iterator<Item = &'c Vec<&'c Change>>,
        survival: &mut Survival,
    ) -> Names {
        let mut tree = self.durable.clone();
        for changes in groups {
            for change in &changes[..survival.names(changes.len())] {
                change.apply(&mut tree);
            }
        }
        // Entries of a lost directory are lost.
        let mut found = Vec::new();
        tree.walk(ROOT, &self.root, &mut found);
        let reached: BTreeSet<u64> = found
            .iter()
            .filter_map(|(_, node)| if let Node::Directory(dir) = node { Some(*dir) } else { None })
            .chain([ROOT])
            .collect();
        tree.0.retain(|dir, _| reached.contains(dir));
        let (root, live, durable) = (self.root.clone(), tree.clone(), tree);
        Names {
            root,
            live,
            durable,
            unsynced: Vec::new(),
            next_change: self.next_change,
            next: self.next,
        }
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.live);
        self.unsynced.push((self.next_change, change));
        self.next_change += 1;
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
        assert_eq!(
            shown(&names.after_crash(&mut Survival::none())),
            ["/d"],
            "the directory itself is lost"
        );
        names.sync(Path::new("/d"));
        assert_eq!(shown(&names.after_crash(&mut Survival::none())), ["/d", "/d/sub", "/d/sub/a"]);
        names.rename(Path::new("/d/sub/a"), Path::new("/d/sub/b"));
        names.remove(Path::new("/d/sub/b"));
        assert_eq!(shown(&names.after_crash(&mut Survival::none())), ["/d", "/d/sub", "/d/sub/a"]);
        assert_eq!(shown(&names.after_crash(&mut Survival::all())), ["/d", "/d/sub"]);
        let seen: std::collections::BTreeSet<usize> = (0..50)
            .map(|seed| shown(&names.after_crash(&mut Survival::random(seed))).len())
            .collect();
        assert_eq!(
            seen.into_iter().collect::<Vec<_>>(),
            [2, 3],
            "never two names, and a name moves at once"
        );
        assert_eq!(names.sync(Path::new("/d/none")), None);
    }

    #[test]
    fn a_sync_covers_names_before_its_mark_and_a_log_of_all_keeps_their_order() {
        let mut names = Names::new(Path::new("/d"));
        let sub = names.make_directory(ROOT, OsStr::new("sub"));
        names.add(sub, OsStr::new("a"), Node::File(1));
        let mark = names.mark();
        names.move_to((sub, OsStr::new("a")), (ROOT, OsStr::new("b")));
        let orders: BTreeSet<Vec<String>> = (0..50)
            .map(|seed| shown(&names.after_crash_in_order(&mut Survival::random(seed))))
            .collect();
        let possible = [
            vec!["/d"],
            vec!["/d", "/d/b", "/d/sub"],
            vec!["/d", "/d/sub"],
            vec!["/d", "/d/sub", "/d/sub/a"],
        ];
        assert_eq!(orders.into_iter().collect::<Vec<_>>(), possible);
        assert!(names.sync_until(Some(ROOT), mark) && names.sync_until(None, mark));
        assert!(!names.sync_until(None, mark), "nothing is left before the mark");
        assert_eq!(shown(&names.after_crash(&mut Survival::none())), ["/d", "/d/sub", "/d/sub/a"]);
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
        assert_eq!(
            left,
            ["/d", "/d/new", "/d/new/a", "/d/new/b"],
            "its contents, under its old name"
        );
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
