//! FOR UPDATE, FOR NO KEY UPDATE, FOR SHARE and FOR KEY SHARE.

use super::tree::{LockPolicy, Node, RowLock};
use crate::analyze::ident_name;
use crate::error::{Result, SqlError, state};
use crate::parse::Source;
use forebay_engine::{EngineError, LockMode, LockStrength};
use sqlparser::ast;

/// A locking clause.
pub(super) struct Locking {
    /// As it is written, up to OF.
    words: &'static str,
    lock: RowLock,
    /// The names behind OF, each with its position.
    of: Option<(Vec<String>, u32)>,
}

/// The words and the strength of each kind of clause.
const KINDS: [(&str, LockStrength); 4] = [
    ("FOR UPDATE", LockStrength::Exclusive),
    ("FOR NO KEY UPDATE", LockStrength::NoKeyExclusive),
    ("FOR SHARE", LockStrength::Share),
    ("FOR KEY SHARE", LockStrength::KeyShare),
];

/// The words of a clause of this strength.
pub fn locking_words(strength: LockStrength) -> &'static str {
    let kind = KINDS.iter().find(|(_, s)| *s == strength);
    kind.map_or("FOR UPDATE", |(words, _)| words)
}

impl Locking {
    /// The clauses of a query. The first part of the name in each is its words: see
    /// `parse/extras.rs`.
    pub(super) fn all(locks: &[ast::LockClause], source: &Source) -> Result<Vec<Locking>> {
        let mut all = Vec::with_capacity(locks.len());
        for ast::LockClause { lock_type: _, of, nonblock } in locks {
            let policy = match nonblock {
                None => LockPolicy::Wait,
                Some(ast::NonBlock::SkipLocked) => LockPolicy::Skip,
                Some(ast::NonBlock::Nowait) => LockPolicy::Fail,
            };
            let parts = of.as_ref().map(|of| of.0.as_slice()).unwrap_or_default();
            let idents: Option<Vec<&ast::Ident>> = parts.iter().map(|p| p.as_ident()).collect();
            let unknown = || SqlError::unsupported("this form of locking clause");
            let idents = idents.ok_or_else(unknown)?;
            let (kind, names) = idents.split_first().ok_or_else(unknown)?;
            let (words, strength) =
                *KINDS.iter().find(|(words, _)| *words == kind.value).ok_or_else(unknown)?;
            let of = names.first().map(|first| {
                let names = names.iter().map(|name| ident_name(name)).collect();
                (names, source.position(first.span.start))
            });
            all.push(Locking { words, lock: RowLock { strength, policy }, of });
        }
        Ok(all)
    }

    /// Refuses the clauses with what a query has no row of a table for.
    pub(super) fn refuse(clauses: &[Locking], with: &str) -> Result<()> {
        let Some(clause) = clauses.first() else { return Ok(()) };
        let message = format!("{} is not allowed with {with}", clause.words);
        Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message))
    }

    /// Refuses the clauses for what has no rows to lock.
    pub(super) fn refuse_for(clauses: &[Locking], what: &str) -> Result<()> {
        clauses.first().map_or(Ok(()), |clause| Err(clause.not_for(what)))
    }

    fn not_for(&self, what: &str) -> SqlError {
        let message = format!("{} cannot be applied to {what}", self.words);
        let position = self.of.as_ref().map_or(0, |(_, position)| *position);
        SqlError::new(state::FEATURE_NOT_SUPPORTED, message).at(position)
    }

    /// The mode in which a table of this name, or with this alias, is locked.
    pub(super) fn mode(clauses: &[Locking], name: &str) -> LockMode {
        let covers = |clause: &Locking| {
            clause.of.as_ref().is_none_or(|(names, _)| matches!(names.as_slice(), [n] if n == name))
        };
        if clauses.iter().any(covers) { LockMode::RowShare } else { LockMode::AccessShare }
    }

    /// How the rows of FROM are locked. The strongest clause and the strictest policy win.
    pub(super) fn of_rows(
        clauses: &[Locking],
        source: &Node,
        alias: Option<&String>,
    ) -> Result<Option<RowLock>> {
        let mut found: Option<RowLock> = None;
        for clause in clauses {
            if let Some((names, position)) = &clause.of {
                let [name] = names.as_slice() else {
                    let message =
                        format!("{} must specify unqualified relation names", clause.words);
                    return Err(SqlError::new(state::SYNTAX_ERROR, message).at(*position));
                };
                if alias != Some(name) {
                    let message = format!(
                        "relation \"{name}\" in {} clause not found in FROM clause",
                        clause.words
                    );
                    return Err(SqlError::new(state::UNDEFINED_TABLE, message).at(*position));
                }
            }
            match source {
                Node::Scan(read) => read.table.check_lockable().map_err(EngineError::from)?,
                Node::Function(_) | Node::Rows { .. } | Node::Series { .. }
                    if clause.of.is_some() =>
                {
                    return Err(clause.not_for("a function"));
                }
                other if other.tables().next().is_some() => {
                    return Err(SqlError::unsupported("locking rows of a subquery"));
                }
                // Nothing of it is stored.
                _ => continue,
            }
            let lock = clause.lock;
            found = Some(found.map_or(lock, |before| RowLock {
                strength: before.strength.max(lock.strength),
                policy: before.policy.max(lock.policy),
            }));
        }
        Ok(found)
    }
}
