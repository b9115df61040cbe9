//! The paths that a file names, each with the module in which it stands.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{ImplItem, Item, ItemMod, ItemUse, Macro, Path, TraitItem};

use super::tree::{Tree, attributes, imports, is_private, is_test};

/// A path that a file names.
pub struct Use {
    /// The module in which it stands.
    pub module: usize,
    /// Its parts.
    pub path: Vec<String>,
    /// Whether all names below it are meant.
    pub glob: bool,
    /// The line.
    pub line: usize,
}

/// All paths in the items of a file, which is a module of this number. Tests are left out.
pub fn uses(tree: &Tree, items: &[Item], module: usize) -> Vec<Use> {
    let mut visitor = Visitor { tree, module, uses: Vec::new() };
    items.iter().for_each(|item| visitor.visit_item(item));
    visitor.uses
}

struct Visitor<'t> {
    tree: &'t Tree,
    module: usize,
    uses: Vec<Use>,
}

impl Visitor<'_> {
    fn add(&mut self, path: Vec<String>, glob: bool, line: usize) {
        self.uses.push(Use { module: self.module, path, glob, line });
    }

    /// The paths in a macro's arguments, which are known as tokens only.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut line, mut between) = (Vec::new(), 0, String::new());
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if between != "::" {
                        self.add_path(&mut path, line);
                        line = ident.span().start().line;
                    }
                    // What follows a single point is a field or a method.
                    if !between.ends_with('.') || between.ends_with("..") {
                        path.push(ident.to_string());
                    }
                    between.clear();
                }
                TokenTree::Punct(punct) => between.push(punct.as_char()),
                TokenTree::Literal(_) => between.push(' '),
                TokenTree::Group(group) => {
                    self.add_tokens(group.stream());
                    between.push(' ');
                }
            }
        }
        self.add_path(&mut path, line);
    }

    fn add_path(&mut self, path: &mut Vec<String>, line: usize) {
        if !path.is_empty() {
            self.add(std::mem::take(path), false, line);
        }
    }
}

impl<'a> Visit<'a> for Visitor<'_> {
    fn visit_item(&mut self, item: &'a Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'a ImplItem) {
        let attributes = match item {
            ImplItem::Fn(item) => &item.attrs[..],
            ImplItem::Const(item) => &item.attrs,
            _ => &[],
        };
        if !is_test(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'a TraitItem) {
        let test = matches!(item, TraitItem::Fn(item) if is_test(&item.attrs));
        if !test {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        let inner = self.tree.inner(self.module, &item.ident.to_string());
        if let (Some(inner), Some((_, items))) = (inner, &item.content) {
            let outer = std::mem::replace(&mut self.module, inner);
            items.iter().for_each(|item| self.visit_item(item));
            self.module = outer;
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        if is_private(&item.vis) {
            let line = item.use_token.span.start().line;
            for import in imports(&item.tree) {
                self.add(import.path, import.name.is_none(), line);
            }
        }
    }

    fn visit_path(&mut self, path: &'a Path) {
        if path.leading_colon.is_none() {
            let parts = path.segments.iter().map(|part| part.ident.to_string()).collect();
            let line = path.segments.first().map_or(1, |part| part.ident.span().start().line);
            self.add(parts, false, line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invoked: &'a Macro) {
        self.visit_path(&invoked.path);
        self.add_tokens(invoked.tokens.clone());
    }
}
