//! The OIDs of catalogs that are changed, by what they hold.

use forebay_types::Oid;

use crate::schema;

/// pg_shdepend
pub(crate) const SHARED_DEPENDENCIES: Oid = schema::PG_SHDEPEND.oid;
/// pg_type
pub(crate) const TYPES: Oid = schema::PG_TYPE.oid;
/// pg_attribute
pub(crate) const ATTRIBUTES: Oid = schema::PG_ATTRIBUTE.oid;
/// pg_class
pub(crate) const CLASSES: Oid = schema::PG_CLASS.oid;
/// pg_collation
pub(crate) const COLLATIONS: Oid = schema::PG_COLLATION.oid;
/// pg_operator
pub(crate) const OPERATORS: Oid = schema::PG_OPERATOR.oid;
/// pg_proc
pub(crate) const PROCEDURES: Oid = schema::PG_PROC.oid;
/// pg_attrdef
pub(crate) const DEFAULTS: Oid = schema::PG_ATTRDEF.oid;
/// pg_constraint
pub(crate) const CONSTRAINTS: Oid = schema::PG_CONSTRAINT.oid;
/// pg_depend
pub(crate) const DEPENDENCIES: Oid = schema::PG_DEPEND.oid;
/// pg_description
pub(crate) const DESCRIPTIONS: Oid = schema::PG_DESCRIPTION.oid;
/// pg_index
pub(crate) const INDEXES: Oid = schema::PG_INDEX.oid;
/// pg_namespace
pub(crate) const NAMESPACES: Oid = schema::PG_NAMESPACE.oid;
/// pg_sequence
pub(crate) const SEQUENCES: Oid = schema::PG_SEQUENCE.oid;
/// pg_statistic
pub(crate) const STATISTICS: Oid = schema::PG_STATISTIC.oid;
/// pg_trigger
pub(crate) const TRIGGERS: Oid = schema::PG_TRIGGER.oid;
/// pg_database
pub(crate) const DATABASES: Oid = schema::PG_DATABASE.oid;
/// pg_authid
pub(crate) const ROLES: Oid = schema::PG_AUTHID.oid;
/// pg_auth_members
pub(crate) const MEMBERSHIPS: Oid = schema::PG_AUTH_MEMBERS.oid;
/// pg_tablespace
pub(crate) const TABLESPACES: Oid = schema::PG_TABLESPACE.oid;
/// pg_db_role_setting
pub(crate) const SETTINGS: Oid = schema::PG_DB_ROLE_SETTING.oid;
/// pg_shdescription
pub(crate) const SHARED_DESCRIPTIONS: Oid = schema::PG_SHDESCRIPTION.oid;
