//! The options of roles, and GRANT and REVOKE of them.

use super::cursor::Cursor;
use super::role_name::{RoleName, role, roles};
use crate::error::{Result, SqlError, state};
use forebay_engine::MemberOptions;
use sqlparser::tokenizer::Token;

/// An attribute of a role: its column in pg_authid, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleOption {
    /// A flag.
    Flag(&'static str, bool),
    /// CONNECTION LIMIT
    ConnectionLimit(i32),
    /// PASSWORD; None: NULL.
    Password(Option<String>),
    /// VALID UNTIL
    ValidUntil(String),
    /// IN ROLE
    InRole(Vec<RoleName>),
    /// ROLE
    Members(Vec<RoleName>),
    /// ADMIN
    Admins(Vec<RoleName>),
    /// SYSID, which says nothing any more.
    SysId,
}

/// Words of role options with their columns, and whether they set them.
const FLAGS: &[(&str, &str, bool)] = &[
    ("superuser", "rolsuper", true),
    ("nosuperuser", "rolsuper", false),
    ("inherit", "rolinherit", true),
    ("noinherit", "rolinherit", false),
    ("createrole", "rolcreaterole", true),
    ("nocreaterole", "rolcreaterole", false),
    ("createdb", "rolcreatedb", true),
    ("nocreatedb", "rolcreatedb", false),
    ("login", "rolcanlogin", true),
    ("nologin", "rolcanlogin", false),
    ("replication", "rolreplication", true),
    ("noreplication", "rolreplication", false),
    ("bypassrls", "rolbypassrls", true),
    ("nobypassrls", "rolbypassrls", false),
];

/// The options of CREATE ROLE (`new`), or of ALTER ROLE.
pub(super) fn role_options(c: &mut Cursor<'_>, new: bool) -> Result<Vec<RoleOption>> {
    let mut given: Vec<RoleOption> = Vec::new();
    while !c.at_end() {
        let position = c.position();
        let Some(word) = c.peek_word() else { return Err(c.error()) };
        if !new && matches!(word.as_str(), "in" | "role" | "admin" | "sysid") {
            // IN DATABASE would be known.
            let _ = c.accept("in");
            return Err(c.error());
        }
        c.advance();
        let option = match word.as_str() {
            "encrypted" => {
                c.expect("password")?;
                RoleOption::Password(Some(c.string()?))
            }
            "unencrypted" => {
                let message = "UNENCRYPTED PASSWORD is no longer supported";
                let error = SqlError::new(state::FEATURE_NOT_SUPPORTED, message).at(position);
                return Err(error
                    .hint("Remove UNENCRYPTED to store the password in encrypted form instead."));
            }
            "password" if c.accept("null") => RoleOption::Password(None),
            "password" => RoleOption::Password(Some(c.string()?)),
            "connection" => {
                c.expect("limit")?;
                let number = c.accept_number().ok_or_else(|| c.error())?;
                RoleOption::ConnectionLimit(number.parse().map_err(|_| c.error())?)
            }
            "valid" => {
                c.expect("until")?;
                RoleOption::ValidUntil(c.string()?)
            }
            "in" if c.accept("role") || c.accept("group") => RoleOption::InRole(roles(c)?),
            "role" | "user" => RoleOption::Members(roles(c)?),
            "admin" => RoleOption::Admins(roles(c)?),
            "sysid" => {
                c.accept_number().ok_or_else(|| c.error())?;
                RoleOption::SysId
            }
            word => match FLAGS.iter().find(|(known, ..)| *known == word) {
                Some((_, column, on)) => RoleOption::Flag(column, *on),
                None => {
                    let message = format!("unrecognized role option \"{word}\"");
                    return Err(SqlError::new(state::SYNTAX_ERROR, message).at(position));
                }
            },
        };
        let same = |known: &RoleOption| match (known, &option) {
            (RoleOption::Flag(a, _), RoleOption::Flag(b, _)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        };
        if option != RoleOption::SysId && given.iter().any(same) {
            let message = "conflicting or redundant options";
            return Err(SqlError::new(state::SYNTAX_ERROR, message).at(position));
        }
        given.push(option);
    }
    Ok(given)
}

/// What GRANT and REVOKE of roles name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedRoles {
    /// Which.
    pub roles: Vec<String>,
    /// To whom, or from whom.
    pub members: Vec<RoleName>,
    /// How; of REVOKE what is taken back, and none: all.
    pub options: MemberOptions,
    /// GRANTED BY
    pub grantor: Option<RoleName>,
}

/// GRANT or REVOKE. Only roles can be granted. Returns of REVOKE whether CASCADE is given.
pub(super) fn grant(c: &mut Cursor<'_>, revoke: bool) -> Result<(GrantedRoles, Option<bool>)> {
    let verb = if revoke { "REVOKE" } else { "GRANT" };
    let mut options = MemberOptions::default();
    if revoke {
        revoked_option(c, &mut options);
    }
    let mut granted = Vec::new();
    loop {
        match c.name() {
            Ok(name) => granted.push(name),
            Err(_) => return Err(SqlError::unsupported(format!("{verb} of privileges"))),
        }
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    if !c.accept(if revoke { "from" } else { "to" }) {
        return Err(SqlError::unsupported(format!("{verb} of privileges")));
    }
    let members = roles(c)?;
    if !revoke && c.accept("with") {
        granted_options(c, &mut options)?;
    }
    let grantor = if c.accept_all(&["granted", "by"]) { Some(role(c)?) } else { None };
    let cascade = revoke && c.accept("cascade");
    let _ = revoke && !cascade && c.accept("restrict");
    c.expect_end()?;
    let granted = GrantedRoles { roles: granted, members, options, grantor };
    Ok((granted, revoke.then_some(cascade)))
}

/// `ADMIN OPTION FOR` and the like of REVOKE.
fn revoked_option(c: &mut Cursor<'_>, options: &mut MemberOptions) {
    for (word, option) in [
        ("admin", &mut options.admin),
        ("inherit", &mut options.inherit),
        ("set", &mut options.set),
    ] {
        if c.accept_all(&[word, "option", "for"]) {
            *option = Some(false);
            return;
        }
    }
}

/// What follows `WITH` of GRANT: options with their values.
fn granted_options(c: &mut Cursor<'_>, options: &mut MemberOptions) -> Result<()> {
    loop {
        let position = c.position();
        let word = c.peek_word().ok_or_else(|| c.error())?;
        c.advance();
        let value = match c.peek_word().as_deref() {
            Some("option" | "true") => true,
            Some("false") => false,
            _ => return Err(c.error()),
        };
        c.advance();
        let place = match word.as_str() {
            "admin" => &mut options.admin,
            "inherit" => &mut options.inherit,
            "set" => &mut options.set,
            _ => {
                let message = format!("unrecognized role option \"{word}\"");
                return Err(SqlError::new(state::SYNTAX_ERROR, message).at(position));
            }
        };
        *place = Some(value);
        if !c.accept_token(&Token::Comma) {
            return Ok(());
        }
    }
}
