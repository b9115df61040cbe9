//! Names: the tree as everybody sees it, the tree as the medium has it, and the changes in between, directory by directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::survival::Survival;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Directory,
    /// A file, by its number.
    File(u64),
}

/// A change of names.
#[derive(Clone, Debug)]
enum Change {
    Add(PathBuf, Node),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

impl Change {
    /// The directory whose sync makes it durable.
    fn directory(&self) -> &Path {
        let (Change::Add(path, _) | Change::Remove(path) | Change::Rename(_, path)) = self;
        path.parent().unwrap_or(path)
    }

    fn apply(&self, tree: &mut Tree) {
        match self {
            Change::Add(path, node) => {
                tree.insert(path.clone(), *node);
            }
            Change::Remove(path) => {
                tree.remove(path);
            }
            // A name that a crash has lost can't be moved.
            Change::Rename(from, to) => {
                if let Some(node) = tree.remove(from) {
                    tree.insert(to.clone(), node);
                }
            }
        }
    }
}

type Tree = BTreeMap<PathBuf, Node>;

/// All names.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    live: Tree,
    durable: Tree,
    unsynced: Vec<Change>,
}

impl Names {
    /// Only the directory `root`, which is durable.
    pub fn new(root: &Path) -> Names {
        let tree = Tree::from([(root.to_owned(), Node::Directory)]);
        Names { live: tree.clone(), durable: tree, unsynced: Vec::new() }
    }

    pub fn get(&self, path: &Path) -> Option<Node> {
        self.live.get(path).copied()
    }

    pub fn add(&mut self, path: &Path, node: Node) {
        self.change(Change::Add(path.to_owned(), node));
    }

    pub fn remove(&mut self, path: &Path) {
        self.change(Change::Remove(path.to_owned()));
    }

    pub fn rename(&mut self, from: &Path, to: &Path) {
        self.change(Change::Rename(from.to_owned(), to.to_owned()));
    }

    /// The names in a directory.
    pub fn children<'a>(&'a self, dir: &'a Path) -> impl Iterator<Item = (&'a Path, Node)> {
        let inside = self.live.range(dir.to_owned()..).take_while(move |(path, _)| path.starts_with(dir));
        inside.filter(move |(path, _)| path.parent() == Some(dir)).map(|(path, node)| (path.as_path(), *node))
    }

    /// All names, in order.
    pub fn all(&self) -> impl Iterator<Item = (&Path, Node)> {
        self.live.iter().map(|(path, node)| (path.as_path(), *node))
    }

    /// How many names a file has.
    pub fn links(&self, file: u64) -> u64 {
        self.live.values().filter(|node| **node == Node::File(file)).count() as u64
    }

    /// The changes in a directory are on the medium. Whether there were any.
    pub fn sync(&mut self, dir: &Path) -> bool {
        let (synced, rest): (Vec<Change>, Vec<Change>) =
            self.unsynced.drain(..).partition(|change| change.directory() == dir);
        let any = !synced.is_empty();
        for change in synced {
            change.apply(&mut self.durable);
        }
        self.unsynced = rest;
        any
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
        let mut by_directory: BTreeMap<&Path, Vec<&Change>> = BTreeMap::new();
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
        let mut lost: Vec<PathBuf> = Vec::new();
        for path in tree.keys() {
            let parent = path.parent().filter(|_| !self.is_root(path));
            if parent.is_some_and(|p| tree.get(p) != Some(&Node::Directory) || lost.iter().any(|l| l == p)) {
                lost.push(path.clone());
            }
        }
        for path in lost {
            tree.remove(&path);
        }
        Names { live: tree.clone(), durable: tree, unsynced: Vec::new() }
    }

    /// The first name of all is the root's.
    fn is_root(&self, path: &Path) -> bool {
        self.live.keys().next().is_some_and(|root| root == path)
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
        names.live.keys().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn names_are_durable_after_the_sync_of_their_directory() {
        let mut names = Names::new(Path::new("/d"));
        names.add(Path::new("/d/sub"), Node::Directory);
        names.add(Path::new("/d/sub/a"), Node::File(1));
        assert_eq!(shown(&names.after_crash(&mut Survival::none())), ["/d"]);
        names.sync(Path::new("/d/sub"));
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
    }

    #[test]
    fn a_directory_lists_its_own() {
        let mut names = Names::new(Path::new("/d"));
        for (path, node) in [("/d/a", Node::File(1)), ("/d/b", Node::Directory), ("/d/b/c", Node::File(2))] {
            names.add(Path::new(path), node);
        }
        let inside: Vec<&Path> = names.children(Path::new("/d")).map(|(path, _)| path).collect();
        assert_eq!(inside, [Path::new("/d/a"), Path::new("/d/b")]);
        assert_eq!(names.links(2), 1);
        assert_eq!(names.get(Path::new("/d/x")), None);
    }
}
