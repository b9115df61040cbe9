//! Transactions, savepoints and LOCK TABLE, parsed by hand.

use super::cursor::{Cursor, QualifiedName};
use super::statement::{Kind, LockTables, Modes, TransactionStatement};
use crate::error::{Result, SqlError};
use crate::settings::IsolationLevel;
use forebay_engine::LockMode;
use sqlparser::tokenizer::Token;

/// Parses a statement of this kind; None if its first word is that of another.
pub(super) fn parse(first: &str, c: &mut Cursor<'_>) -> Result<Option<Kind>> {
    let statement = match first {
        "begin" | "start" => begin(first == "start", c)?,
        "commit" | "end" => {
            c.advance();
            if first == "commit" && c.accept("prepared") {
                TransactionStatement::FinishPrepared { name: c.string()?, commit: true }
            } else {
                work(c);
                TransactionStatement::Commit { chain: chain(c)? }
            }
        }
        "rollback" | "abort" => rollback(first, c)?,
        "savepoint" => {
            c.advance();
            TransactionStatement::Savepoint(c.name()?)
        }
        "release" => {
            c.advance();
            TransactionStatement::Release(savepoint_name(c)?)
        }
        "prepare" if c.accept_all(&["prepare", "transaction"]) => {
            c.string()?;
            TransactionStatement::Prepare
        }
        "lock" => return lock(c).map(|lock| Some(Kind::Lock(lock))),
        _ => return Ok(None),
    };
    Ok(Some(Kind::Transaction(statement)))
}

fn begin(start: bool, c: &mut Cursor<'_>) -> Result<TransactionStatement> {
    c.advance();
    if start {
        c.expect("transaction")?;
    } else {
        work(c);
    }
    let modes = if c.at_end() { Modes::default() } else { modes(c)? };
    Ok(TransactionStatement::Begin { start, modes })
}

fn rollback(first: &str, c: &mut Cursor<'_>) -> Result<TransactionStatement> {
    c.advance();
    if first == "rollback" && c.accept("prepared") {
        return Ok(TransactionStatement::FinishPrepared { name: c.string()?, commit: false });
    }
    work(c);
    if first == "rollback" && c.accept("to") {
        return Ok(TransactionStatement::RollbackTo(savepoint_name(c)?));
    }
    Ok(TransactionStatement::Rollback { chain: chain(c)? })
}

/// `[WORK | TRANSACTION]`
fn work(c: &mut Cursor<'_>) {
    let _ = c.accept("work") || c.accept("transaction");
}

/// `[AND [NO] CHAIN]`
fn chain(c: &mut Cursor<'_>) -> Result<bool> {
    if !c.accept("and") {
        return Ok(false);
    }
    let no = c.accept("no");
    c.expect("chain")?;
    Ok(!no)
}

/// `[SAVEPOINT] name`. A savepoint may be called savepoint.
fn savepoint_name(c: &mut Cursor<'_>) -> Result<String> {
    let word = c.accept("savepoint");
    if word && c.at_end() { Ok("savepoint".to_owned()) } else { c.name() }
}

/// Modes of a transaction, at least one, with commas between them or without.
pub(super) fn modes(c: &mut Cursor<'_>) -> Result<Modes> {
    let mut modes = Modes::default();
    loop {
        if c.accept_all(&["isolation", "level"]) {
            modes.isolation = Some(isolation(c)?);
        } else if c.accept_all(&["read", "only"]) {
            modes.read_only = Some(true);
        } else if c.accept_all(&["read", "write"]) {
            modes.read_only = Some(false);
        } else if c.accept("deferrable") {
            modes.deferrable = Some(true);
        } else if c.accept_all(&["not", "deferrable"]) {
            modes.deferrable = Some(false);
        } else {
            return Err(c.error());
        }
        if !c.accept_token(&Token::Comma) && c.at_end() {
            return Ok(modes);
        }
    }
}

fn isolation(c: &mut Cursor<'_>) -> Result<IsolationLevel> {
    if c.accept("serializable") {
        return Err(SqlError::unsupported("isolation level SERIALIZABLE"));
    }
    one_of(c, &IsolationLevel::ALL.map(|level| (level.name(), level)))
}

/// Takes the words of one of these; an error is at the first word that none of them has there.
fn one_of<T: Copy>(c: &mut Cursor<'_>, choices: &[(&str, T)]) -> Result<T> {
    let mut left: Vec<_> =
        choices.iter().map(|(words, chosen)| (words.split(' '), chosen)).collect();
    loop {
        let next = c.peek_word();
        left.retain_mut(|(words, _)| {
            words.next().is_some_and(|word| next.as_deref() == Some(word))
        });
        if left.is_empty() {
            return Err(c.error());
        }
        c.advance();
        // None begins with all of another.
        if let Some((_, chosen)) = left.iter().find(|(words, _)| words.clone().next().is_none()) {
            return Ok(**chosen);
        }
    }
}

/// `LOCK [TABLE] [ONLY] name [*] [, ...] [IN mode MODE] [NOWAIT]`
fn lock(c: &mut Cursor<'_>) -> Result<LockTables> {
    c.advance();
    c.accept("table");
    let mut names = vec![relation(c)?];
    while c.accept_token(&Token::Comma) {
        names.push(relation(c)?);
    }
    let mode = if c.accept("in") { lock_mode(c)? } else { LockMode::AccessExclusive };
    Ok(LockTables { names, mode, nowait: c.accept("nowait") })
}

/// A table's name. There is no inheritance, so ONLY and * change nothing.
fn relation(c: &mut Cursor<'_>) -> Result<QualifiedName> {
    if !c.accept("only") {
        let name = c.qualified_name()?;
        c.accept_token(&Token::Mul);
        return Ok(name);
    }
    let parentheses = c.accept_token(&Token::LParen);
    let name = c.qualified_name()?;
    if parentheses {
        c.expect_token(&Token::RParen)?;
    }
    Ok(name)
}

fn lock_mode(c: &mut Cursor<'_>) -> Result<LockMode> {
    one_of(
        c,
        &[
            ("access share mode", LockMode::AccessShare),
            ("row share mode", LockMode::RowShare),
            ("row exclusive mode", LockMode::RowExclusive),
            ("share update exclusive mode", LockMode::ShareUpdateExclusive),
            ("share mode", LockMode::Share),
            ("share row exclusive mode", LockMode::ShareRowExclusive),
            ("exclusive mode", LockMode::Exclusive),
            ("access exclusive mode", LockMode::AccessExclusive),
        ],
    )
}
