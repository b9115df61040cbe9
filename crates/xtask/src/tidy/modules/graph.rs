//! The files of a crate, the arrows between them, and the circles that arrows form.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{Meaning, Tree};
use super::uses::uses;

/// What ties one file to another: the names used, each with the first line.
type Names = BTreeMap<String, usize>;

/// For each file, by its number, the files it uses.
pub struct Graph(Vec<BTreeMap<usize, Names>>);

impl Graph {
    /// The arrows of a crate.
    pub fn new(tree: &Tree) -> Graph {
        let mut arrows = vec![BTreeMap::new(); tree.files.len()];
        for (from, (items, module)) in tree.items.iter().enumerate() {
            for used in uses(tree, items, *module) {
                for meaning in tree.resolve(used.module, &used.path) {
                    let (to, name) = match meaning {
                        Meaning::Definition(to, name) => (to, name),
                        Meaning::Module(module) if used.glob => (tree.file_of(module), "*".into()),
                        Meaning::Module(_) => continue,
                    };
                    if to != from {
                        let names: &mut Names = arrows[from].entry(to).or_default();
                        names.entry(name).or_insert(used.line);
                    }
                }
            }
        }
        // A file that only declares modules and hands names on uses nothing.
        for (from, (items, _)) in tree.items.iter().enumerate() {
            if only_hands_on(items) {
                arrows[from].clear();
            }
        }
        Graph(arrows)
    }

    /// The files that a file uses, with the names of what it uses.
    pub fn arrows(&self, file: usize) -> impl Iterator<Item = (usize, Vec<String>)> {
        self.0[file].iter().map(|(to, names)| (*to, names.keys().cloned().collect()))
    }

    /// The first line of a file that names something of one of these others.
    pub fn first_line(&self, file: usize, others: &BTreeSet<usize>) -> usize {
        let arrows = self.0[file].iter().filter(|(to, _)| others.contains(to));
        arrows.flat_map(|(_, names)| names.values().copied()).min().unwrap_or(1)
    }

    /// The circles: sets of files each of which leads to all others, by way of others or not.
    pub fn circles(&self) -> Vec<BTreeSet<usize>> {
        let reached: Vec<BTreeSet<usize>> = (0..self.0.len()).map(|n| self.reached(n)).collect();
        let circle = |file: usize| -> BTreeSet<usize> {
            reached[file].iter().copied().filter(|other| reached[*other].contains(&file)).collect()
        };
        let circles: BTreeSet<BTreeSet<usize>> = (0..self.0.len()).map(circle).collect();
        circles.into_iter().filter(|circle| circle.len() > 1).collect()
    }

    /// All files to which arrows lead from a file.
    fn reached(&self, file: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut next = vec![file];
        while let Some(file) = next.pop() {
            next.extend(self.0[file].keys().filter(|to| reached.insert(**to)));
        }
        reached
    }
}

fn only_hands_on(items: &[syn::Item]) -> bool {
    items.iter().all(|item| match item {
        syn::Item::Mod(inner) => inner.content.is_none(),
        syn::Item::Use(_) => true,
        _ => false,
    })
}
