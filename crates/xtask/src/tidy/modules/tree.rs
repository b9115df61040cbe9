//! The modules of a crate as its files declare them, and what a path stands for.

use std::cell::RefCell;
use std::collections::BTreeMap;

use syn::visit::Visit;
use syn::{Attribute, Item, ItemMod, ItemUse, Meta, UseTree, Visibility};

use super::super::sources::Sources;

/// What a name in a module stands for.
enum Entity {
    /// Something that this file defines.
    Defined,
    /// A module, by its number.
    Module(usize),
    /// What a path stands for that an import names.
    Import(Vec<String>),
}

/// What a path stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A module, by its number.
    Module(usize),
    /// A name that a file defines: the file's number.
    Definition(usize, String),
}

/// A module: a file, or a part of one.
struct Module {
    file: usize,
    parent: usize,
    names: BTreeMap<String, Vec<Entity>>,
    globs: Vec<Vec<String>>,
}

/// One import: its path, the name that it gets, and where.
pub struct Import {
    /// The path's parts.
    pub path: Vec<String>,
    /// Its new name; none: all names below the path.
    pub name: Option<String>,
}

/// A module's number, and a path below it.
type Below = (usize, Vec<String>);

/// The modules and files of a crate. Both are numbered from 0, which is the root.
pub struct Tree {
    /// Paths of the files.
    pub files: Vec<String>,
    /// The items of each file, and the number of the module that it is.
    pub items: Vec<(Vec<Item>, usize)>,
    modules: Vec<Module>,
    /// What paths below modules mean. A path means nothing while it is looked up, so imports of
    /// each other come to an end.
    known: RefCell<BTreeMap<Below, Vec<Meaning>>>,
}

impl Tree {
    /// Reads the crate whose root file is at a path. Tests are left out.
    pub fn read(sources: &Sources, root: &str) -> Tree {
        let (files, items, modules) = (Vec::new(), Vec::new(), Vec::new());
        let mut tree = Tree { files, items, modules, known: RefCell::default() };
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        tree.add_file(sources, root, folder, 0);
        tree
    }

    /// Adds a file as a module below another; `folder` is where its own modules are. A file that is
    /// no Rust has nothing in it: another check says so.
    fn add_file(&mut self, sources: &Sources, path: &str, folder: &str, parent: usize) -> usize {
        let parsed = syn::parse_file(sources.text(path)).ok();
        let file = parsed.filter(|file| !is_test(&file.attrs));
        let items = file.map(|file| file.items).unwrap_or_default();
        let number = self.files.len();
        let module = self.add_module(number, parent);
        self.files.push(path.to_owned());
        self.items.push((Vec::new(), module));
        self.add_items(sources, &items, module, folder);
        self.items[number].0 = items;
        module
    }

    fn add_module(&mut self, file: usize, parent: usize) -> usize {
        let (names, globs) = (BTreeMap::new(), Vec::new());
        self.modules.push(Module { file, parent, names, globs });
        self.modules.len() - 1
    }

