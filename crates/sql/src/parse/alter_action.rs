//! What ALTER TABLE does.

use super::column::CheckClause;
use super::cursor::QualifiedName;
use super::foreign_key::NewForeignKey;
use super::index::NewKey;
use super::role_name::RoleName;
use super::sequence::SequenceClauses;
use super::table::NewTableColumn;
use super::type_name::TypeName;
use forebay_engine::StorageParameter;
use sqlparser::ast;

/// An action of ALTER TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlterAction {
    /// ADD PRIMARY KEY, ADD UNIQUE.
    AddKey(NewKey),
    /// ALTER COLUMN ... SET STORAGE, SET COMPRESSION.
    ColumnStorage {
        /// The column.
        column: String,
        /// Whether COMPRESSION is set.
        compression: bool,
        /// The name of the storage or of the method.
        name: String,
    },
    /// DROP CONSTRAINT.
    DropConstraint {
        /// Its name.
        name: String,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE.
        cascade: bool,
    },
    /// ADD FOREIGN KEY.
    AddForeignKey(NewForeignKey),
    /// ADD COLUMN.
    AddColumn {
        /// The column.
        column: Box<NewTableColumn>,
        /// IF NOT EXISTS.
        if_not_exists: bool,
    },
    /// DROP COLUMN.
    DropColumn {
        /// The column.
        column: String,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE.
        cascade: bool,
    },
    /// ADD CHECK.
    AddCheck(CheckClause),
    /// ADD NOT NULL.
    AddNotNull {
        /// CONSTRAINT name.
        name: Option<String>,
        /// The column.
        column: String,
        /// It is not NOT VALID.
        valid: bool,
    },
    /// ALTER COLUMN ... TYPE.
    ColumnType {
        /// The column.
        column: String,
        /// The type.
        ty: Box<TypeName>,
        /// COLLATE.
        collation: Option<QualifiedName>,
        /// USING.
        using: Option<ast::Expr>,
        /// Where the column's name stands.
        position: u32,
    },
    /// ALTER COLUMN ... ADD GENERATED ... AS IDENTITY.
    AddIdentity {
        /// The column.
        column: String,
        /// ALWAYS.
        always: bool,
        /// The sequence's options.
        clauses: SequenceClauses,
    },
    /// ALTER COLUMN ... SET GENERATED, SET and RESTART of an identity column.
    SetIdentity {
        /// The column.
        column: String,
        /// ALWAYS or BY DEFAULT.
        always: Option<bool>,
        /// The sequence's options.
        clauses: SequenceClauses,
    },
    /// ALTER COLUMN ... DROP IDENTITY.
    DropIdentity {
        /// The column.
        column: String,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// ALTER COLUMN ... SET EXPRESSION.
    SetExpression {
        /// The column.
        column: String,
        /// What it is generated of.
        expr: ast::Expr,
    },
    /// ALTER COLUMN ... DROP EXPRESSION.
    DropExpression {
        /// The column.
        column: String,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// OWNER TO.
    Owner(RoleName),
    /// SET LOGGED; false: SET UNLOGGED.
    Logged(bool),
    /// SET TABLESPACE.
    Tablespace(String),
    /// SET SCHEMA, which is alone.
    Schema(String),
    /// REPLICA IDENTITY.
    ReplicaIdentity(NewReplicaIdentity),
    /// CLUSTER ON; None: SET WITHOUT CLUSTER.
    Cluster(Option<String>),
    /// SET WITHOUT OIDS, which does nothing.
    WithoutOids,
    /// VALIDATE CONSTRAINT.
    Validate(String),
    /// ALTER COLUMN ... SET DEFAULT; None: DROP DEFAULT.
    SetDefault {
        /// The column.
        column: String,
        /// The default.
        default: Option<ast::Expr>,
    },
    /// ALTER COLUMN ... SET NOT NULL or DROP NOT NULL.
    SetNotNull {
        /// The column.
        column: String,
        /// SET.
        on: bool,
    },
    /// RENAME, which is alone.
    Rename(RenameAction),
    /// SET or RESET of storage parameters.
    Parameters {
        /// The parameters.
        given: Vec<StorageParameter>,
        /// RESET.
        reset: bool,
    },
}

/// What RENAME renames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenameAction {
    /// The table.
    Table(String),
    /// A column.
    Column {
        /// Its name.
        column: String,
        /// Its new name.
        to: String,
    },
    /// A constraint.
    Constraint {
        /// Its name.
        name: String,
        /// Its new name.
        to: String,
    },
}

/// REPLICA IDENTITY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewReplicaIdentity {
    /// DEFAULT
    Default,
    /// FULL
    Full,
    /// NOTHING
    Nothing,
    /// USING INDEX
    Index(String),
}
