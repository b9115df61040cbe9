//! The files of relations in a directory, by their names.

use std::path::Path;

use forebay_aio::{FileKind, Namespace};
use forebay_format::Fork;

use crate::error::EngineError;

/// A segment file of a relation's fork.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RelationFile {
    pub(crate) name: String,
    pub(crate) relation: u32,
    pub(crate) fork: Fork,
    /// `.3` of the fourth segment, nothing of the first.
    pub(crate) segment: String,
}

impl RelationFile {
    /// None if it is not a relation's file, or a temporary relation's.
    pub(crate) fn parse(name: &str) -> Option<RelationFile> {
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (stem, segment) = name.find('.').map_or((name, ""), |at| name.split_at(at));
        let (number, fork) = match stem.split_once('_') {
            Some((number, fork)) => {
                (number, Fork::from_name(fork).filter(|fork| *fork != Fork::Main)?)
            }
            None => (stem, Fork::Main),
        };
        if !is_number(number) || !(segment.is_empty() || is_number(segment.strip_prefix('.')?)) {
            return None;
        }
        let (name, segment) = (name.to_owned(), segment.to_owned());
        Some(RelationFile { name, relation: number.parse().ok()?, fork, segment })
    }
}

/// All of them in a directory, but those of temporary relations.
pub(crate) fn relation_files(
    names: &dyn Namespace,
    dir: &Path,
) -> Result<Vec<RelationFile>, EngineError> {
    let files = names.list(dir)?.into_iter().filter(|entry| entry.kind == FileKind::File);
    Ok(files.filter_map(|entry| RelationFile::parse(entry.name.to_str()?)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_relation_files_are_postgresql_s() {
        for (name, relation, fork, segment) in [
            ("16384", 16384, Fork::Main, ""),
            ("16384.12", 16384, Fork::Main, ".12"),
            ("16384_init", 16384, Fork::Init, ""),
            ("16384_fsm.1", 16384, Fork::Fsm, ".1"),
            ("16384_vm", 16384, Fork::Vm, ""),
        ] {
            let segment = segment.to_owned();
            let expected = RelationFile { name: name.to_owned(), relation, fork, segment };
            assert_eq!(RelationFile::parse(name), Some(expected), "{name}");
        }
        for name in [
            "",
            "16384.",
            "16384.x",
            "16384_main",
            "16384_",
            "t3_16384",
            "x",
            "+5",
            "5.1.2",
            "99999999999",
        ] {
            assert_eq!(RelationFile::parse(name), None, "{name}");
        }
    }
}
