//! What CREATE DATABASE asks for.

use forebay_types::Oid;

/// How CREATE DATABASE copies its template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyStrategy {
    /// Page by page, each logged.
    #[default]
    WalLog,
    /// File by file, between two checkpoints.
    FileCopy,
}

/// What CREATE DATABASE asks for. None: as the template has it, or PostgreSQL's default.
#[derive(Clone, Debug, Default)]
pub struct NewDatabase {
    /// Its name.
    pub name: String,
    /// The name of its template.
    pub template: Option<String>,
    /// The OID of its owner.
    pub owner: Option<Oid>,
    /// pg_enc's number of its encoding.
    pub encoding: Option<i32>,
    /// datlocprovider
    pub provider: Option<u8>,
    /// datcollate
    pub collate: Option<String>,
    /// datctype
    pub ctype: Option<String>,
    /// LOCALE: of the provider, and of LC_COLLATE and LC_CTYPE.
    pub both_locales: Option<String>,
    /// BUILTIN_LOCALE
    pub builtin_locale: Option<String>,
    /// ICU_LOCALE
    pub icu_locale: Option<String>,
    /// datcollversion
    pub collation_version: Option<String>,
    /// datistemplate
    pub is_template: bool,
    /// datallowconn
    pub allows_connections: Option<bool>,
    /// datconnlimit
    pub connection_limit: Option<i32>,
    /// Its OID.
    pub oid: Option<Oid>,
    /// The OID of its tablespace.
    pub tablespace: Option<Oid>,
    /// How it is copied.
    pub strategy: CopyStrategy,
}
