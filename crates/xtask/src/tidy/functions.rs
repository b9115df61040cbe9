//! The length of functions, from their signature to their closing brace.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, ImplItemFn, ItemFn, Signature, TraitItemFn};

use super::finding::Finding;
use super::sources::Sources;

const LIMIT: usize = 70;

/// One finding for each function over 70 lines, in product code and tests, and for each file that
/// can't be parsed.
pub fn check(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in sources.ending(".rs") {
        match syn::parse_file(text) {
            Ok(file) => Functions { path, findings: &mut findings }.visit_file(&file),
            Err(error) => {
                let line = error.span().start().line;
                let text = format!("can't be parsed: {error}");
                findings.push(Finding::new("functions", path, line, text));
            }
        }
    }
    findings
}

struct Functions<'a> {
    path: &'a str,
    findings: &'a mut Vec<Finding>,
}

impl Functions<'_> {
    fn measure(&mut self, signature: &Signature, block: &Block) {
        let begin = signature.span().start().line;
        let lines = block.brace_token.span.close().end().line - begin + 1;
        if lines > LIMIT {
            let text = format!("{} has {lines} lines; the limit is {LIMIT}", signature.ident);
            self.findings.push(Finding::new("functions", self.path, begin, text));
        }
    }
}

impl Visit<'_> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &ItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &ImplItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &TraitItemFn) {
        if let Some(block) = &function.default {
            self.measure(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::{Sources, check};

    #[test]
    fn functions_are_measured_wherever_they_are() {
        for (before, after) in
            [("", ""), ("impl A { ", "}"), ("trait A { ", "}"), ("mod a { ", "}")]
        {
            for (lines, found) in [(70, 0), (71, 1)] {
                let body = "\n".repeat(lines - 1);
                let text = format!("/// Words.\n{before}fn f() {{{body}}}{after}\n");
                let findings = check(&Sources::from([("crates/wal/tests/a.rs", &*text)]));
                assert_eq!(findings.len(), found, "{before}: {lines} lines");
                if let [finding] = &findings[..] {
                    let wanted =
                        "crates/wal/tests/a.rs:2: functions: f has 71 lines; the limit is 70";
                    assert_eq!(finding.to_string(), wanted);
                }
            }
        }
    }

    #[test]
    fn what_is_no_rust_is_found() {
        assert_eq!(check(&Sources::from([("crates/wal/src/a.rs", "fn {")])).len(), 1);
    }
}