    fn add_items(&mut self, sources: &Sources, items: &[Item], module: usize, folder: &str) {
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            match item {
                Item::Mod(inner) => self.add_inner(sources, inner, module, folder),
                Item::Use(import) => self.add_imports(&import.tree, module),
                Item::ForeignMod(foreign) => {
                    for item in &foreign.items {
                        if let syn::ForeignItem::Fn(function) = item {
                            self.define(module, function.sig.ident.to_string());
                        }
                    }
                }
                item => {
                    if let Some(name) = name_of(item) {
                        self.define(module, name);
                    }
                    let mut bodies = Bodies(Vec::new());
                    bodies.visit_item(item);
                    bodies.0.into_iter().for_each(|import| self.add_imports(import, module));
                }
            }
        }
    }

    /// A module that a file declares or holds.
    fn add_inner(&mut self, sources: &Sources, inner: &ItemMod, module: usize, folder: &str) {
        let name = inner.ident.to_string();
        let below = format!("{folder}/{name}");
        let number = match &inner.content {
            Some((_, items)) => {
                let number = self.add_module(self.modules[module].file, module);
                self.add_items(sources, items, number, &below);
                number
            }
            None => {
                let places = [format!("{below}.rs"), format!("{below}/mod.rs")];
                let Some(path) = places.iter().find(|path| sources.has(path)) else { return };
                self.add_file(sources, path, &below, module)
            }
        };
        self.name(module, name, Entity::Module(number));
    }

    /// Makes the names of an import known in a module.
    fn add_imports(&mut self, tree: &UseTree, module: usize) {
        for Import { path, name } in imports(tree) {
            match name {
                Some(name) => self.name(module, name, Entity::Import(path)),
                None => self.modules[module].globs.push(path),
            }
        }
    }

    fn define(&mut self, module: usize, name: String) {
        self.name(module, name, Entity::Defined);
    }

    fn name(&mut self, module: usize, name: String, entity: Entity) {
        self.modules[module].names.entry(name).or_default().push(entity);
    }

    /// The file of a module.
    pub fn file_of(&self, module: usize) -> usize {
        self.modules[module].file
    }

    /// The module that an inline `mod` of a module is.
    pub fn inner(&self, module: usize, name: &str) -> Option<usize> {
        let entities = self.modules[module].names.get(name)?;
        entities.iter().find_map(|entity| match entity {
            Entity::Module(number) => Some(*number),
            Entity::Defined | Entity::Import(_) => None,
        })
    }

    /// What a path that stands in a module means: nothing if it leads out of the crate.
    pub fn resolve(&self, module: usize, path: &[String]) -> Vec<Meaning> {
        let (mut from, mut rest) = (module, path);
        while let [first, more @ ..] = rest {
            match first.as_str() {
                "crate" => from = 0,
                "self" => {}
                "super" => from = self.modules[from].parent,
                _ => break,
            }
            rest = more;
        }
        self.walk(from, rest)
    }

    /// What a path below a module means.
    fn walk(&self, module: usize, path: &[String]) -> Vec<Meaning> {
        let key = (module, path.to_vec());
        if let Some(known) = self.known.borrow().get(&key) {
            return known.clone();
        }
        self.known.borrow_mut().insert(key.clone(), Vec::new());
        let found = self.find(module, path);
        self.known.borrow_mut().insert(key, found.clone());
        found
    }

    fn find(&self, module: usize, path: &[String]) -> Vec<Meaning> {
        let [first, rest @ ..] = path else { return vec![Meaning::Module(module)] };
        let below = |meaning| match meaning {
            Meaning::Module(number) => self.walk(number, rest),
            definition @ Meaning::Definition(..) => vec![definition],
        };
        let mut found: Vec<Meaning> = Vec::new();
        let entities = self.modules[module].names.get(first).map_or(&[][..], Vec::as_slice);
        // Beside `mod scan`, `use scan::scan` is a function, and a path does not lead through it.
        let is_module = |entity: &Entity| matches!(entity, Entity::Module(_));
        let only_modules = !rest.is_empty() && entities.iter().any(is_module);
        for entity in entities.iter().filter(|entity| !only_modules || is_module(entity)) {
            match entity {
                Entity::Defined => {
                    found.push(Meaning::Definition(self.modules[module].file, first.clone()));
                }
                Entity::Module(number) => found.extend(self.walk(*number, rest)),
                Entity::Import(import) => {
                    found.extend(self.resolve(module, import).into_iter().flat_map(below));
                }
            }
        }
        if found.is_empty() {
            let globs = self.modules[module].globs.iter();
            let modules = globs.flat_map(|glob| self.resolve(module, glob));
            found.extend(modules.flat_map(|meaning| match meaning {
                Meaning::Module(number) => self.walk(number, path),
                // Variants of an enum, of which nothing more is known here.
                Meaning::Definition(..) => Vec::new(),
            }));
        }
        found
    }
}

/// The imports in the bodies of functions. They are taken for imports of the module.
struct Bodies<'a>(Vec<&'a UseTree>);

impl<'a> Visit<'a> for Bodies<'a> {
    fn visit_item_use(&mut self, import: &'a ItemUse) {
        self.0.push(&import.tree);
    }
}

/// The imports of a `use`.
pub fn imports(tree: &UseTree) -> Vec<Import> {
    let mut found = Vec::new();
    add_imports_of(tree, &mut Vec::new(), &mut found);
    found
}

fn add_imports_of(tree: &UseTree, path: &mut Vec<String>, found: &mut Vec<Import>) {
    match tree {
        UseTree::Path(part) => {
            path.push(part.ident.to_string());
            add_imports_of(&part.tree, path, found);
            path.pop();
        }
        UseTree::Group(group) => {
            group.items.iter().for_each(|item| add_imports_of(item, path, found));
        }
        UseTree::Glob(_) => found.push(Import { path: path.clone(), name: None }),
        UseTree::Name(last) => add_import(path, &last.ident.to_string(), None, found),
        UseTree::Rename(last) => {
            add_import(path, &last.ident.to_string(), Some(last.rename.to_string()), found);
        }
    }
}

fn add_import(path: &[String], last: &str, name: Option<String>, found: &mut Vec<Import>) {
    let mut path = path.to_vec();
    if last != "self" {
        path.push(last.to_owned());
    }
    let name = name.or_else(|| path.last().cloned());
    found.push(Import { path, name });
}

/// Whether something is there in tests only.
pub fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) => {
            let words: String = list.tokens.to_string().split_whitespace().collect();
            list.path.is_ident("cfg") && (words == "test" || words.starts_with("all(test,"))
        }
        Meta::NameValue(_) => false,
    })
}

/// The attributes of an item that may be there in tests only.
pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The name that an item defines.
fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// Whether an import is for the file itself, and does not hand a name on.
pub fn is_private(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Inherited)
}
